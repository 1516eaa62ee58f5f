"""`block`: publishers are granted no more credit than there is room for."""

import json
import time

import pytest

from common import *


def blocked(a, b, topic, buffer=1) -> Stream:
    """A full `block` subscription: one message seen, `buffer` waiting."""
    sub = a.subscribe(f"{topic}?overflow=block&buffer={buffer}", n=1, meta=True)
    a.joined(topic, 1)
    b.numbers(topic, 1, 1 + buffer)
    sub.take(1)
    return sub


def test_an_acknowledged_publish_is_parked_until_there_is_room(a, b, topic):
    sub = blocked(a, b, topic)
    (offer,) = park(b, topic, 3, 3)
    assert not offer.answered()
    sub.request(1)
    assert offer.sequence() == 3
    sub.request(1)
    assert datas(sub.take(2)) == numbers(2, 3)


def test_parked_publishes_go_in_order_of_arrival(connect, a, topic):
    peers = [connect() for _ in range(4)]
    sub = blocked(a, peers[0], topic)
    offers = []
    for i in range(3, 11):
        peer = peers[i % 4]
        offers.append(peer.offer(topic, b"%d" % i))
        peer.parked(topic, len(offers))  # Wait for the publish to arrive before the next is sent.
    sub.request(100)
    assert [offer.sequence() for offer in offers] == list(range(3, 11))
    assert datas(sub.take(9)) == numbers(2, 10)


def test_room_lets_as_many_go_as_there_is_room_for(a, b, topic):
    sub = blocked(a, b, topic, buffer=2)
    offers = park(b, topic, 4, 8)
    for i in range(3):
        sub.request(1)
        assert offers[i].sequence() == 4 + i
        b.barrier(topic)
        assert not any(offer.answered() for offer in offers[i + 1 :])
    assert [one.dropped for one in sub.take(3)] == [0, 0, 0]


def drops(peer, topic) -> dict[str, int]:
    """The drops that the broker reports in total and for a topic."""
    told = peer.control("$SYS.info") | peer.info(topic)
    return {name: figure for name, figure in told.items() if "drop" in name}


@pytest.mark.rsocket
def test_a_fire_without_room_is_dropped_and_counted(a, b, topic):
    sub = blocked(a, b, topic)
    before = drops(a, topic)
    b.fire(topic, b"lost")
    b.fire(topic, b"lost")
    b.barrier(topic)
    assert a.info(topic)["next"] == 3
    assert any(count - before[name] == 2 for name, count in drops(a, topic).items())
    sub.request(5)
    assert datas(sub.take(1)) == [b"2"]
    a.barrier(topic)  # The room has been reported.
    b.fire(topic, b"3")
    assert datas(sub.take(1)) == [b"3"]


def test_a_channel_is_granted_what_there_is_room_for(a, b, topic):
    sub = a.subscribe(f"{topic}?overflow=block&buffer=10", n=1)
    a.joined(topic, 1)
    channel = b.channel(topic, b"0")
    channel.until(lambda: channel.granted >= 10)
    assert sub.data(1) == [b"0"]
    b.barrier(topic)
    channel.pump()
    assert channel.granted == 10
    for i in range(1, 11):
        channel.send(b"%d" % i)
    b.barrier(topic)
    channel.pump()
    assert channel.credit == 0
    sub.request(4)
    assert sub.data(4) == numbers(1, 4)
    channel.until(lambda: channel.credit >= 1)
    b.barrier(topic)
    channel.pump()
    assert channel.granted <= 14


def test_a_channel_is_paced_by_the_slowest_block_subscription(connect, b, topic):
    fast, slow = connect(), connect()
    quick = fast.subscribe(f"{topic}?overflow=block&buffer=100")
    late = slow.subscribe(f"{topic}?overflow=block&buffer=5", n=1)
    b.joined(topic, 2)
    channel = b.channel(topic, b"0")
    for i in range(1, 6):
        channel.send(b"%d" % i)
    assert quick.data(6) == numbers(0, 5)
    b.barrier(topic)
    channel.pump()
    assert channel.credit == 0
    for i in range(6, 100):
        late.request(1)
        channel.send(b"%d" % i)
        assert quick.data(1) == [b"%d" % i]
    late.request(100)
    assert late.data(100) == numbers(0, 99)


def test_a_channel_through_a_narrow_buffer_loses_nothing(a, b, topic):
    sub = a.subscribe(f"{topic}?overflow=block&buffer=3", n=2)
    a.joined(topic, 1)
    channel, got, sent = b.channel(topic, b"0"), [], 1
    while len(got) < 1000:
        while sent < 1000 and (channel.credit > 0 or channel.pending()):
            if channel.credit > 0:
                channel.force(b"%d" % sent)
                sent += 1
            else:
                channel.event()
        if sub.asked == sub.received:
            sub.request(2)
        if sub.pending() or sent == 1000:
            got += sub.data(1)
        else:
            b.barrier(topic)
            a.barrier(topic)
    assert got == numbers(0, 999)


