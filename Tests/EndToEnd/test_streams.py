"""The responses to unexpected input that concern a stream, and the life of streams."""

import struct

import pytest

from client import *
from raw import F

pytestmark = pytest.mark.rsocket


def test_stream_ids_need_not_be_contiguous(a, b, topic):
    b.numbers(topic, 1, 1)
    for stream in (101, 7, 0x7FFFFFFF, 55):
        a.send(raw.request(raw.REQUEST_STREAM, stream, b"", a.route(f"{topic}?replay=1"), 1))
        assert Subscription(a, stream, 1, False).data(1) == [b"1"]


def test_stream_ids_that_are_even_are_not_the_clients(connect, b, topic):
    """Even ids are the server's: an error for the stream or for the connection."""
    this = connect()
    this.send(raw.request(raw.REQUEST_RESPONSE, 2, b"x", this.route(topic)))
    eventually(lambda: (this.barrier(topic), this.pending(2)), lambda seen: seen[1])
    frame = this.frame(2)
    assert frame.kind == ERROR and frame.code in (raw.INVALID, raw.REJECTED)
    assert topic not in [one["name"] for one in b.listing("$SYS.topics")]


def test_stream_ids_are_free_again_after_the_end(a, topic):
    for i in range(1, 4):
        a.send(raw.request(raw.REQUEST_RESPONSE, 1001, b"x", a.route(topic)))
        assert a.answer(1001).data == b"%d" % i
    for _ in range(3):
        a.send(raw.request(raw.REQUEST_STREAM, 1003, b"", a.route(f"{topic}?replay=1"), 1))
        assert Subscription(a, 1003, 1, False).data(1) == [b"x"]
        a.send(raw.cancel(1003))


@pytest.mark.parametrize("kind", [raw.REQUEST_STREAM, raw.REQUEST_RESPONSE, raw.REQUEST_CHANNEL, raw.REQUEST_FNF])
def test_unexpected_request_on_an_id_in_use(a, b, topic, kind):
    """Ignored, or ERROR[REJECTED]; the first stream continues in the first case, and the connection in both."""
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


UNEXPECTED = {
    "cancel": raw.cancel(999),
    "cancel on stream 0": raw.cancel(0),
    "error": raw.error(999, raw.APPLICATION_ERROR, "x"),
    "payload": raw.payload(999, b"x"),
    "payload on stream 0": raw.payload(0, b"x"),
    "complete": raw.payload(999, b"x", flags=C),
    "request_n": raw.request_n(999, 5),
    "request_n of 0": raw.request_n(999, 0),
    "request_n on stream 0": raw.request_n(0, 5),
    "fragment": raw.payload(999, b"x", flags=F | N),
    "payload on an even id": raw.payload(998, b"x"),
    "keepalive on a stream": raw.frame(999, raw.KEEPALIVE, raw.R, bytes(8)),
    "lease": raw.frame(0, raw.LEASE, 0, struct.pack(">II", 1000, 5)),
    "lease on a stream": raw.frame(999, raw.LEASE, 0, struct.pack(">II", 1000, 5)),
    "resume_ok": raw.frame(0, raw.RESUME_OK, 0, bytes(8)),
    "setup on a stream": raw.frame(999, raw.SETUP, 0, raw.setup()[9:]),
}


@pytest.mark.parametrize("what", UNEXPECTED)
def test_unexpected_frames_are_ignored(a, topic, what):
    sub = a.subscribe(topic)
    a.send(UNEXPECTED[what])
    a.numbers(topic, 1, 1)
    assert sub.data(1) == [b"1"]
    assert a.pending(999) == a.pending(998) == a.pending(0) == 0


@pytest.mark.parametrize("code", [raw.INVALID_SETUP, raw.UNSUPPORTED_SETUP, raw.REJECTED_SETUP, raw.REJECTED_RESUME])
def test_unexpected_errors_of_setup_from_the_client_are_ignored(a, topic, code):
    sub = a.subscribe(topic)
    a.send(raw.error(0, code, "what for?"))
    a.numbers(topic, 1, 1)
    assert sub.data(1) == [b"1"]


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


def test_request_response_cancelled_is_answered_at_most_once(a, topic):
    streams = [a.call(topic, b"x") for _ in range(20)]
    for stream in streams:
        a.send(raw.cancel(stream), raw.cancel(stream))
    a.barrier(topic)
    assert all(a.pending(stream) <= 1 for stream in streams)


def test_request_fnf_is_never_answered(a, topic):
    """There is no answer, whether or not the message can be published, and the stream ends at once."""
    for path in (topic, "not a name", f"{topic}?nonsense=1"):
        a.send(raw.request(raw.REQUEST_FNF, 1001, b"x", a.route(path)))
    a.until(topic, lambda info: info["published"] == 1)
    assert a.pending(1001) == a.pending(0) == 0


