"""The topic's byte limit, and its effect on subscriptions with waiting messages."""

import pytest

from common import *

LIMIT = 256 << 10


@pytest.fixture(scope="module")
def tight(start):
    """A broker whose topics hold 256 KiB."""
    this = start("--retain-bytes", str(LIMIT))
    yield this
    this.stop()


def sized(b, topic, count, size=1000):
    for at in range(1, count + 1, 50):
        b.publish(topic, *(b"%08d" % i + bytes(size - 8) for i in range(at, min(at + 50, count + 1))))


def test_the_window_is_bounded_by_bytes(connect, tight, topic):
    a, b = connect(tight), connect(tight)
    sized(b, topic, 1000)
    info = a.control("$SYS.topic.info", name=topic)
    assert info["bytes"] <= LIMIT and info["retained"] == info["next"] - info["first"]
    assert LIMIT // 2 // 1000 <= info["retained"] <= LIMIT // 1000
    got = a.subscribe(f"{topic}?replay=all", meta=True).take(info["retained"])
    assert [one.sequence for one in got] == list(range(info["first"], 1001))


@pytest.mark.parametrize("policy", ["drop-oldest", "drop-newest", "replace-newest"])
def test_eviction_by_bytes_is_loss_at_the_head(connect, tight, topic, policy):
    """Whatever the policy: `buffer` has room for all messages, the log does not."""
    a, b = connect(tight), connect(tight)
    sub = a.subscribe(f"{topic}?buffer=100000&overflow={policy}", n=1, meta=True)
    a.joined(topic, 1)
    sized(b, topic, 1000)
    a.barrier(topic)
    told = a.ledger(topic)[0]
    assert told["dropped"] > 0 and told["delivered"] + told["waiting"] + told["dropped"] == 1000
    sub.request(UNBOUNDED)
    first, second, *others = sub.take(1 + told["waiting"])
    assert (first.sequence, first.dropped) == (1, 0)
    assert (second.sequence, second.dropped) == (2 + told["dropped"], told["dropped"])
    assert [one.sequence for one in others] == list(range(second.sequence + 1, 1001))
    assert all(one.dropped == 0 for one in others)


def test_eviction_by_bytes_under_fail_delivers_the_rest_and_then_fails(connect, tight, topic):
    a, b = connect(tight), connect(tight)
    sub = a.subscribe(f"{topic}?buffer=100000&overflow=fail", n=1, meta=True)
    a.joined(topic, 1)
    sized(b, topic, 350)  # More messages than the log can hold.
    a.barrier(topic)
    sub.request(UNBOUNDED)
    got = sub.rest()
    assert sub.ended.kind == Kind.OVERFLOW and sub.ended.text.startswith("overflow: bytes")
    assert got[0].sequence == 1 and len(got) > 1
    assert [one.sequence for one in got[1:]] == list(range(got[1].sequence, got[1].sequence + len(got) - 1))


def test_a_small_buffer_is_no_matter_of_bytes(connect, tight, topic):
    a, b = connect(tight), connect(tight)
    sub = a.subscribe(f"{topic}?buffer=5", n=1, meta=True)
    a.joined(topic, 1)
    sized(b, topic, 1000)
    a.barrier(topic)
    sub.request(10)
    expected = [(1, 0), (996, 994)] + [(i, 0) for i in range(997, 1001)]
    assert [(one.sequence, one.dropped) for one in sub.take(6)] == expected


def test_grants_of_a_channel_fit_the_byte_limit(connect, tight, topic):
    """With a `block` subscription that has a wide buffer, a channel of large messages loses nothing."""
    a, b = connect(tight), connect(tight)
    sub = a.subscribe(f"{topic}?overflow=block&buffer=100000", n=1, meta=True)
    a.joined(topic, 1)
    channel, body, sent, got = b.channel(topic, bytes(8 << 10)), bytes(8 << 10), 1, []
    while len(got) < 300:
        b.barrier(topic)
        channel.pump()
        assert channel.ended is None, channel.ended
        while channel.credit > 0 and sent < 300:
            channel.force(body)
            sent += 1
        sub.request(10)
        a.barrier(topic)
        while sub.pending():
            got += sub.take(1)
            assert (got[-1].sequence, got[-1].dropped) == (len(got), 0)


def test_memory_stays_bounded_under_stalled_subscribers(connect, tight, topic):
    """G3: 40 connections that read nothing, each with a subscription and its buffer."""
    b = connect(tight, over="rsocket")  # This client has a lot to send.
    stalled = [connect(tight, receive_buffer=16 << 10) for _ in range(40)]
    for i, this in enumerate(stalled):
        this.subscribe(f"{topic}?buffer={1 + 100 * i}")
    b.joined(topic, len(stalled))
    sized(b, topic, 100)
    before = tight.status("VmRSS")
    sized(b, topic, 30_000)
    grown = tight.status("VmHWM") - before
    assert grown <= LIMIT + 40 * (256 << 10) + (8 << 20), f"grew by {grown >> 10} KiB"
    assert b.control("$SYS.topic.info", name=topic)["subscriptions"] == 40
