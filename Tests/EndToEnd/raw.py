"""RSocket frames over a plain TCP socket: a builder, a parser and a connection, able to send what a library will not.

Nothing here restricts what may be sent. What is received, however, is checked against the rules for every frame that a
server may send, so that each test verifies them (see `Connection._check`).
"""

import socket
import struct
import time
from collections import defaultdict, deque
from dataclasses import dataclass

import tls

SETUP, LEASE, KEEPALIVE, REQUEST_RESPONSE, REQUEST_FNF, REQUEST_STREAM, REQUEST_CHANNEL = range(1, 8)
REQUEST_N, CANCEL, PAYLOAD, ERROR, METADATA_PUSH, RESUME, RESUME_OK = range(8, 15)
EXT = 0x3F

I, M, F, C, N = 0x200, 0x100, 0x080, 0x040, 0x020
R, L = F, C  # RESPOND or RESUME, and LEASE, share their bits with FOLLOWS and COMPLETE.

INVALID_SETUP, UNSUPPORTED_SETUP, REJECTED_SETUP, REJECTED_RESUME = 1, 2, 3, 4
CONNECTION_ERROR, CONNECTION_CLOSE = 0x101, 0x102
APPLICATION_ERROR, REJECTED, CANCELED, INVALID = 0x201, 0x202, 0x203, 0x204

UNBOUNDED = 0x7FFFFFFF
COMPOSITE = b"message/x.rsocket.composite-metadata.v0"
ROUTING = b"message/x.rsocket.routing.v0"
MESSAGE_MIME = b"application/vnd.forebay.message"
ACCEPTED_MIME = b"application/vnd.forebay.accepted"

DEADLINE = 10.0  # Seconds that any expected event may take; reached only when a test fails.
FRAGMENT = 64 << 10  # The maximum data of a payload that the broker may send in one frame.


# Frames


def u24(n: int) -> bytes:
    return n.to_bytes(3, "big")


def frame(stream: int, kind: int, flags: int = 0, body: bytes = b"") -> bytes:
    """A frame preceded by its length."""
    return u24(6 + len(body)) + struct.pack(">IH", stream, kind << 10 | flags) + body


def body(data: bytes = b"", metadata: bytes | None = None) -> bytes:
    return data if metadata is None else u24(len(metadata)) + metadata + data


def request(kind: int, stream: int, data=b"", metadata=None, n=None, flags=0) -> bytes:
    """A request, or a PAYLOAD: `n` only for REQUEST_STREAM and REQUEST_CHANNEL."""
    head = b"" if n is None else struct.pack(">I", n)
    return frame(stream, kind, flags | (0 if metadata is None else M), head + body(data, metadata))


def payload(stream: int, data=b"", metadata=None, flags=N) -> bytes:
    return request(PAYLOAD, stream, data, metadata, flags=flags)


def request_n(stream: int, n: int) -> bytes:
    return frame(stream, REQUEST_N, 0, struct.pack(">I", n))


def cancel(stream: int) -> bytes:
    return frame(stream, CANCEL)


def error(stream: int, code: int, text: str) -> bytes:
    return frame(stream, ERROR, 0, struct.pack(">I", code) + text.encode())


def keepalive(data=b"", respond=True, position=0) -> bytes:
    return frame(0, KEEPALIVE, R if respond else 0, struct.pack(">Q", position) + data)


def setup(mime=COMPOSITE, keepalive_ms=60_000, lifetime_ms=600_000, version=(1, 0), flags=0, token=None,
          metadata=None) -> bytes:
    head = struct.pack(">HHII", *version, keepalive_ms, lifetime_ms)
    if token is not None:
        head += struct.pack(">H", len(token)) + token
    data_mime = b"application/octet-stream"
    mimes = bytes([len(mime)]) + mime + bytes([len(data_mime)]) + data_mime
    if metadata is None:
        return frame(0, SETUP, flags, head + mimes)
    return frame(0, SETUP, flags | M, head + mimes + body(metadata=metadata))


