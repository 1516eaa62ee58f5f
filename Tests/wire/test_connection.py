"""Set-up, framing, and the answers to the unexpected, on the connection and on its streams."""

import struct

import pytest

from client import *
from raw import C, F, I, N


@pytest.fixture
def line(broker):
    """Opens plain connections on which nothing was sent yet."""
    opened = []

    def open_line() -> raw.Connection:
        opened.append(raw.Connection(broker.address))
        return opened[-1]

    yield open_line
    for one in opened:
        one.close()


@pytest.fixture
def witness(a, b, topic):
    """A stream on another connection, which must go on whatever happened meanwhile."""
    sub = a.subscribe(f"{topic}.witness")
    a.joined(f"{topic}.witness", 1)
    yield sub
    b.numbers(f"{topic}.witness", 1, 1)
    assert sub.data(1) == [b"1"]


def refused(connection, *codes: int) -> str:
    """ERROR on stream 0 with one of `codes`, and then the end of the connection."""
    frame = connection.frame(0)
    assert frame.kind == ERROR and frame.code in codes, frame
    assert frame.text
    connection.end()
    return frame.text


# Set-up


def test_there_is_no_answer_to_setup(a, topic):
    a.barrier(topic)
    assert a.pending(0) == 0


def test_requests_may_be_pipelined_behind_setup(line, b, topic):
    b.numbers(topic, 1, 2)
    this = line()
    this.opened |= {1, 3}
    this.socket.sendall(raw.setup() + raw.request(raw.REQUEST_STREAM, 1, b"", raw.route(f"{topic}?replay=all"), 5)
                        + raw.request(raw.REQUEST_RESPONSE, 3, b"3", raw.route(topic)))
    assert [this.frame(1).data for _ in range(3)] == numbers(1, 3)
    assert this.frame(3).data == b"3"


@pytest.mark.parametrize("first", [
    raw.request(raw.REQUEST_STREAM, 1, b"", raw.route("x"), 5), raw.keepalive(b"x"), raw.request_n(1, 1),
    raw.frame(0, raw.METADATA_PUSH, raw.M, b"x"), raw.setup()[:3] + struct.pack(">I", 1) + raw.setup()[7:],
], ids=["request", "keepalive", "request_n", "metadata push", "setup on stream 1"])
def test_the_first_frame_must_be_setup(line, witness, first):
    this = line()
    this.send(first)
    refused(this, raw.INVALID_SETUP)


@pytest.mark.parametrize("cut", [1, 5, 12, 20, 40])
def test_a_setup_cut_short_is_invalid(line, witness, cut):
    whole = raw.setup()[3:]
    part = whole[: len(whole) - cut] if cut < 40 else whole[:8]
    this = line()
    this.send(raw.u24(len(part)) + part)
    if cut == 1:  # The last byte of the data's mime is missing.
        refused(this, raw.INVALID_SETUP)
    else:
        refused(this, raw.INVALID_SETUP, raw.CONNECTION_ERROR)


def test_an_unknown_version_is_refused(line, witness):
    this = line()
    this.send(raw.setup(version=(2, 0)))
    refused(this, raw.UNSUPPORTED_SETUP, raw.INVALID_SETUP)


def test_resume_in_setup_is_refused(line, witness):
    this = line()
    this.send(raw.setup(flags=raw.R, token=b"token"))
    refused(this, raw.REJECTED_SETUP, raw.UNSUPPORTED_SETUP)


def test_lease_in_setup_is_refused(line, witness):
    this = line()
    this.send(raw.setup(flags=raw.L))
    refused(this, raw.UNSUPPORTED_SETUP, raw.REJECTED_SETUP)


def test_a_request_behind_a_refused_setup_is_not_served(line, b, topic):
    this = line()
    this.send(raw.setup(flags=raw.L), raw.request(raw.REQUEST_FNF, 1, b"x", raw.route(topic)))
    refused(this, raw.UNSUPPORTED_SETUP, raw.REJECTED_SETUP)
    assert topic not in [one["name"] for one in b.listing("$SYS.topics")]


def test_resume_is_refused(line, witness):
    this = line()
    this.send(raw.resume(b"token"))
    refused(this, raw.REJECTED_RESUME)


