"""Credit: additive, saturating, never exceeded; waiting messages; the effect of an unread socket."""

import pytest

from common import *


def requested(peer, topic):
    return peer.ledger(topic)[0]["requested"]


def test_never_more_than_requested(a, b, topic):
    sub = a.subscribe(topic, n=3)
    a.joined(topic, 1)
    b.numbers(topic, 1, 100)
    assert sub.data(3) == numbers(1, 3)
    for step in (1, 2, 10):
        a.barrier(topic)
        sub.nothing()
        sub.request(step)
        sub.take(step)
    a.barrier(topic)
    sub.nothing()


def test_demand_is_additive_before_anything_is_published(a, b, topic):
    sub = a.subscribe(topic, n=1)
    for _ in range(9):
        sub.request(1)
    a.joined(topic, 1)
    a.until(topic, lambda _: requested(a, topic) == 10)
    b.numbers(topic, 1, 20)
    assert sub.data(10) == numbers(1, 10)
    a.barrier(topic)
    sub.nothing()


def test_unused_demand_is_kept(a, b, topic):
    sub = a.subscribe(topic, n=5)
    a.joined(topic, 1)
    b.numbers(topic, 1, 2)
    assert sub.data(2) == numbers(1, 2)
    sub.request(2)
    b.numbers(topic, 3, 20)
    assert sub.data(5) == numbers(3, 7)
    a.barrier(topic)
    sub.nothing()


def test_request_of_0_is_invalid_on_that_stream_alone(a, b, topic):
    sub, other = a.subscribe(topic, n=1), a.subscribe(topic)
    a.joined(topic, 2)
    sub.request(0)
    assert sub.end().kind == Kind.INVALID
    a.joined(topic, 1)
    b.numbers(topic, 1, 2)
    assert other.data(2) == numbers(1, 2)


def test_an_initial_request_of_0_is_invalid(a, b, topic):
    assert refusal(a.subscribe(topic, n=0)).kind == Kind.INVALID
    b.numbers(topic, 1, 1)
    assert a.subscribe(f"{topic}?replay=1", n=1).data(1) == [b"1"]


def test_2_31_minus_1_is_unbounded(a, b, topic):
    sub = a.subscribe(topic, n=UNBOUNDED)
    a.joined(topic, 1)
    eventually(lambda: requested(a, topic), lambda seen: seen == "unbounded")
    b.numbers(topic, 1, 300)
    assert sub.data(300) == numbers(1, 300)


def test_a_later_request_of_2_31_minus_1_is_unbounded(a, b, topic):
    sub = a.subscribe(topic, n=1)
    sub.request(UNBOUNDED)
    a.joined(topic, 1)
    eventually(lambda: requested(a, topic), lambda seen: seen == "unbounded")
    b.numbers(topic, 1, 20)
    assert sub.data(20) == numbers(1, 20)


def test_outstanding_credit_that_reaches_2_31_minus_1_is_unbounded(a, topic):
    sub = a.subscribe(topic, n=UNBOUNDED - 2)
    sub.request(1)
    a.joined(topic, 1)
    eventually(lambda: requested(a, topic), lambda seen: seen == UNBOUNDED - 1)
    sub.request(1)
    eventually(lambda: requested(a, topic), lambda seen: seen == "unbounded")


def test_demand_saturates(a, b, topic):
    """Requests whose sum exceeds 32 bits by far: the demand is unbounded, and still served."""
    sub = a.subscribe(topic, n=UNBOUNDED)
    for _ in range(100):
        sub.request(UNBOUNDED)
    a.joined(topic, 1)
    eventually(lambda: requested(a, topic), lambda seen: seen == "unbounded")
    b.numbers(topic, 1, 10)
    assert sub.data(10) == numbers(1, 10)


def test_outstanding_credit_is_told(a, b, topic):
    sub = a.subscribe(topic, n=10)
    a.joined(topic, 1)
    arrive(a, b, topic, 1, 4)
    sub.take(4)
    told = a.ledger(topic)[0]
    assert (told["requested"], told["outstanding"], told["delivered"], told["waiting"]) == (10, 6, 4, 0)
    arrive(a, b, topic, 5, 13)
    sub.take(6)
    told = a.ledger(topic)[0]
    assert (told["requested"], told["outstanding"], told["delivered"], told["waiting"]) == (10, 0, 10, 3)


def test_requests_of_many_sizes_one_right_after_the_other(a, b, topic):
    sub = a.subscribe(topic, n=1)
    for n in (1, 2, 3, 4):
        sub.request(n)
    a.joined(topic, 1)
    b.numbers(topic, 1, 30)
    assert sub.data(11) == numbers(1, 11)
    a.barrier(topic)
    sub.nothing()


def test_credits_of_streams_on_one_connection_are_apart(a, b, topic):
    subs = [a.subscribe(topic, n=n) for n in (1, 5, 20)]
    a.joined(topic, 3)
    b.numbers(topic, 1, 10)
    assert [sub.data(count) for sub, count in zip(subs, (1, 5, 10))] == [numbers(1, 1), numbers(1, 5), numbers(1, 10)]
    a.barrier(topic)
    for sub in subs:
        sub.nothing()


def test_an_unbounded_subscriber_that_does_not_read_is_treated_as_one_without_credit(connect, b, topic):
    """Messages that fit neither into its socket nor into its connection's output wait, and overflow by its policy."""
    idle = connect(receive_buffer=64 << 10)
    sub = idle.subscribe(f"{topic}?buffer=50", meta=True)
    b.joined(topic, 1)
    count, body = 2000, bytes(4 << 10)
    for at in range(0, count, 100):
        b.publish(topic, *(b"%08d" % i + body for i in range(at + 1, at + 101)))
    all_told = lambda rows: sum(rows[0][part] for part in ("delivered", "dropped", "waiting")) == count
    told = eventually(lambda: b.ledger(topic), all_told)[0]
    assert told["waiting"] == 50 and told["dropped"] > 0
    got, position = [], 0
    while position < count:
        one = sub.take(1)[0]
        assert one.sequence == position + 1 + one.dropped and int(one.data[:8]) == one.sequence
        position = one.sequence
        got.append(one)
    assert [one.sequence for one in got[-50:]] == list(range(count - 49, count + 1))
    assert len(got) + sum(one.dropped for one in got) == count


def test_an_unread_socket_does_not_slow_others(connect, a, b, topic):
    """G4: next to a subscriber that reads nothing, another receives everything."""
    idle = connect(receive_buffer=64 << 10)
    idle.subscribe(f"{topic}?buffer=10")
    sub = a.subscribe(topic)
    b.joined(topic, 2)
    body = bytes(8 << 10)
    for at in range(1, 1001, 50):
        b.publish(topic, *(b"%08d" % i + body for i in range(at, at + 50)))
        assert [int(one[:8]) for one in sub.data(50)] == list(range(at, at + 50))


def test_streams_of_one_connection_share_its_output_fairly(connect, b, topic):
    """One stream of a connection is far behind; another on the same connection receives its message at once."""
    this = connect(receive_buffer=64 << 10)
    hungry, quiet = this.subscribe(f"{topic}?buffer=4000"), this.subscribe(f"{topic}.quiet")
    b.joined(topic, 1)
    b.joined(f"{topic}.quiet", 1)
    body = bytes(16 << 10)
    for _ in range(20):
        b.publish(topic, *([body] * 30))
    b.numbers(f"{topic}.quiet", 1, 1)
    assert quiet.data(1) == [b"1"]
    assert hungry.pending() < 600, "the other stream's message came after everything"
    hungry.take(600)