def resume(token: bytes, server=0, client=0, version=(1, 0)) -> bytes:
    """A RESUME: `server` is the position up to which the client has received, `client` the first position that it
    kept."""
    head = struct.pack(">HHH", *version, len(token))
    return frame(0, RESUME, 0, head + token + struct.pack(">QQ", server, client))


def fragments(kind: int, stream: int, data: bytes, metadata=None, n=None, size=64, flags=0) -> list[bytes]:
    """A request or PAYLOAD in frames of at most `size` bytes (length included), all metadata before any data.

    `flags` are placed as the protocol requires: C on the last fragment, N on every PAYLOAD.
    """
    frames, md, first = [], metadata or b"", True
    while True:
        this = kind if first else PAYLOAD
        room = size - 9 - (4 if first and n is not None else 0)
        piece = None
        if md or (first and metadata is not None):
            piece, md = md[: room - 3], md[room - 3 :]
            room -= 3 + len(piece)
        chunk, data = (data[:room], data[room:]) if not md else (b"", data)
        last = not md and not data
        bits = (N if this == PAYLOAD else 0) | (flags & C if last else F)
        frames.append(request(this, stream, chunk, piece, n if first else None, bits))
        first = False
        if last:
            return frames


# Metadata


WELL_KNOWN = {ROUTING: 0x7E, COMPOSITE: 0x7F, b"message/x.rsocket.authentication.v0": 0x7C}


def entry(mime: bytes | int, content: bytes) -> bytes:
    """One entry of composite metadata; a number is a well-known mime's id."""
    number = mime if isinstance(mime, int) else WELL_KNOWN.get(mime)
    head = bytes([0x80 | number]) if number is not None else bytes([len(mime) - 1]) + mime
    return head + u24(len(content)) + content


def tags(*items: str | bytes) -> bytes:
    encoded = [item.encode() if isinstance(item, str) else item for item in items]
    return b"".join(bytes([len(tag)]) + tag for tag in encoded)


def route(*items: str | bytes) -> bytes:
    return entry(ROUTING, tags(*items))


def entries(metadata: bytes) -> list[tuple[bytes | int, bytes]]:
    """The entries of composite metadata, in order: (mime or well-known id, content)."""
    found, at = [], 0
    while at < len(metadata):
        head = metadata[at]
        at += 1
        if head & 0x80:
            mime = head & 0x7F
        else:
            mime = metadata[at : at + head + 1]
            at += head + 1
        length = int.from_bytes(metadata[at : at + 3], "big")
        at += 3
        assert at + length <= len(metadata), f"truncated composite metadata: {metadata!r}"
        found.append((mime, metadata[at : at + length]))
        at += length
    return found


# Receiving


@dataclass
class Frame:
    stream: int
    kind: int
    flags: int
    size: int  # The size of the frame, without its length field.
    data: bytes = b""
    metadata: bytes | None = None
    n: int | None = None
    code: int | None = None

    def has(self, flag: int) -> bool:
        return bool(self.flags & flag)

    @property
    def text(self) -> str:
        return self.data.decode()


def parse(raw: bytes) -> Frame:
    stream, word = struct.unpack_from(">IH", raw)
    assert stream >> 31 == 0, "the reserved bit of the stream id is set"
    this = Frame(stream, word >> 10, word & 0x3FF, len(raw))
    at = 6
    if this.kind == ERROR:
        this.code = struct.unpack_from(">I", raw, at)[0]
        at += 4
    elif this.kind == REQUEST_N:
        this.n = struct.unpack_from(">I", raw, at)[0]
        at += 4
    elif this.kind == KEEPALIVE:
        at += 8
    elif this.kind == PAYLOAD and this.has(M):
        length = int.from_bytes(raw[at : at + 3], "big")
        at += 3
        this.metadata = raw[at : at + length]
        assert len(this.metadata) == length, "metadata longer than its frame"
        at += length
    this.data = raw[at:]
    return this


class Closed(ConnectionError):
    """The broker closed the connection while more was expected."""


