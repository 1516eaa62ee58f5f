"""The three ways of publishing: fire-and-forget, acknowledged, channel."""

import pytest

from common import *


@pytest.mark.rsocket
def test_fire_is_delivered(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    for i in range(1, 101):
        b.fire(topic, b"%d" % i)
    assert sub.data(100) == numbers(1, 100)


def test_acknowledged_is_answered_with_the_sequence(a, b, topic):
    assert b.publish(topic, b"x") == [1]
    assert b.publish(topic, b"y", b"z") == [2, 3]
    assert a.publish(topic, b"w") == [4]


def test_acknowledged_means_in_the_window(a, b, topic):
    """G8: a subscription made after the acknowledgement finds the message."""
    for i in range(1, 51):
        assert b.numbers(topic, i, i) == [i]
        assert a.subscribe(f"{topic}?replay=1", n=1).data(1) == [b"%d" % i]


def test_a_publish_creates_its_topic(a, b, topic):
    b.numbers(topic, 1, 1)
    info = a.info(topic)
    assert (info["state"], info["first"], info["next"], info["published"]) == ("live", 1, 2, 1)


def test_publishers_interleave_into_one_sequence(connect, topic):
    peers = [connect() for _ in range(4)]
    sub = peers[0].subscribe(topic, meta=True)
    peers[0].joined(topic, 1)
    offers = [peer.offer(topic, b"%d" % i) for i in range(50) for peer in peers]
    given = [offer.sequence() for offer in offers]
    assert sorted(given) == list(range(1, 201))
    assert [one.sequence for one in sub.take(200)] == list(range(1, 201))


@pytest.mark.rsocket
def test_one_publishers_messages_keep_their_order(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    for i in range(500):
        b.fire(topic, b"%d" % i)
    assert sub.data(500) == numbers(0, 499)


def test_channel(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    channel = b.channel(topic, b"0")
    for i in range(1, 3000):
        channel.send(b"%d" % i)
    channel.acknowledged(3000)
    assert sub.data(3000) == numbers(0, 2999)
    channel.complete()
    assert channel.end() == End()
    assert channel.acks[-1] == (3000, 3000)


def test_channel_item_0_is_free(a, b, topic):
    """Item 0 is appended whether or not any credit was granted, and costs none."""
    sub = a.subscribe(f"{topic}?overflow=block&buffer=4", n=1)
    a.joined(topic, 1)
    channel = b.channel(topic, b"0")
    channel.acknowledged(1)
    channel.until(lambda: channel.granted >= 4)
    b.barrier(topic)
    channel.pump()
    assert channel.granted == 4
    assert sub.data(1) == [b"0"]


def test_channel_sees_no_request_n_before_item_0_is_appended(a, b, topic):
    sub = full(a, b, topic)
    channel = b.channel(topic, b"item 0")
    b.barrier(topic)
    assert channel.pending() == 0
    sub.request(1)
    assert sub.data(1) == [b"full"]
    channel.acknowledged(3)
    sub.request(10)
    channel.until(lambda: channel.granted)
    assert sub.data(1) == [b"item 0"]


def full(a, b, topic) -> Stream:
    """A `block` subscription of buffer 1 with one message seen and one, b"full", waiting."""
    sub = a.subscribe(f"{topic}?overflow=block&buffer=1", n=1)
    a.joined(topic, 1)
    b.publish(topic, b"seen", b"full")
    assert sub.data(1) == [b"seen"]
    return sub


def test_channel_beyond_the_credit_is_rejected(a, b, topic):
    sub = a.subscribe(f"{topic}?overflow=block&buffer=4", n=1)
    a.joined(topic, 1)
    channel = b.channel(topic, b"0")
    channel.until(lambda: channel.granted >= 4)
    for i in range(1, channel.granted + 2):
        channel.force(b"%d" % i)
    assert channel.end().kind == Kind.REJECTED
    b.barrier(topic)
    sub.request(100)
    assert sub.data(5) == numbers(0, 4)
    assert b.publish(topic, b"the topic lives") == [6]


def test_channel_beyond_the_credit_harms_no_other_stream(a, b, topic):
    a.subscribe(f"{topic}?overflow=block&buffer=1", n=1)
    a.joined(topic, 1)
    other = b.subscribe(f"{topic}.other")
    good, bad = b.channel(f"{topic}.other", b"0"), b.channel(topic, b"0")
    for _ in range(5000):
        bad.force(b"x")
    assert bad.end().kind == Kind.REJECTED
    good.send(b"1")
    good.acknowledged(2)
    assert other.data(2) == numbers(0, 1)


@pytest.mark.rsocket
def test_channel_acknowledgements_cost_the_clients_credit_and_conflate(a, b, topic):
    channel = b.channel(topic, b"0", acks=1)
    channel.until(lambda: channel.acks)
    assert channel.acks == [(1, 1)]
    for i in range(1, 51):
        channel.send(b"%d" % i)
    a.until(topic, lambda info: info["published"] == 51)
    b.barrier(topic)
    channel.pump()
    assert channel.acks == [(1, 1)]
    channel.request(1)
    channel.until(lambda: len(channel.acks) == 2)
    assert channel.acks[-1] == (51, 51)
    channel.request(5)
    channel.send(b"51")
    channel.acknowledged(52)


def test_channel_acknowledgements_count_this_channels_messages(a, b, topic):
    b.numbers(topic, 1, 10)
    channel = b.channel(topic, b"x")
    channel.until(lambda: channel.acks)
    assert channel.acks == [(11, 1)]
    b.numbers(topic, 12, 20)
    channel.send(b"y")
    channel.acknowledged(21)
    assert channel.acks[-1] == (21, 2)


def test_channel_completion_comes_after_the_last_acknowledgement(b, topic):
    channel = b.channel(topic, b"0")
    for i in range(1, 20):
        channel.send(b"%d" % i)
    channel.complete()
    assert channel.end() == End()
    assert channel.acks[-1] == (20, 20)


@pytest.mark.rsocket
def test_channel_completion_needs_no_credit_and_acknowledges_everything(b, topic):
    channel = b.channel(topic, b"0", acks=1)
    channel.until(lambda: channel.acks)
    for i in range(1, 10):
        channel.send(b"%d" % i)
    channel.complete()
    assert channel.end() == End()
    assert b.info(topic)["published"] == 10


def test_channel_complete_with_item_0(a, b, topic, transport):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    channel = b.channel(topic, b"only", complete=True)
    assert channel.end() == End()
    assert channel.granted == 0 or transport != "rsocket"  # If completion arrives with the item, no grant is due.
    assert sub.data(1) == [b"only"]


def test_channel_complete_with_its_last_item(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    channel = b.channel(topic, b"0")
    channel.send(b"1", last=True)
    assert channel.end() == End()
    assert sub.data(2) == numbers(0, 1)


def test_the_topic_goes_on_after_a_channel(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    b.channel(topic, b"1", complete=True).end()
    failing = b.channel(topic, b"2")
    failing.acknowledged(2)
    failing.fail("my own trouble")
    cancelled = b.channel(topic, b"3")
    cancelled.acknowledged(3)
    cancelled.cancel()
    b.until(topic, lambda info: info["publishers"] == 0)
    b.numbers(topic, 4, 4)
    assert sub.data(4) == numbers(1, 4)


def test_channels_by_turns_on_one_connection(a, b, topic):
    """Each channel keeps its order; the order between channels is undefined."""
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    channels = [b.channel(topic, b"%d:0" % at) for at in range(2)]
    for i in range(1, 101):
        for at, channel in enumerate(channels):
            channel.send(b"%d:%d" % (at, i))
    for channel in channels:
        channel.until(lambda: channel.acks and channel.acks[-1][1] == 101)
    assert max(channel.acks[-1][0] for channel in channels) == 202
    got = sub.data(202)
    for at in range(2):
        assert [one for one in got if one.startswith(b"%d:" % at)] == [b"%d:%d" % (at, i) for i in range(101)]


def test_channel_credit_is_given_again_as_it_is_used(b, topic):
    """Publishes far more than any single grant, without a subscriber."""
    channel = b.channel(topic, b"0")
    for _ in range(10_000):
        channel.send(b"x")
    channel.acknowledged(10_001)


@pytest.mark.parametrize("size", [(1 << 20) - 1, 1 << 20])
def test_a_message_of_the_largest_size(a, b, topic, size):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    body = bytes(range(256)) * (size // 256 + 1)
    assert b.publish(topic, body[:size]) == [1]
    assert sub.data(1) == [body[:size]]


@pytest.mark.parametrize("size", [(1 << 20) + 1, 2 << 20, 15 << 20])
def test_a_message_too_big_is_rejected(a, b, topic, size):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    with pytest.raises(StreamError) as refused:
        b.publish(topic, bytes(size))
    assert refused.value.kind == Kind.REJECTED
    assert b.numbers(topic, 1, 1) == [1]
    assert sub.data(1) == [b"1"]


def test_a_message_too_big_is_rejected_on_a_channel(b, topic):
    channel = b.channel(topic, b"0")
    channel.send(bytes((1 << 20) + 1))
    assert channel.end().kind == Kind.REJECTED
    assert b.publish(topic, b"the topic lives") == [2]


@pytest.mark.rsocket
def test_a_fire_too_big_is_dropped(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    b.fire(topic, bytes(2 << 20))
    b.fire(topic, b"good")
    assert sub.data(1) == [b"good"]


def test_published_and_publishers_are_told(a, b, topic):
    channel = b.channel(topic, b"0")
    channel.acknowledged(1)
    info = a.info(topic)
    assert (info["published"], info["publishers"]) == (1, 1)
    channel.complete()
    channel.end()
    a.until(topic, lambda info: info["publishers"] == 0)
