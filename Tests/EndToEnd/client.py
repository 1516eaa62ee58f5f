"""An RSocket client of the broker, built on `raw.Connection`: subscriptions, publishes, channels and control calls,
each checked as it proceeds. A subscription fails its test as soon as it receives more than it requested, or anything
after its end.

`common.py` holds what the transports share; this file adds what is specific to RSocket.
"""

import itertools
import json
import struct
import time
from urllib.parse import quote

import raw
from common import *
from raw import C, COMPOSITE, ERROR, M, MESSAGE_MIME, N, PAYLOAD, ROUTING

KINDS = {raw.INVALID: Kind.INVALID, raw.REJECTED: Kind.REJECTED, raw.CANCELED: Kind.CANCELLED}


def kind_of(frame: raw.Frame) -> Kind:
    """The meaning of an ERROR on a stream."""
    return KINDS.get(frame.code) or application(frame.text)


def ending(frame: raw.Frame) -> End:
    return End(kind_of(frame), frame.text, code=frame.code)


def message(frame: raw.Frame, meta: bool) -> Message:
    if not meta:
        assert frame.metadata is None, f"metadata without meta=on: {frame}"
        return Message(frame.data)
    first, *rest = raw.entries(frame.metadata or b"")
    assert first[0] == MESSAGE_MIME and len(first[1]) >= 32, f"not the broker's entry: {first}"
    epoch, sequence, timestamp, dropped = struct.unpack_from(">QQqQ", first[1])
    assert epoch != 0
    return Message(frame.data, epoch, sequence, timestamp, dropped, tuple(rest))


class Subscription(Stream):
    """A REQUEST_STREAM to the broker."""

    def __init__(self, peer: "Peer", stream: int, n: int, meta: bool):
        super().__init__(n)
        self.peer, self.stream, self.meta = peer, stream, meta

    def request(self, n: int):
        self.asked += n
        self.peer.send(raw.request_n(self.stream, n))

    def cancel(self):
        self.peer.send(raw.cancel(self.stream))

    def pending(self) -> int:
        return self.peer.pending(self.stream)

    def event(self, timeout=DEADLINE) -> Message | End:
        assert self.ended is None, f"stream {self.stream} has ended: {self.ended}"
        return self._note(self.peer.frame(self.stream, timeout))

    def _note(self, frame: raw.Frame) -> Message | End:
        if frame.kind == ERROR:
            self.ended = ending(frame)
            return self.ended
        assert frame.kind == PAYLOAD, f"unexpected on a subscription: {frame}"
        if not frame.has(N):
            info = message(frame, True) if frame.metadata else None
            self.ended = End(dropped=info and info.dropped, info=info)
            return self.ended
        self.count()
        if frame.has(C):
            self.ended = End()
        return message(frame, self.meta)


class Offer:
    """A REQUEST_RESPONSE that publishes one message."""

    def __init__(self, peer: "Peer", stream: int):
        self.peer, self.stream = peer, stream

    def answered(self) -> bool:
        return self.peer.pending(self.stream) > 0

    def sequence(self, timeout=DEADLINE) -> int:
        return int(self.peer.answer(self.stream, timeout).data)

    def cancel(self):
        self.peer.send(raw.cancel(self.stream))


