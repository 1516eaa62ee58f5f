"""The rules of Reactive Streams that a remote client can test, each a test named by its number."""

import pytest

from client import *

pytestmark = pytest.mark.rsocket


def test_1_1_never_more_than_requested(a, b, topic):
    sub = a.subscribe(f"{topic}?replay=all", n=1)
    a.joined(topic, 1)
    for i in range(1, 60):
        b.numbers(topic, 3 * i - 2, 3 * i)
        sub.request(1 + i % 3)
        a.barrier(topic)
        while a.pending(sub.stream):
            sub.take(1)
    assert sub.received <= sub.asked


def test_1_2_fewer_than_requested_and_then_the_end(a, b, topic):
    sub = a.subscribe(topic, n=100)
    a.joined(topic, 1)
    b.numbers(topic, 1, 2)
    b.control("$SYS.topic.complete", name=topic)
    assert datas(sub.rest()) == numbers(1, 2) and sub.ended == End()


def test_1_4_failure_ends_with_an_error(a, b, topic):
    sub = a.subscribe(topic, n=100)
    a.joined(topic, 1)
    b.control("$SYS.topic.fail", name=topic, message="x")
    assert sub.end().code == raw.APPLICATION_ERROR


def test_1_5_success_ends_with_completion(a, b, topic):
    sub = a.subscribe(topic, n=100)
    a.joined(topic, 1)
    b.control("$SYS.topic.complete", name=topic)
    assert sub.end() == End()


@pytest.mark.parametrize("verb", ["complete", "fail"])
def test_1_6_and_2_4_terminal_means_cancelled(a, b, topic, verb):
    """An ended subscription is one no more: its id is free, and nothing is kept for it."""
    sub = a.subscribe(topic, n=100)
    a.joined(topic, 1)
    b.control(f"$SYS.topic.{verb}", name=topic, **({"message": "x"} if verb == "fail" else {}))
    sub.end()
    a.joined(topic, 0)
    assert a.ledger(topic) == []
    a.send(raw.request(raw.REQUEST_RESPONSE, sub.stream, b"x", a.route(f"{topic}.other")))
    assert a.answer(sub.stream).data == b"1"


def test_1_7_nothing_after_the_end(a, b, topic):
    sub = a.subscribe(topic, n=5)
    a.joined(topic, 1)
    b.numbers(topic, 1, 3)
    b.control("$SYS.topic.complete", name=topic)
    sub.rest()
    a.send(raw.request_n(sub.stream, 10), raw.cancel(sub.stream))
    b.control("$SYS.topic.delete", name=topic)
    b.numbers(topic, 1, 3)
    a.barrier(topic)
    assert a.pending(sub.stream) == 0