def test_request_stream_is_answered_by_payloads_and_one_end(a, b, topic):
    b.numbers(topic, 1, 3)
    b.control("$SYS.topic.complete", name=topic)
    stream = a.subscribe(f"{topic}?replay=all", n=3).stream
    frames = [a.frame(stream)]
    while not frames[-1].has(C):
        frames.append(a.frame(stream))
    assert [frame.kind for frame in frames] == [PAYLOAD] * len(frames)
    assert [frame.data for frame in frames if frame.has(N)] == numbers(1, 3)
    a.barrier(topic)
    assert a.pending(stream) == 0


def test_request_channel_is_answered_by_request_n(a, topic):
    channel = a.channel(topic, b"0")
    channel.until(lambda: channel.granted)


def test_request_channel_goes_on_after_the_requesters_complete(a, b, topic):
    """The broker's half may still carry acknowledgements: the stream ends once both halves have completed."""
    sub = a.subscribe(f"{topic}?overflow=block&buffer=1", n=1)
    a.joined(topic, 1)
    b.numbers(topic, 1, 2)
    channel = b.channel(topic, b"3", complete=True)
    b.parked(topic, 1)
    assert channel.pending() == 0
    sub.request(5)
    assert sub.data(3) == numbers(1, 3)
    assert channel.end() == End() and channel.acks[-1][0] == 3


def test_error_codes_and_texts_are_those_of_streams(a, b, topic):
    """INVALID, REJECTED and APPLICATION_ERROR, each with a text in UTF-8 without a terminating NUL."""
    b.numbers(topic, 1, 1)
    b.control("$SYS.topic.fail", name=topic, message="zu heiß")
    frames = [a.frame(a.call("not a name")), a.frame(a.call(topic, b"x")), a.frame(a.subscribe(topic).stream)]
    assert [frame.code for frame in frames] == [raw.INVALID, raw.REJECTED, raw.APPLICATION_ERROR]
    assert all(frame.text and "\0" not in frame.text for frame in frames)
    assert frames[2].text == "topic failed: zu heiß"


def test_cancel_ends_a_stream_and_frees_its_id(a, b, topic):
    b.numbers(topic, 1, 5)
    for _ in range(3):
        a.send(raw.request(raw.REQUEST_STREAM, 1001, b"", a.route(f"{topic}?replay=all"), 2))
        assert Subscription(a, 1001, 2, False).data(2) == numbers(1, 2)
        a.send(raw.cancel(1001))
        a.joined(topic, 0)
    assert a.pending(1001) == 0


def test_request_channel_ends_both_halves_by_the_requesters_cancel(b, topic):
    channel = b.channel(topic, b"0", acks=1)
    channel.acknowledged(1)
    channel.cancel()
    b.until(topic, lambda info: info["publishers"] == 0)
    channel.pump()
    count = len(channel.acks)
    b.send(raw.payload(channel.stream, b"after the cancel"), raw.request_n(channel.stream, 5))
    assert b.publish(topic, b"next") == [2]
    assert channel.ended is None and len(channel.acks) == count and b.pending(channel.stream) == 0


def test_request_channel_ends_both_halves_by_the_requesters_error(b, topic):
    channel = b.channel(topic, b"0")
    channel.acknowledged(1)
    channel.fail("trouble")
    b.until(topic, lambda info: info["publishers"] == 0)
    b.send(raw.payload(channel.stream, b"after the error"))
    assert b.publish(topic, b"next") == [2]


def test_request_channel_takes_nothing_behind_its_complete(a, b, topic):
    channel = b.channel(topic, b"0")
    channel.complete()
    channel.force(b"after the complete")
    assert channel.end().code in (None, raw.REJECTED)
    assert b.publish(topic, b"next") == [2]


def test_payload_with_neither_next_nor_complete_is_an_empty_item(a, b, topic):
    """rsocket-py sends this for an empty item: it is a message, and costs one credit."""
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    channel = b.channel(topic, b"0")
    channel.send(b"", flags=0)
    channel.send(b"2")
    channel.send(b"", flags=N)
    channel.complete()
    assert channel.end() == End()
    assert sub.data(4) == [b"0", b"", b"2", b""]


def test_payload_on_a_subscription_is_ignored(a, b, topic):
    sub = a.subscribe(topic)
    a.send(raw.payload(sub.stream, b"what for?"), raw.payload(sub.stream, flags=C))
    a.joined(topic, 1)
    b.numbers(topic, 1, 1)
    assert sub.data(1) == [b"1"]


def test_error_on_a_subscription_ends_it(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    a.send(raw.error(sub.stream, raw.APPLICATION_ERROR, "I cannot go on"))
    b.barrier(topic)
    a.barrier(topic)
    b.numbers(topic, 1, 1)
    a.barrier(topic)
    assert a.pending(sub.stream) in (0, 1)  # The specification does not allow a stream's requester to send ERROR.


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
