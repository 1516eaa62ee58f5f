"""The answers to the unexpected that concern a stream, and the life of streams."""

import pytest

from client import *
from raw import F

pytestmark = pytest.mark.rsocket


def test_stream_ids_need_not_be_contiguous(a, b, topic):
    b.numbers(topic, 1, 1)
    for stream in (101, 7, 0x7FFFFFFF, 55):
        a.send(raw.request(raw.REQUEST_STREAM, stream, b"", a.route(f"{topic}?replay=1"), 1))
        assert Subscription(a, stream, 1, False).data(1) == [b"1"]


def test_a_request_on_an_even_stream_id_is_not_served(connect, b, topic):
    """Even ids are the server's: an error for the stream or for the connection."""
    this = connect()
    this.send(raw.request(raw.REQUEST_RESPONSE, 2, b"x", this.route(topic)))
    eventually(lambda: (this.barrier(topic), this.pending(2)), lambda seen: seen[1])
    frame = this.frame(2)
    assert frame.kind == ERROR and frame.code in (raw.INVALID, raw.REJECTED)
    assert topic not in [one["name"] for one in b.listing("$SYS.topics")]


def test_a_stream_id_is_free_again_after_its_end(a, topic):
    for i in range(1, 4):
        a.send(raw.request(raw.REQUEST_RESPONSE, 1001, b"x", a.route(topic)))
        assert a.answer(1001).data == b"%d" % i
    for _ in range(3):
        a.send(raw.request(raw.REQUEST_STREAM, 1003, b"", a.route(f"{topic}?replay=1"), 1))
        assert Subscription(a, 1003, 1, False).data(1) == [b"x"]
        a.send(raw.cancel(1003))


@pytest.mark.parametrize("kind", [raw.REQUEST_STREAM, raw.REQUEST_RESPONSE, raw.REQUEST_CHANNEL, raw.REQUEST_FNF])
def test_a_request_on_an_id_in_use(a, b, topic, kind):
    """Ignored, or ERROR[REJECTED]; the first stream goes on in the first case, and the connection in both."""
    sub = a.subscribe(topic, n=5)
    a.joined(topic, 1)
    n = 5 if kind in (raw.REQUEST_STREAM, raw.REQUEST_CHANNEL) else None
    a.send(raw.request(kind, sub.stream, b"x", a.route(f"{topic}.second"), n))
    a.barrier(topic)
    if a.pending(sub.stream):
        assert sub.end().code == raw.REJECTED
    else:
        b.numbers(topic, 1, 1)
        assert sub.data(1) == [b"1"]
    assert f"{topic}.second" not in [one["name"] for one in b.listing("$SYS.topics")]


