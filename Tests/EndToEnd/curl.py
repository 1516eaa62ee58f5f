"""curl, for single responses and for streams: over HTTP/1.1, or over HTTP/2 with prior knowledge."""

import json
import queue
import re
import subprocess
import threading
from dataclasses import dataclass

import tls
from common import DEADLINE

NDJSON = ("-H", "accept: application/x-ndjson")
VERSIONS = {"1.1": ["--http1.1"], "2": ["--http2-prior-knowledge"]}


def path(topic: str, query="") -> str:
    """The path of a topic's messages."""
    return f"/v1/topics/{topic}/messages" + (f"?{query}" if query else "")


@dataclass
class Reply:
    status: int
    headers: dict
    body: bytes
    version: str = ""

    def problem(self, status: int, kind: str):
        """Checks a refusal against RFC 9457."""
        assert (self.status, self.headers["content-type"]) == (status, "application/problem+json"), self
        told = json.loads(self.body)
        assert (told["status"], told["type"]) == (status, f"/problems/{kind}") and told["title"] and told["detail"]
        return told["detail"]


@dataclass
class Event:
    """An event of an event stream."""

    kind: str = "message"
    data: str = ""
    id: str | None = None


def head(text: bytes) -> tuple[int, dict, str]:
    first, *lines = text.decode().split("\r\n")
    version, status = first.split(" ")[:2]
    pairs = [line.split(":", 1) for line in lines if line]
    return int(status), {name.lower(): value.strip() for name, value in pairs}, version


class Stream:
    """A running curl whose output is read by a thread."""

    def __init__(self, command: list[str]):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._lines = queue.Queue()
        self.status, self.headers, self.version = head(self._head())
        threading.Thread(target=self._read, daemon=True).start()

    def _head(self) -> bytes:
        told = b""
        while not told.endswith(b"\r\n\r\n"):
            byte = self.process.stdout.read(1)
            assert byte, f"curl printed no response head: {self.process.stderr.read()}"
            told += byte
        return told[:-4]

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def line(self, timeout=DEADLINE) -> str | None:
        """The next line without its line feed; None at the end."""
        line = self._lines.get(timeout=timeout)
        assert line is None or line.endswith(b"\n"), f"a truncated line: {line}"
        return None if line is None else line[:-1].decode()

    def event(self, timeout=DEADLINE) -> Event | None:
        """The next event that is not a keepalive; None at the end."""
        data, this = [], Event()
        while True:
            line = self.line(timeout)
            if line is None:
                assert not data, "a truncated event"
                return None
            name, _, value = line.partition(": ")
            if name == "data":
                data.append(value)
            elif name == "event":
                this.kind = value
            elif name == "id":
                this.id = value
            elif line == "" and (data or this.kind != "message"):
                this.data = "\n".join(data)
                return this
            else:
                assert line == "" or line.startswith(":") or name == "retry" or line == "data:", line
                data += [""] if line == "data:" else []

    def messages(self, count: int) -> list[Event]:
        """The next messages, after `subscribed` if that has not arrived yet."""
        got = []
        while len(got) < count:
            event = self.event()
            assert event, f"the end after {got}"
            if event.kind != "subscribed":
                got.append(event)
        return got

    def objects(self, count: int) -> list[dict]:
        return [json.loads(self.line()) for _ in range(count)]

    def pending(self) -> int:
        """Events that have arrived and have not been taken."""
        return self._lines.qsize()

    def nothing(self):
        assert self._lines.empty(), self._lines.get()

    def kill(self):
        self.process.kill()
        self.process.wait()


class Curl:
    def __init__(self, address, version):
        self.base, self.version, self.running = *tls.curl(address, version), []

    def command(self, path: str, *options: str) -> list[str]:
        return ["curl", "-q", "-sS", "-i", "-N", "--noproxy", "*", "--path-as-is", "-g", *self.version, *options,
                self.base + path]

    def __call__(self, path: str, *options: str, body: bytes | None = None, unannounced=False) -> Reply:
        """With `unannounced`, the body's length is not sent beforehand."""
        if body is not None:
            options = (*options, *(("-X", "POST", "-T", "-") if unannounced else ("--data-binary", "@-")))
        done = subprocess.run(self.command(path, "--max-time", "20", *options), input=body, capture_output=True)
        text = done.stdout
        while re.match(rb"HTTP/\S+ 100", text):
            text = text.partition(b"\r\n\r\n")[2]
        top, mark, content = text.partition(b"\r\n\r\n")
        assert mark, done
        status, headers, version = head(top)
        return Reply(status, headers, content, version)

    def stream(self, path: str, *options: str) -> Stream:
        self.running.append(Stream(self.command(path, *options)))
        return self.running[-1]

    def publish(self, topic: str, body: bytes, *options: str, **how) -> Reply:
        return self(path(topic), *options, body=body, **how)

    def stop(self):
        for one in self.running:
            one.kill()
