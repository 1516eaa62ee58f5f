"""A client that can resume, over sockets that break after as many bytes as a test says. Made of `raw.py` alone."""

import secrets
import socket
import struct
import time

import raw
import tls
from raw import DEADLINE


class Refused(Exception):
    """The broker ended the connection by an ERROR on stream 0."""

    def __init__(self, code: int, text: str):
        super().__init__(f"{code:#x} {text}")
        self.code, self.text = code, text


class Broken(Exception):
    """The socket has broken where it was to."""


class Resuming:
    """`cut` is (direction, count): the first socket breaks after `count` bytes "in" (from the broker) or "out". When it
    does, the client comes back by another one. Frames of streams are in `frames`, by stream, in order.

    A socket that breaks "in" leaves unread what else has come, so that the kernel resets the connection; one that
    breaks "out" ends as a program's does that was told to end."""

    def __init__(self, address, cut=None, token: bytes | None = None, pair=None, **setup):
        self.address, self.cut, self.pair = address, cut, pair
        self.token = token or secrets.token_bytes(16)
        self.frames: dict[int, list[raw.Frame]] = {}
        self.sent: list[bytes] = []  # Frames of streams, with their lengths, that the broker may lack.
        self.first = 0  # The position of the first of them.
        self.received = 0  # The position of what has come whole.
        self.refusal: Refused | None = None
        self.resumed = 0
        self.bytes = {"in": 0, "out": 0}
        self.answers = 0  # KEEPALIVEs that came without R.
        self.asked = 0  # Those with R.
        self.lives = True  # It answers those.
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
        """Says that this is the end: there is nothing to resume any more."""
        self.cut = None
        self._write(raw.error(0, raw.CONNECTION_CLOSE, "goodbye"))
        self.close()

    def resume(self, server: int | None = None, client: int | None = None, version=(1, 0), token=None):
        """Comes back. Says what is so, if not told otherwise."""
        self.close()
        self.open()
        self._awaits = True
        self._write(raw.resume(token or self.token, self.received if server is None else server,
                               self.first if client is None else client, version))
        end = time.monotonic() + DEADLINE
        while self._welcome is None:
            self._read(end, "RESUME_OK")
        self._forget(self._welcome)
        assert self.first == self._welcome, f"RESUME_OK of {self._welcome}, where a frame begins at {self.first}"
        self.resumed += 1
        for one in self.sent:
            self._write(one)

    def _guard(self, act):
        """Does something, and comes back if the socket breaks by it."""
        try:
            act()
        except Broken:
            self.resume()

    def _left(self, direction: str, count: int) -> int:
        """How many of so many bytes still pass."""
        if self.cut is None or self.cut[0] != direction:
            return count
        return min(count, self.cut[1] - self.bytes[direction])

    def _write(self, data: bytes):
        part = self._left("out", len(data))
        self.socket.sendall(data[:part])
        self.bytes["out"] += part
        self._check("out")

    def _check(self, direction: str):
        if self.cut and self.cut[0] == direction and self.bytes[direction] == self.cut[1]:
            self.cut = None
            self.close()
            raise Broken

    def _read(self, end: float, what: str):
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"no sign of {what}")
        self.socket.settimeout(left)
        try:
            chunk = self.socket.recv(max(1, self._left("in", 1 << 18)))
        except TimeoutError:
            raise TimeoutError(f"no sign of {what}") from None
        if not chunk:
            raise raw.Closed(what)
        self.bytes["in"] += len(chunk)
        self._rest += chunk
        self._split()
        self._check("in")

    # Frames

    def send(self, *frames: bytes):
        """Frames of streams."""
        self.sent += frames
        for one in frames:
            try:
                self._write(one)
            except Broken:
                # It sends again what the broker lacks, and so what is left to send now.
                return self.resume()

    def keepalive(self, position: int | None = None, respond=False):
        position = self.received if position is None else position
        self._guard(lambda: self._write(raw.keepalive(respond=respond, position=position)))

    def greet(self):
        """Waits until the broker has dealt with all that was sent, SETUP at least."""
        before, asked = self.answers, None
        while self.answers == before:
            if asked != self.resumed:  # What is no stream's is not sent again by itself.
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
                self.socket.sendall(raw.keepalive(this.data, respond=False, position=self.received))

    def _forget(self, position: int):
        """The broker has what came before."""
        while self.sent and self.first + len(self.sent[0]) - 3 <= position:
            self.first += len(self.sent.pop(0)) - 3
