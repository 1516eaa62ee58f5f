"""HTTP as a user would send it: with curl."""

import json
import queue
import signal
import subprocess
import threading
from dataclasses import dataclass

import tls
from curl import VERSIONS

CURL = ["curl", "-sS"]
DEADLINE = 15


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict:
        return json.loads(self.body)

    @property
    def problem(self) -> str:
        """The kind of refusal."""
        assert self.headers["content-type"] == "application/problem+json"
        assert self.json["status"] == self.status
        return self.json["type"].removeprefix("/problems/")


def head(text: bytes) -> tuple[int, dict[str, str]]:
    lines = text.decode().split("\r\n")
    return int(lines[0].split(" ")[1]), dict(line.split(": ", 1) for line in lines[1:])


@dataclass
class Event:
    type: str
    data: str
    id: str | None


class Stream:
    """A GET whose body is read as it arrives. `status` and `headers` are set at once, or the refusal in `body`."""

    def __init__(self, curl: list[str], url: str, *options: str):
        # Otherwise curl would keep the head back until part of the body has arrived.
        self.process = subprocess.Popen(
            ["stdbuf", "-o0", *curl, "-N", "-i", *options, url], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        lines = []
        while (line := self._line()) != b"\r\n":
            assert line, f"no response: {self.process.stderr.read()}"
            lines.append(line[:-2])
        self.status, self.headers = head(b"\r\n".join(lines))
        self.comments = 0

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def _line(self, timeout=DEADLINE) -> bytes:
        return self._lines.get(timeout=timeout)

    def line(self) -> dict | None:
        """The next line of JSON; None at the end."""
        line = self._line()
        return json.loads(line) if line else None

    def event(self, timeout=DEADLINE) -> Event | None:
        """The next event that is dispatched, parsed as WHATWG's HTML specifies; None at the end."""
        kind, data, id = "message", [], None
        while line := self._line(timeout):
            field, _, value = line.decode().removesuffix("\n").partition(":")
            value = value.removeprefix(" ")
            match field:
                case "" if line != b"\n": self.comments += 1
                case "event": kind = value
                case "data": data.append(value)
                case "id": id = value
                case "" if data: return Event(kind, "\n".join(data), id)
        return None

    def take(self, count: int) -> list[Event]:
        return [self.event() for _ in range(count)]

    @property
    def id(self) -> str:
        return self.headers["forebay-subscription"]

    def stop(self):
        """Stops reading from the connection until `go`."""
        self.process.send_signal(signal.SIGSTOP)

    def go(self):
        self.process.send_signal(signal.SIGCONT)

    def ended(self) -> int:
        """Waits for the end and returns curl's exit code."""
        return self.process.wait(DEADLINE)

    def close(self):
        self.process.kill()
        self.process.wait()


class Web:
    """A broker's HTTP in one version: 1.1 or 2."""

    def __init__(self, broker, version="2"):
        self.base, how = tls.curl(broker.http, VERSIONS[version])
        self.curl, self._streams = [*CURL, *how], []

    def topic(self, name: str, query: str = "") -> str:
        return f"{self.base}/v1/topics/{name}/messages" + (f"?{query}" if query else "")

    def send(self, url: str, *options: str, body: bytes | None = None, most: int = DEADLINE) -> Answer:
        command = [*self.curl, "-i", "--max-time", str(most), *options]
        if body is not None and "-T" not in options:
            command += ["--data-binary", "@-"]
        done = subprocess.run([*command, url], input=body, capture_output=True, timeout=DEADLINE + 5)
        assert done.returncode == 0, done.stderr
        rest = done.stdout
        while True:
            text, _, rest = rest.partition(b"\r\n\r\n")
            status, headers = head(text)
            if status != 100:
                return Answer(status, headers, rest)

    def publish(self, name: str, *bodies: bytes) -> list[int]:
        """Publishes and returns the sequences."""
        answers = [self.send(self.topic(name), body=body) for body in bodies]
        assert [answer.status for answer in answers] == [200] * len(bodies), answers
        return [answer.json["sequence"] for answer in answers]

    def open(self, name: str, query: str = "", *options: str) -> Stream:
        self._streams.append(Stream(self.curl, self.topic(name, query), *options))
        return self._streams[-1]

    def events(self, name: str, query: str = "", *options: str) -> Stream:
        """An event stream after its first event."""
        stream = self.open(name, query, *options)
        assert stream.status == 200
        first = stream.event()
        assert first.type == "subscribed" and json.loads(first.data) == {"subscription": stream.id}
        return stream

    def lines(self, name: str, query: str = "", *options: str) -> Stream:
        stream = self.open(name, query, "-H", "accept: application/x-ndjson", *options)
        assert stream.status == 200
        return stream

    def ask(self, id: str, n: int | str) -> Answer:
        return self.send(f"{self.base}/v1/subscriptions/{id}/request?n={n}", "-X", "POST")

    def close(self):
        for stream in self._streams:
            stream.close()
