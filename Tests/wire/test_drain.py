"""SIGTERM: no new streams, what is buffered is delivered, and then the end, with exit code 0."""

import signal
import time

import pytest

from common import *


@pytest.fixture
def own(start):
    """A broker of the test's own, which the test ends."""
    this = start()
    yield this
    if this.process.poll() is None:
        this.process.kill()


def ended(broker) -> float:
    """Waits for the end of the process; how long that took."""
    began = time.monotonic()
    assert broker.process.wait(15) == 0
    return time.monotonic() - began


def test_a_broker_without_connections_ends_at_once(own):
    own.process.send_signal(signal.SIGTERM)
    assert ended(own) < 3


def test_sigint_ends_it_too(own):
    own.process.send_signal(signal.SIGINT)
    assert ended(own) < 3


def test_connections_are_closed(own, connect, topic):
    peers = [connect(own) for _ in range(4)]
    for peer in peers:
        peer.subscribe(topic)
    peers[0].joined(topic, 4)
    own.process.send_signal(signal.SIGTERM)
    for peer in peers:
        peer.end(timeout=14)
    assert ended(own) < 3


def test_what_is_buffered_is_delivered(own, connect, topic):
    a, b = connect(own, receive_buffer=64 << 10), connect(own)
    sub, body = a.subscribe(topic), bytes(1000)
    b.joined(topic, 1)
    for i in range(20):
        b.publish(topic, *([body] * 50))
    a.barrier(topic)
    own.process.send_signal(signal.SIGTERM)
    assert len(sub.take(1000)) == 1000
    a.end(timeout=14)
    ended(own)


def test_new_streams_are_refused_while_it_drains(own, connect, topic):
    """A subscriber that has not read yet holds it; meanwhile a publish is REJECTED, or finds the connection closed."""
    a, b = connect(own, receive_buffer=64 << 10), connect(own)
    a.subscribe(topic)
    b.joined(topic, 1)
    for i in range(20):
        b.publish(topic, *([bytes(4000)] * 50))
    own.process.send_signal(signal.SIGTERM)
    try:
        refused = None
        while refused is None:
            try:
                b.publish(topic, b"x")  # Until the signal has been seen.
            except StreamError as error:
                refused = error.kind
        assert refused == Kind.REJECTED
    except ConnectionError:
        pass


def test_a_second_signal_ends_it_at_once(own, connect, topic):
    """Though a subscriber does not read what is due to it."""
    a, b = connect(own, receive_buffer=64 << 10), connect(own)
    a.subscribe(topic)
    b.joined(topic, 1)
    for i in range(20):
        b.publish(topic, *([bytes(4000)] * 50))
    own.process.send_signal(signal.SIGTERM)
    eventually(lambda: "\n".join(own.log), lambda log: "drain" in log.lower() or own.process.poll() is not None)
    own.process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    own.process.wait(15)
    assert time.monotonic() - began < 3
