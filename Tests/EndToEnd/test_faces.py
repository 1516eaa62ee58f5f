"""One topic and three subscribers: over gRPC, over RSocket and by an event stream. Each stalls in turn; the stalled one
neither disturbs the others nor loses more than its buffer and policy allow, and its loss is reported in its own
protocol's form."""

import pytest

from common import *
from events import EventStream

pytestmark = pytest.mark.grpc  # The Observer's transport; the tests open the other two.

BATCH, BUFFER = 32, 1024  # Numbers of messages; BUFFER is a subscription's default.


class Faces:
    """The three subscribers, and a publisher that continues once all that are not stalled have received everything: the
    others never need more buffer than a batch."""

    def __init__(self, connect, curl, topic, reads: bool):
        self.topic, self.reads, self.next = topic, reads, 1
        self.body = bytes(8 << 10) if reads else b""
        self.writer = connect(over="rsocket")
        n, lazy = (UNBOUNDED, {"receive_buffer": 64 << 10}) if reads else (BATCH, {})
        peers = {transport: connect(over=transport, **lazy) for transport in ("grpc", "rsocket")}
        self.peers = {peer.peer: name for name, peer in peers.items()}
        self.subs = {name: peer.subscribe(topic, n=n, meta=True) for name, peer in peers.items()}
        self.subs["events"] = EventStream(curl, topic, n=n)
        self.writer.joined(topic, len(self.subs))

    def step(self, *live: str):
        """Publishes a batch of messages; each of the `live` subscribers receives it completely."""
        expected = [(i, 0) for i in range(self.next, self.next + BATCH)]
        self.writer.publish(self.topic, *(b"%08d" % i + self.body for i, _ in expected))
        self.next += BATCH
        for name in live:
            got = self.subs[name].take(BATCH)
            assert [(one.sequence, one.dropped) for one in got] == expected, name
            assert [one.data[:8] for one in got] == [b"%08d" % i for i, _ in expected]
            if not self.reads:
                self.subs[name].request(BATCH)

    def row(self, name: str) -> dict:
        """The broker's row for a subscription."""
        (row,) = [row for row in self.writer.ledger(self.topic) if self.peers.get(row["peer"], "events") == name]
        return row

    def stall(self, name: str):
        """Publishes until the subscriber `name` has lost messages. The other two have one more batch by then."""
        if self.reads and name == "events":
            self.subs[name].stop()
        if not self.reads:
            self.step(*self.subs.keys() - {name})  # Covered by its remaining credit.
        while (row := self.row(name))["dropped"] < 3 * BATCH or row["waiting"] < BUFFER:
            self.step(*self.subs.keys() - {name})  # The kernel may accept some more in between.
        assert row["waiting"] == BUFFER

    def resume(self, name: str, first: int):
        """Checks what the subscriber receives from `first` on: everything delivered before it stalled, then the newest
        messages that its buffer holds, with the loss reported in between. A client that stopped requesting has one
        loss; for one that stopped reading, the kernel may accept a few more messages after the first loss. Afterwards
        it receives the same as the others."""
        sub, last, got = self.subs[name], self.next - 1, []
        if self.reads and name == "events":
            sub.go()
        if not self.reads:
            sub.request(BUFFER)
        while not got or got[-1].sequence < last:
            got += sub.take(1)
        sequences = [one.sequence for one in got]
        assert sequences[-BUFFER:] == list(range(last - BUFFER + 1, last + 1))
        before = [first - 1, *sequences]
        assert [one.dropped for one in got] == [after - one - 1 for one, after in zip(before, sequences)]
        lost = last - first + 1 - len(got)
        assert lost >= 3 * BATCH
        if not self.reads:
            assert [one.dropped for one in got if one.dropped] == [lost] and got[BATCH].dropped == lost
            sub.request(BATCH)
        self.step(*self.subs)


