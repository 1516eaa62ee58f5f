"""Error words: what the documents say of them, and errors as clients of each protocol receive them.

Words, codes, statuses and places are read from Protocol/errors.md, RSocket's codes from reference.md, and the types of
problems from http.md.
"""

import contextlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import grpc
import pytest

import http1
import raw
from common import *
from http2 import END_HEADERS, END_STREAM, HEADERS, Wire, frame
from web import Answer, Stream, Web

PROTOCOL = Path(__file__).resolve().parents[2] / "Protocol"


def rows(page: str, columns: int) -> list[list[str]]:
    """The rows of the page's tables that have this number of columns."""
    lines = [line.strip().strip("|") for line in (PROTOCOL / page).read_text().splitlines() if line.startswith("|")]
    split = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)] for line in lines]
    return [cells for cells in split if len(cells) == columns]


@dataclass
class Row:
    """A word: the names of its codes, and the statuses of plain HTTP."""

    word: str
    when: str
    rsocket: str
    grpc: str
    http: str
    retry: str

    @property
    def targets(self) -> set[str]:
        """Where clients may receive this word."""
        found = {"rsocket", "grpc", *(f"http {status}" for status in re.findall(r"\b\d{3}\b", self.http))}
        found |= {"events", "lines"} if self.http == "in the stream" else set()
        return found | ({"connection"} if self.word in CONNECTION else set())


(SENTENCE,) = re.findall(r"Errors of an RSocket connection .*?their words are (.*?) and for REJECTED_RESUME (.*?)\.\n",
                         (PROTOCOL / "errors.md").read_text(), re.DOTALL)
CONNECTION, RESUMPTION = (set(re.findall(r"`(.+?)`", part)) for part in SENTENCE)
TABLE = {cells[0].strip("`"): Row(cells[0].strip("`"), *cells[1:]) for cells in rows("errors.md", 6)
         if cells[0].startswith("`")}
# The name of each code of RSocket, whether it ends the connection, and the only words that it has, if they are listed.
CODES = {int(code.strip("`"), 16): (name, stream == "0", set(re.findall(r"`([a-z -]+):`", when)))
         for code, name, stream, when in rows("reference.md", 4) if code.startswith("`0x")}
TYPES = {(int(status), kind.strip("`")) for status, kind, _ in rows("http.md", 3) if kind.startswith("`/problems/")}


@dataclass
class Told:
    """An error as a client received it. `target` says where, as in `Row.targets`; HTTP/2 also has `goaway`."""

    target: str
    code: object
    text: str
    type: str = ""

    def check(self, word: str, type: str = ""):
        """Checks the error against the documents. `type` is the problem's type if it is not named after the word."""
        begin, colon, rest = self.text.partition(": ")
        assert (begin, colon) == (word, ": ") and len(rest) > 5, self
        row = TABLE[word]
        assert self.target in row.targets or self.target in ("goaway", "connection"), self
        if self.target == "rsocket":
            name, of_connection, _ = CODES[self.code]
            assert (name, of_connection) == (row.rsocket, False), self
        elif self.target == "connection":
            name, of_connection, listed = CODES[self.code]
            known = RESUMPTION if name == "REJECTED_RESUME" else CONNECTION
            assert of_connection and word in known and word in (listed or known), self
        elif self.target == "grpc":
            assert self.code.name == row.grpc, self
        elif self.target.startswith("http"):
            assert self.type == f"/problems/{type or word}" and (self.code, self.type) in TYPES, self


def ended(target: str, action) -> Told:
    """The error that `action` raises, or the one that ended the stream it returns, over RSocket or gRPC."""
    try:
        end = action()
    except StreamError as error:
        return Told(target, error.code, error.text)
    except grpc.RpcError as error:
        return Told(target, error.code(), error.details())
    assert isinstance(end, End) and end.kind, end
    return Told(target, end.code, end.text)


def of_connection(line: raw.Connection) -> Told:
    """The ERROR on stream 0, after which the connection ends."""
    while (error := line.frame(0)).kind != raw.ERROR:
        pass
    line.end()
    return Told("connection", error.code, error.text)


def of_call(wire: Wire, stream: int) -> Told:
    """The status of a call that was made with raw frames."""
    answer = wire.answer(stream)
    (code,) = [code for code in grpc.StatusCode if code.value[0] == answer.status]
    return Told("grpc", code, unquote((answer.trailers or answer.headers)["grpc-message"]))


