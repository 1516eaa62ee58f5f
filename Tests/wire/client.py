"""A client of the broker over `raw.Connection`: subscriptions, publishes, channels and control calls, each checked as
it goes. A subscription fails its test the moment it receives more than it asked for, or anything after its end.
"""

import itertools
import json
import struct
import time
from dataclasses import dataclass
from urllib.parse import quote

import raw
from raw import C, COMPOSITE, DEADLINE, ERROR, M, MESSAGE_MIME, N, PAYLOAD, ROUTING, UNBOUNDED


class StreamError(Exception):
    """An ERROR frame on a stream."""

    def __init__(self, code: int, text: str):
        super().__init__(f"{code:#x}: {text}")
        self.code, self.text = code, text


@dataclass
class Message:
    data: bytes
    epoch: int | None = None
    sequence: int | None = None
    timestamp: int | None = None
    dropped: int | None = None
    entries: tuple = ()


@dataclass
class End:
    """The last event of a stream. `dropped` is None where the broker told nothing of it."""

    code: int | None = None  # None: completed.
    text: str = ""
    dropped: int | None = None


def message(frame: raw.Frame, meta: bool) -> Message:
    if not meta:
        assert frame.metadata is None, f"metadata without meta=on: {frame}"
        return Message(frame.data)
    first, *rest = raw.entries(frame.metadata or b"")
    assert first[0] == MESSAGE_MIME and len(first[1]) >= 32, f"not the broker's entry: {first}"
    epoch, sequence, timestamp, dropped = struct.unpack_from(">QQqQ", first[1])
    assert epoch != 0
    return Message(frame.data, epoch, sequence, timestamp, dropped, tuple(rest))


class Subscription:
    """A REQUEST_STREAM of the broker's."""

    def __init__(self, peer: "Peer", stream: int, n: int, meta: bool):
        self.peer, self.stream, self.meta = peer, stream, meta
        self.asked, self.received, self.ended, self.seen = n, 0, None, []

    def request(self, n: int):
        self.asked += n
        self.peer.send(raw.request_n(self.stream, n))

    def cancel(self):
        self.peer.send(raw.cancel(self.stream))

    def event(self, timeout=DEADLINE) -> Message | End:
        assert self.ended is None, f"stream {self.stream} has ended: {self.ended}"
        return self._note(self.peer.frame(self.stream, timeout))

    def take(self, count: int, timeout=DEADLINE) -> list[Message]:
        """The next `count` messages."""
        got = []
        while len(got) < count:
            event = self.event(timeout)
            assert isinstance(event, Message), f"{event} after {got}, where {count} messages were due"
            got.append(event)
            if self.ended:
                assert len(got) == count, f"the end after {got}, where {count} messages were due"
        return got

    def data(self, count: int) -> list[bytes]:
        return [one.data for one in self.take(count)]

    def end(self, timeout=DEADLINE) -> End:
        """The end, which must be what comes next."""
        if self.ended is None:
            event = self.event(timeout)
            assert isinstance(event, End), f"{event} where the end was due"
        return self.ended

    def rest(self, timeout=DEADLINE) -> list[Message]:
        """Everything up to the end."""
        got = []
        while self.ended is None:
            event = self.event(timeout)
            if isinstance(event, Message):
                got.append(event)
        return got

    def nothing(self):
        """Everything that the broker had for this stream has been taken. `Peer.barrier` first."""
        assert self.peer.pending(self.stream) == 0, f"unexpected: {self.event()}"

    def _note(self, frame: raw.Frame) -> Message | End:
        if frame.kind == ERROR:
            self.ended = End(frame.code, frame.text)
            return self.ended
        assert frame.kind == PAYLOAD, f"unexpected on a subscription: {frame}"
        if not frame.has(N):
            dropped = message(frame, True).dropped if frame.metadata else None
            self.ended = End(dropped=dropped)
            return self.ended
        self.received += 1
        assert self.asked >= UNBOUNDED or self.received <= self.asked, f"{self.received} of {self.asked} requested"
        if frame.has(C):
            self.ended = End()
        return message(frame, self.meta)


