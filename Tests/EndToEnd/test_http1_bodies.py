"""Bodies over HTTP/1.1: chunked, announced by Expect, refused before they arrive, too long, too slow, never ending."""

import socket
import time

import pytest

from common import *
from curl import path
from http1 import *

pytestmark = pytest.mark.rsocket  # The observers' transport: `a` and `b`.


def test_a_body_in_chunks(http1, a, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    this = http1()
    this.send(get(topic, "", b"Transfer-Encoding: Chunked\r\n", "POST"), b"3\r\nabc\r\n", b"2;x=y\r\nde\r\n", b"0\r\n",
              b"Trailer: ignored\r\n\r\n")
    assert this.answer()[0] == 200
    assert sub.data(1) == [b"abcde"]


def test_100_continue(http1, topic):
    this = http1()
    this.send(get(topic, "", b"Expect: 100-continue\r\nContent-Length: 5\r\n", "POST"))
    assert this.answer() == (100, b"")
    this.send(b"hello")
    assert this.answer()[0] == 200


@pytest.mark.parametrize("where, length, status", [("/nothing", 5, 404), (path("t"), 2 << 20, 413),
                                                   (path("a..b"), 5, 400)])
def test_100_continue_refused(http1, where, length, status):
    this = http1()
    this.send(b"POST %s HTTP/1.1\r\n%sExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % (
        where.encode(), HOST, length))
    began = time.monotonic()
    assert problem(this.answer())[0] == status
    assert time.monotonic() - began < 1.5
    this.over()


def test_a_refusal_comes_behind_the_body(http1):
    this = http1()
    this.send(b"POST /nothing HTTP/1.1\r\n" + HOST + b"Content-Length: 3000000\r\n\r\n" + bytes(3_000_000))
    assert problem(this.answer()) == (404, "not-found")
    this.send(GET)
    assert this.answer()[0] == 404


def test_a_refusal_of_a_body_that_does_not_come(http1):
    this = http1()
    this.send(b"POST /nothing HTTP/1.1\r\n" + HOST + b"Content-Length: 3000000\r\n\r\n" + bytes(1000))
    assert problem(this.answer()) == (404, "not-found")
    assert this.headers["connection"] == "close"
    this.over()


def test_a_stream_asked_for_with_a_body(http1, a, topic):
    for number in range(8):  # Topics on this shard and on others.
        this, name = http1(), f"{topic}.{number}"
        this.send(get(name, "", b"Content-Length: 5\r\n"))
        a.joined(name, 1)
        this.send(b"hello")
        status, headers = this.head()
        assert status == 200 and headers["transfer-encoding"] == "chunked" and "content-length" not in headers
        this.until(b"event: subscribed")
        a.publish(name, b"%d" % number)
        assert b"data: %d\n" % number in this.until(b"data: %d\n" % number)
        this.close()


def test_a_body_that_never_ends(http1, b, topic):
    this = http1()
    this.send(get(topic, "", b"Transfer-Encoding: chunked\r\n", "POST"))
    this.socket.settimeout(0.1)
    began, told = time.monotonic(), b""
    while not told and time.monotonic() - began < DEADLINE:
        try:
            this.send(b"10000\r\n" + bytes(0x10000) + b"\r\n")
        except (TimeoutError, ConnectionError):
            break
        try:
            told = this.socket.recv(12, socket.MSG_PEEK)
        except TimeoutError:
            pass
    assert told == b"HTTP/1.1 413"
    assert topic not in [one["name"] for one in b.listing("$SYS.topics")]


@pytest.mark.slow
def test_a_body_that_comes_too_slowly(http1, topic):
    this = http1()
    this.send(get(topic, "", b"Content-Length: 5\r\n", "POST"), b"he")
    this.socket.settimeout(40)
    assert problem(this.answer()) == (408, "timeout")
    this.over()


@pytest.mark.parametrize("more, body", [
    (b"Content-Length: 3\r\n", b"abc"), (b"Content-Length: 3\r\nExpect: 100-continue\r\n", b"abc"),
    (b"Transfer-Encoding: chunked\r\n", b"3\r\nabc\r\n0\r\n\r\n")])
@pytest.mark.parametrize("together", [True, False])
def test_a_stream_whose_request_has_a_body(http1, a, topic, more, body, together):
    """The stream begins before the body or after it."""
    this = http1()
    this.send(*([get(topic, "", more) + body] if together else [get(topic, "", more), body]))
    status, _ = this.head()
    assert (status if status != 100 else this.head()[0]) == 200
    a.joined(topic, 1)
    a.numbers(topic, 1, 1)
    this.until(b"data: 1\n")
    this.close()
    a.joined(topic, 0)
