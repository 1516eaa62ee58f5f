"""What tests of the broker's behavior share over every transport: events, errors, and queries for clients.

A client is a `Peer` of `client.py` (RSocket) or of `grpc_client.py` (gRPC), on its own connection. Both kinds have

    subscribe(path, n=, meta=)  a `Subscription`: request, cancel, event, take, data, end, rest, pending, nothing
    offer(topic, data)          an acknowledged publish in progress, an `Offer`: answered, sequence, cancel
    publish, numbers            acknowledged publishes, waited for
    channel(path, first)        a `Channel`: send, force, complete, fail, cancel, event, pump, until, acknowledged, end
    control, listing            the control calls, by the names and with the fields that RSocket gives them
    peer, end, close            the connection: its address as seen by the broker, its end by the broker, and by us

and what `Observer` builds on these. A path is `TOPIC?option=value&…`. A test that uses nothing else runs over both
transports. Only RSocket delivers the requests of one connection to the broker in order: a test that needs this order
waits for the effect of the first request.
"""

import enum
import time
from dataclasses import dataclass, field

DEADLINE = 10.0  # Seconds that any expected event may take; reached only when a test fails.
UNBOUNDED = 0x7FFFFFFF


class Kind(enum.Enum):
    """The meaning of an error, independent of the transport's code for it."""

    INVALID = "a bad name, option or demand"
    REJECTED = "not allowed, not there, beyond a limit, or the topic has ended"
    OVERFLOW = "overflow"
    FAILED = "the topic failed"
    CANCELLED = "cancelled"
    OTHER = "something else"


def application(text: str) -> Kind:
    """The kind of an error, as identified by its text."""
    if text.startswith("overflow:"):
        return Kind.OVERFLOW
    return Kind.FAILED if text.startswith("topic failed:") else Kind.OTHER


class StreamError(Exception):
    """A request that was answered with an error. `code` is the transport's own."""

    def __init__(self, kind: Kind, text: str, code=None):
        super().__init__(f"{kind.name} ({code}): {text}")
        self.kind, self.text, self.code = kind, text, code


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
    """The last event of a stream. `dropped` is None if the broker did not report it; `code` is the transport's."""

    kind: Kind | None = None  # None means completed.
    text: str = ""
    dropped: int | None = None
    code: object = field(default=None, compare=False)
    info: Message | None = field(default=None, compare=False)  # What RSocket's completion carries in addition.


def failed(message: str) -> End:
    """The end of a topic that failed."""
    return End(Kind.FAILED, f"topic failed: {message}")


class Stream:
    """A subscription over either transport, which provides `event` and `pending`."""

    def __init__(self, n: int):
        self.asked, self.received, self.ended = n, 0, None

    def take(self, count: int, timeout=DEADLINE) -> list[Message]:
        """Takes `count` messages."""
        got = []
        while len(got) < count:
            event = self.event(timeout)
            assert isinstance(event, Message), f"{event} after {got}, but {count} messages were expected"
            got.append(event)
            if self.ended:
                assert len(got) == count, f"the end after {got}, but {count} messages were expected"
        return got

    def data(self, count: int) -> list[bytes]:
        return [one.data for one in self.take(count)]

    def end(self, timeout=DEADLINE) -> End:
        """The end, which must be the next event."""
        if self.ended is None:
            event = self.event(timeout)
            assert isinstance(event, End), f"{event} instead of the end"
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
        """Asserts that everything the broker sent on this stream has been taken. Call `Peer.barrier` first."""
        assert self.pending() == 0, f"unexpected: {self.event()}"

    def count(self):
        """Counts a message that arrived."""
        self.received += 1
        assert self.asked >= UNBOUNDED or self.received <= self.asked, f"{self.received} of {self.asked} requested"


