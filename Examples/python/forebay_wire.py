"""The lower half of forebay_client.py: the bytes of frames, metadata and routes, the errors that ERROR frames carry,
and one connection. It knows neither topics nor reconnecting."""

import asyncio
import contextlib
import struct
from dataclasses import dataclass, field
from urllib.parse import quote

SETUP, KEEPALIVE, REQUEST_RESPONSE, REQUEST_FNF, REQUEST_STREAM = 1, 3, 4, 5, 6
REQUEST_CHANNEL, REQUEST_N, CANCEL, PAYLOAD, ERROR = 7, 8, 9, 10, 11
IGNORE, METADATA, FOLLOWS, COMPLETE, NEXT = 0x200, 0x100, 0x80, 0x40, 0x20
RESPOND = 0x80  # On KEEPALIVE.
UNBOUNDED = 0x7FFFFFFF
FRAGMENT = 64 << 10  # Messages that are longer are sent in frames of this many bytes.
FIRST_FRAME = 10.0  # Seconds for TCP to connect, and for the broker's first frame.

INVALID_SETUP, UNSUPPORTED_SETUP, APPLICATION_ERROR = 0x001, 0x002, 0x201
COMPOSITE, OCTETS = b"message/x.rsocket.composite-metadata.v0", b"application/octet-stream"
ROUTING, AUTHENTICATION, CONTENT_TYPE = 0x7E, 0x7C, 0x7A
ABOUT_MESSAGE, OPENING, ACCEPTED = (f"application/vnd.forebay.{name}" for name in ("message", "opening", "accepted"))

# What a program can do about an error, by its word. Unknown words are like "no".
RETRY = {
    "unauthenticated": "with other credentials", "limit": "later", "blocked": "later", "timeout": "at once",
    "gap": "from another position", "overflow": "from the last message", "draining": "later", "unavailable": "later",
    "closed-by-operator": "from the last message", "store": "later", "publisher": "with the right number",
}


class ForebayError(Exception):
    """An error that the broker sent. `word` and `code` are stable, and `retry` says whether to try again: "no",
    "at once", "later", "with other credentials", "from the last message" or "from another position"."""

    def __init__(self, code: int, text: str):
        super().__init__(f"{text} (0x{code:03x})")
        self.code, self.text, self.word = code, text, text.partition(":")[0]
        self.retry = RETRY.get(self.word, "no")


class RequestError(ForebayError):
    """A request, subscription or channel was refused or ended. The connection is not affected."""


class ConnectionFailed(ForebayError):
    """The broker refused or ended the connection."""


class ConnectionLost(Exception):
    """The connection ended without an error from the broker, or this client ended what waits for it."""


@dataclass
class Message:
    """A message as subscribers receive it. `dropped_before` counts the messages lost just before it."""

    data: bytes
    epoch: int = 0
    sequence: int = 0
    timestamp_ns: int = 0
    dropped_before: int = 0
    entries: list = field(default_factory=list)  # The publisher's metadata: (mime's name or id, content).

    @property
    def content_type(self) -> str | int | None:
        """A name, or the id of a well-known mime."""
        for mime, content in self.entries:
            if mime in (CONTENT_TYPE, "message/x.rsocket.mime-type.v0") and content:
                return content[0] & 0x7F if content[0] & 0x80 else content[1:content[0] + 2].decode()
        return None


@dataclass
class Gap:
    """What a subscription missed. `reason` is "dropped": `count` messages were dropped or no longer retained before
    `sequence`; or "epoch": the topic restarted, and how much was lost is unknown; or "ahead": the topic has fewer
    messages than the position that was asked for."""

    reason: str
    epoch: int
    sequence: int
    count: int | None = None


def frame(stream: int, kind: int, flags: int, body: bytes = b"") -> bytes:
    return (len(body) + 6).to_bytes(3, "big") + struct.pack(">IH", stream, kind << 10 | flags) + body


