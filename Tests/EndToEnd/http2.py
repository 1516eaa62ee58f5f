"""HTTP/2 frames over a plain TCP socket, with hyperframe and hpack: able to send what no HTTP/2 library will.

As in `raw.py`, nothing here restricts what may be sent.
"""

import socket
import struct
import time
from dataclasses import dataclass, field

import hpack
from hyperframe.frame import DataFrame, Frame, GoAwayFrame, HeadersFrame, PingFrame, RstStreamFrame, SettingsFrame

import tls
from common import DEADLINE

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITIZED = 0x1, 0x1, 0x4, 0x8, 0x20

(NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, SETTINGS_TIMEOUT, STREAM_CLOSED, FRAME_SIZE_ERROR,
 REFUSED_STREAM, CANCEL, COMPRESSION_ERROR, CONNECT_ERROR, ENHANCE_YOUR_CALM) = range(12)

SUBSCRIBE, PUBLISH, PUBLISH_ONE = (f"/forebay.v1.PubSub/{name}" for name in ("Subscribe", "Publish", "PublishOne"))


def frame(kind: int, flags: int, stream: int, body: bytes = b"", length=None) -> bytes:
    """A frame of any kind; `length` may differ from the body's."""
    size = struct.pack(">I", len(body) if length is None else length)[1:]
    return size + struct.pack(">BBI", kind, flags, stream) + body


def settings(*pairs: tuple[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *pair) for pair in pairs))


def reset(stream: int, code=CANCEL) -> bytes:
    return frame(RST_STREAM, 0, stream, struct.pack(">I", code))


