"""The cases of the public RSocket test kit, each under its name, applied to a broker of topics: with rsocket-py over
RSocket, and with grpcio over HTTP/2. The kit's servers respond from scripts; here a topic holds the scripted messages.
The channel cases are in test_kit_channels.py.
"""

import pytest

from common import *

CLIENTS = ["rsocket-py", "grpc"]

WAITS = "?replay=all"  # A script of the kit begins when its stream does.


def script(b, topic, *items: bytes, end: str | None = "complete") -> str:
    """Creates a topic that holds these messages, ended or not. Returns the route that subscribes to all of it."""
    if items:
        b.publish(topic, *items)
    else:
        held = b.subscribe(topic, n=1)  # A topic is created even if it stays empty.
        b.joined(topic, 1)
        held.cancel()
    if end:
        b.control(f"$SYS.topic.{end}", name=topic, **({"message": "broken"} if end == "fail" else {}))
    return topic + WAITS


BROKEN = failed("broken")


def nothing_more(peer, topic, *subs):
    """Everything the broker sent has arrived, and none of it is for these streams."""
    peer.barrier(topic)
    for sub in subs:
        sub.nothing()


# Fire-and-forget


@pytest.mark.rsocket
def test_fire_and_forget(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    b.fire(topic, b"a")
    assert sub.data(1) == [b"a"]


@pytest.mark.rsocket
def test_fire_and_forget_2(a, b, topic):
    """A publish that is refused, because the topic has ended, is not answered either."""
    sub = a.subscribe(script(b, topic, b"c"))
    assert datas(sub.rest()) == [b"c"]
    b.fire(topic, b"d")
    b.until(topic, lambda info: info["fire_and_forget_dropped"] == 1)
    assert datas(a.subscribe(topic + WAITS).rest()) == [b"c"]


# Request and response: an acknowledged publish, answered with the message's sequence


def test_request_response_pass(a, topic):
    assert a.offer(topic, b"a").sequence() == 1


def test_request_response_error(a, topic):
    with pytest.raises(StreamError) as refused:
        a.offer("not a name", b"c").sequence()
    assert refused.value.kind is Kind.INVALID and refused.value.text


def parked(a, b, topic):
    """A `block` subscription without room: a publish to its topic is not answered."""
    sub = a.subscribe(f"{topic}?overflow=block&buffer=1", n=1)
    a.joined(topic, 1)
    b.publish(topic, b"1", b"2")
    return sub


def test_request_response_cancel(a, b, topic):
    sub = parked(a, b, topic)
    (offer,) = park(b, topic, 3, 3)
    offer.cancel()
    b.parked(topic, 0)
    assert not offer.answered()
    sub.request(5)
    assert sub.data(2) == numbers(1, 2)
    assert b.publish(topic, b"4") == [3]


def test_request_response_interleave(a, topic):
    one, other = a.offer(f"{topic}.i", b"homer"), a.offer(f"{topic}.k", b"bart")
    third = a.offer(f"{topic}.m", b"seymour")
    assert [third.sequence(), other.sequence(), one.sequence()] == [1, 1, 1]
    told = [a.subscribe(f"{topic}.{name}?replay=1").data(1) for name in "ikm"]
    assert told == [[b"homer"], [b"bart"], [b"seymour"]]


def test_request_response_multiple_succession(a, topic):
    offers = [a.offer(topic, b"aa") for _ in range(4)]
    assert sorted(offer.sequence() for offer in offers) == [1, 2, 3, 4]


def test_request_response_request_after_cancel(a, b, topic):
    """After the cancel, room that becomes free neither answers nor publishes the request."""
    sub = parked(a, b, topic)
    (offer,) = park(b, topic, 3, 3)
    offer.cancel()
    b.parked(topic, 0)
    sub.request(100)
    assert sub.data(2) == numbers(1, 2)
    nothing_more(a, topic, sub)
    assert not offer.answered()


def test_request_response_multiple_cancel(a, b, topic):
    sub = parked(a, b, topic)
    offers = park(b, topic, 3, 6)
    for offer in offers:
        offer.cancel()
    b.parked(topic, 0)
    sub.request(100)
    assert sub.data(2) == numbers(1, 2)
    assert not any(offer.answered() for offer in offers)
    assert b.publish(topic, b"7") == [3]


# Request and stream: a subscription


def test_request_stream_empty(a, b, topic):
    sub = a.subscribe(script(b, topic), n=1)
    assert sub.end() == End()


def test_request_stream_single(a, b, topic):
    sub = a.subscribe(script(b, topic, b"jimbo"), n=1)
    assert datas(sub.rest()) == [b"jimbo"] and sub.ended == End()


def test_request_stream_multivalue(a, b, topic):
    sub = a.subscribe(script(b, topic, b"a", b"b", b"c"), n=3)
    assert datas(sub.rest()) == [b"a", b"b", b"c"] and sub.ended == End()


def test_request_stream_infinite(a, b, topic):
    sub = a.subscribe(script(b, topic, *numbers(1, 26), end=None), n=3)
    assert sub.data(3) == numbers(1, 3)
    sub.request(10)
    assert sub.data(10) == numbers(4, 13)
    nothing_more(a, topic, sub)


def test_request_stream_error(a, b, topic):
    sub = a.subscribe(script(b, topic, end="fail"), n=1)
    assert sub.end() == BROKEN


def test_request_stream_value_then_error(a, b, topic):
    sub = a.subscribe(script(b, topic, b"a", end="fail"), n=10)
    assert datas(sub.rest()) == [b"a"] and sub.ended == BROKEN


def test_request_stream_flow_control(a, b, topic):
    sub = a.subscribe(script(b, topic, *numbers(1, 26)), n=4)
    assert sub.data(4) == numbers(1, 4)
    nothing_more(a, topic, sub)


def test_request_stream_flow_control_2(a, b, topic):
    """More is requested than exists."""
    sub = a.subscribe(script(b, topic, *numbers(1, 4)), n=10)
    assert datas(sub.rest()) == numbers(1, 4) and sub.ended == End()
    nothing_more(a, topic)
    assert sub.pending() == 0


def test_request_stream_cancel(a, b, topic):
    path = script(b, topic, *numbers(1, 4))
    sub = a.subscribe(path, n=1)
    sub.cancel()
    a.joined(topic, 0)
    a.barrier(topic)
    while sub.pending():
        sub.take(1)
    assert sub.received <= 1 and sub.ended is None


def test_request_stream_interleave(a, b, topic):
    one = a.subscribe(script(b, f"{topic}.o", *numbers(1, 2)), n=1)
    other = a.subscribe(script(b, f"{topic}.q", *numbers(1, 4), end="fail"), n=2)
    one.request(1)
    assert datas(one.rest()) == numbers(1, 2) and one.ended == End()
    assert other.data(2) == numbers(1, 2)
    other.request(2)
    assert datas(other.rest()) == numbers(3, 4) and other.ended == BROKEN


def test_request_stream_multiple_succession(a, b, topic):
    path = script(b, topic, *numbers(1, 4))
    for sub in [a.subscribe(path, n=1) for _ in range(4)]:
        assert sub.data(1) == [b"1"]


def test_request_stream_multiple_cancel(a, b, topic):
    path = script(b, topic, *numbers(1, 4))
    subs = [a.subscribe(path, n=1) for _ in range(4)]
    for sub in subs:
        sub.cancel()
        sub.cancel()
    a.joined(topic, 0)
    assert a.subscribe(path, n=1).data(1) == [b"1"]


def test_request_stream_after_cancel(a, b, topic):
    sub = a.subscribe(script(b, topic, *numbers(1, 5)), n=1)
    assert sub.data(1) == [b"1"]
    sub.cancel()
    a.joined(topic, 0)
    sub.request(1)
    nothing_more(a, topic, sub)
    assert sub.received == 1


# Several clients


def test_request_response_concurrent(connect, topic):
    one, other = connect(), connect()
    offers = [one.offer(f"{topic}.{name}", name.encode()) for name in "imk"] + [other.offer(f"{topic}.k", b"k")]
    assert sorted(offer.sequence() for offer in offers) == [1, 1, 1, 2]
    for peer in (one, other):
        assert peer.subscribe(f"{topic}.k{WAITS}").data(2) == [b"k", b"k"]


def test_request_response_sequential(connect, topic):
    for turn in (1, 2):
        peer = connect()
        offers = [peer.offer(f"{topic}.{name}", name.encode()) for name in "ikm"]
        assert [offer.sequence() for offer in offers] == [turn] * 3
        peer.close()


def test_request_stream_concurrent(connect, b, topic):
    path = script(b, topic, *numbers(1, 6))
    subs = [connect().subscribe(path, n=3) for _ in range(2)]
    for sub in subs:
        assert sub.data(3) == numbers(1, 3)
    nothing_more(b, topic, *subs)
    for sub in subs:
        sub.request(3)
    for sub in subs:
        assert datas(sub.rest()) == numbers(4, 6) and sub.ended == End()


def test_request_stream_sequential(connect, b, topic):
    path = script(b, topic, *numbers(1, 6))
    for _ in range(2):
        peer = connect()
        assert peer.subscribe(path, n=3).data(3) == numbers(1, 3)
        peer.close()


def test_a_client_that_leaves_harms_no_other(connect, a, b, topic):
    """This case is not part of the kit, whose clients end together."""
    sub, leaving = a.subscribe(topic), connect()
    leaving.subscribe(topic)
    a.joined(topic, 2)
    leaving.close()
    a.joined(topic, 1)
    b.publish(topic, b"x")
    assert sub.data(1) == [b"x"]


# Samples


def test_stream_test_1(a, b, topic):
    sub = a.subscribe(script(b, topic, *numbers(1, 6)), n=3)
    assert sub.data(3) == numbers(1, 3)
    sub.request(3)
    assert datas(sub.rest()) == numbers(4, 6) and sub.ended == End()


def test_stream_test_2(a, b, topic):
    sub = a.subscribe(script(b, topic, *numbers(1, 6)), n=2)
    assert sub.data(2) == numbers(1, 2)
    sub.cancel()
    a.joined(topic, 0)
    nothing_more(a, topic, sub)


def test_stream_test_3(a, b, topic):
    sub = a.subscribe(script(b, topic, *numbers(1, 6), end=None), n=5)
    assert sub.data(5) == numbers(1, 5)
    nothing_more(a, topic, sub)
    sub.cancel()
    a.joined(topic, 0)
    nothing_more(a, topic, sub)


def test_request_response_test_1(a, topic):
    """A payload may be empty; the response is still complete."""
    assert a.offer(topic, b"").sequence() == 1


def test_request_response_test_2(a, topic):
    assert a.offer(topic, b"ding").sequence() == 1
    assert a.subscribe(topic + WAITS, n=1).data(1) == [b"ding"]


def test_request_response_test_3(a, b, topic):
    script(b, topic, b"1", end="fail")
    with pytest.raises(StreamError) as refused:
        a.offer(topic, b"e").sequence()
    assert refused.value.kind is Kind.REJECTED and refused.value.text
