"""Set-up and framing: the responses to unexpected input that concern the connection."""

import struct

import pytest

from client import *
from raw import I

pytestmark = pytest.mark.rsocket


@pytest.fixture
def witness(a, b, topic):
    """A stream on another connection, which must continue whatever happens in the meantime."""
    sub = a.subscribe(f"{topic}.witness")
    a.joined(f"{topic}.witness", 1)
    yield sub
    b.numbers(f"{topic}.witness", 1, 1)
    assert sub.data(1) == [b"1"]


def refused(connection, *codes: int) -> str:
    """Expects ERROR on stream 0 with one of `codes`, and then the end of the connection."""
    frame = connection.frame(0)
    assert frame.kind == ERROR and frame.code in codes, frame
    assert frame.text
    connection.end()
    return frame.text


# Set-up


def test_establishment_has_no_answer(a, topic):
    a.barrier(topic)
    assert a.pending(0) == 0


def test_establishment_takes_requests_right_behind_setup(line, b, topic):
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
def test_establishment_begins_with_setup(line, witness, first):
    this = line()
    this.send(first)
    refused(this, raw.INVALID_SETUP)


@pytest.mark.parametrize("cut", [1, 5, 12, 20, 40])
def test_setup_cut_short_is_invalid(line, witness, cut):
    whole = raw.setup()[3:]
    part = whole[: len(whole) - cut] if cut < 40 else whole[:8]  # With 1, the last byte of the data's mime is missing.
    this = line()
    this.send(raw.u24(len(part)) + part)
    refused(this, raw.INVALID_SETUP)


def test_setup_times_of_0_are_taken_for_the_least_lifetime(line, b, topic):
    """The times must be above 0, which is the client's responsibility: it is served, and must send keepalives."""
    this = line()
    this.lives = False
    this.send(raw.setup(keepalive_ms=0, lifetime_ms=0), raw.request(raw.REQUEST_RESPONSE, 1, b"x", raw.route(topic)))
    assert this.frame(1).data == b"1"
    this.end()


def test_setup_of_an_unknown_version_is_refused(line, witness):
    this = line()
    this.send(raw.setup(version=(2, 0)))
    refused(this, raw.UNSUPPORTED_SETUP, raw.INVALID_SETUP)


def test_lease_in_setup_is_refused(line, witness):
    this = line()
    this.send(raw.setup(flags=raw.L))
    refused(this, raw.UNSUPPORTED_SETUP, raw.REJECTED_SETUP)


def test_establishment_refused_serves_no_request(line, b, topic):
    this = line()
    this.send(raw.setup(flags=raw.L), raw.request(raw.REQUEST_FNF, 1, b"x", raw.route(topic)))
    refused(this, raw.UNSUPPORTED_SETUP, raw.REJECTED_SETUP)
    assert topic not in [one["name"] for one in b.listing("$SYS.topics")]


def test_resume_of_nothing_is_refused(line, witness):
    this = line()
    this.send(raw.resume(b"token"))
    refused(this, raw.REJECTED_RESUME)


def test_resume_after_setup_is_an_error(line, witness):
    this = line()
    this.send(raw.setup(), raw.resume(b"token"))
    refused(this, raw.CONNECTION_ERROR)


def test_unexpected_second_setup_is_ignored(a, topic):
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


def test_setup_has_plain_lengths_of_mimes(line, topic):
    """A mime of 200 bytes, a length that as an id would be a well-known mime."""
    this = line()
    this.send(raw.setup(mime=b"x" * 200), raw.request(raw.REQUEST_RESPONSE, 1, b"x", topic.encode()))
    assert this.frame(1).data == b"1"


# Framing