def window_update(stream: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", increment))


def data(stream: int, body: bytes = b"", end=False) -> bytes:
    return frame(DATA, END_STREAM if end else 0, stream, body)


def framed(message: bytes, compressed=0) -> bytes:
    """A gRPC message with its prefix."""
    return struct.pack(">BI", compressed, len(message)) + message


def open_of(topic: str, n=10, replay_all=False) -> bytes:
    """A SubscribeRequest with `open`, encoded by hand; for names shorter than 100 bytes and demand below 128."""
    name = topic.encode()
    body = b"\x0a" + bytes([len(name)]) + name + b"\x10" + bytes([n]) + (b"\x20\x01" if replay_all else b"")
    assert len(body) < 128 and n < 128
    return b"\x0a" + bytes([len(body)]) + body


def channel_of(topic: str) -> bytes:
    """A PublishRequest with `open`; for names shorter than 100 bytes."""
    name = topic.encode()
    return b"\x0a" + bytes([len(name) + 2]) + b"\x0a" + bytes([len(name)]) + name


@dataclass
class Verdict:
    """The broker's reaction: `what` is goaway, closed, reset or status."""

    what: str
    code: int | None = None
    text: str = ""


@dataclass
class Answer:
    headers: dict
    body: bytes = b""
    trailers: dict = field(default_factory=dict)
    reset: int | None = None

    def messages(self) -> list[bytes]:
        """The messages of a gRPC response."""
        found, at = [], 0
        while at < len(self.body):
            compressed, length = struct.unpack_from(">BI", self.body, at)
            assert compressed == 0 and at + 5 + length <= len(self.body)
            found.append(self.body[at + 5 : at + 5 + length])
            at += 5 + length
        return found

    @property
    def status(self) -> int:
        """The status in the trailers, or in headers without a body."""
        return int((self.trailers or self.headers)["grpc-status"])


class Wire:
    """A connection on which any frames can be sent. Received frames are kept by stream."""

    def __init__(self, address, *initial: tuple[int, int], preface=PREFACE, receive_buffer=None):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(DEADLINE)
        self.socket.connect(address)
        self.socket = tls.wrap(self.socket, address, "h2")
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.peer = "%s:%d" % self.socket.getsockname()
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self.authority = "%s:%d" % address
        self.settings, self.goaway, self.closed, self.pongs, self.acks = {}, None, False, [], 0
        self.answers, self.ended, self.notified = {}, set(), False
        self._buffer, self.polite = bytearray(), preface is not None
        if preface is not None:
            self.send(preface)
        if preface == PREFACE:
            self.send(settings(*initial), window_update(0, 1 << 30))

    def send(self, *frames: bytes):
        self.socket.sendall(b"".join(frames))

    def flood(self, *frames: bytes) -> bool:
        """Sends frames that the broker need not accept, and returns whether it did. Responses are not read."""
        self.socket.settimeout(2)
        try:
            self.send(*frames)
            return True
        except (TimeoutError, ConnectionError):
            return False

    def block(self, *fields: tuple[str, str]) -> bytes:
        return self.encoder.encode(list(fields), huffman=False)

    def request(self, method: str, path: str, *more: tuple[str, str]) -> bytes:
        """A header block."""
        pseudo = (":method", method), (":scheme", "http"), (":path", path), (":authority", self.authority)
        return self.block(*pseudo, *more)

    def call(self, stream: int, path: str, *bodies: bytes, end=False, more=(), compressed=0) -> bytes:
        """The frames of a gRPC request."""
        head = self.request("POST", path, ("te", "trailers"), ("content-type", "application/grpc"), *more)
        frames = [frame(HEADERS, END_HEADERS | (END_STREAM if end and not bodies else 0), stream, head)]
        last = len(bodies) - 1
        frames += [data(stream, framed(one, compressed), end and at == last) for at, one in enumerate(bodies)]
        return b"".join(frames)

    def answer(self, stream: int, timeout=DEADLINE) -> Answer:
        """A stream's response, once it has ended."""
        self._until(lambda: stream in self.ended, timeout)
        return self.answers[stream]

    def verdict(self, stream: int | None = None, timeout=DEADLINE) -> Verdict:
        """What becomes of the connection, or of a stream if that ends sooner."""
        over = lambda: self.closed or self.goaway or (stream is not None and stream in self.ended)
        self._until(over, timeout)
        if self.goaway:
            return Verdict("goaway", *self.goaway)
        if stream in self.ended:
            answer = self.answers[stream]
            # NO_ERROR after a complete response only says that the rest of the request is not needed (RFC 9113, 8.1).
            return Verdict("reset", answer.reset) if answer.reset or not answer.headers else Verdict(
                "status", int(answer.headers[":status"]))
        return Verdict("closed")

    def over(self, timeout=DEADLINE) -> Verdict:
        """The end of the connection, which must come. The broker lingers until we have read its GOAWAY."""
        self._until(lambda: self.closed or self.goaway, timeout)
        if not self.closed:
            try:
                self.socket.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # The broker closed the connection first.
        self._until(lambda: self.closed, timeout)
        return Verdict("goaway", *self.goaway) if self.goaway else Verdict("closed")

    def roundtrip(self):
        """Sends a PING and waits for its reply: everything sent before it has arrived."""
        count = len(self.pongs)
        self.send(frame(PING, 0, 0, b"roundtri"))
        self._until(lambda: len(self.pongs) > count, DEADLINE)

    def until(self, condition, timeout=DEADLINE):
        self._until(lambda: condition(self), timeout)

    def close(self):
        self.socket.close()

    def _until(self, condition, timeout: float):
        end = time.monotonic() + timeout
        while not condition():
            assert not self.closed, f"the connection ended too early: {self.goaway}"
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError("no sign of what was waited for")
            self.socket.settimeout(left)
            try:
                chunk = self.socket.recv(1 << 18)
            except ConnectionError:
                chunk = b""
            except TimeoutError:
                continue
            if not chunk:
                self.closed = True
            self._buffer += chunk
            self._split()

    def _split(self):
        at, held = 0, self._buffer
        while len(held) - at >= 9:
            this, length = Frame.parse_frame_header(memoryview(bytes(held[at : at + 9])))
            if len(held) - at - 9 < length:
                break
            this.parse_body(memoryview(bytes(held[at + 9 : at + 9 + length])))
            self._accept(this)
            at += 9 + length
        del held[:at]

    def _accept(self, this: Frame):
        stream = this.stream_id
        if isinstance(this, SettingsFrame):
            if "ACK" in this.flags:
                self.acks += 1
            else:
                self.settings |= this.settings
                # A client that has not sent its preface cannot acknowledge SETTINGS.
                if not self.closed and self.polite:
                    self.flood(frame(SETTINGS, ACK, 0))
        elif isinstance(this, PingFrame):
            self.pongs.append(this.opaque_data)
        elif isinstance(this, GoAwayFrame) and this.last_stream_id == 0x7FFFFFFF and not this.error_code:
            self.notified = True  # Shutdown is announced (RFC 9113, 6.8).
        elif isinstance(this, GoAwayFrame):
            if this.error_code or not self.goaway:
                self.goaway = this.error_code, this.additional_data.decode(errors="replace")
        elif isinstance(this, RstStreamFrame):
            self.answers.setdefault(stream, Answer({})).reset = this.error_code
            self.ended.add(stream)
        elif isinstance(this, HeadersFrame):
            assert "END_HEADERS" in this.flags, "the broker fragmented its headers"
            fields = dict(self.decoder.decode(this.data))
            if stream in self.answers:
                self.answers[stream].trailers = fields
            else:
                self.answers[stream] = Answer(fields)
        elif isinstance(this, DataFrame):
            self.answers[stream].body += this.data
        if "END_STREAM" in this.flags and isinstance(this, (HeadersFrame, DataFrame)):
            self.ended.add(stream)