def test_1_8_and_3_12_a_cancelled_stream_stops(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    b.numbers(topic, 1, 3)
    assert sub.data(3) == numbers(1, 3)
    sub.cancel()
    a.joined(topic, 0)
    b.numbers(topic, 4, 50)
    b.control("$SYS.topic.complete", name=topic)
    a.barrier(topic)
    sub.nothing()


def test_1_10_and_1_11_many_subscribers(connect, b, topic):
    peers = [connect() for _ in range(5)]
    subs = [peer.subscribe(topic, n=UNBOUNDED if i % 2 else 100) for peer in peers for i in range(10)]
    b.joined(topic, 50)
    b.numbers(topic, 1, 100)
    for sub in subs:
        assert sub.data(100) == numbers(1, 100)


def test_2_6_the_broker_cancels_a_publisher_that_it_no_longer_needs(a, b, topic):
    """The topic ends while a channel is open: it is told, without sending anything more."""
    channel = a.channel(topic, b"1")
    channel.acknowledged(1)
    b.control("$SYS.topic.complete", name=topic)
    told = "grant"
    while told not in ("end", "cancel"):
        told = channel.event()
    assert told == "cancel" or channel.ended.code == raw.REJECTED


def test_2_8_what_crosses_a_cancel_is_tolerated(a, b, topic):
    """Cancels, requests and messages at the same time: whatever was on its way, the stream stops, and only it."""
    for i in range(30):
        sub, other = a.subscribe(topic), a.subscribe(topic)
        a.joined(topic, 2)
        streams = [b.call(topic, b"x") for _ in range(20)]
        sub.cancel()
        sub.request(5)
        for stream in streams:
            b.answer(stream)
        a.joined(topic, 1)
        while a.pending(sub.stream):
            sub.take(1)
        assert sub.received <= 20
        other.take(20)
        other.cancel()
        a.joined(topic, 0)


def test_2_9_completion_without_credit(a, b, topic):
    sub = a.subscribe(topic, n=1)
    a.joined(topic, 1)
    b.numbers(topic, 1, 1)
    sub.take(1)
    b.control("$SYS.topic.complete", name=topic)
    assert sub.end() == End()


def test_2_10_error_without_credit(a, b, topic):
    sub = a.subscribe(topic, n=1)
    a.joined(topic, 1)
    b.numbers(topic, 1, 1)
    sub.take(1)
    b.control("$SYS.topic.fail", name=topic, message="x")
    assert sub.end().code == raw.APPLICATION_ERROR


def test_3_5_and_3_7_cancel_is_idempotent(a, b, topic):
    sub, other = a.subscribe(topic), a.subscribe(topic)
    a.joined(topic, 2)
    for _ in range(5):
        sub.cancel()
    a.joined(topic, 1)
    b.numbers(topic, 1, 2)
    assert other.data(2) == numbers(1, 2)
    sub.nothing()


def test_3_6_requests_after_cancel_do_nothing(a, b, topic):
    sub = a.subscribe(topic, n=1)
    a.joined(topic, 1)
    b.numbers(topic, 1, 5)
    assert sub.data(1) == [b"1"]
    sub.cancel()
    for n in (1, 100, UNBOUNDED, 0):
        a.send(raw.request_n(sub.stream, n))
    a.joined(topic, 0)
    b.numbers(topic, 6, 9)
    a.barrier(topic)
    sub.nothing()


def test_3_8_requests_add_up(a, b, topic):
    sub = a.subscribe(topic, n=1)
    for n in (2, 3, 4):
        sub.request(n)
    a.joined(topic, 1)
    a.until(topic, lambda _: a.ledger(topic)[0]["requested"] == 10)
    b.numbers(topic, 1, 30)
    assert sub.data(10) == numbers(1, 10)
    a.barrier(topic)
    sub.nothing()


def test_3_9_a_request_of_0_is_an_error_on_that_stream(a, b, topic):
    sub, other = a.subscribe(topic, n=5), a.subscribe(topic)
    a.joined(topic, 2)
    a.send(raw.request_n(sub.stream, 0))
    end = sub.end()
    assert end.code == raw.INVALID and end.text
    b.numbers(topic, 1, 1)
    assert other.data(1) == [b"1"]


def test_3_17_demand_saturates(a, b, topic):
    sub = a.subscribe(topic, n=UNBOUNDED - 1)
    for n in (UNBOUNDED, UNBOUNDED - 1, 1):
        sub.request(n)
    a.joined(topic, 1)
    b.numbers(topic, 1, 20)
    assert sub.data(20) == numbers(1, 20)


def test_4_1_and_4_2_the_broker_obeys_both_sides(a, b, topic):
    """Between a channel and a `block` subscription: demand goes up, messages and the error come down."""
    sub = a.subscribe(f"{topic}?overflow=block&buffer=2", n=1)
    a.joined(topic, 1)
    channel, sent = b.channel(f"{topic}?complete=true", b"0"), 1
    for i in range(50):
        while channel.credit:
            channel.send(b"%d" % sent)
            sent += 1
        assert sub.data(1) == [b"%d" % i]
        sub.request(1)
        b.barrier(topic)
        channel.pump()
        assert sent + channel.credit <= i + 1 + 2 + 2, "granted more than the subscriber has room for"
    channel.fail("and so ends")
    sub.request(10)
    assert len(sub.rest()) == sent - 50
    assert sub.ended == failed("and so ends")
