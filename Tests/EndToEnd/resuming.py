"""A client that can resume, and a conversation for it. Built on `raw.py` only."""

import contextlib
import secrets
import socket
import struct
import time

import raw
import tls
from raw import DEADLINE

LONG = bytes(range(200))


class Refused(Exception):
    """The broker ended the connection with an ERROR on stream 0."""

    def __init__(self, code: int, text: str):
        super().__init__(f"{code:#x} {text}")
        self.code, self.text = code, text


class Broken(Exception):
    """The socket is broken."""


class Resuming:
    """A client with a session. Received frames of streams are in `frames`, by stream, in order. With `comes_back` it
    resumes by itself when it finds its socket broken."""

    def __init__(self, address, token: bytes | None = None, pair=None, comes_back=False, **setup):
        self.address, self.pair, self.comes_back = address, pair, comes_back
        self.token = token or secrets.token_bytes(16)
        self.frames: dict[int, list[raw.Frame]] = {}
        self.sent: list[bytes] = []  # Stream frames that were sent and that the broker may lack, with their lengths.
        self.first = 0  # The position of the first of these frames.
        self.received = 0  # The position up to which frames were received completely.
        self.refusal: Refused | None = None
        self.resumed = 0
        self.answers = 0  # KEEPALIVEs received without R.
        self.asked = 0  # KEEPALIVEs received with R.
        self.lives = True  # Whether the client answers KEEPALIVEs with R.
        self.open()
        self._guard(lambda: self._write(raw.setup(flags=raw.R, token=self.token, **setup)))

    # Sockets

    def open(self):
        plain = socket.create_connection(self.address, timeout=DEADLINE)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = tls.wrap(plain, self.address, pair=self.pair)
        self.peer = "%s:%d" % self.socket.getsockname()
        self._rest = bytearray()
        self._welcome, self._awaits = None, False

    def close(self):
        self.socket.close()

    def end(self):
        """Declares the end: there is nothing left to resume."""
        goodbye = raw.error(0, raw.CONNECTION_CLOSE, "goodbye")
        try:
            self._write(goodbye)
        except Broken:
            # The socket was cut within the ERROR's last bytes. The broker keeps a session that could be resumed.
            self.resume()
            self._write(goodbye)
        self.close()

    def resume(self, server: int | None = None, client: int | None = None, version=(1, 0), token=None):
        """Resumes. Sends the actual positions by default."""
        self.close()
        self.open()
        self._awaits = True
        self._write(raw.resume(token or self.token, self.received if server is None else server,
                               self.first if client is None else client, version))
        end = time.monotonic() + DEADLINE
        while self._welcome is None:
            self._read(end, "RESUME_OK")
        self._forget(self._welcome)
        assert self.first == self._welcome, f"RESUME_OK at {self._welcome}, but the kept frames begin at {self.first}"
        self.resumed += 1
        for one in self.sent:
            self._write(one)

    def _guard(self, act):
        """Performs an action, and resumes if that breaks the socket."""
        try:
            act()
        except Broken:
            self.resume()

    @contextlib.contextmanager
    def _breaking(self):
        try:
            yield
        except ConnectionError:
            if not self.comes_back:
                raise
            raise Broken from None

    def _write(self, data: bytes):
        with self._breaking():
            self.socket.sendall(data)

    def _read(self, end: float, what: str):
        left = end - time.monotonic()
        self.socket.settimeout(max(left, 0.001))
        with self._breaking():
            try:
                chunk = self.socket.recv(1 << 18)
            except TimeoutError:
                raise TimeoutError(f"no sign of {what}; what came: {self.frames}") from None
            if not chunk:
                raise raw.Closed(what)
        self._rest += chunk
        self._split()

    # Frames

    def send(self, *frames: bytes):
        """Sends frames of streams."""
        self.sent += frames
        for one in frames:
            try:
                self._write(one)
            except Broken:
                # Resuming retransmits what the broker lacks, including what was to be sent now.
                return self.resume()

    def keepalive(self, position: int | None = None, respond=False):
        position = self.received if position is None else position
        self._guard(lambda: self._write(raw.keepalive(respond=respond, position=position)))

    def greet(self):
        """Waits until the broker has handled everything sent, at least SETUP."""
        before, asked = self.answers, None
        while self.answers == before:
            if asked != self.resumed:  # Frames of the connection are not retransmitted automatically.
                asked = self.resumed
                self.keepalive(respond=True)
            else:
                self.until(lambda: self.answers > before or asked != self.resumed, "an answer to a KEEPALIVE")

    def until(self, condition, what: str = "what is waited for", timeout=DEADLINE):
        """Reads until the condition holds."""
        end = time.monotonic() + timeout
        while not condition():
            self._guard(lambda: self._read(end, what))

    def count(self, stream: int) -> int:
        return len(self.frames.get(stream, []))

    def data(self, stream: int) -> list[bytes]:
        return [one.data for one in self.frames.get(stream, []) if one.has(raw.N)]

    def _split(self):
        while len(self._rest) >= 3:
            length = int.from_bytes(self._rest[:3], "big")
            if len(self._rest) < 3 + length:
                return
            whole = bytes(self._rest[3 : 3 + length])
            del self._rest[: 3 + length]
            self._accept(raw.parse(whole), whole)

    def _accept(self, this: raw.Frame, whole: bytes):
        if this.stream:
            assert not self._awaits, f"before RESUME_OK: {this}"
            self.received += len(whole)
            self.frames.setdefault(this.stream, []).append(this)
        elif this.kind == raw.RESUME_OK:
            (self._welcome,), self._awaits = struct.unpack(">Q", this.data), False
        elif this.kind == raw.ERROR:
            raise Refused(this.code, this.text)
        else:
            assert this.kind == raw.KEEPALIVE, this
            self._forget(struct.unpack_from(">Q", whole, 6)[0])
            if not this.has(raw.R):
                self.answers += 1
                return
            self.asked += 1
            if self.lives:
                self._write(raw.keepalive(this.data, respond=False, position=self.received))

    def _forget(self, position: int):
        """Drops the frames that the broker has received."""
        while self.sent and self.first + len(self.sent[0]) - 3 <= position:
            self.first += len(self.sent.pop(0)) - 3