class Channel(Publishing):
    """A REQUEST_CHANNEL that publishes messages under the broker's credit."""

    def __init__(self, peer: "Peer", stream: int, acks: int):
        super().__init__()
        self.peer, self.stream, self.asked = peer, stream, acks

    def force(self, data: bytes = b"", metadata=None, flags=N, last=False):
        """Sends even without credit. With `last`, the message also completes the channel."""
        self.sent += 1
        self.peer.send(raw.payload(self.stream, data, metadata, flags | (C if last else 0)))

    def complete(self):
        self.peer.send(raw.payload(self.stream, flags=C))

    def fail(self, text: str, code=raw.APPLICATION_ERROR):
        self.peer.send(raw.error(self.stream, code, text))

    def cancel(self):
        self.peer.send(raw.cancel(self.stream))

    def request(self, n: int):
        self.asked += n
        self.peer.send(raw.request_n(self.stream, n))

    def pending(self) -> int:
        return self.peer.pending(self.stream)

    def event(self, timeout=DEADLINE) -> str:
        """Takes the next frame and returns its kind: "grant", "ack", "end" or "cancel"."""
        assert self.ended is None, f"channel {self.stream} has ended: {self.ended}"
        frame = self.peer.frame(self.stream, timeout)
        if frame.kind == raw.REQUEST_N:
            self.granted += frame.n
            return "grant"
        if frame.kind == raw.CANCEL:
            return "cancel"
        if frame.kind == ERROR:
            self.ended = ending(frame)
            return "end"
        assert frame.kind == PAYLOAD, f"unexpected on a channel: {frame}"
        if frame.has(C):
            self.ended = End()
        if not frame.has(N):
            return "end"
        accepted = dict(raw.entries(frame.metadata or b"")).get(raw.ACCEPTED_MIME)
        if accepted is None:  # A client with another form of request metadata need not read composite metadata.
            assert self.peer.mime != COMPOSITE, f"an acknowledgement without its count: {frame}"
        self.acknowledge((int(frame.text), None if accepted is None else struct.unpack(">Q", accepted[:8])[0]))
        assert self.asked >= UNBOUNDED or len(self.acks) <= self.asked, f"more acks than credit: {self.acks}"
        return "ack"


class Peer(Observer, raw.Connection):
    """A client on its own connection, after set-up."""

    def __init__(self, address, mime=COMPOSITE, receive_buffer=None, **setup):
        super().__init__(address, receive_buffer)
        self.mime = mime
        self.ids = itertools.count(1, 2)
        self.send(raw.setup(mime, **setup))

    def route(self, path: str | bytes, *more: str, extra=()) -> bytes:
        """A request's metadata, in the form that this connection's set-up announced."""
        if self.mime == COMPOSITE:
            return raw.route(path, *more) + b"".join(raw.entry(*one) for one in extra)
        if self.mime == ROUTING:
            return raw.tags(path, *more)
        return path.encode() if isinstance(path, str) else path

    def subscribe(self, path: str, *more: str, n=UNBOUNDED, meta=False, data: bytes = b"") -> Subscription:
        if meta:
            more = (*more, "meta=on")
        stream = next(self.ids)
        self.send(raw.request(raw.REQUEST_STREAM, stream, data, self.route(path, *more), n=n))
        return Subscription(self, stream, n, meta)

    def call(self, path: str, data: bytes = b"", *more: str, extra=()) -> int:
        """Sends a REQUEST_RESPONSE and returns its stream."""
        stream = next(self.ids)
        self.send(raw.request(raw.REQUEST_RESPONSE, stream, data, self.route(path, *more, extra=extra)))
        return stream

    def answer(self, stream: int, timeout=DEADLINE) -> raw.Frame:
        frame = self.frame(stream, timeout)
        if frame.kind == ERROR:
            raise StreamError(kind_of(frame), frame.text, frame.code)
        assert frame.kind == PAYLOAD and frame.has(C), f"not a response: {frame}"
        return frame

    def control(self, path: str, **arguments: str) -> dict:
        query = "&".join(f"{key}={quote(value, safe='')}" for key, value in arguments.items())
        frame = self.answer(self.call(f"{path}?{query}" if query else path))
        return json.loads(frame.data or b"null")

    def listing(self, path: str) -> list[dict]:
        """The rows of `$SYS.topics`, `$SYS.subscriptions` or `$SYS.connections`."""
        return [json.loads(one.data) for one in self.subscribe(path).rest()]

    def offer(self, topic: str, data: bytes, extra=()) -> Offer:
        return Offer(self, self.call(topic, data, extra=extra))

    def fire(self, topic: str, data: bytes, extra=()):
        stream = next(self.ids)
        self.send(raw.request(raw.REQUEST_FNF, stream, data, self.route(topic, extra=extra)))

    def channel(self, path: str, first: bytes, acks=UNBOUNDED, complete=False, metadata=None) -> Channel:
        """Opens a channel. With `complete`, item 0 is the only one."""
        stream = next(self.ids)
        metadata = self.route(path) if metadata is None else metadata
        self.send(raw.request(raw.REQUEST_CHANNEL, stream, first, metadata, acks, C if complete else 0))
        return Channel(self, stream, acks)


__all__ = [name for name in dir() if not name.startswith("_")]