UNKNOWN = {
    "cancel": raw.cancel(999),
    "error": raw.error(999, raw.APPLICATION_ERROR, "x"),
    "payload": raw.payload(999, b"x"),
    "complete": raw.payload(999, b"x", flags=C),
    "request_n": raw.request_n(999, 5),
    "request_n of 0": raw.request_n(999, 0),
    "fragment": raw.payload(999, b"x", flags=F | N),
    "payload on an even id": raw.payload(998, b"x"),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_frames_on_an_unknown_id_are_ignored(a, topic, what):
    sub = a.subscribe(topic)
    a.send(UNKNOWN[what])
    a.numbers(topic, 1, 1)
    assert sub.data(1) == [b"1"]
    assert a.pending(999) == a.pending(998) == a.pending(0) == 0


@pytest.mark.parametrize("stream", [0, 999])
def test_metadata_push_is_taken_quietly(a, topic, stream):
    sub = a.subscribe(topic)
    a.send(raw.frame(stream, raw.METADATA_PUSH, M, b"anything"))
    a.numbers(topic, 1, 1)
    assert sub.data(1) == [b"1"]
    assert a.pending(0) == a.pending(999) == 0


def test_request_response_is_answered_in_one_frame(a, topic):
    frame = a.frame(a.call(topic, b"x"))
    assert frame.kind == PAYLOAD and frame.has(N) and frame.has(C)
    a.barrier(topic)


def test_a_cancelled_request_response_is_answered_at_most_once(a, topic):
    streams = [a.call(topic, b"x") for _ in range(20)]
    for stream in streams:
        a.send(raw.cancel(stream), raw.cancel(stream))
    a.barrier(topic)
    assert all(a.pending(stream) <= 1 for stream in streams)


def test_a_channel_ends_both_halves_by_the_requesters_cancel(b, topic):
    channel = b.channel(topic, b"0", acks=1)
    channel.acknowledged(1)
    channel.cancel()
    b.until(topic, lambda info: info["publishers"] == 0)
    channel.pump()
    count = len(channel.acks)
    b.send(raw.payload(channel.stream, b"after the cancel"), raw.request_n(channel.stream, 5))
    assert b.publish(topic, b"next") == [2]
    assert channel.ended is None and len(channel.acks) == count and b.pending(channel.stream) == 0


def test_a_channel_ends_both_halves_by_the_requesters_error(b, topic):
    channel = b.channel(topic, b"0")
    channel.acknowledged(1)
    channel.fail("trouble")
    b.until(topic, lambda info: info["publishers"] == 0)
    b.send(raw.payload(channel.stream, b"after the error"))
    assert b.publish(topic, b"next") == [2]


def test_a_channels_payload_after_its_complete_is_ignored(a, b, topic):
    channel = b.channel(topic, b"0")
    channel.complete()
    channel.force(b"after the complete")
    assert channel.end().code in (None, raw.REJECTED)
    assert b.publish(topic, b"next") == [2]


def test_a_payload_with_neither_next_nor_complete_is_an_empty_item(a, b, topic):
    """What rsocket-py sends for an empty item: it takes its place, and costs its credit."""
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    channel = b.channel(topic, b"0")
    channel.send(b"", flags=0)
    channel.send(b"2")
    channel.send(b"", flags=N)
    channel.complete()
    assert channel.end() == End()
    assert sub.data(4) == [b"0", b"", b"2", b""]


def test_a_payload_on_a_subscription_is_ignored(a, b, topic):
    sub = a.subscribe(topic)
    a.send(raw.payload(sub.stream, b"what for?"), raw.payload(sub.stream, flags=C))
    a.joined(topic, 1)
    b.numbers(topic, 1, 1)
    assert sub.data(1) == [b"1"]


def test_an_error_on_a_subscription_ends_it(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    a.send(raw.error(sub.stream, raw.APPLICATION_ERROR, "I cannot go on"))
    b.barrier(topic)
    a.barrier(topic)
    b.numbers(topic, 1, 1)
    a.barrier(topic)
    assert a.pending(sub.stream) in (0, 1)  # The specification gives a stream's requester no ERROR to send.


def test_many_streams_on_one_connection(a, b, topic):
    subs = [a.subscribe(f"{topic}.{i % 20}") for i in range(1000)]
    for i in range(20):
        a.joined(f"{topic}.{i}", 50)
        b.numbers(f"{topic}.{i}", i, i)
    for i, sub in enumerate(subs):
        assert sub.data(1) == [b"%d" % (i % 20)]


def test_a_lost_connection_leaves_nothing_behind(connect, b, topic):
    lost = connect()
    for n in (1, UNBOUNDED):
        lost.subscribe(topic, n=n)
    lost.channel(topic, b"1").acknowledged(1)
    b.until(topic, lambda info: (info["subscriptions"], info["publishers"]) == (2, 1))
    lost.close()
    b.until(topic, lambda info: (info["subscriptions"], info["publishers"]) == (0, 0))


def test_a_half_closed_connection_is_over(connect, b, topic):
    """A FIN from the client, in the middle of its streams."""
    this = connect()
    this.subscribe(topic)
    b.joined(topic, 1)
    this.socket.shutdown(1)
    this.end()
    b.joined(topic, 0)


def test_connections_that_come_and_go(connect, b, topic):
    for i in range(200):
        this = connect()
        this.subscribe(topic)
        if i % 3:
            this.barrier(topic)
        this.close()
    b.joined(topic, 0)
