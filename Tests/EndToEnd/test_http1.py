"""What is specific to HTTP/1.1: detecting a connection's version by its first bytes, requests one after another, and
what ends a connection. Uses plain sockets, and curl as a real client."""

import json
import os
import re
import signal
import socket
import time
from pathlib import Path

import pytest

from common import *
from curl import VERSIONS, Curl
from http1 import *

pytestmark = pytest.mark.rsocket  # The observers' transport: `a` and `b`.

HTTP2_SETTINGS = 4


@pytest.fixture
def own(start):
    """A broker for this test only, which the test may stop."""
    this = start()
    yield this
    if this.process.poll() is None:
        this.stop()


def spent(broker) -> float:
    """Seconds of CPU time that the broker has used."""
    fields = Path(f"/proc/{broker.pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# The version


@pytest.mark.parametrize("first", [b"G", b"GE", b"GET", b"GET ", GET])
def test_a_request_in_pieces(http1, first):
    this = http1()
    this.send(first)
    time.sleep(0.05)  # So that the pieces arrive separately; the outcome does not depend on that.
    this.send(GET[len(first):])
    assert problem(this.answer()) == (404, "not-found")


def test_a_request_byte_by_byte(http1, topic):
    this = http1()
    this.send(*[bytes([byte]) for byte in post(topic, b"hello")])
    assert this.answer()[0] == 200


def test_http2_byte_by_byte(http1):
    this = http1()
    this.send(*[bytes([byte]) for byte in b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])])
    assert this.input.read(9)[3] == HTTP2_SETTINGS


@pytest.mark.parametrize("method", ["PUT", "PATCH", "PRINT", "P"])
def test_methods_that_begin_as_http2_does(http1, method):
    this = http1()
    this.send(*[bytes([byte]) for byte in f"{method} /nothing HTTP/1.1\r\n".encode() + HOST + b"\r\n"])
    assert problem(this.answer())[0] in (400, 404, 405)


def test_half_of_a_preface_costs_nothing(http1, broker):
    before = spent(broker)
    lines = [http1() for _ in range(5)]
    for this in lines:
        this.send(b"PR")
    time.sleep(1)
    assert spent(broker) - before < 0.3


@pytest.mark.parametrize("garbage", [b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"\xff\xfe\r\n\r\n", b"garbage\r\n\r\n",
                                     b"GET\r\n\r\n", b"GET / HTTP/1.1x\r\n\r\n", b"\r\n\0\r\n\r\n"])
def test_garbage_ends_the_connection(http1, garbage):
    """Input that has not even a method is not answered."""
    this = http1()
    this.send(garbage)
    assert re.match(rb"$|HTTP/1.1 400 ", this.input.read())


def test_later_versions_are_refused(http1):
    this = http1()
    this.send(b"GET /nothing HTTP/3.0\r\n" + HOST + b"\r\n")
    assert this.answer()[0] == 505


@pytest.mark.slow
@pytest.mark.parametrize("sent", [b"", b"P", b"G", b"GET /nothing HTTP/1.1\r\nX: "])
def test_a_head_that_does_not_come(http1, sent):
    """A head that arrives slowly, byte by byte, gets no more time either."""
    this = http1()
    began = time.monotonic()
    this.send(sent)
    this.socket.settimeout(0.5)
    while True:
        try:
            # An HTTP/2 client receives what can be sent before its version is certain.
            if this.socket.recv(1000) == b"":
                break
        except TimeoutError:
            if sent.endswith(b"X: "):
                this.send(b"a")
        except OSError:
            break
        assert time.monotonic() - began < 9
    assert time.monotonic() - began > 3


# One request after the other


