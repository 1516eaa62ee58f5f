"""Corner cases of REQUEST_N: its reserved bit, a zero, several in one write, and rsocket-java's notion of demand."""

import pytest

from client import *

pytestmark = pytest.mark.rsocket


def requested(peer, topic):
    return peer.ledger(topic)[0]["requested"]


@pytest.mark.parametrize("n", [0, 0x80000000])
def test_request_n_of_0_is_invalid_with_and_without_the_reserved_bit(a, b, topic, n):
    assert refusal(a.subscribe(topic, n=n)).code == raw.INVALID
    sub = a.subscribe(topic, n=1)
    a.joined(topic, 1)
    a.send(raw.request_n(sub.stream, n))
    assert sub.end().code == raw.INVALID


def test_request_n_adds_up_in_one_write(a, b, topic):
    sub = a.subscribe(topic, n=1)
    a.send(*(raw.request_n(sub.stream, n) for n in (1, 2, 3, 4)))
    sub.asked += 10
    a.joined(topic, 1)
    b.numbers(topic, 1, 30)
    assert sub.data(11) == numbers(1, 11)
    a.barrier(topic)
    sub.nothing()


@pytest.mark.parametrize("n", [0, 0x80000000])
def test_request_n_of_0_on_a_channel_is_invalid(a, topic, n):
    assert a.channel(topic, b"x", acks=n).end().code == raw.INVALID
    channel = a.channel(topic, b"x", acks=1)
    channel.until(lambda: channel.acks)
    a.send(raw.request_n(channel.stream, n))
    assert channel.end().code == raw.INVALID


def test_request_n_reserved_bit_is_masked(a, b, topic):
    sub = a.subscribe(topic, n=0x80000002)
    sub.asked = 2
    a.joined(topic, 1)
    b.numbers(topic, 1, 9)
    assert sub.data(2) == numbers(1, 2)
    a.send(raw.request_n(sub.stream, 0x80000003))
    sub.asked = 5
    assert sub.data(3) == numbers(3, 5)
    a.barrier(topic)
    sub.nothing()


@pytest.mark.parametrize("demand, expected", [("", UNBOUNDED), ("demand=cumulative", "unbounded")])
def test_flow_control_latches_where_rsocket_java_stops_asking(a, b, topic, demand, expected):
    """rsocket-java stops requesting once its own sum is 2^31-1, however much of that is used."""
    sub = a.subscribe(f"{topic}?{demand}" if demand else topic, n=UNBOUNDED - 10)
    a.joined(topic, 1)
    b.numbers(topic, 1, 8)
    assert sub.data(8) == numbers(1, 8)
    sub.request(10)
    assert requested(a, topic) == expected