@pytest.mark.parametrize("how", ["asks", "reads"])
def test_each_stalls_in_turn_and_disturbs_no_other(connect, curl, topic, how):
    """A subscriber stops requesting, or requests everything and stops reading; then it continues."""
    faces = Faces(connect, curl, topic, reads=how == "reads")
    faces.step(*faces.subs)
    for name in ("grpc", "rsocket", "events"):
        first = faces.next
        faces.stall(name)
        faces.resume(name, first)
    faces.writer.control("$SYS.topic.complete", name=topic)
    for name, sub in faces.subs.items():
        assert sub.end().kind is None, name


# What each policy keeps for a stalled event stream

FEW = 50  # The event stream's buffer.
KEPT = {"drop-oldest": lambda all: all[-FEW:], "drop-newest": lambda all: all[:FEW], "latest": lambda all: all[-1:],
        "replace-newest": lambda all: all[: FEW - 1] + all[-1:], "fail": lambda all: all[:FEW]}


def stalled(curl, a, b, topic, policy, how) -> tuple[EventStream, Stream, list[bytes]]:
    """An event stream for which the first message waits, another subscriber, and what was published."""
    sub = EventStream(curl, topic, f"overflow={policy}&buffer={FEW}", n=2 if how == "asks" else UNBOUNDED)
    beside = a.subscribe(topic)
    b.joined(topic, 2)
    if how == "reads":
        sub.stop()
    sent = []
    while not sent or row(a, b, topic)["waiting"] == 0:
        publish(b, topic, sent, 1)
    return sub, beside, sent


def publish(b, topic, sent: list[bytes], count: int):
    more = [b"%08d" % i + bytes(8 << 10) for i in range(len(sent) + 1, len(sent) + count + 1)]
    b.publish(topic, *more)
    sent += more


def row(a, b, topic) -> dict:
    """The broker's row for the event stream; `a` is the other subscriber."""
    (found,) = [row for row in b.ledger(topic) if row["peer"] != a.peer]
    return found


def go_on(sub: EventStream, how: str, count: int):
    sub.request(count) if how == "asks" else sub.go()


def told(got: list[Message]) -> list[int]:
    """The sequences. Messages missing between them must have been reported as lost."""
    before = [0, *(one.sequence for one in got)]
    assert [one.dropped for one in got] == [one.sequence - last - 1 for one, last in zip(got, before)]
    return [one.sequence for one in got]


@pytest.mark.parametrize("how", ["asks", "reads"])
@pytest.mark.parametrize("policy", KEPT)
def test_a_stalled_event_stream_keeps_what_its_policy_says(curl, a, b, topic, policy, how):
    sub, beside, sent = stalled(curl, a, b, topic, policy, how)
    publish(b, topic, sent, 3 * FEW)
    assert beside.data(len(sent)) == sent
    handed = row(a, b, topic)["delivered"]
    assert handed == 2 if how == "asks" else handed > 0
    every = list(range(1, len(sent) + 1))
    expected = every[:handed] + KEPT[policy](every[handed:])
    go_on(sub, how, 4 * FEW)
    got = sub.take(len(expected))
    if policy == "fail":
        end = sub.end()
        assert end.kind == Kind.OVERFLOW and told(got) == expected
        return
    publish(b, topic, sent, 1)  # Under drop-newest this message reports the loss.
    got += sub.take(1)
    assert told(got) == [*expected, len(sent)] and [one.data for one in got] == [sent[i - 1] for i in told(got)]
    assert beside.data(1) == sent[-1:]


@pytest.mark.parametrize("how", ["asks", "reads"])
def test_a_stalled_event_stream_that_blocks_holds_up_publishers_and_loses_nothing(curl, a, b, topic, how):
    sub, beside, sent = stalled(curl, a, b, topic, "block", how)
    publish(b, topic, sent, FEW - row(a, b, topic)["waiting"])
    offers = park(b, topic, len(sent) + 1, len(sent) + 5)
    assert beside.data(len(sent)) == sent and not any(offer.answered() for offer in offers)
    go_on(sub, how, 4 * FEW)
    assert [offer.sequence() for offer in offers] == [len(sent) + i for i in range(1, 6)]
    sent += numbers(len(sent) + 1, len(sent) + 5)
    got = sub.take(len(sent))
    assert told(got) == list(range(1, len(sent) + 1)) and datas(got) == sent
    assert beside.data(5) == sent[-5:]
