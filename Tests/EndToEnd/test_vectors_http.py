"""Protocol/vectors/http.json: a broker answers every exchange over HTTP/2 as shown, and the bytes of the gRPC messages
are those that Google's protobuf reads and writes.

After an intended change of the broker's messages, record them again, then review the difference:

    FOREBAYD=PATH python Tests/EndToEnd/test_vectors_http.py --record

This replaces the bytes of the messages.
"""

import json
import re
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from google.protobuf import json_format

from grpc_client import pb
from http2 import *
from test_documents import anchors
from test_vectors import PROTOCOL, begin, by_name

HTTP = PROTOCOL / "vectors/http.json"
FILE = json.loads(HTTP.read_text())
# What varies, as in the file, and its form. A value with a name is the same in the whole exchange.
FORMS = {"epoch": r"[1-9]\d{0,19}", "timestamp": r"[1-9]\d{18}", "id": "[0-9a-f]{32}", "text": r'(?:[^"\\]|\\.)+'}
PLACE = re.compile(r"<(epoch|timestamp|id|text)(?: of [\w.]+)?>")
# The messages of the methods that exchanges call.
METHODS = {"PubSub/Subscribe": (pb.SubscribeRequest, pb.SubscribeResponse),
           "PubSub/PublishOne": (pb.PublishOneRequest, pb.PublishOneResponse),
           "Admin/CompleteTopic": (pb.CompleteTopicRequest, pb.Topic),
           "Admin/DeleteTopic": (pb.DeleteTopicRequest, pb.Topic)}


class Values:
    """The values of an exchange so far."""

    def __init__(self):
        self.known: dict[str, str] = {}

    def filled(self, shown: str) -> str:
        return PLACE.sub(lambda place: self.known[place[0]], shown)

    def match(self, shown: str, came: str) -> int | None:
        """The length of the beginning of `came` that is as shown, whose values are noted; None if there is none."""
        names = []

        def group(place: re.Match) -> str:
            names.append(place[0])
            known = place[1] in ("epoch", "id") and self.known.get(place[0])
            return f"({re.escape(known) if known else FORMS[place[1]]})"

        parts, at = [], 0
        for place in PLACE.finditer(shown):
            parts += [re.escape(shown[at : place.start()]), group(place)]
            at = place.end()
        found = re.match("".join(parts) + re.escape(shown[at:]), came)
        if not found:
            return None
        for name, value in zip(names, found.groups()):
            if name.startswith("<epoch") and self.known.setdefault(name, value) != value:
                return None
            self.known[name] = value
        return found.end()

    def expect(self, shown, came):
        """Compares two messages in protobuf's JSON form."""
        shown, came = (json.dumps(one, sort_keys=True) for one in (shown, came))
        assert self.match(shown, came) == len(came), f"{came} is not {shown}"


def told(message) -> dict:
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def method(step: dict):
    return METHODS[step["path"].removeprefix("/forebay.v1.")]


class Player:
    """Plays one exchange on a connection. With `records` it replaces the bytes of the broker's messages."""

    def __init__(self, broker, exchange: dict, records=False):
        self.steps, self.records, self.values = exchange["steps"], records, Values()
        self.wire = Wire(broker.http)
        self.calls: dict[int, SimpleNamespace] = {}

    def play(self):
        try:
            for step in self.steps:
                {"client": self.send, "broker": self.expect}[step["from"]](step)
            self.wire.roundtrip()
            for call in self.calls.values():  # Nothing else came.
                assert self.rest(call) == b"", self.rest(call)
        finally:
            self.wire.close()

    def send(self, step: dict):
        number = step["call"]
        stream = 2 * number - 1
        body = self.body(step)
        if number in self.calls:
            return self.wire.send(data(stream, body))
        self.calls[number] = SimpleNamespace(stream=stream, read=0, path=step["path"])
        head = self.wire.request(step["method"], self.values.filled(step["path"]), *step.get("headers", {}).items())
        ends = not step.get("open")
        self.wire.send(frame(HEADERS, END_HEADERS | (END_STREAM if ends and not body else 0), stream, head))
        if body:
            self.wire.send(data(stream, body, end=ends))

    def body(self, step: dict) -> bytes:
        if "message" not in step:
            return self.values.filled(step.get("body", "")).encode()
        path = step.get("path") or self.calls[step["call"]].path
        shown = json.loads(self.values.filled(json.dumps(step["message"])))
        content = json_format.ParseDict(shown, method({"path": path})[0]()).SerializeToString()
        if self.records:
            step["bytes"] = framed(content).hex()
        return framed(content)

    def rest(self, call) -> bytes:
        """What has come and was not expected yet."""
        answer = self.wire.answers.get(call.stream)
        return answer.body[call.read :] if answer else b""

    def expect(self, step: dict):
        call = self.calls[step["call"]]
        answer = lambda: self.wire.answers.get(call.stream)
        if "status" in step:
            self.wire.until(lambda _: answer() and answer().headers)
            assert int(answer().headers[":status"]) == step["status"], answer()
            for name, value in step.get("headers", {}).items():
                assert self.values.match(value, answer().headers.get(name, "")), (name, answer().headers)
        if "body" in step:
            try:
                self.wire.until(lambda _: self.values.match(step["body"], self.rest(call).decode()))
            except TimeoutError:
                raise AssertionError(f"{self.rest(call)} is not {step['body']}") from None
            call.read += self.values.match(step["body"], self.rest(call).decode())
        if "message" in step:
            size = lambda: 5 + int.from_bytes(self.rest(call)[1:5], "big")
            self.wire.until(lambda _: len(self.rest(call)) >= size())
            came = self.rest(call)[: size()]
            call.read += len(came)
            self.values.expect(step["message"], told(method({"path": call.path})[1].FromString(came[5:])))
            if self.records:
                step["bytes"] = came.hex()
        if "grpc-status" in step:
            assert self.wire.answer(call.stream).status == step["grpc-status"]
            if "message" not in step:
                call.read = len(answer().body)  # A description of a topic, which is not shown.


