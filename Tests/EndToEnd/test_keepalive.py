"""KEEPALIVE: the same data in the response, promptly, within its limit."""

import time

import pytest

from client import *

pytestmark = pytest.mark.rsocket


def echo(peer, data) -> raw.Frame:
    peer.send(raw.keepalive(data))
    return peer.frame(0)


@pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 4], ids=["empty", "one byte", "1 KiB"])
def test_keepalive_comes_back_with_the_same_data(a, data):
    frame = echo(a, data)
    assert frame.kind == raw.KEEPALIVE and frame.data == data
    assert not frame.has(raw.R)


def test_keepalive_that_asks_for_no_answer_gets_none(a):
    a.send(raw.keepalive(b"no answer", respond=False))
    assert echo(a, b"answer").data == b"answer"


def test_keepalives_are_answered_in_order(a):
    a.send(*(raw.keepalive(b"%d" % i) for i in range(20)))
    got = b""
    while got != b"19":  # Responses may be conflated if the client does not read them; the last one arrives.
        following = a.frame(0).data
        assert not got or int(following) > int(got)
        got = following


def test_keepalive_with_more_than_1_kib_is_a_connection_error(a):
    frame = echo(a, bytes(1025))
    assert frame.kind == ERROR and frame.code == raw.CONNECTION_ERROR
    a.end()


def test_keepalive_is_answered_between_the_frames_of_streams(a, b, topic):
    sub = a.subscribe(topic, n=3)
    a.joined(topic, 1)
    b.numbers(topic, 1, 5)
    for i in range(5):
        assert echo(a, b"%d" % i).data == b"%d" % i
    assert sub.data(3) == numbers(1, 3)


def test_keepalive_is_answered_promptly_behind_queued_data(connect, b, topic):
    """16 MB are waiting for a client that has not read for a while; its keepalive is answered before most of it."""
    this = connect(receive_buffer=64 << 10)
    sub = this.subscribe(f"{topic}?buffer=100000")
    b.joined(topic, 1)
    body = bytes(16 << 10)
    for _ in range(20):
        b.publish(topic, *([body] * 50))
    b.until(topic, lambda info: info["published"] == 1000)
    this.send(raw.keepalive(b"still there?"))
    assert this.frame(0).data == b"still there?"
    assert this.read < 2 << 20, f"{this.read} bytes came before the response"
    assert len(sub.take(500)) == 500


def test_keepalives_hold_a_connection_beyond_its_lifetime(connect, topic):
    this = connect(keepalive_ms=300, lifetime_ms=1000)
    end = time.monotonic() + 2.5
    while time.monotonic() < end:
        assert echo(this, b"here").data == b"here"
        time.sleep(0.3)  # The keepalive interval.
    this.barrier(topic)


def test_keepalive_missing_for_a_lifetime_ends_the_connection(connect, b, topic):
    this = connect(keepalive_ms=500, lifetime_ms=1000)
    this.lives = False
    this.subscribe(topic)
    b.joined(topic, 1)
    began = time.monotonic()
    this.end(timeout=8)
    assert time.monotonic() - began > 0.5
    b.joined(topic, 0)


def test_keepalive_of_the_broker_that_is_answered_is_a_sign_of_life(connect, topic):
    """The broker may send keepalives, too; a client that answers one is alive, and one that receives none sends
    its own."""
    this = connect(keepalive_ms=500, lifetime_ms=1000)
    end = time.monotonic() + 3
    while time.monotonic() < end:
        try:
            assert this.frame(0, timeout=0.4).kind == raw.KEEPALIVE  # Not counting those that request a response.
        except TimeoutError:
            pass
        if this.read == 0:
            this.send(raw.keepalive(b"not asked", respond=False))
    this.barrier(topic)


def test_a_lifetime_is_not_shortened_by_silence_of_data(connect, a, topic):
    """Default lifetime, nothing sent: the connection stays."""
    a.barrier(topic)
    this = connect(keepalive_ms=1000, lifetime_ms=600_000)
    time.sleep(2.5)  # Longer than two keepalive intervals.
    this.barrier(topic)