def frames(stream: int, kind: int, flags: int, metadata: bytes | None, data: bytes, demand: int | None = None,
           limit: int = FRAGMENT) -> bytes:
    """A request or PAYLOAD as one frame, or as fragments of at most `limit` bytes. All metadata comes before data."""
    written, head, last = b"", b"" if demand is None else struct.pack(">I", demand), flags & COMPLETE
    flags &= ~COMPLETE
    while True:
        body, room = head, limit - 6 - len(head)
        mine = flags
        if metadata is not None:
            part, metadata = metadata[:room - 3], metadata[room - 3:] or None
            body += len(part).to_bytes(3, "big") + part
            mine |= METADATA
            room -= 3 + len(part)
        if metadata is None:
            body, data = body + data[:room], data[room:]
        if metadata is None and not data:
            return written + frame(stream, kind, mine | last, body)
        written += frame(stream, kind, mine | FOLLOWS, body)
        kind, flags, head = PAYLOAD, NEXT, b""


def entry(mime: int | str, content: bytes) -> bytes:
    """An entry of composite metadata. `mime` is a name or a well-known id."""
    head = bytes([0x80 | mime]) if isinstance(mime, int) else bytes([len(mime) - 1]) + mime.encode()
    return head + len(content).to_bytes(3, "big") + content


def entries(metadata: bytes | None) -> list[tuple[int | str, bytes]]:
    found, at, metadata = [], 0, metadata or b""
    while at < len(metadata):
        head, at = metadata[at], at + 1
        if head & 0x80:
            mime = head & 0x7F
        else:
            mime, at = metadata[at:at + head + 1].decode("latin-1").lower(), at + head + 1
        end = at + 3 + int.from_bytes(metadata[at:at + 3], "big")
        found.append((mime, metadata[at + 3:end]))
        at = end
    return found


def route(name: str, options: dict) -> bytes:
    """The routing entry. A route that is too long for one tag is spread over several."""
    pairs = [f"{key}={quote(str(value), safe='')}" for key, value in options.items()]
    tags = ["?".join([name, "&".join(pairs)] if pairs else [name])]
    if len(tags[0]) > 255:
        tags = [name, *pairs]
    return entry(ROUTING, b"".join(bytes([len(tag)]) + tag.encode() for tag in tags))


def message_metadata(content_type: str | None, extra) -> bytes:
    """The publisher's part of a message's metadata."""
    typed = b"" if content_type is None else entry(
        CONTENT_TYPE, bytes([len(content_type) - 1]) + content_type.encode())
    return typed + b"".join(entry(mime, content) for mime, content in extra)


def setup(keepalive: float, lifetime: float, credentials: tuple[str, str] | str | None) -> bytes:
    """SETUP for composite metadata. `credentials` are a name and a password, or a token."""
    metadata = None
    if isinstance(credentials, str):
        metadata = entry(AUTHENTICATION, b"\x81" + credentials.encode())
    elif credentials:
        user, password = (one.encode() for one in credentials)
        metadata = entry(AUTHENTICATION, b"\x80" + len(user).to_bytes(2, "big") + user + password)
    body = struct.pack(">HHII", 1, 0, int(keepalive * 1000), int(lifetime * 1000))
    body += b"".join(bytes([len(mime)]) + mime for mime in (COMPOSITE, OCTETS))
    if metadata is None:
        return frame(0, SETUP, 0, body)
    return frame(0, SETUP, METADATA, body + len(metadata).to_bytes(3, "big") + metadata)