def test_only_what_arrived_after_joining_counts(a, b, topic):
    """A `block` subscription with a large replay still has room for its whole buffer."""
    b.numbers(topic, 1, 20)
    sub = a.subscribe(f"{topic}?overflow=block&buffer=5&replay=all", n=1)
    a.joined(topic, 1)
    assert b.numbers(topic, 21, 25) == list(range(21, 26))
    (offer,) = park(b, topic, 26, 26)
    assert not offer.answered()
    sub.request(100)
    assert offer.sequence() == 26
    assert sub.data(26) == numbers(1, 26)


def test_others_are_paced_but_lose_nothing_beside_a_block_subscription(connect, b, topic):
    a, other = connect(), connect()
    sub = blocked(a, b, topic)
    plain = other.subscribe(topic)
    b.joined(topic, 2)
    offers = park(b, topic, 3, 5)
    other.barrier(topic)
    plain.nothing()
    sub.request(10)
    assert plain.data(3) == numbers(3, 5)
    assert [offer.sequence() for offer in offers] == [3, 4, 5]


@pytest.mark.parametrize("how", ["cancel", "connection"])
def test_room_comes_back_when_the_block_subscription_leaves(connect, b, topic, how):
    a = connect()
    sub = blocked(a, b, topic)
    (offer,) = park(b, topic, 3, 3)
    channel = b.channel(topic, b"4")
    b.parked(topic, 2)
    assert not offer.answered()
    if how == "cancel":
        sub.cancel()
    else:
        a.close()
    assert offer.sequence() == 3
    channel.until(lambda: channel.granted)
    assert channel.acks == [(4, 1)]


def test_a_parked_publish_whose_caller_cancels_is_answered_no_more(a, b, topic):
    """Whether the message is appended is undefined: the cancel discards the answer."""
    sub = blocked(a, b, topic)
    (offer,) = park(b, topic, 3, 3)
    offer.cancel()
    b.barrier(topic)
    sub.request(10)
    assert datas(sub.take(1)) == [b"2"]
    assert b.publish(topic, b"next")[0] in (3, 4)
    assert not offer.answered()


def test_a_parked_publish_of_a_lost_connection_leaves_the_topic_working(connect, a, b, topic):
    sub, lost = blocked(a, b, topic), connect()
    park(lost, topic, 3, 3)
    lost.close()
    sub.request(10)
    assert b.publish(topic, b"next")[0] in (3, 4)
    assert sub.take(1)[0].data == b"2"


def test_several_channels_share_the_room_fairly(connect, a, topic):
    """Four channels and one narrow reader: no channel is starved."""
    sub = a.subscribe(f"{topic}?overflow=block&buffer=8", n=1)
    a.joined(topic, 1)
    peers = [connect() for _ in range(4)]
    channels = [peer.channel(topic, b"%d" % i) for i, peer in enumerate(peers)]
    seen = [0] * 4
    sub.request(3)
    for one in sub.data(4):
        seen[int(one)] += 1
    end = time.monotonic() + DEADLINE
    while sum(seen) < 200 and time.monotonic() < end:
        for i, (peer, channel) in enumerate(zip(peers, channels)):
            peer.barrier(topic)
            channel.pump()
            if channel.credit > 0:
                channel.force(b"%d" % i)
                peer.barrier(topic)
        sub.request(1)
        a.barrier(topic)
        while sub.pending():
            seen[int(sub.data(1)[0])] += 1
    assert sum(seen) >= 200 and min(seen) >= 20, seen


def test_a_grant_unused_for_a_second_loses_its_reservation_but_stays_valid(connect, a, b, topic):
    """A channel that does not use its grant delays others by about a second at most; later use overshoots."""
    sub = a.subscribe(f"{topic}?overflow=block&buffer=2", n=1, meta=True)
    a.joined(topic, 1)
    idle = b.channel(topic, b"0")
    idle.until(lambda: idle.granted == 2)
    other = connect()
    offers = [other.offer(topic, b"%d" % i) for i in (1, 2)]
    assert [offer.sequence() for offer in offers] == [2, 3]
    idle.force(b"3")
    idle.force(b"4")
    sub.request(10)
    assert datas(sub.take(5)) == numbers(0, 4)
    assert idle.ended is None


def test_a_subscription_that_has_not_blocked_is_no_publishers_matter(a, b, topic):
    """Without a `block` subscription publishers are not paced, however little is requested."""
    a.subscribe(f"{topic}?buffer=1&overflow=drop-oldest", n=1)
    a.subscribe(f"{topic}?buffer=1&overflow=fail", n=1)
    a.joined(topic, 2)
    assert b.numbers(topic, 1, 500) == list(range(1, 501))


def test_the_log_tells_which_block_subscription_failed(begin):
    broker = begin("--block-limit", "1s")
    slow = broker.peer()
    slow.subscribe("work?overflow=block&buffer=1", n=1)
    slow.joined("work", 1)
    slow.numbers("work", 1, 2)
    broker.peer().publish("work", b"3")
    told = eventually(lambda: [json.loads(line) for line in list(broker.log) if "blocking subscription" in line], bool)
    assert [(line["level"], line["topic"]) for line in told] == [("warn", "work")] and "peer" in told[0]