class Channel:
    """A REQUEST_CHANNEL of ours, by which messages are published under the broker's credits."""

    def __init__(self, peer: "Peer", stream: int, acks: int):
        self.peer, self.stream = peer, stream
        self.granted, self.sent = 0, 0  # Item 0 is not among them.
        self.asked, self.acks, self.ended = acks, [], None  # acks: (sequence, accepted)

    @property
    def credit(self) -> int:
        return self.granted - self.sent

    def send(self, data: bytes, metadata=None, flags=N):
        """Within the credit, for which it waits."""
        while self.credit <= 0:
            self.event()
            assert self.ended is None, f"the channel ended: {self.ended}"
        self.force(data, metadata, flags)

    def force(self, data: bytes = b"", metadata=None, flags=N):
        """Without regard to credit."""
        self.sent += 1
        self.peer.send(raw.payload(self.stream, data, metadata, flags))

    def complete(self):
        self.peer.send(raw.payload(self.stream, flags=C))

    def fail(self, text: str, code=raw.APPLICATION_ERROR):
        self.peer.send(raw.error(self.stream, code, text))

    def cancel(self):
        self.peer.send(raw.cancel(self.stream))

    def request(self, n: int):
        self.asked += n
        self.peer.send(raw.request_n(self.stream, n))

    def event(self, timeout=DEADLINE) -> str:
        """Takes in the next frame and tells its kind: "grant", "ack", "end" or "cancel"."""
        assert self.ended is None, f"channel {self.stream} has ended: {self.ended}"
        frame = self.peer.frame(self.stream, timeout)
        if frame.kind == raw.REQUEST_N:
            self.granted += frame.n
            return "grant"
        if frame.kind == raw.CANCEL:
            return "cancel"
        if frame.kind == ERROR:
            self.ended = End(frame.code, frame.text)
            return "end"
        assert frame.kind == PAYLOAD, f"unexpected on a channel: {frame}"
        if frame.has(C):
            self.ended = End()
        if not frame.has(N):
            return "end"
        accepted = dict(raw.entries(frame.metadata or b"")).get(raw.ACCEPTED_MIME)
        if accepted is None:  # A client whose requests have another form of metadata need not read composite metadata.
            assert self.peer.mime != COMPOSITE, f"an acknowledgement without its count: {frame}"
        count = None if accepted is None else struct.unpack(">Q", accepted[:8])[0]
        ack = int(frame.text), count
        assert not self.acks or ack[0] > self.acks[-1][0], (self.acks, ack)
        assert not self.acks or count is None or count > self.acks[-1][1], (self.acks, ack)
        self.acks.append(ack)
        assert self.asked >= UNBOUNDED or len(self.acks) <= self.asked, f"more acknowledgements than asked: {self.acks}"
        return "ack"

    def pump(self):
        """Takes in what has arrived, without waiting."""
        while self.ended is None and self.peer.pending(self.stream):
            self.event()

    def until(self, condition, timeout=DEADLINE):
        end = time.monotonic() + timeout
        while not condition():
            self.event(end - time.monotonic())

    def acknowledged(self, sequence: int):
        self.until(lambda: self.acks and self.acks[-1][0] >= sequence)
        assert self.acks[-1][0] == sequence

    def end(self) -> End:
        self.until(lambda: self.ended is not None)
        return self.ended


