"""Floods of requests that are cancelled at once and cost their sender a few bytes each: others are still served,
and nothing remains afterwards."""

import select
from concurrent.futures import ThreadPoolExecutor

import pytest

from client import *

pytestmark = pytest.mark.rsocket

TIMES = 4  # How often each connection sends its thousand requests.


def pairs(route: bytes, kind=raw.REQUEST_STREAM, data=b"", n=1) -> bytes:
    """A thousand requests, each followed by its cancel."""
    n = None if kind == raw.REQUEST_RESPONSE else n
    return b"".join(raw.request(kind, stream, data, route, n) + raw.cancel(stream) for stream in range(1, 2000, 2))


def flood(connection, chunk: bytes):
    """Sends the chunk several times, as fast as it is accepted, and reads the responses."""
    this, left = connection.socket, memoryview(chunk * TIMES)
    this.settimeout(0)
    while left:
        readable, writable, _ = select.select([this], [this], [], DEADLINE)
        if readable:
            assert this.recv(1 << 20), "the broker has closed the connection"
        if writable:
            left = left[this.send(left):]


FLOODS = {
    "subscriptions": lambda topic: pairs(raw.route(topic)),
    "lists": lambda topic: pairs(raw.route("$SYS.topics")),
    "lists of subscriptions": lambda topic: pairs(raw.route("$SYS.subscriptions")),
    "calls": lambda topic: pairs(raw.route(f"$SYS.topic.info?name={topic}"), raw.REQUEST_RESPONSE),
    "publishes": lambda topic: pairs(raw.route(topic), raw.REQUEST_RESPONSE, b"x"),
    "channels": lambda topic: pairs(raw.route(topic), raw.REQUEST_CHANNEL, b"x"),
    "requests that are refused": lambda topic: pairs(raw.route("not a name")),
}


@pytest.mark.parametrize("what", FLOODS)
def test_requests_given_up_at_once_hold_up_nobody(broker, line, a, b, topic, what):
    """Four connections, so that each shard has some. A client on another connection receives responses all the time."""
    for number in range(64):  # So that lists have pages, on each shard.
        b.publish(f"{topic}.{number}", b"x")
    sub, before = a.subscribe(f"{topic}.beside"), broker.status("VmRSS")
    a.joined(f"{topic}.beside", 1)
    chunk = FLOODS[what](f"{topic}.1")
    lines = [line() for _ in range(4)]
    for one in lines:
        one.send(raw.setup())
    published = 0
    with ThreadPoolExecutor() as pool:
        floods = [pool.submit(flood, one, chunk) for one in lines]
        while not all(one.done() for one in floods):
            published += 1
            b.numbers(f"{topic}.beside", published, published)
            assert sub.data(1) == [b"%d" % published]
        for one in floods:
            one.result()
    for one in lines:
        one.close()
    eventually(lambda: len(b.listing("$SYS.connections")), lambda count: count == 2)
    b.joined(f"{topic}.beside", 1)
    assert len(b.listing("$SYS.subscriptions")) == 1
    assert broker.status("VmRSS") - before < 64 << 20