BROKEN = {
    "metadata longer than its frame": raw.frame(1, raw.REQUEST_RESPONSE, M, raw.u24(100) + b"short"),
    "metadata length cut short": raw.frame(1, raw.REQUEST_RESPONSE, M, b"\x00"),
    "an unknown type": raw.frame(1, 0x2A),
    "type 0": raw.frame(1, 0x00),
    "an unknown type on stream 0": raw.frame(0, 0x2A),
    "EXT without I": raw.frame(0, raw.EXT, 0, struct.pack(">I", 7)),
    "a frame without a header": raw.u24(0),
    "a frame of 5 bytes": raw.u24(5) + b"12345",
    "a stream request without its n": raw.frame(1, raw.REQUEST_STREAM, 0, b"\x00\x00"),
    "a REQUEST_N without its n": raw.frame(1, raw.REQUEST_N, 0, b"\x00"),
    "a request on stream 0": raw.request(raw.REQUEST_RESPONSE, 0, b"x", raw.route("x")),
    "a keepalive without its position": raw.frame(0, raw.KEEPALIVE, raw.R, b"\x00"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_framing_that_is_broken_is_a_connection_error(line, witness, what):
    """Broken framing affects that connection only: the witness's stream continues."""
    this = line()
    this.send(raw.setup())
    this.opened.add(1)
    this.send(BROKEN[what])
    refused(this, raw.CONNECTION_ERROR)


def test_metadata_header_beyond_the_frame_is_a_connection_error(connect, witness, topic):
    this = connect()
    channel = this.channel(topic, b"0")
    this.send(raw.frame(channel.stream, PAYLOAD, M | N, raw.u24(100) + b"short"))
    refused(this, raw.CONNECTION_ERROR)


NOISE = [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", bytes(300),
         b"\xff" * 300, bytes(range(256))]


@pytest.mark.parametrize("noise", NOISE, ids=["HTTP", "TLS", "zeros", "ones", "count"])
def test_what_is_no_rsocket_is_refused(line, witness, noise):
    this = line()
    this.socket.sendall(noise)
    this.socket.shutdown(1)
    this.end()


@pytest.mark.parametrize("what", [
    raw.frame(0, 0x2A, I, b"x"), raw.frame(7, 0x2A, I, b"x"), raw.frame(0, raw.EXT, I, struct.pack(">I", 7)),
    raw.frame(7, raw.EXT, I | M, struct.pack(">I", 7) + raw.u24(500)), raw.frame(7, 0x00, I),
], ids=["unknown", "unknown on a stream", "EXT", "EXT with bad metadata", "type 0"])
def test_ignore_flag_lets_unknown_frames_pass(a, topic, what):
    sub = a.subscribe(topic)
    a.send(what)
    a.numbers(topic, 1, 1)
    assert sub.data(1) == [b"1"]
    assert a.pending(0) == 0


def test_ignore_flag_covers_metadata_beyond_the_frame(a, topic):
    sub = a.subscribe(topic)
    a.send(raw.frame(next(a.ids), raw.REQUEST_RESPONSE, M | I, raw.u24(100) + b"short"))
    a.numbers(topic, 1, 1)
    assert sub.data(1) == [b"1"]


def test_framing_byte_by_byte(line, topic):
    this = line()
    this.opened.add(1)
    for byte in raw.setup() + raw.request(raw.REQUEST_RESPONSE, 1, b"slowly", raw.route(topic)):
        this.socket.sendall(bytes([byte]))
    assert this.frame(1).data == b"1"


def test_framing_is_big_endian_and_leaves_itself_out(line, topic):
    """The bytes of a response: 3 of length, 4 of stream, 2 of type and flags (PAYLOAD, NEXT and COMPLETE), the data."""
    this = line()
    this.socket.sendall(raw.setup() + raw.request(raw.REQUEST_RESPONSE, 0x01020305, b"x", raw.route(topic)))
    got = b""
    while len(got) < 10:
        got += this.socket.recv(1000)
    assert got == bytes.fromhex("000007 01020305 2860") + b"1"


def test_framing_of_many_frames_in_one_write(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    streams = [next(b.ids) for _ in range(1000)]
    b.send(*(raw.request(raw.REQUEST_RESPONSE, stream, b"%d" % i, b.route(topic)) for i, stream in enumerate(streams)))
    assert [int(b.answer(stream).data) for stream in streams] == list(range(1, 1001))
    assert sub.data(1000) == numbers(0, 999)


def test_header_flags_that_are_unspecified_are_ignored(a, topic):
    sub = a.subscribe(topic)
    a.send(raw.frame(sub.stream, raw.REQUEST_N, 0x0FF, struct.pack(">I", 1)))
    stream = next(a.ids)
    a.send(raw.request(raw.REQUEST_RESPONSE, stream, b"x", a.route(topic), flags=0x01F))
    assert a.answer(stream).data == b"1"
    assert sub.data(1) == [b"x"]
    a.send(raw.frame(sub.stream, raw.CANCEL, 0x0FF))
    a.joined(topic, 0)


def test_header_reserved_bit_is_masked(a, topic):
    stream = next(a.ids)
    a.send(raw.request(raw.REQUEST_RESPONSE, stream | 1 << 31, b"x", a.route(topic)))
    assert a.answer(stream).data == b"1"


def test_a_client_that_gives_up(line, witness):
    """The client sends an ERROR on stream 0 and leaves."""
    this = line()
    this.send(raw.setup(), raw.error(0, raw.CONNECTION_ERROR, "I give up"))
    this.close()


def test_a_half_frame_and_then_the_end(line, witness):
    this = line()
    this.send(raw.setup(), raw.request(raw.REQUEST_RESPONSE, 1, b"x" * 100, raw.route("x"))[:50])
    this.close()


def test_framing_of_an_oversize_frame_is_kept_while_other_streams_go_on(broker, a, b, topic):
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


def test_establishment_refuses_an_oversize_frame(line, witness):
    this = line()
    this.socket.sendall(raw.u24(0xFFFFFF) + raw.setup()[3:] + bytes(100))
    refused(this, raw.CONNECTION_ERROR)
