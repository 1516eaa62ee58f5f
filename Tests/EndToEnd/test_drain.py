"""SIGTERM: no new streams, buffered messages are delivered, and the process ends with exit code 0."""

import os
import signal
import socket
import time

import http1
import pytest

import raw
from admin import Admin
from common import *
from http2 import SUBSCRIBE, Wire, data, framed, open_of
from web import Web


@pytest.fixture
def own(start):
    """A broker for this test only, which the test stops. Its drain limit is longer than any wait here, so a broker that
    stops has not waited for that limit."""
    this = start("--drain-time", "1h", "--admin", "127.0.0.1:0")
    yield this
    if this.process.poll() is None:
        this.process.kill()


def ended(broker):
    """Waits for the end of the process."""
    assert broker.process.wait(60) == 0


def test_a_broker_without_connections_ends_at_once(own):
    own.process.send_signal(signal.SIGTERM)
    ended(own)
    assert not any("undelivered" in line for line in own.log)


def test_sigint_ends_it_too(own):
    own.process.send_signal(signal.SIGINT)
    ended(own)


def test_connections_are_closed(own, connect, topic):
    peers = [connect(own) for _ in range(4)]
    for peer in peers:
        peer.subscribe(topic)
    peers[0].joined(topic, 4)
    own.process.send_signal(signal.SIGTERM)
    for peer in peers:
        peer.end(timeout=14)
    ended(own)


@pytest.mark.rsocket
def test_who_has_said_nothing_is_told(own):
    """Without the idle client, the broker would end before its next tick."""
    silent, idle = raw.Connection(own.address), own.peer()
    own.process.send_signal(signal.SIGTERM)
    error = silent.frame(0)
    assert (error.kind, error.code) == (raw.ERROR, raw.REJECTED_SETUP) and "shutting down" in error.text
    silent.end()
    idle.end(timeout=14)
    ended(own)


@pytest.mark.rsocket
def test_who_has_not_been_accepted_is_told(own):
    own.process.send_signal(signal.SIGSTOP)
    silent = [raw.Connection(own.address) for _ in range(1000)]
    own.process.send_signal(signal.SIGTERM)
    own.process.send_signal(signal.SIGCONT)
    for one in silent:
        error = one.frame(0)
        assert (error.kind, error.code) == (raw.ERROR, raw.REJECTED_SETUP) and "shutting down" in error.text
        one.close()
    ended(own)


@pytest.mark.rsocket
@pytest.mark.parametrize("first", [http1.post("t", b"x"), b"PRI * HTTP/2.0\r\n"], ids=["HTTP/1.1", "HTTP/2"])
def test_requests_that_nobody_has_read_are_answered(own, first):
    clients = [socket.create_connection(own.http) for _ in range(7_000)]
    admin = Admin(own)
    eventually(lambda: admin.metrics()['forebay_connections{protocol="http"}'], lambda count: count == len(clients))
    own.process.send_signal(signal.SIGSTOP)
    for client in clients:
        client.sendall(first)
    own.process.send_signal(signal.SIGTERM)
    own.process.send_signal(signal.SIGCONT)
    answers = []
    for client in clients:
        client.settimeout(DEADLINE)
        answers.append(client.recv(1 << 16))
        client.close()
    assert all(answers), f"{answers.count(b'')} of {len(answers)} were closed without an error"
    ended(own)


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
    """A subscriber that has not read yet delays the drain; until then a publish is REJECTED, or finds the connection
    closed."""
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
                b.publish(topic, b"x")  # Succeeds until the broker has seen the signal.
            except StreamError as error:
                refused = error.kind
        assert refused == Kind.REJECTED
    except ConnectionError:
        pass


def test_a_second_signal_ends_it_at_once(own, connect, topic):
    """The second signal works even while a subscriber does not read its messages."""
    a, b = connect(own, receive_buffer=64 << 10), connect(own)
    a.subscribe(topic)
    b.joined(topic, 1)
    for i in range(20):
        b.publish(topic, *([bytes(4000)] * 50))
    own.process.send_signal(signal.SIGTERM)
    eventually(lambda: "\n".join(own.log), lambda log: "drain" in log.lower() or own.process.poll() is not None)
    own.process.send_signal(signal.SIGTERM)
    own.process.wait(60)


