"""The rules of Reactive Streams that a remote client can observe, each a test named after its number, over each
transport. Protocol/conformance.md lists all of them, with the reason why the others cannot be observed.

For a subscriber, the broker is the Publisher and the Subscription of sections 1 and 3; for a publisher with a channel,
the Subscriber of section 2.
"""

import pytest

from common import *

ENDS = {"complete": None, "fail": Kind.FAILED}


def finish(peer, topic, verb="complete"):
    peer.control(f"$SYS.topic.{verb}", name=topic, **({"message": "x"} if verb == "fail" else {}))


def test_1_1_never_more_than_requested(a, b, topic):
    sub = a.subscribe(f"{topic}?replay=all", n=1)
    a.joined(topic, 1)
    for i in range(1, 60):
        b.numbers(topic, 3 * i - 2, 3 * i)
        sub.request(1 + i % 3)
        a.barrier(topic)
        while sub.pending():
            sub.take(1)
    assert 0 < sub.received <= sub.asked


def test_1_2_fewer_than_requested_and_then_the_end(a, b, topic):
    sub = a.subscribe(topic, n=100)
    a.joined(topic, 1)
    b.numbers(topic, 1, 2)
    b.control("$SYS.topic.complete", name=topic)
    assert datas(sub.rest()) == numbers(1, 2) and sub.ended == End()


def test_1_3_signals_come_one_after_another(connect, a, topic):
    """Messages of several frames, from several publishers at once, and the end: each is complete before the next."""
    sub = a.subscribe(topic, n=100)
    a.joined(topic, 1)
    bodies = [b"%d" % i * (200 << 10) for i in range(10, 16)]
    offers = [connect().offer(topic, body) for body in bodies]
    order = {offer.sequence(): body for offer, body in zip(offers, bodies)}
    finish(a, topic)
    assert datas(sub.rest()) == [order[sequence] for sequence in range(1, 7)] and sub.ended == End()


def test_1_4_failure_ends_with_an_error(a, b, topic):
    sub = a.subscribe(topic, n=100)
    a.joined(topic, 1)
    finish(b, topic, "fail")
    assert sub.end() == failed("x")


def test_1_5_success_ends_with_completion(a, b, topic):
    sub = a.subscribe(topic, n=100)
    a.joined(topic, 1)
    b.control("$SYS.topic.complete", name=topic)
    assert sub.end() == End()


@pytest.mark.parametrize("verb", ENDS)
def test_1_6_and_2_4_terminal_means_cancelled(a, b, topic, verb):
    """A subscription that has ended is gone: nothing is kept for it. Its stream id, if any, is free:
    test_stream_ids_are_free_again_after_the_end."""
    sub = a.subscribe(topic, n=100)
    a.joined(topic, 1)
    finish(b, topic, verb)
    assert sub.end().kind is ENDS[verb]
    a.joined(topic, 0)
    assert a.ledger(topic) == []


@pytest.mark.parametrize("verb", ENDS)
def test_1_7_nothing_after_the_end(a, b, topic, verb):
    """Whatever is requested, and whatever happens to the topic's name: the client fails the test if anything
    arrives."""
    sub = a.subscribe(topic, n=5)
    a.joined(topic, 1)
    b.numbers(topic, 1, 3)
    finish(b, topic, verb)
    assert datas(sub.rest()) == numbers(1, 3) and sub.ended.kind is ENDS[verb]
    sub.request(10)
    sub.cancel()
    b.control("$SYS.topic.delete", name=topic)
    b.numbers(topic, 1, 3)
    a.barrier(topic)
    assert sub.pending() == 0


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


def test_1_9_a_subscription_that_cannot_be_is_told_so_and_nothing_else(a, b, topic):
    """Only the error arrives, on its own stream; the client's next subscription is served."""
    end = refusal(a.subscribe("not a name"))
    assert end.kind is Kind.INVALID and end.text
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    b.numbers(topic, 1, 1)
    assert sub.data(1) == [b"1"]


def test_1_10_and_1_11_many_subscribers(connect, b, topic):
    peers = [connect() for _ in range(5)]
    subs = [peer.subscribe(topic, n=UNBOUNDED if i % 2 else 100) for peer in peers for i in range(10)]
    b.joined(topic, 50)
    b.numbers(topic, 1, 100)
    for sub in subs:
        assert sub.data(100) == numbers(1, 100)


