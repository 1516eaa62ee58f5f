"""The broker's own time limits. Each test waits for one of them."""

import time

import pytest

from client import *

pytestmark = pytest.mark.slow


@pytest.mark.rsocket
@pytest.mark.parametrize("sent", [b"", raw.setup()[:20]], ids=["nothing", "half of it"])
def test_a_setup_that_does_not_come_in_5_seconds(broker, sent):
    this = raw.Connection(broker.address)
    this.socket.sendall(sent)
    began = time.monotonic()
    this.end(timeout=12)
    assert 4 < time.monotonic() - began < 9


def test_a_parked_publish_is_refused_after_a_while(a, b, topic):
    a.subscribe(f"{topic}?overflow=block&buffer=1", n=1)
    a.joined(topic, 1)
    b.numbers(topic, 1, 2)
    offer = b.offer(topic, b"3")
    with pytest.raises(StreamError) as refused:
        offer.sequence(timeout=20)
    assert refused.value.kind == Kind.REJECTED
    assert b.info(topic)["next"] == 3


@pytest.mark.rsocket
def test_a_peer_that_does_not_read_its_errors_is_closed(connect, b, topic):
    """Endless bad requests whose responses are not read: the broker stops reading, and closes after 10 more seconds."""
    this = connect(receive_buffer=16 << 10)
    this.socket.settimeout(2)
    with pytest.raises((TimeoutError, ConnectionError)):
        for _ in range(10_000):  # 32 MB
            this.socket.sendall(b"".join(
                raw.request(raw.REQUEST_RESPONSE, next(this.ids), b"x", this.route("not a name")) for _ in range(100)))
    b.numbers(topic, 1, 1)
    eventually(lambda: [one["peer"] for one in b.listing("$SYS.connections")], lambda all: this.peer not in all, 20)


@pytest.mark.rsocket
def test_a_peer_that_does_not_read_its_keepalives_costs_nothing(broker, connect, b, topic):
    """The responses to its keepalives are conflated: nothing accumulates."""
    this, before = connect(receive_buffer=16 << 10), broker.status("VmHWM")
    this.socket.settimeout(2)
    question = raw.keepalive(bytes(1000)) * 64
    try:
        for _ in range(500):  # 32 MB
            this.socket.sendall(question)
    except TimeoutError:
        pass
    b.numbers(topic, 1, 1)
    assert broker.status("VmHWM") - before < 4 << 20


@pytest.mark.timeout(120)
def test_a_block_subscription_without_progress_fails_after_30_seconds(connect, a, b, topic):
    """The publishers that it held up continue."""
    sub = a.subscribe(f"{topic}?overflow=block&buffer=1", n=1)
    a.joined(topic, 1)
    b.numbers(topic, 1, 2)
    assert sub.data(1) == [b"1"]
    began, accepted = time.monotonic(), None
    while accepted is None and time.monotonic() - began < 50:
        try:
            accepted = b.offer(topic, b"3").sequence(timeout=20)
        except StreamError as refused:
            assert refused.kind == Kind.REJECTED
    assert accepted == 3 and 25 < time.monotonic() - began < 40
    sub.request(10)
    assert len(sub.rest()) <= 1
    assert sub.ended.kind == Kind.OVERFLOW and sub.ended.text.startswith("overflow: blocked too long")