def test_who_asks_again_gets_all_that_waits(own, connect, topic):
    """Clients request more when half of their credit is used. The broker does not wait for clients that request
    nothing."""
    a, b, silent = connect(own), connect(own), connect(own)
    sub = a.subscribe(topic, n=10)
    silent.subscribe(topic, n=1)
    b.joined(topic, 2)
    b.numbers(topic, 1, 100)
    own.process.send_signal(signal.SIGTERM)
    for first in range(1, 100, 10):
        assert sub.data(10) == numbers(first, first + 9)
        if first < 91:
            sub.request(10)
    silent.end(timeout=14)
    a.end(timeout=14)
    ended(own)
    eventually(lambda: own.log[-1], lambda line: '"reason":"drained","undelivered":99' in line)


def test_a_time_limit(start, connect, topic):
    """A client that requests a few messages at a time, again and again, does not keep the broker alive forever."""
    # Streams that are cut off are not freed; the address sanitizer counts that as a leak.
    own = start(variables={"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"})
    a, b = connect(own), connect(own)
    sub = a.subscribe(f"{topic}?buffer=100000", n=1)
    b.joined(topic, 1)
    b.numbers(topic, 1, 1000)
    began = time.monotonic()
    own.process.send_signal(signal.SIGTERM)
    try:
        while True:
            sub.take(1)
            sub.request(1)
            time.sleep(0.1)
    except (AssertionError, OSError, EOFError):
        pass
    assert own.process.wait(15) == 0
    assert 9 < time.monotonic() - began
    assert any('"timeout"' in line for line in own.log)


@pytest.mark.grpc
def test_http2_is_told_at_once_that_the_end_is_near(own, topic):
    """The notice makes new calls go elsewhere while active ones continue."""
    this, other = Wire(own.http), Web(own)
    this.send(this.call(1, SUBSCRIBE, open_of(topic, n=1)))
    this.until(lambda wire: 1 in wire.answers)
    other.publish(topic, b"1", b"2", b"3")
    this.until(lambda wire: b"1" in wire.answers[1].body)
    own.process.send_signal(signal.SIGTERM)
    this.until(lambda wire: wire.notified)
    assert not this.goaway and 1 not in this.ended
    # Two more messages, by request_n.
    this.send(data(1, framed(b"\x10\x02")))
    this.until(lambda wire: b"3" in wire.answers[1].body)
    refused = this.answer(1)
    assert refused.status == 14 and "shutting down" in refused.trailers["grpc-message"]
    verdict = this.over()
    assert (verdict.what, verdict.code) == ("goaway", 0) and "shutting down" in verdict.text
    other.close()
    ended(own)


@pytest.mark.grpc
def test_a_call_that_had_not_heard_of_it_is_told(own, topic):
    this, other = Wire(own.http), Web(own)
    this.send(this.call(1, SUBSCRIBE, open_of(topic, n=1)))
    this.until(lambda wire: 1 in wire.answers)
    other.publish(topic, b"1", b"2")
    this.until(lambda wire: b"1" in wire.answers[1].body)
    own.process.send_signal(signal.SIGTERM)
    this.until(lambda wire: wire.notified)
    this.send(this.call(3, SUBSCRIBE, open_of(topic, n=1)))
    assert this.answer(3).status == 14
    other.close()


@pytest.mark.rsocket
def test_what_waits_for_a_stream_over_http_is_delivered(own, connect, http_version, topic):
    """A slow reader receives everything, then the end that asks it to reconnect."""
    web = Web(own, http_version)
    lines = web.lines(topic)
    lines.stop()
    body = b"x" * 10_000
    connect(own).publish(topic, *[body] * 300)
    own.process.send_signal(signal.SIGTERM)
    eventually(lambda: own.log, lambda log: any("draining" in line for line in log))
    lines.go()
    assert [lines.line()["payload"] for _ in range(300)] == [body.decode()] * 300
    assert lines.line() == {"end": "draining"}
    assert lines.ended() == 0
    web.close()
    ended(own)