def test_resume_after_setup_is_an_error(line, witness):
    this = line()
    this.send(raw.setup(), raw.resume(b"token"))
    refused(this, raw.CONNECTION_ERROR)


def test_a_second_setup_is_ignored(a, topic):
    sub = a.subscribe(topic)
    a.send(raw.setup(mime=b"text/plain"))
    a.numbers(topic, 1, 1)
    assert sub.data(1) == [b"1"]


def test_setup_may_carry_metadata_and_data(line, topic):
    plain = raw.setup()[9:]
    authentication = raw.entry(0x7C, b"\x81token")
    this = line()
    this.send(raw.frame(0, raw.SETUP, raw.M, plain + raw.u24(len(authentication)) + authentication + b"data"),
              raw.request(raw.REQUEST_RESPONSE, 1, b"x", raw.route(topic)))
    assert this.frame(1).data == b"1"


def test_mimes_in_setup_have_plain_lengths(line, topic):
    """A mime of 200 bytes, which as an id would be a well-known one."""
    this = line()
    this.send(raw.setup(mime=b"x" * 200), raw.request(raw.REQUEST_RESPONSE, 1, b"x", topic.encode()))
    assert this.frame(1).data == b"1"


# Framing


BROKEN = {
    "metadata longer than its frame": raw.frame(1, raw.REQUEST_RESPONSE, M, raw.u24(100) + b"short"),
    "metadata length cut short": raw.frame(1, raw.REQUEST_RESPONSE, M, b"\x00"),
    "payload's metadata longer than its frame": raw.frame(1, PAYLOAD, M | N, raw.u24(100) + b"short"),
    "an unknown type": raw.frame(1, 0x2A),
    "type 0": raw.frame(1, 0x00),
    "an unknown type on stream 0": raw.frame(0, 0x2A),
    "EXT without I": raw.frame(0, raw.EXT, 0, struct.pack(">I", 7)),
    "a frame without a header": raw.u24(0),
    "a frame of 5 bytes": raw.u24(5) + b"12345",
    "a stream request without its n": raw.frame(1, raw.REQUEST_STREAM, 0, b"\x00\x00"),
    "a REQUEST_N without its n": raw.frame(1, raw.REQUEST_N, 0, b"\x00"),
    "a keepalive without its position": raw.frame(0, raw.KEEPALIVE, raw.R, b"\x00"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_framing_is_a_connection_error(line, witness, what):
    """…and kills that connection only: the witness's stream goes on."""
    this = line()
    this.send(raw.setup())
    this.opened.add(1)
    this.send(BROKEN[what])
    refused(this, raw.CONNECTION_ERROR)


@pytest.mark.parametrize("noise", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
                                   bytes(300), b"\xff" * 300, bytes(range(256))])
def test_what_is_no_rsocket_is_refused(line, witness, noise):
    this = line()
    this.socket.sendall(noise)
    this.socket.shutdown(1)
    this.opened |= {raw.parse(noise[3:]).stream} if noise[3] < 128 else set()
    this.end()


@pytest.mark.parametrize("what", [
    raw.frame(0, 0x2A, I, b"x"), raw.frame(7, 0x2A, I, b"x"), raw.frame(0, raw.EXT, I, struct.pack(">I", 7)),
    raw.frame(7, raw.EXT, I | M, struct.pack(">I", 7) + raw.u24(500)), raw.frame(7, 0x00, I),
], ids=["unknown", "unknown on a stream", "EXT", "EXT with bad metadata", "type 0"])
def test_what_may_be_ignored_is_ignored(a, topic, what):
    sub = a.subscribe(topic)
    a.send(what)
    a.numbers(topic, 1, 1)
    assert sub.data(1) == [b"1"]
    assert a.pending(0) == 0


def test_metadata_longer_than_its_frame_is_ignored_with_i(a, topic):
    sub = a.subscribe(topic)
    a.send(raw.frame(next(a.ids), raw.REQUEST_RESPONSE, M | I, raw.u24(100) + b"short"))
    a.numbers(topic, 1, 1)
    assert sub.data(1) == [b"1"]


def test_frames_byte_by_byte(line, topic):
    this = line()
    this.opened.add(1)
    for byte in raw.setup() + raw.request(raw.REQUEST_RESPONSE, 1, b"slowly", raw.route(topic)):
        this.socket.sendall(bytes([byte]))
    assert this.frame(1).data == b"1"


def test_many_frames_in_one_write(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    streams = [next(b.ids) for _ in range(1000)]
    b.send(*(raw.request(raw.REQUEST_RESPONSE, stream, b"%d" % i, b.route(topic)) for i, stream in enumerate(streams)))
    assert [int(b.answer(stream).data) for stream in streams] == list(range(1, 1001))
    assert sub.data(1000) == numbers(0, 999)


def test_unspecified_flags_are_ignored(a, topic):
    sub = a.subscribe(topic)
    a.send(raw.frame(sub.stream, raw.REQUEST_N, 0x0FF, struct.pack(">I", 1)))
    stream = next(a.ids)
    a.send(raw.request(raw.REQUEST_RESPONSE, stream, b"x", a.route(topic), flags=0x01F))
    assert a.answer(stream).data == b"1"
    assert sub.data(1) == [b"x"]
    a.send(raw.frame(sub.stream, raw.CANCEL, 0x0FF))
    a.joined(topic, 0)


def test_the_reserved_bit_of_a_stream_id_is_masked(a, topic):
    stream = next(a.ids)
    a.send(raw.request(raw.REQUEST_RESPONSE, stream | 1 << 31, b"x", a.route(topic)))
    assert a.answer(stream).data == b"1"


def test_a_half_frame_and_then_the_end(line, witness):
    this = line()
    this.send(raw.setup(), raw.request(raw.REQUEST_RESPONSE, 1, b"x" * 100, raw.route("x"))[:50])
    this.close()


def test_oversize_is_refused_while_other_streams_go_on(broker, a, b, topic):
    """The largest frame that the length allows, sent on the connection of another stream."""
    sub = b.subscribe(topic)
    b.joined(topic, 1)
    before = broker.status("VmHWM")
    stream = next(b.ids)
    body = raw.body(bytes(0xFFFFFF - 6 - 3 - len(b.route(topic))), b.route(topic))
    whole = raw.frame(stream, raw.REQUEST_RESPONSE, M, body)
    b.opened.add(stream)
    b.socket.sendall(whole[: 2 << 20])
    frame = b.frame(stream)  # Before the rest is sent.
    assert frame.kind == ERROR and frame.code == raw.REJECTED
    b.socket.sendall(whole[2 << 20 :])
    assert b.numbers(topic, 1, 1) == [1]
    assert sub.data(1) == [b"1"]
    assert broker.status("VmHWM") - before < 8 << 20


def test_oversize_before_setup_is_refused(line, witness):
    this = line()
    this.socket.sendall(raw.u24(0xFFFFFF) + raw.setup()[3:] + bytes(100))
    refused(this, raw.INVALID_SETUP, raw.CONNECTION_ERROR)


# Streams


def test_stream_ids_need_not_be_contiguous(a, b, topic):
    b.numbers(topic, 1, 1)
    for stream in (101, 7, 0x7FFFFFFF, 55):
        a.send(raw.request(raw.REQUEST_STREAM, stream, b"", a.route(f"{topic}?replay=1"), 1))
        assert Subscription(a, stream, 1, False).data(1) == [b"1"]


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


@pytest.mark.parametrize("what", [
    raw.cancel(999), raw.error(999, raw.APPLICATION_ERROR, "x"), raw.payload(999, b"x"), raw.payload(999, b"x", flags=C),
    raw.request_n(999, 5), raw.request_n(999, 0), raw.payload(999, b"x", flags=F | N), raw.payload(998, b"x"),
], ids=["cancel", "error", "payload", "complete", "request_n", "request_n of 0", "fragment", "payload on an even id"])
def test_frames_on_an_unknown_id_are_ignored(a, topic, what):
    sub = a.subscribe(topic)
    a.send(what)
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


def test_an_error_on_stream_0_from_the_client(line, b, witness, topic):
    """The client gives up: the broker closes, or goes on until the client does."""
    this = line()
    this.send(raw.setup(), raw.error(0, raw.CONNECTION_ERROR, "I give up"))
    this.close()


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