def converse(this: Resuming, topic: str) -> Resuming:
    """A subscription with credit, an acknowledged publish, a channel, a fragmented publish, a cancelled replay, and the
    end of the topic, all on one connection."""
    # The other thread may see RESUME before this one has seen SETUP.
    this.greet()
    route = raw.route(topic)
    this.send(raw.request(raw.REQUEST_STREAM, 1, b"", raw.route(f"{topic}?meta=on"), n=2))
    this.send(raw.request(raw.REQUEST_RESPONSE, 3, b"a", route))
    this.until(lambda: this.count(3) == 1 and this.count(1) == 1, "a")
    this.send(raw.request(raw.REQUEST_CHANNEL, 5, b"b", route, n=100))
    this.until(lambda: this.count(1) == 2 and any(one.n for one in this.frames.get(5, [])), "the channel's credit")
    this.keepalive()
    this.send(raw.payload(5, b"c"), raw.payload(5, b"d", flags=raw.N | raw.C))
    this.until(lambda: this.count(5) and this.frames[5][-1].has(raw.C), "the end of the channel")
    this.send(raw.request_n(1, 3))
    this.until(lambda: this.count(1) == 4, "d")
    this.send(*raw.fragments(raw.REQUEST_RESPONSE, 7, LONG, route))
    this.until(lambda: this.count(7) == 1 and this.count(1) == 5, "what came in fragments")
    this.send(raw.request_n(1, 9), raw.request(raw.REQUEST_STREAM, 9, b"", raw.route(f"{topic}?replay=all"), n=1))
    this.until(lambda: this.count(9) == 1, "the replay")
    this.keepalive()
    this.send(raw.cancel(9), raw.request(raw.REQUEST_RESPONSE, 11, b"e", route))
    this.until(lambda: this.count(11) == 1 and this.count(1) == 6, "e")
    this.send(raw.request(raw.REQUEST_RESPONSE, 13, b"", raw.route(f"$SYS.topic.complete?name={topic}")))
    this.until(lambda: this.count(13) == 1 and this.count(1) == 7, "the end")
    this.greet()
    return this


def check(this: Resuming):
    """Checks that each message arrived once, in both directions: the broker reports the sequences of published
    messages."""
    assert this.data(1) == [b"a", b"b", b"c", b"d", LONG, b"e"] and this.frames[1][-1].has(raw.C)
    told = [struct.unpack_from(">QQqQ", raw.entries(one.metadata)[0][1]) for one in this.frames[1][:-1]]
    assert [(sequence, dropped) for _, sequence, _, dropped in told] == [(n, 0) for n in range(1, 7)]
    assert len({epoch for epoch, *_ in told}) == 1
    assert [this.data(stream) for stream in (3, 7, 11)] == [[b"1"], [b"5"], [b"6"]]
    acknowledged = [int(one) for one in this.data(5)]
    assert acknowledged == sorted(set(acknowledged)) and acknowledged[-1] == 4
    assert [(one.data, one.kind) for one in this.frames[9]] == [(b"a", raw.PAYLOAD)]