class Publishing:
    """A channel over either transport, which provides `event`, `pending` and `force`."""

    def __init__(self):
        self.granted, self.sent = 0, 0  # Not counting item 0.
        self.acks, self.ended = [], None  # acks: (sequence, accepted)

    @property
    def credit(self) -> int:
        return self.granted - self.sent

    def send(self, data: bytes, *more, **options):
        """Sends under credit, waiting for it if necessary."""
        while self.credit <= 0:
            self.event()
            assert self.ended is None, f"the channel ended: {self.ended}"
        self.force(data, *more, **options)

    def pump(self):
        """Takes what has arrived, without waiting."""
        while self.ended is None and self.pending():
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

    def acknowledge(self, ack: tuple[int, int | None]):
        """Notes an acknowledgement, which must cover more than the previous one."""
        assert not self.acks or ack[0] > self.acks[-1][0], (self.acks, ack)
        assert not self.acks or ack[1] is None or ack[1] > self.acks[-1][1], (self.acks, ack)
        self.acks.append(ack)


class Observer:
    """What both transports build on publishes and control calls."""

    def publish(self, topic: str, *payloads: bytes, **more) -> list[int]:
        """Sends acknowledged publishes, one after another on the wire. Returns their sequences."""
        offers = [self.offer(topic, one, **more) for one in payloads]
        return [offer.sequence() for offer in offers]

    def numbers(self, topic: str, first: int, last: int) -> list[int]:
        """Publishes b"first"… b"last", one message each."""
        return self.publish(topic, *numbers(first, last))

    def info(self, topic: str) -> dict:
        return self.control("$SYS.topic.info", name=topic)

    def barrier(self, topic: str, trips: int = 2) -> dict | None:
        """Makes round trips to the shard that owns `topic`, after which everything in flight to this connection has
        arrived."""
        for _ in range(trips):
            try:
                info = self.info(topic)
            except StreamError:
                info = None
        return info

    def joined(self, topic: str, count: int):
        """Waits until the topic has exactly `count` subscriptions."""
        self.until(topic, lambda info: info["subscriptions"] == count)

    def parked(self, topic: str, count: int):
        """Waits until exactly `count` publishes to the topic are parked for lack of room."""
        self.until(topic, lambda info: info["parked"] == count)

    def until(self, topic: str, condition, timeout=DEADLINE) -> dict:
        """Waits until the topic exists and `condition` holds for its `info`."""
        return eventually(lambda: self.barrier(topic, 1), lambda info: info is not None and condition(info), timeout)

    def ledger(self, topic: str) -> list[dict]:
        """The rows of `$SYS.subscriptions` for the topic."""
        return [one for one in self.listing("$SYS.subscriptions") if one["topic"] == topic]


def eventually(observe, condition, timeout=DEADLINE):
    """Observes until the condition holds, and returns that observation."""
    end = time.monotonic() + timeout
    while True:
        seen = observe()
        if condition(seen):
            return seen
        if time.monotonic() > end:
            raise TimeoutError(f"still {seen}")
        time.sleep(0.005)  # Between observations, so as not to starve what is observed.


def arrive(subscriber: Observer, publisher: Observer, topic: str, first: int, last: int):
    """Publishes b"first"… b"last" and waits until they have reached the subscriber's shard, so that they precede its
    later requests."""
    publisher.numbers(topic, first, last)
    subscriber.barrier(topic)


def park(peer: Observer, topic: str, first: int, last: int) -> list:
    """Publishes b"first"… b"last", which are parked in this order; the topic must have no other parked publishes."""
    offers = []
    for one in numbers(first, last):
        offers.append(peer.offer(topic, one))
        peer.parked(topic, len(offers))
    return offers


def datas(messages: list[Message]) -> list[bytes]:
    return [one.data for one in messages]


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % i for i in range(first, last + 1)]


def refusal(subscription: Stream) -> End:
    """The error that refuses a subscription: its first event."""
    end = subscription.end()
    assert end.kind is not None, f"completed instead of an error: {end}"
    return end
