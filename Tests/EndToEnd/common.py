"""What the tests of the broker's behaviour share over every transport: events, errors, what a client can look up.

A client is a `Peer` of `client.py` (RSocket) or of `grpc_client.py` (gRPC), on a connection of its own. Both have

    subscribe(path, n=, meta=)  a `Subscription`: request, cancel, event, take, data, end, rest, pending, nothing
    offer(topic, data)          an acknowledged publish under way, an `Offer`: answered, sequence, cancel
    publish, numbers            acknowledged publishes, waited for
    channel(path, first)        a `Channel`: send, force, complete, fail, cancel, event, pump, until, acknowledged, end
    control, listing            the control calls, by the names and with the fields that RSocket gives them
    peer, end, close            the connection: its address as the broker tells it, its end by the broker, and by us

and what `Observer` makes of these. A path is `TOPIC?option=value&…`. A test that uses nothing else runs over both.
Requests of one connection reach the broker in order over RSocket alone: a test that needs one before another waits
for what the first does.
"""

import enum
import time
from dataclasses import dataclass, field

DEADLINE = 10.0  # Seconds that anything expected may take; reached only when a test fails.
UNBOUNDED = 0x7FFFFFFF


class Kind(enum.Enum):
    """What an error means, by whichever code its transport says it."""

    INVALID = "a bad name, option or demand"
    REJECTED = "not allowed, not there, beyond a limit, or the topic has ended"
    OVERFLOW = "overflow"
    FAILED = "the topic failed"
    CANCELLED = "cancelled"
    OTHER = "something else"


def application(text: str) -> Kind:
    """The kind of an error that its text tells."""
    if text.startswith("overflow:"):
        return Kind.OVERFLOW
    return Kind.FAILED if text.startswith("topic failed:") else Kind.OTHER


class StreamError(Exception):
    """A request was answered by an error. `code` is the transport's own."""

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
    """The last event of a stream. `dropped` is None where the broker told nothing of it; `code` is the transport's."""

    kind: Kind | None = None  # None: completed.
    text: str = ""
    dropped: int | None = None
    code: object = field(default=None, compare=False)
    info: Message | None = field(default=None, compare=False)  # What RSocket's completion tells beside it.


def failed(message: str) -> End:
    """The end of a topic that failed."""
    return End(Kind.FAILED, f"topic failed: {message}")


class Stream:
    """A subscription of either transport, which provides `event` and `pending`."""

    def __init__(self, n: int):
        self.asked, self.received, self.ended = n, 0, None

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
        assert self.pending() == 0, f"unexpected: {self.event()}"

    def count(self):
        """Takes note of a message that came."""
        self.received += 1
        assert self.asked >= UNBOUNDED or self.received <= self.asked, f"{self.received} of {self.asked} requested"


class Publishing:
    """A channel of either transport, which provides `event`, `pending` and `force`."""

    def __init__(self):
        self.granted, self.sent = 0, 0  # Item 0 is not among them.
        self.acks, self.ended = [], None  # acks: (sequence, accepted)

    @property
    def credit(self) -> int:
        return self.granted - self.sent

    def send(self, data: bytes, *more, **options):
        """Within the credit, for which it waits."""
        while self.credit <= 0:
            self.event()
            assert self.ended is None, f"the channel ended: {self.ended}"
        self.force(data, *more, **options)

    def pump(self):
        """Takes in what has arrived, without waiting."""
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
        """Takes note of an acknowledgement that came: of more than the one before."""
        assert not self.acks or ack[0] > self.acks[-1][0], (self.acks, ack)
        assert not self.acks or ack[1] is None or ack[1] > self.acks[-1][1], (self.acks, ack)
        self.acks.append(ack)


class Observer:
    """What a client of either transport makes of its publishes and control calls."""

    def publish(self, topic: str, *payloads: bytes, **more) -> list[int]:
        """Acknowledged publishes, one after the other on the wire; returns their sequences."""
        offers = [self.offer(topic, one, **more) for one in payloads]
        return [offer.sequence() for offer in offers]

    def numbers(self, topic: str, first: int, last: int) -> list[int]:
        """Publishes b"first"… b"last", one message each."""
        return self.publish(topic, *numbers(first, last))

    def info(self, topic: str) -> dict:
        return self.control("$SYS.topic.info", name=topic)

    def barrier(self, topic: str, trips: int = 2) -> dict | None:
        """Round trips to the shard that owns `topic`: what was on its way to this connection before has arrived."""
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
        """Waits until exactly `count` publishes of the topic are parked for lack of room."""
        self.until(topic, lambda info: info["parked"] == count)

    def until(self, topic: str, condition, timeout=DEADLINE) -> dict:
        """Waits until `condition` holds of what `info` tells, once the topic has come into being."""
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


def arrive(subscriber: Observer, publisher: Observer, topic: str, first: int, last: int):
    """Publishes b"first"… b"last" and waits until they have reached the side of the subscriber, so that what it
    asks for afterwards comes after them."""
    publisher.numbers(topic, first, last)
    subscriber.barrier(topic)


def park(peer: Observer, topic: str, first: int, last: int) -> list:
    """Publishes of b"first"… b"last" that wait for room in this order, the only ones of the topic that do."""
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
    """The error by which a subscription is refused: the first thing that comes."""
    end = subscription.end()
    assert end.kind is not None, f"completed, where an error was due: {end}"
    return end