def plain(wire: Wire, stream: int, method: str, topic: str, query="", *more, end=True) -> bytes:
    """The frame of a plain request for a topic's messages."""
    head = wire.request(method, f"/v1/topics/{topic}/messages{query}", *more)
    return frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, head)


def of_problem(answer: Answer) -> Told:
    assert answer.headers["content-type"] == "application/problem+json", answer
    told = answer.json
    assert told["status"] == answer.status and told["title"]
    return Told(f"http {answer.status}", answer.status, told["detail"], told["type"])


def problem_of(wire: Wire, stream: int) -> Told:
    """The answer to a plain request that was made by frames."""
    # A refused stream stays open for a while, for the rest of the request.
    wire.until(lambda this: stream in this.answers and this.answers[stream].body.endswith(b"}\n"))
    answer = wire.answers[stream]
    return of_problem(Answer(int(answer.headers[":status"]), answer.headers, answer.body))


def problem_on(line: http1.Line) -> Told:
    status, body = line.answer()
    return of_problem(Answer(status, line.headers, body))


def of_stream(stream: Stream, form: str) -> Told:
    """The failure that ends an event stream or lines of JSON."""
    if form == "events":
        while (event := stream.event()).type != "failed":
            pass
        told = json.loads(event.data)
    else:
        while "end" not in (told := stream.line()):
            pass
        assert told["end"] == "failed"
    assert stream.ended() == 0
    return Told(form, None, told["message"])


def of_goaway(wire: Wire) -> Told:
    verdict = wire.over()
    assert verdict.what == "goaway", verdict
    return Told("goaway", verdict.code, verdict.text)


# Cases


class Here:
    """The clients of one case."""

    def __init__(self, request, topic: str, place: str, version: str):
        self.request, self.topic, self.place, self.version = request, topic, place, version
        self.stack, self.broker = contextlib.ExitStack(), request.getfixturevalue("broker")

    def be_strict(self):
        self.broker = self.request.getfixturevalue("strict")

    def keep(self, one):
        self.stack.callback(one.close)
        return one

    def peer(self, transport="", **how) -> Observer:
        return self.keep(self.broker.peer(transport or self.place, **how))

    def line(self, *frames: bytes) -> raw.Connection:
        line = self.keep(raw.Connection(self.broker.address))
        line.send(*frames)
        return line

    def wire(self) -> Wire:
        return self.keep(Wire(self.broker.http))

    def web(self) -> Web:
        return self.keep(Web(self.broker, self.version))

    def open(self, query="") -> Stream:
        """A stream over plain HTTP."""
        web = self.web()
        return web.events(self.topic, query) if self.place == "events" else web.lines(self.topic, query)

    def send(self, *options: str, query="", topic="", **how) -> Told:
        web = self.web()
        return of_problem(web.send(web.topic(topic or self.topic, query), *options, **how))

    def subscribe(self, query="", n=UNBOUNDED):
        """Subscribes over any protocol and waits until the subscription has joined. Returns a publisher, and a function
        that takes the failure."""
        if self.place in ("rsocket", "grpc"):
            sub = self.last = self.peer().subscribe(f"{self.topic}?{query}" if query else self.topic, n=n, meta=True)
            taken = lambda: ended(self.place, lambda: (sub.rest(), sub.ended)[1])
        else:
            stream = self.last = self.open("&".join(filter(None, [query, f"request={n}"])))
            taken = lambda: of_stream(stream, self.place)
        root = self.peer("rsocket")
        root.joined(self.topic, 1)
        return root, taken

    def ask(self, n: int):
        """More demand for the last subscription."""
        if isinstance(self.last, Stream):
            self.web().ask(self.last.id, n)
        else:
            self.last.request(n)


CASES = []


def case(word: str, *places: str, type="", versions=("1.1", "2")):
    """A case of the word at these places. `type` is the problem's type if it is not named after the word."""
    def add(function):
        for place in places:
            of_http = place.startswith("http") or place in ("events", "lines")
            for version in versions if of_http else [""]:
                name = "-".join(filter(None, [word, place, version, type or function.__name__])).replace(" ", "-")
                CASES.append(pytest.param(word, place, type, version, function, id=name))
        return function

    return add


__all__ = [name for name in dir() if not name.startswith("_")]
