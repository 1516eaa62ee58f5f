"""Ambiguous HTTP/1.1 requests, each refused together with what may be smuggled after it (RFC 9112, 11.2); and requests
that are too long, or meant for another version."""

import subprocess
import time

import pytest

from http1 import *

pytestmark = pytest.mark.rsocket  # The observer's transport: `b`.

CHUNKED = b"Transfer-Encoding: chunked\r\n"
TWO_WAYS = {
    "both lengths": CHUNKED + b"Content-Length: 5\r\n",
    "another coding": b"Transfer-Encoding: gzip, chunked\r\n",
    "a coding twice": CHUNKED + b"Transfer-Encoding: identity\r\n",
    "a coding that is none": b"Transfer-Encoding: xchunked\r\n",
    "lengths that differ": b"Content-Length: 5\r\nContent-Length: 6\r\n",
    "a length twice": b"Content-Length: 5\r\nContent-Length: 5\r\n",
    "a list of lengths": b"Content-Length: 5, 5\r\n",
    "a sign": b"Content-Length: +5\r\n",
    "a negative length": b"Content-Length: -5\r\n",
    "a length in hexadecimal": b"Content-Length: 0x5\r\n",
    "a blank before the colon": b"Content-Length : 5\r\n",
    "a folded line": b"X: y\r\n Content-Length: 5\r\n",
    "a folded coding": b"Transfer-Encoding:\r\n chunked\r\n",
    "a line feed alone": b"X: y\nContent-Length: 5\r\n",
    "a carriage return alone": b"X: y\rContent-Length: 5\r\n",
    "a NUL in a value": b"Content-Length: 5\0\r\n",
    "a NUL in a name": b"Content\0-Length: 5\r\n",
}


@pytest.mark.parametrize("case", TWO_WAYS)
def test_what_could_be_read_in_two_ways(http1, b, topic, case):
    """The request is refused, and so is what could be a request after it."""
    this = http1()
    behind = post(f"{topic}.hidden", b"x")
    this.send(get(topic, "", TWO_WAYS[case], "POST") + b"0\r\n\r\n" + behind)
    assert this.head()[0] == 400
    rest = this.input.read()
    assert b"HTTP/1.1 2" not in rest and b"sequence" not in rest
    names = [one["name"] for one in b.listing("$SYS.topics")]
    assert topic not in names and f"{topic}.hidden" not in names


LENGTHS = [b"-1", b"+3", b"3 ", b"0x3", b"3,3", b"", b"3a", b"18446744073709551616", b"99999999999999999999999"]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("pieces", [False, True])
def test_a_length_that_is_none_is_answered_once(http1, b, topic, length, kept, pieces):
    this, others = http1(), [http1() for _ in range(3)]
    for other in others:
        other.send(GET[:-2])  # The others' unfinished requests do not affect the broker's answer.
    if kept:
        this.send(GET)
        assert this.answer()[0] == 404
    request = get(topic, "", b"Content-Length: " + length + b"\r\n", "POST") + b"abc"
    if pieces:
        this.send(request[:60])
        others[0].send(b"X: y\r\n")
        time.sleep(0.05)  # So that the pieces arrive separately; the outcome does not depend on that.
        this.send(request[60:])
    else:
        this.send(request)
    assert problem(this.answer()) == (400, "invalid")
    this.over()
    for other in others:
        other.send(b"\r\n")
        assert problem(other.answer()) == (404, "not-found")
    assert topic not in [one["name"] for one in b.listing("$SYS.topics")]


@pytest.mark.parametrize("first", [b"GET /nothing\0 HTTP/1.1", b"GET  /nothing HTTP/1.1", b"GET /nothing  HTTP/1.1",
                                   b"GET /no thing HTTP/1.1", b"GET /nothing HTTP/1.1 "])
def test_a_request_line_that_could_be_read_in_two_ways(http1, first):
    this = http1()
    this.send(first + b"\r\n" + HOST + b"\r\n")
    answer = this.answer()
    assert answer[0] in (400, 505)
    if first.startswith(b"GET  "):
        assert b"spaces" in answer[1]


@pytest.mark.parametrize("first", [b"GET", b"GET\t/nothing\tHTTP/1.1"])
def test_a_first_line_without_a_blank_ends_the_connection(http1, first):
    this = http1()
    this.send(first + b"\r\n" + HOST + b"\r\n")
    this.over()


@pytest.mark.parametrize("hosts", [0, 2])
def test_host_comes_once(http1, hosts):
    this = http1()
    this.send(b"GET /nothing HTTP/1.1\r\n" + hosts * HOST + b"\r\n")
    assert problem(this.answer()) == (400, "invalid")


def test_a_whole_uri(http1):
    this = http1()
    this.send(b"GET http://elsewhere:1/nothing HTTP/1.1\r\n" + HOST + b"\r\n")
    assert problem(this.answer()) == (404, "not-found")


def test_grpc_is_told_what_it_needs(http1, topic):
    """gRPC is recognized by its path; a message may have that type like any other."""
    this, kind = http1(), b"Content-Type: application/grpc+proto\r\n"
    this.send(b"POST /forebay.v1.PubSub/PublishOne HTTP/1.1\r\n" + HOST + kind + b"Content-Length: 5\r\n\r\nhello")
    assert problem(this.answer()) == (505, "http-version")
    this = http1()
    this.send(post(topic, b"hello", kind))
    assert this.answer()[0] == 200


@pytest.mark.parametrize("size, status", [(7_000, 404), (9_000, 414), (100_000, 414)])
def test_long_targets(http1, size, status):
    this = http1()
    this.send(b"GET /" + b"a" * size + b" HTTP/1.1\r\n" + HOST + b"\r\n")
    assert this.head()[0] == status


@pytest.mark.parametrize("fields, status", [
    (b"X: " + b"a" * 12_000 + b"\r\n", 404), (b"X: " + b"a" * 17_000 + b"\r\n", 431),
    (b"X: " + b"a" * 100_000 + b"\r\n", 431), (b"X: y\r\n" * 1000, 431)])
def test_long_heads(http1, fields, status):
    this = http1()
    this.send(b"GET /nothing HTTP/1.1\r\n" + HOST + fields + b"\r\n")
    assert this.head()[0] == status


def test_upgrade_is_ignored(broker):
    done = subprocess.run(["curl", "-q", "-sS", "-i", "--http2", "http://%s:%d/nothing" % broker.http],
                          capture_output=True, timeout=20)
    assert done.stdout.startswith(b"HTTP/1.1 404 ")