class Peer(raw.Connection):
    """A client on a connection of its own, set up."""

    def __init__(self, address, mime=COMPOSITE, receive_buffer=None, **setup):
        super().__init__(address, receive_buffer)
        self.mime = mime
        self.ids = itertools.count(1, 2)
        self.send(raw.setup(mime, **setup))

    def route(self, path: str | bytes, *more: str, extra=()) -> bytes:
        """A request's metadata in the form that this connection's set-up announced."""
        if self.mime == COMPOSITE:
            return raw.route(path, *more) + b"".join(raw.entry(*one) for one in extra)
        if self.mime == ROUTING:
            return raw.tags(path, *more)
        return path.encode() if isinstance(path, str) else path

    def subscribe(self, path: str, *more: str, n=UNBOUNDED, meta=False) -> Subscription:
        if meta:
            more = (*more, "meta=on")
        stream = next(self.ids)
        self.send(raw.request(raw.REQUEST_STREAM, stream, metadata=self.route(path, *more), n=n))
        return Subscription(self, stream, n, meta)

    def call(self, path: str, data: bytes = b"", *more: str, extra=()) -> int:
        """Sends a REQUEST_RESPONSE and returns its stream."""
        stream = next(self.ids)
        self.send(raw.request(raw.REQUEST_RESPONSE, stream, data, self.route(path, *more, extra=extra)))
        return stream

    def answer(self, stream: int, timeout=DEADLINE) -> raw.Frame:
        frame = self.frame(stream, timeout)
        if frame.kind == ERROR:
            raise StreamError(frame.code, frame.text)
        assert frame.kind == PAYLOAD and frame.has(C), f"not an answer: {frame}"
        return frame

    def control(self, path: str, **arguments: str) -> dict:
        query = "&".join(f"{key}={quote(value, safe='')}" for key, value in arguments.items())
        frame = self.answer(self.call(f"{path}?{query}" if query else path))
        return json.loads(frame.data or b"null")

    def listing(self, path: str) -> list[dict]:
        """All that `$SYS.topics`, `$SYS.subscriptions` or `$SYS.connections` tell."""
        return [json.loads(one.data) for one in self.subscribe(path).rest()]

    def publish(self, topic: str, *payloads: bytes, extra=()) -> list[int]:
        """Acknowledged publishes, one after the other on the wire; returns their sequences."""
        streams = [self.call(topic, one, extra=extra) for one in payloads]
        return [int(self.answer(stream).data) for stream in streams]

    def numbers(self, topic: str, first: int, last: int) -> list[int]:
        """Publishes b"first"… b"last", one message each."""
        return self.publish(topic, *(b"%d" % i for i in range(first, last + 1)))

    def fire(self, topic: str, data: bytes, extra=()):
        stream = next(self.ids)
        self.send(raw.request(raw.REQUEST_FNF, stream, data, self.route(topic, extra=extra)))

    def channel(self, path: str, first: bytes, acks=UNBOUNDED, flags=0, metadata=None) -> Channel:
        stream = next(self.ids)
        metadata = self.route(path) if metadata is None else metadata
        self.send(raw.request(raw.REQUEST_CHANNEL, stream, first, metadata, acks, flags))
        return Channel(self, stream, acks)

    def barrier(self, topic: str, trips: int = 2) -> dict | None:
        """Round trips to the shard that owns `topic`: what was on its way to this connection before has arrived."""
        for _ in range(trips):
            try:
                info = self.control("$SYS.topic.info", name=topic)
            except StreamError:
                info = None
        return info

    def joined(self, topic: str, count: int):
        """Waits until the topic has exactly `count` subscriptions."""
        self.until(topic, lambda info: info["subscriptions"] == count)

    def until(self, topic: str, condition, timeout=DEADLINE) -> dict:
        """Waits until `condition` holds of what `$SYS.topic.info` tells, once the topic has come into being."""
        return eventually(lambda: self.barrier(topic, 1), lambda info: info is not None and condition(info), timeout)

    def ledger(self, topic: str) -> list[dict]:
        """What `$SYS.subscriptions` tells of the topic's subscriptions."""
        return [one for one in self.listing("$SYS.subscriptions") if one["topic"] == topic]


def eventually(observe, condition, timeout=DEADLINE):
    """Observes until the condition holds, and returns what was observed then."""
    end = time.monotonic() + timeout
    while True:
        seen = observe()
        if condition(seen):
            return seen
        if time.monotonic() > end:
            raise TimeoutError(f"still {seen}")
        time.sleep(0.005)  # Between two looks at the condition, so as not to starve what is watched.


def arrive(subscriber: Peer, publisher: Peer, topic: str, first: int, last: int):
    """Publishes b"first"… b"last" and waits until they have reached the side of the subscriber, so that what it
    asks for afterwards comes after them."""
    publisher.numbers(topic, first, last)
    subscriber.barrier(topic)


def datas(messages: list[Message]) -> list[bytes]:
    return [one.data for one in messages]


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % i for i in range(first, last + 1)]


def refusal(subscription: Subscription) -> End:
    """The ERROR by which a subscription is refused: the first thing that comes."""
    end = subscription.end()
    assert end.code is not None, f"completed, where an error was due: {end}"
    return end


__all__ = [name for name in dir() if not name.startswith("_")]