def test_a_connection_is_kept(http1, a, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    this = http1()
    for i in range(1, 4):
        this.send(post(topic, b"%d" % i))
        status, body = this.answer()
        assert (status, json.loads(body)["sequence"]) == (200, i)
    this.send(get(topic, "", method="OPTIONS"), get(topic, "request=0", method="HEAD"), GET)
    assert this.answer() == (204, b"")
    assert this.answer(bodiless=True)[0] == 400
    assert problem(this.answer()) == (404, "not-found")
    assert sub.data(3) == numbers(1, 3)


@pytest.mark.parametrize("request_line, field", [("HTTP/1.1", b"Connection: close\r\n"), ("HTTP/1.0", b"")])
def test_a_connection_is_not_kept(http1, request_line, field):
    this = http1()
    this.send(f"GET /nothing {request_line}\r\n".encode() + HOST + field + b"\r\n" + GET)
    assert this.answer()[0] == 404 and this.headers["connection"] == "close"
    this.over()


def test_http_1_0_has_no_host_and_no_chunks(http1, b, topic):
    b.numbers(topic, 1, 1)
    b.control("$SYS.topic.complete", name=topic)
    this = http1()
    this.send(f"GET {path(topic, 'replay=1')} HTTP/1.0\r\n\r\n".encode())
    status, headers = this.head()
    assert status == 200 and "transfer-encoding" not in headers
    body = this.input.read()
    assert b"data: 1\n" in body and body.index(b"data: 1\n") < body.index(b"event: complete\n")


def test_pipelined_publishes_keep_their_order(http1, a, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    this = http1()
    this.send(b"".join(post(topic, b"%d" % i) for i in range(1, 101)))
    assert [json.loads(this.answer()[1])["sequence"] for _ in range(100)] == list(range(1, 101))
    assert sub.data(100) == numbers(1, 100)


def test_pipelined_requests_that_nobody_reads_take_no_memory(own, http1):
    this = http1(own, receive_buffer=4096)
    this.socket.settimeout(1)
    before, sent = own.status("VmRSS"), 0
    try:
        while sent < 64 << 20:
            sent += this.socket.send(GET * 500)
    except TimeoutError:
        pass
    assert sent < 64 << 20 and own.status("VmRSS") - before < 16 << 20


def test_what_is_behind_a_stream_is_thrown_away(http1, a, topic):
    this = http1()
    this.send(get(topic) + post(f"{topic}.other", b"x"))
    assert this.head()[0] == 200 and this.headers["connection"] == "close"
    a.joined(topic, 1)
    this.send(post(f"{topic}.other", b"x"))
    a.numbers(topic, 1, 1)
    this.until(b"data: 1\n")
    assert f"{topic}.other" not in [one["name"] for one in a.listing("$SYS.topics")]
    a.control("$SYS.topic.complete", name=topic)
    this.until(b"event: complete\n")
    while this.chunk():
        pass
    this.over()
    assert f"{topic}.other" not in [one["name"] for one in a.listing("$SYS.topics")]


def test_a_flood_behind_a_stream_ends_it(http1, a, topic):
    """The client sends slowly, so that the broker reads what arrives."""
    this = http1()
    this.send(get(topic))
    assert this.head()[0] == 200
    a.joined(topic, 1)
    this.send(bytes(64 << 10))
    a.barrier(topic)
    a.numbers(topic, 1, 1)
    this.until(b"data: 1\n")
    this.send(b"x")
    this.input.read()
    a.until(topic, lambda info: info["subscriptions"] == 0)


def test_a_stream_behind_answers_that_are_not_read(http1, a, topic):
    """The responses come first, however long they were unread."""
    a.numbers(topic, 1, 1)
    this = http1(receive_buffer=4096)
    this.send(GET * 500 + get(topic, "replay=1"))
    for _ in range(500):
        assert this.answer()[0] == 404
    assert this.head()[0] == 200
    this.until(b"data: 1\n")


# Clients that leave


@pytest.mark.parametrize("how", ["idle", "half an end", "reset", "stalled"])
def test_a_client_that_goes_is_noticed(http1, a, topic, how):
    a.numbers(topic, 1, 1)
    this = http1(receive_buffer=4096)
    this.send(get(topic, "replay=1"))
    assert this.head()[0] == 200
    a.joined(topic, 1)
    if how == "stalled":
        for _ in range(30):
            a.publish(topic, bytes(500_000))
    began = time.monotonic()
    if how == "half an end":
        this.socket.shutdown(socket.SHUT_WR)
    else:
        if how == "reset":
            this.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        this.close()
    a.until(topic, lambda info: info["subscriptions"] == 0)
    assert time.monotonic() - began < 2


@pytest.mark.parametrize("sent", [
    b"G", b"GET /nothing HT", GET + b"GET", get("t", "", b"Content-Length: 3000\r\n", "POST") + bytes(2990),
    b"POST /nothing HTTP/1.1\r\n" + HOST + b"Content-Length: 3000\r\n\r\n" + bytes(2990),
    get("t", "", b"Transfer-Encoding: chunked\r\n", "POST") + b"5\r\nhel",
    b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\nGE"])
def test_a_client_that_goes_in_the_middle_is_noticed(own, connect, sent):
    """The client's end arrives with its last bytes."""
    a = connect(own)
    for _ in range(20):
        this = Line(own.http)
        this.send(sent)
        this.close()
    began = time.monotonic()
    while len(a.listing("$SYS.connections")) > 1:
        assert time.monotonic() - began < 3
        time.sleep(0.05)


def test_a_stalled_stream_holds_up_nobody_and_goes_on(http1, a, b, topic):
    this, sub = http1(receive_buffer=4096), b.subscribe(f"{topic}?buffer=5000")
    this.send(get(topic, "buffer=5000"))
    assert this.head()[0] == 200
    a.joined(topic, 2)
    a.numbers(topic, 1, 1)
    for i in range(2, 60):
        a.publish(topic, b"%d " % i + b"x" * 100_000)
    assert len(sub.take(59)) == 59
    assert this.until(b"data: 59 ").count(b"\ndata: ") >= 59


def test_who_half_closes_is_still_answered(http1, topic):
    this = http1()
    this.send(post(topic, b"hello"))
    this.socket.shutdown(socket.SHUT_WR)
    assert this.answer()[0] == 200
    this.over()


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("kind", ["publish", "refusal", "options"])
def test_many_who_half_close_together_are_all_answered(own, topic, fresh, kind):
    """The broker reads each request together with its client's end."""
    request, status = {
        "publish": (post(topic, b"hello"), 200),
        "refusal": (GET, 404),
        "options": (b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", 204),
    }[kind]
    kept = [] if fresh else [Line(own.http) for _ in range(10)]
    for line in kept:
        line.send(GET)
        assert line.answer()[0] == 404
    own.process.send_signal(signal.SIGSTOP)
    try:
        lines = [Line(own.http) for _ in range(10)] if fresh else kept
        for line in lines:
            line.send(request)
            line.socket.shutdown(socket.SHUT_WR)
    finally:
        own.process.send_signal(signal.SIGCONT)
    for line in lines:
        assert line.answer()[0] == status
        line.over()
        line.close()


def test_streams_that_wait_cost_no_time(http1, broker, a, topic):
    for _ in range(20):
        this = http1(receive_buffer=4096)
        this.send(get(topic))
        assert this.head()[0] == 200
    a.joined(topic, 20)
    for _ in range(10):
        a.publish(topic, bytes(500_000))
    a.barrier(topic)
    time.sleep(0.5)  # What the kernel still accepts.
    before = spent(broker)
    time.sleep(1)
    assert spent(broker) - before < 0.4


# All together


def figures(a) -> dict:
    return {name: a.control("$SYS.info")[name] for name in ("connections", "subscriptions")}


def test_connections_that_come_and_go_leave_nothing(own, http1, connect, topic):
    a = connect(own)
    # On both shards: older connections that stay.
    for this in [http1(own), http1(own)]:
        this.send(GET)
        assert this.answer()[0] == 404

    def round():
        lines = [Line(own.http) for _ in range(250)]
        for i, this in enumerate(lines):
            this.send(get(topic) if i % 2 else post(topic, bytes(100)) + GET)
        for this in lines:
            assert this.head()[0] == 200
        for this in lines:
            this.close()
        a.until(topic, lambda info: info["subscriptions"] == 0)

    def files() -> int:
        return len(list(Path(f"/proc/{own.pid}/fd").iterdir()))

    def settle(most: int):
        until = time.monotonic() + DEADLINE
        while len(a.listing("$SYS.connections")) != 3 or files() > most:
            assert time.monotonic() < until, (len(a.listing("$SYS.connections")), files())
            time.sleep(0.1)

    opened = files()
    round()
    settle(opened + 4)  # The library's own allocations on each shard.
    before = own.status("VmRSS")
    for _ in range(4):
        round()
    settle(opened + 4)
    assert own.status("VmRSS") - before < 12 << 20


def test_shutdown_tells_streams_and_ends_connections(own, http1, connect, topic):
    a = connect(own)
    stream, lines, kept, silent = http1(own), http1(own), http1(own), http1(own)
    stream.send(get(topic))
    lines.send(get(topic, "", b"Accept: application/x-ndjson\r\n"))
    kept.send(GET)
    assert (stream.head()[0], lines.head()[0], kept.answer()[0]) == (200, 200, 404)
    a.joined(topic, 2)
    a.numbers(topic, 1, 1)
    own.process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    stream.until(b"data: 1\n")
    assert lines.until(b'"end":"draining"').count(b"\n") == 2
    for this in (stream, lines):
        while this.chunk():
            pass
    for this in (stream, lines, kept, silent):
        this.over()
    assert own.process.wait(15) == 0 and time.monotonic() - began < 6
    assert not [one for one in own.log if re.search(r"Fatal|libmicrohttpd", one)]


def test_curl_as_it_is(broker, topic):
    """curl receives, on a stream over HTTP/1.1, what is published over both versions, in order."""
    one, two = Curl(broker.http, []), Curl(broker.http, VERSIONS["2"])
    stream = one.stream(path(topic))
    for i in range(1, 11):
        assert (one if i % 2 else two).publish(topic, b"%d" % i).status == 200
    assert stream.version == "HTTP/1.1"
    assert [event.data for event in stream.messages(10)] == [str(i) for i in range(1, 11)]
    one.stop()