def test_2_1_the_broker_asks_a_publisher_for_what_it_takes(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    channel = b.channel(topic, b"0")
    channel.until(lambda: channel.granted)
    for item in numbers(1, 20):
        channel.send(item)
    assert sub.data(21) == numbers(0, 20)


def test_2_3_the_broker_asks_nothing_of_a_publisher_that_has_ended(b, topic):
    """Credit is granted before the end; the broker's end answers the publisher's."""
    channel = b.channel(topic, b"0")
    channel.until(lambda: channel.granted and channel.acks)
    b.barrier(topic)
    channel.pump()
    channel.complete()
    told = []
    while channel.ended is None:
        told.append(channel.event())
    assert set(told) <= {"ack", "end"}, told
    b.barrier(topic)
    assert channel.pending() == 0


def test_2_6_the_broker_cancels_a_publisher_that_it_no_longer_needs(a, b, topic):
    """The topic ends while a channel is open: the channel is cancelled without sending anything more."""
    channel = a.channel(topic, b"1")
    channel.acknowledged(1)
    b.control("$SYS.topic.complete", name=topic)
    told = "grant"
    while told not in ("end", "cancel"):
        told = channel.event()
    assert told == "cancel" or channel.ended.kind is Kind.REJECTED


def test_2_8_what_crosses_a_cancel_is_tolerated(a, b, topic):
    """Cancels, requests and messages at the same time: whatever was in flight, the stream stops, and only it."""
    for i in range(30):
        sub, other = a.subscribe(topic), a.subscribe(topic)
        a.joined(topic, 2)
        offers = [b.offer(topic, b"x") for _ in range(20)]
        sub.cancel()
        sub.request(5)
        for offer in offers:
            offer.sequence()
        a.joined(topic, 1)
        while sub.pending():
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


def test_2_9_a_publisher_completes_before_anything_was_asked_of_it(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    b.channel(f"{topic}?complete=true", b"only", complete=True)
    assert datas(sub.rest()) == [b"only"] and sub.ended == End()


def test_2_10_error_without_credit(a, b, topic):
    sub = a.subscribe(topic, n=1)
    a.joined(topic, 1)
    b.numbers(topic, 1, 1)
    sub.take(1)
    finish(b, topic, "fail")
    assert sub.end() == failed("x")


def test_2_10_a_publisher_fails_before_anything_was_asked_of_it(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    b.channel(f"{topic}?complete=true", b"only").fail("and so ends")
    assert datas(sub.rest()) == [b"only"] and sub.ended == failed("and so ends")


def test_3_2_requests_right_upon_each_message(a, b, topic):
    sub = a.subscribe(topic, n=1)
    a.joined(topic, 1)
    b.numbers(topic, 1, 300)
    for i in range(1, 301):
        assert sub.data(1) == [b"%d" % i]
        sub.request(1)


def test_3_3_requests_by_the_thousand_nest_in_nothing(a, b, topic):
    """Each request is for a message that is already waiting."""
    b.numbers(topic, 1, 1000)
    sub = a.subscribe(f"{topic}?replay=all", n=1)
    for _ in range(999):
        sub.request(1)
    assert sub.data(1000) == numbers(1, 1000)


def test_3_4_a_request_of_everything_holds_up_nobody(a, b, topic):
    """10 MB are requested at once; another subscription of the same client is still served."""
    other = a.subscribe(f"{topic}.other")
    a.joined(f"{topic}.other", 1)
    body = bytes(50 << 10)
    b.publish(topic, *[body] * 200)
    sub = a.subscribe(f"{topic}?replay=all", n=1)
    sub.request(UNBOUNDED)
    b.numbers(f"{topic}.other", 1, 1)
    assert other.data(1) == [b"1"]
    assert sub.data(200) == [body] * 200


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
        sub.request(n)
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
    sub.request(0)
    end = sub.end()
    assert end.kind is Kind.INVALID and end.text
    b.numbers(topic, 1, 1)
    assert other.data(1) == [b"1"]


def test_3_10_and_3_11_a_request_brings_what_waits_and_the_end_behind_it(a, b, topic):
    sub = a.subscribe(topic, n=1)
    a.joined(topic, 1)
    b.numbers(topic, 1, 3)
    finish(b, topic)
    assert sub.data(1) == [b"1"]
    sub.request(2)
    assert datas(sub.rest()) == numbers(2, 3) and sub.ended == End()


def test_3_13_nothing_is_kept_for_a_subscription_that_was_cancelled(a, b, topic):
    """Neither the subscription's row nor the messages that waited only for it remain."""
    sub = a.subscribe(f"{topic}?buffer=5000", n=1)
    a.joined(topic, 1)
    b.publish(topic, *[bytes(1 << 10)] * 1500)
    held = b.until(topic, lambda info: info["published"] == 1500)["bytes"]
    sub.cancel()
    assert a.until(topic, lambda info: info["subscriptions"] == 0)["bytes"] < held - (400 << 10)
    assert a.ledger(topic) == []


def test_3_14_the_last_cancel_leaves_the_topic_as_it_was(a, b, topic):
    """The topic is removed once it has been idle for long enough; until then the next subscription finds the retained
    messages."""
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    b.numbers(topic, 1, 5)
    epoch = b.info(topic)["epoch"]
    sub.cancel()
    a.joined(topic, 0)
    assert b.info(topic)["epoch"] == epoch
    assert a.subscribe(f"{topic}?replay=all").data(5) == numbers(1, 5)


def test_3_17_demand_saturates(a, b, topic):
    sub = a.subscribe(topic, n=UNBOUNDED - 1)
    for n in (UNBOUNDED, UNBOUNDED - 1, 1):
        sub.request(n)
    a.joined(topic, 1)
    b.numbers(topic, 1, 20)
    assert sub.data(20) == numbers(1, 20)


def test_4_1_and_4_2_the_broker_obeys_both_sides(a, b, topic):
    """Between a channel and a `block` subscription, demand flows up, and messages and the error flow down."""
    sub = a.subscribe(f"{topic}?overflow=block&buffer=2", n=1)
    a.joined(topic, 1)
    channel, sent = b.channel(f"{topic}?complete=true", b"0"), 1
    for i in range(50):
        while channel.credit or sent <= i:
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