class Connection:
    """One socket. Streams are objects with `payload(flags, entries, data)`, `error(error)`, `credit(n)`, `lost()`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lifetime: float, on_accepted):
        self.reader, self.writer, self.lifetime, self.on_accepted = reader, writer, lifetime, on_accepted
        self.streams, self.parts, self.next_stream = {}, {}, 1
        self.accepted, self.heard = asyncio.Event(), False

    async def run(self, credentials):
        """Connects and reads until the connection is lost. Raises the reason."""
        self.writer.write(setup(self.lifetime / 3, self.lifetime, credentials))
        tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._watch())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            await next(task for task in tasks if task.done())
        finally:
            for task in tasks:
                task.cancel()
            self.writer.close()
            for one in self.streams.values():
                one.lost()

    async def _watch(self):
        """Asks three times in each lifetime. Counts questions instead of time, because a program that was busy did not
        read meanwhile."""
        self.send(0, KEEPALIVE, RESPOND, bytes(8))  # Answered when SETUP is accepted.
        await asyncio.wait_for(self.accepted.wait(), FIRST_FRAME)
        silent = 0
        while silent < 3:
            self.heard = False
            await asyncio.sleep(self.lifetime / 3)
            self.send(0, KEEPALIVE, RESPOND, bytes(8))
            silent = 0 if self.heard else silent + 1
        raise ConnectionLost("the broker is silent")

    async def _read(self):
        buffer = bytearray()
        while piece := await self.reader.read(1 << 16):
            self.heard = True
            buffer += piece
            at = 0
            while len(buffer) >= at + 3 and len(buffer) >= (end := at + 3 + int.from_bytes(buffer[at:at + 3], "big")):
                self._take(bytes(buffer[at + 3:end]))
                at = end
            del buffer[:at]
        raise ConnectionLost("the broker closed the connection")

    def _take(self, whole: bytes):
        stream, word = struct.unpack_from(">IH", whole)
        stream, kind, flags, body = stream & UNBOUNDED, word >> 10, word & 0x3FF, whole[6:]
        if stream == 0 and kind == ERROR:
            raise ConnectionFailed(int.from_bytes(body[:4], "big"), body[4:].decode(errors="replace"))
        if not self.accepted.is_set():
            self.accepted.set()
            self.on_accepted(self)
        if kind == KEEPALIVE and flags & RESPOND:
            self.send(0, KEEPALIVE, 0, bytes(8) + body[8:])
        elif kind not in (KEEPALIVE, PAYLOAD, ERROR, REQUEST_N, CANCEL) and not flags & IGNORE:
            raise ConnectionLost(f"the broker sent a frame of type {kind}")
        elif one := self.streams.get(stream):  # Other streams have ended; their frames were in flight.
            if kind == PAYLOAD:
                self._payload(stream, one, flags, body)
            elif kind == REQUEST_N:
                one.credit(int.from_bytes(body[:4], "big") & UNBOUNDED)
            elif kind == ERROR:
                self.forget(stream)
                one.error(RequestError(int.from_bytes(body[:4], "big"), body[4:].decode(errors="replace")))

    def _payload(self, stream: int, one, flags: int, body: bytes):
        length = 3 + int.from_bytes(body[:3], "big") if flags & METADATA else 0
        metadata, data = self.parts.setdefault(stream, (bytearray(), bytearray()))
        metadata += body[3:length]
        data += body[length:]
        if not flags & FOLLOWS:
            del self.parts[stream]
            if flags & COMPLETE:
                self.forget(stream)
            one.payload(flags, entries(bytes(metadata)), bytes(data))

    def forget(self, stream: int):
        self.streams.pop(stream, None)
        self.parts.pop(stream, None)

    def cancel(self, stream: int):
        if stream in self.streams:
            self.forget(stream)
            self.send(stream, CANCEL)

    def open(self, one, kind: int, metadata: bytes, data: bytes = b"", demand: int | None = None, flags=0) -> int:
        while (stream := self.next_stream) in self.streams:  # Ids begin again after the last one.
            self.next_stream = self.next_stream + 2 & UNBOUNDED
        self.next_stream = self.next_stream + 2 & UNBOUNDED
        if one:
            self.streams[stream] = one
        self.writer.write(frames(stream, kind, flags, metadata, data, demand))
        return stream

    def send(self, stream: int, kind: int, flags: int = 0, body: bytes = b""):
        self.writer.write(frame(stream, kind, flags, body))

    async def flush(self):
        """Waits while too much is on its way to the broker."""
        with contextlib.suppress(OSError):  # The reader notices a lost connection.
            await self.writer.drain()
