"""The end of a topic: completion, failure, deletion, and what is still allowed then."""

import pytest

from admin import Admin
from common import *


def test_complete_by_a_channel(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    channel = b.channel(f"{topic}?complete=true", b"1")
    channel.send(b"2")
    channel.complete()
    assert channel.end() == End()
    assert sub.data(2) == numbers(1, 2)
    assert sub.end() == End()
    assert a.info(topic)["state"] == "completed"


def test_complete_by_a_channel_with_its_last_item(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    channel = b.channel(f"{topic}?complete=true", b"1")
    channel.send(b"2", last=True)
    assert datas(sub.rest()) == numbers(1, 2)
    assert sub.ended == End()


def test_complete_by_a_channel_of_one_item(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    b.channel(f"{topic}?complete=true", b"1", complete=True).end()
    assert datas(sub.rest()) == [b"1"]
    assert sub.ended == End()


def test_fail_by_a_channels_error(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    channel = b.channel(f"{topic}?complete=true", b"1")
    channel.send(b"2")
    channel.fail("the sensor is gone")
    assert sub.data(2) == numbers(1, 2)
    assert sub.end() == failed("the sensor is gone")
    info = a.info(topic)
    assert info["state"] == "failed" and "the sensor is gone" in info["error"]


def test_fail_by_a_channels_error_without_a_text(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    b.channel(f"{topic}?complete=true", b"1").fail("")
    assert sub.data(1) == numbers(1, 1)
    assert sub.end() == failed("the publisher failed")


def test_complete_by_control(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    b.numbers(topic, 1, 2)
    b.control("$SYS.topic.complete", name=topic)
    assert sub.data(2) == numbers(1, 2)
    assert sub.end() == End()


def test_fail_by_control(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    b.control("$SYS.topic.fail", name=topic, message="switched off, 100%")
    assert sub.end() == failed("switched off, 100%")


@pytest.mark.parametrize("message", [{}, {"message": ""}])
def test_fail_by_control_without_a_message(a, b, topic, message):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    assert b.control("$SYS.topic.fail", name=topic, **message)["error"] == "failed by request"
    assert sub.end() == failed("failed by request")


@pytest.mark.rsocket
def test_fail_by_an_operator_without_a_message(begin, topic):
    broker = begin("--admin", "127.0.0.1:0")
    admin, peer = Admin(broker), broker.peer()
    for name, query in ((topic, ""), (topic + ".x", "?message=")):
        peer.publish(name, b"x")
        assert admin.post(f"api/v1/topics/{name}/fail{query}").json()["error"] == "failed by request"


def lose(peer, channel):
    peer.close()


def cancel(peer, channel):
    channel.cancel()


def exceed(peer, channel):
    """Sends beyond the channel's credit, for which it is rejected."""
    channel.send(bytes(2 << 20))


@pytest.mark.parametrize("loss", [lose, cancel])
def test_a_lost_channel_ends_alone(connect, a, topic, loss):
    sub, b = a.subscribe(topic), connect()
    a.joined(topic, 1)
    channel = b.channel(f"{topic}?complete=true", b"1")
    channel.acknowledged(1)
    loss(b, channel)
    a.until(topic, lambda info: info["publishers"] == 0)
    a.numbers(topic, 2, 2)
    assert sub.data(2) == numbers(1, 2)
    assert a.info(topic)["state"] == "live"


@pytest.mark.rsocket
@pytest.mark.parametrize("loss", [lose, cancel, exceed])
def test_a_lost_channel_fails_its_topic_with_on_loss_fail(connect, a, topic, loss):
    sub, b = a.subscribe(topic), connect()
    a.joined(topic, 1)
    channel = b.channel(f"{topic}?complete=true&on-loss=fail", b"1")
    channel.acknowledged(1)
    loss(b, channel)
    assert sub.data(1) == [b"1"]
    end = sub.end()
    assert end.kind == Kind.FAILED and end.text.startswith("topic failed:")


def test_a_rejected_channel_ends_alone(a, b, topic):
    channel = b.channel(f"{topic}?complete=true", b"1")
    exceed(b, channel)
    assert channel.end().kind == Kind.REJECTED
    assert a.info(topic)["state"] == "live"
    assert b.publish(topic, b"x") == [2]


def test_a_channel_without_complete_ends_no_topic(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    b.channel(f"{topic}?complete=false", b"1", complete=True).end()
    failing = b.channel(topic, b"2")
    failing.acknowledged(2)
    failing.fail("my own trouble")
    a.until(topic, lambda info: info["publishers"] == 0)
    b.numbers(topic, 3, 3)
    assert sub.data(3) == numbers(1, 3)


@pytest.mark.parametrize("first", ["complete", "fail"])
def test_the_first_end_wins(a, b, topic, first):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    b.numbers(topic, 1, 1)
    second = {"complete": "fail", "fail": "complete"}[first]
    for verb in (first, second):
        arguments = {"message": "first"} if verb == "fail" else {}
        try:
            b.control(f"$SYS.topic.{verb}", name=topic, **arguments)
        except StreamError as error:
            assert verb == second and error.kind == Kind.REJECTED
    sub.take(1)
    assert sub.end() == (End() if first == "complete" else failed("first"))
    state = a.info(topic)["state"]
    assert state == {"complete": "completed", "fail": "failed"}[first]


@pytest.mark.parametrize("verb", ["complete", "fail"])
def test_other_publishers_are_rejected_after_the_end(a, b, topic, verb):
    other = a.channel(topic, b"1")
    other.acknowledged(1)
    other.until(lambda: other.granted)
    b.control(f"$SYS.topic.{verb}", name=topic, **({"message": "over"} if verb == "fail" else {}))
    other.force(b"too late")
    assert other.end().kind == Kind.REJECTED
    with pytest.raises(StreamError) as refused:
        b.publish(topic, b"too late")
    assert refused.value.kind == Kind.REJECTED
    assert b.channel(topic, b"too late").end().kind == Kind.REJECTED
    assert a.info(topic)["next"] == 2


@pytest.mark.rsocket
@pytest.mark.parametrize("acks", [1, 10])
def test_a_channel_whose_topic_ends_is_acknowledged_before_if_it_has_credit_for_that(a, b, topic, acks):
    other = a.channel(topic, b"1", acks=acks)
    other.until(lambda: other.acks and other.granted)
    other.send(b"2")
    b.until(topic, lambda info: info["published"] == 2)
    b.control("$SYS.topic.complete", name=topic)
    assert other.end().kind == Kind.REJECTED
    assert other.acks == [(1, 1), (2, 2)][:acks]


@pytest.mark.rsocket
def test_a_fire_after_the_end_is_dropped(a, b, topic):
    b.numbers(topic, 1, 1)
    b.control("$SYS.topic.complete", name=topic)
    b.fire(topic, b"too late")
    b.barrier(topic)
    assert a.info(topic)["next"] == 2


def test_later_subscribers_get_their_replay_and_then_the_same_completion(a, b, topic):
    b.numbers(topic, 1, 10)
    b.control("$SYS.topic.complete", name=topic)
    for options, first in (("replay=all", 1), ("replay=3", 8), ("from=6&gap=fail", 6), ("replay=0", 11)):
        sub = a.subscribe(f"{topic}?{options}")
        assert datas(sub.rest()) == numbers(first, 10), options
        assert sub.ended == End()


def test_later_subscribers_get_their_replay_and_then_the_same_failure(a, b, topic):
    b.numbers(topic, 1, 10)
    b.control("$SYS.topic.fail", name=topic, message="why")
    for options, first in (("replay=all", 1), ("replay=3", 8), ("replay=0", 11)):
        sub = a.subscribe(f"{topic}?{options}")
        assert datas(sub.rest()) == numbers(first, 10), options
        assert sub.ended == failed("why")


@pytest.mark.parametrize("verb", ["complete", "fail"])
def test_the_end_comes_after_all_that_waits_and_needs_no_credit(a, b, topic, verb):
    sub = a.subscribe(topic, n=2)
    a.joined(topic, 1)
    b.numbers(topic, 1, 5)
    b.control(f"$SYS.topic.{verb}", name=topic, **({"message": "why"} if verb == "fail" else {}))
    assert sub.data(2) == numbers(1, 2)
    a.barrier(topic)
    sub.nothing()
    sub.request(2)
    assert sub.data(2) == numbers(3, 4)
    a.barrier(topic)
    sub.nothing()
    sub.request(1)  # Exactly what waits: nothing is left for the end.
    assert sub.data(1) == [b"5"]
    assert sub.end() == (End() if verb == "complete" else failed("why"))


@pytest.mark.parametrize("verb", ["complete", "fail"])
def test_the_end_comes_at_once_without_credit_where_nothing_waits(a, b, topic, verb):
    sub = a.subscribe(topic, n=2)
    a.joined(topic, 1)
    b.numbers(topic, 1, 2)
    b.control(f"$SYS.topic.{verb}", name=topic, **({"message": "why"} if verb == "fail" else {}))
    assert sub.data(2) == numbers(1, 2)
    assert sub.end().kind == (None if verb == "complete" else Kind.FAILED)


def test_the_end_reaches_each_subscription_exactly_once(connect, b, topic):
    peers = [connect() for _ in range(4)]
    subs = [peer.subscribe(topic, n=n) for peer in peers for n in (1, 3, UNBOUNDED)]
    b.joined(topic, 12)
    b.numbers(topic, 1, 3)
    b.control("$SYS.topic.complete", name=topic)
    for sub in subs:
        if sub.asked == 1:
            sub.request(2)
        assert datas(sub.rest()) == numbers(1, 3)
    for peer in peers:
        peer.barrier(topic)
    for sub in subs:
        assert sub.pending() == 0


def test_the_end_of_an_empty_topic(a, b, topic):
    sub = a.subscribe(topic, n=1)
    a.joined(topic, 1)
    b.control("$SYS.topic.complete", name=topic)
    assert sub.end() == End()
    assert a.subscribe(f"{topic}?replay=all", n=1).end() == End()


def test_delete_fails_subscribers_and_rejects_publishers(a, b, topic):
    sub = a.subscribe(topic)
    channel = a.channel(topic, b"1")
    channel.acknowledged(1)
    channel.until(lambda: channel.granted)
    assert sub.data(1) == [b"1"]
    b.control("$SYS.topic.delete", name=topic)
    assert sub.end() == failed("deleted")
    assert channel.end().kind == Kind.REJECTED
    assert topic not in [one["name"] for one in b.listing("$SYS.topics")]


def test_delete_delivers_what_waits_before_it_fails(a, b, topic):
    sub = a.subscribe(topic, n=1)
    a.joined(topic, 1)
    b.numbers(topic, 1, 4)
    b.control("$SYS.topic.delete", name=topic)
    sub.take(1)
    sub.request(3)
    assert sub.data(3) == numbers(2, 4)
    assert sub.end() == failed("deleted")


def test_the_next_use_after_delete_makes_a_new_epoch(a, b, topic):
    b.numbers(topic, 1, 5)
    before = a.info(topic)
    b.control("$SYS.topic.delete", name=topic)
    assert b.publish(topic, b"again") == [1]
    after = a.info(topic)
    assert after["epoch"] != before["epoch"] and int(after["epoch"]) != 0
    assert a.subscribe(f"{topic}?replay=all").data(1) == [b"again"]
    resumed = a.subscribe(f"{topic}?from=6&epoch={before['epoch']}", meta=True)
    assert resumed.take(1)[0].sequence == 1


def test_delete_after_the_end_makes_the_name_free_again(a, b, topic):
    b.numbers(topic, 1, 1)
    b.control("$SYS.topic.complete", name=topic)
    b.control("$SYS.topic.delete", name=topic)
    assert b.numbers(topic, 1, 1) == [1]


def test_parked_publishes_are_rejected_by_the_end(a, b, topic):
    a.subscribe(f"{topic}?overflow=block&buffer=1", n=1)
    a.joined(topic, 1)
    b.numbers(topic, 1, 2)
    offer, channel = b.offer(topic, b"3"), b.channel(topic, b"4")
    b.parked(topic, 2)
    b.control("$SYS.topic.complete", name=topic)
    with pytest.raises(StreamError) as refused:
        offer.sequence()
    assert refused.value.kind == Kind.REJECTED
    assert channel.end().kind == Kind.REJECTED


@pytest.mark.parametrize("verb", ["info", "complete", "fail", "delete"])
def test_control_of_a_topic_that_is_not(a, topic, verb):
    with pytest.raises(StreamError) as refused:
        a.control(f"$SYS.topic.{verb}", name=topic, **({"message": "x"} if verb == "fail" else {}))
    assert refused.value.kind in (Kind.REJECTED, Kind.INVALID)
    assert topic in refused.value.text