@pytest.fixture(scope="module")
def brokers(start, tmp_path_factory):
    yield from by_name(FILE["brokers"], start, tmp_path_factory)


every = pytest.mark.parametrize("exchange", FILE["vectors"], ids=lambda exchange: exchange["name"])


@every
def test_a_broker_answers_as_shown(exchange, start, brokers, tmp_path, request):
    again = getattr(request.node, "execution_count", 1) > 1  # A rerun: its topics are no longer new.
    if not again:
        return Player(brokers(exchange["broker"]), exchange).play()
    own = begin(start, FILE["brokers"][exchange["broker"]], tmp_path)
    try:
        Player(own, exchange).play()
    finally:
        own.stop()


@every
def test_the_bytes_are_the_messages(exchange):
    """Read and written by Google's protobuf, without a broker."""
    values, paths = Values(), {}
    for step in exchange["steps"]:
        paths.setdefault(step["call"], step.get("path"))
        if "message" in step:
            framed_bytes = bytes.fromhex(step["bytes"])
            kind = method({"path": paths[step["call"]]})[step["from"] == "broker"]
            message = kind.FromString(framed_bytes[5:])
            assert framed(message.SerializeToString(deterministic=True)) == framed_bytes, step
            values.expect(step["message"], told(message))


def test_names_and_rules():
    names = [exchange["name"] for exchange in FILE["vectors"]]
    assert len(set(names)) == len(names)
    for exchange in FILE["vectors"]:
        document, _, place = exchange["rule"].partition("#")
        if place:
            assert place in anchors(PROTOCOL / document), exchange["rule"]
        else:
            assert (PROTOCOL / document).exists(), exchange["rule"]


def save(file: dict):
    """Writes one line for each step."""
    def line(value) -> str:
        return json.dumps(value, ensure_ascii=False)

    brokers = ",\n".join(f"  {line(name)}: {line(settings)}" for name, settings in file["brokers"].items())
    vectors = []
    for one in file["vectors"]:
        head = "".join(f"{line(key)}: {line(value)}, " for key, value in one.items() if key != "steps")
        vectors.append(f'{{{head}"steps": [\n' + ",\n".join(f"  {line(step)}" for step in one["steps"]) + "]}")
    HTTP.write_text(f'{{\n"about": {line(file["about"])},\n"brokers": {{\n{brokers}}},\n"vectors": [\n'
                    + ",\n".join(vectors) + "\n]}\n")


def record():
    from brokers import Broker
    for exchange in FILE["vectors"]:
        with tempfile.TemporaryDirectory() as folder:
            broker = begin(Broker, FILE["brokers"][exchange["broker"]], Path(folder))
            try:
                Player(broker, exchange, records=True).play()
            except Exception as error:
                print(f"{exchange['name']}: {error!r}", file=sys.stderr)
            finally:
                broker.process.kill()
    save(FILE)


if __name__ == "__main__":
    assert sys.argv[1:2] == ["--record"], __doc__
    record()