class Connection:
    """A socket to the broker. Frames are handed out by stream, in order within each."""

    def __init__(self, address, receive_buffer: int | None = None):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(DEADLINE)
        self.socket.connect(address)
        self.socket = tls.wrap(self.socket, address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.peer = "%s:%d" % self.socket.getsockname()
        self.opened = {0}  # Streams on which something was sent: the broker may use no other.
        self.closed = False
        self.read = 0  # Bytes received in total.
        self.lives = True  # Whether this connection answers the broker's keepalives.
        self._buffer = bytearray()
        self._queues = defaultdict(deque)
        self._parts = {}

    def send(self, *frames: bytes):
        for one in frames:
            if len(one) >= 7:
                self.opened.add(struct.unpack_from(">I", one, 3)[0] & 0x7FFFFFFF)
        self.socket.sendall(b"".join(frames))

    def frame(self, stream: int, timeout: float = DEADLINE) -> Frame:
        """The next frame on `stream`, reassembled if it came in fragments."""
        queue, end = self._queues[stream], time.monotonic() + timeout
        while not queue:
            self._receive(end, f"a frame on stream {stream}")
        return queue.popleft()

    def pending(self, stream: int) -> int:
        return len(self._queues[stream])

    def end(self, timeout: float = DEADLINE):
        """Waits until the broker has closed the connection."""
        end = time.monotonic() + timeout
        try:
            while True:
                self._receive(end, "the end of the connection")
        except Closed:
            pass

    def close(self):
        self.socket.close()

    def _receive(self, end: float, what: str):
        left = end - time.monotonic()
        if self.closed:
            raise Closed(what)
        if left <= 0:
            raise TimeoutError(f"no sign of {what}")
        self.socket.settimeout(left)
        try:
            chunk = self.socket.recv(1 << 18)
        except ConnectionResetError:
            chunk = b""
        except TimeoutError:
            raise TimeoutError(f"no sign of {what}") from None
        if not chunk:
            self.closed = True
            raise Closed(what)
        self.read += len(chunk)
        self._buffer += chunk
        self._split()

    def _split(self):
        at, held = 0, self._buffer
        while len(held) - at >= 3:
            length = int.from_bytes(held[at : at + 3], "big")
            if len(held) - at - 3 < length:
                break
            self._accept(parse(bytes(held[at + 3 : at + 3 + length])))
            at += 3 + length
        del held[:at]

    def _accept(self, this: Frame):
        self._check(this)
        if this.kind == KEEPALIVE and this.has(R):
            if self.lives:
                self.socket.sendall(keepalive(this.data, respond=False))
            return
        if this.kind == PAYLOAD and (this.has(F) or this.stream in self._parts):
            whole = self._parts.setdefault(this.stream, Frame(this.stream, PAYLOAD, 0, 0))
            assert this.metadata is None or not whole.data, "metadata after data in fragments"
            whole.data += this.data
            whole.metadata = whole.metadata if this.metadata is None else (whole.metadata or b"") + this.metadata
            whole.size += this.size
            if this.has(F):
                return
            whole.flags = this.flags | (M if whole.metadata is not None else 0)
            this = self._parts.pop(this.stream)
        self._queues[this.stream].append(this)

    def _check(self, this: Frame):
        assert this.stream in self.opened, f"a frame on a stream that was never opened: {this}"
        if this.kind == PAYLOAD:
            assert this.has(N) or this.has(C), f"PAYLOAD with neither NEXT nor COMPLETE: {this}"
            assert not (this.has(F) and this.has(C)), f"COMPLETE on a fragment that is not the last: {this}"
            assert this.has(N) or not (this.has(F) or this.stream in self._parts), f"a fragment without NEXT: {this}"
            assert len(this.data) <= FRAGMENT, f"a payload of {len(this.data)} bytes in one frame: {this.size}"
        elif this.kind == ERROR and this.stream:
            assert 0x201 <= this.code <= 0x204, f"an error code unknown to clients: {this}"
            this.data.decode()
        elif this.kind == REQUEST_N:
            assert this.n > 0, "REQUEST_N of 0"
