"""Invalid HTTP/2 frames, each named after the section of RFC 9113 that specifies the server's reaction; and frames that
the server must answer. Only the connection or stream that received them is affected."""

import struct

import pytest

from common import *
from http2 import *

pytestmark = pytest.mark.grpc


def get(this: Wire, stream=1, flags=END_HEADERS | END_STREAM, more=()) -> bytes:
    """A request whose result does not depend on which topics exist."""
    return frame(HEADERS, flags, stream, this.request("GET", "/v1/nothing", *more))


def ended(verdict: Verdict, *codes: int) -> bool:
    """Whether the connection has ended: by GOAWAY with one of the codes, or by a close with unread input."""
    return verdict.what == "closed" or (verdict.what == "goaway" and verdict.code in codes)


# What ends the connection: section and case, the code, and the frames.
BROKEN = {
    "4.2 a frame larger than allowed": (FRAME_SIZE_ERROR, lambda w: get(w, flags=END_HEADERS) + data(1, bytes(16385))),
    "4.2 a PING of 7": (FRAME_SIZE_ERROR, lambda w: frame(PING, 0, 0, bytes(7))),
    "4.3 a header block that is none": (COMPRESSION_ERROR, lambda w: frame(HEADERS, END_HEADERS, 1, b"\xff" * 20)),
    "5.1 DATA on an idle stream": (PROTOCOL_ERROR, lambda w: data(5, b"x")),
    "5.1 RST_STREAM on an idle stream": (PROTOCOL_ERROR, lambda w: reset(5)),
    "5.1 WINDOW_UPDATE on an idle stream": (PROTOCOL_ERROR, lambda w: window_update(5, 1)),
    "5.1.1 an even stream": (PROTOCOL_ERROR, lambda w: get(w, 2)),
    "6.1 DATA on stream 0": (PROTOCOL_ERROR, lambda w: data(0, b"x")),
    "6.1 padding as long as the frame": (
        PROTOCOL_ERROR, lambda w: get(w, flags=END_HEADERS) + frame(DATA, PADDED, 1, b"\x05abcd")),
    "6.2 HEADERS on stream 0": (PROTOCOL_ERROR, lambda w: get(w, 0)),
    "6.2 HEADERS with padding as long as the frame": (
        PROTOCOL_ERROR, lambda w: frame(HEADERS, END_HEADERS | PADDED, 1, b"\xff" + w.request("GET", "/"))),
    "6.2 DATA between HEADERS and CONTINUATION": (PROTOCOL_ERROR, lambda w: get(w, flags=0) + data(1)),
    "6.2 another stream between HEADERS and CONTINUATION": (PROTOCOL_ERROR, lambda w: get(w, flags=0) + get(w, 3)),
    "6.3 PRIORITY on stream 0": (PROTOCOL_ERROR, lambda w: frame(PRIORITY, 0, 0, bytes([0, 0, 0, 3, 1]))),
    "6.4 RST_STREAM on stream 0": (PROTOCOL_ERROR, lambda w: reset(0)),
    "6.4 RST_STREAM of 3": (FRAME_SIZE_ERROR, lambda w: get(w) + frame(RST_STREAM, 0, 1, bytes(3))),
    "6.5 SETTINGS on a stream": (PROTOCOL_ERROR, lambda w: frame(SETTINGS, 0, 1)),
    "6.5 SETTINGS of 5": (FRAME_SIZE_ERROR, lambda w: frame(SETTINGS, 0, 0, bytes(5))),
    "6.5 an acknowledgement that has content": (FRAME_SIZE_ERROR, lambda w: frame(SETTINGS, ACK, 0, bytes(6))),
    "6.5.2 ENABLE_PUSH of 2": (PROTOCOL_ERROR, lambda w: settings((2, 2))),
    "6.5.2 INITIAL_WINDOW_SIZE of 2^31": (FLOW_CONTROL_ERROR, lambda w: settings((4, 1 << 31))),
    "6.5.2 MAX_FRAME_SIZE of 1": (PROTOCOL_ERROR, lambda w: settings((5, 1))),
    "6.5.2 MAX_FRAME_SIZE of 2^24": (PROTOCOL_ERROR, lambda w: settings((5, 1 << 24))),
    "6.6 PUSH_PROMISE": (
        PROTOCOL_ERROR, lambda w: frame(PUSH_PROMISE, END_HEADERS, 1, bytes([0, 0, 0, 2]) + w.request("GET", "/"))),
    "6.7 PING on a stream": (PROTOCOL_ERROR, lambda w: frame(PING, 0, 1, bytes(8))),
    "6.8 GOAWAY on a stream": (PROTOCOL_ERROR, lambda w: frame(GOAWAY, 0, 1, bytes(8))),
    "6.9 WINDOW_UPDATE of 0": (PROTOCOL_ERROR, lambda w: window_update(0, 0)),
    "6.9 WINDOW_UPDATE of 3 bytes": (FRAME_SIZE_ERROR, lambda w: frame(WINDOW_UPDATE, 0, 0, bytes(3))),
    "6.9.1 a window beyond 2^31-1": (FLOW_CONTROL_ERROR, lambda w: window_update(0, 0x7FFFFFFF)),
    "6.10 CONTINUATION after nothing": (PROTOCOL_ERROR, lambda w: frame(CONTINUATION, END_HEADERS, 1, b"")),
    "6.10 CONTINUATION on stream 0": (PROTOCOL_ERROR, lambda w: get(w, flags=0) + frame(CONTINUATION, 4, 0)),
    "6.10 CONTINUATION of another stream": (PROTOCOL_ERROR, lambda w: get(w, flags=0) + frame(CONTINUATION, 4, 3)),
}


@pytest.mark.parametrize("case", BROKEN)
def test_5_4_1_connection_errors(wire, witness, case):
    code, frames = BROKEN[case]
    this = wire()
    this.roundtrip()
    this.flood(frames(this))
    # RFC 9113, 5.4.1 and 7: a more general code may be used.
    assert ended(this.over(), code, PROTOCOL_ERROR), this.goaway


def test_3_4_the_preface_cut_short(wire, witness):
    this = wire(preface=PREFACE[:20])
    this.socket.shutdown(1)
    this.over()


@pytest.mark.parametrize("case", ["nothing before a request", "a PING first"])
def test_3_4_settings_must_come_first(wire, witness, case):
    this = wire(preface=None)
    this.send(PREFACE)
    this.flood(get(this) if case == "nothing before a request" else frame(PING, 0, 0, bytes(8)))
    assert ended(this.over(), PROTOCOL_ERROR)


def test_3_4_and_6_5_3_settings_are_sent_and_acknowledged(wire):
    this = wire()
    this.until(lambda w: w.acks == 1 and w.settings)
    assert this.settings.get(3), "MAX_CONCURRENT_STREAMS is not limited or not announced"
    this.send(settings((1, 0), (4, 1000)))
    this.until(lambda w: w.acks == 2)


# What affects only a stream: RST_STREAM, or a 4xx response if HTTP has one.
MALFORMED = {
    "8.2.1 an upper-case name": [("X-Upper", "x")],
    "8.2.2 connection": [("connection", "close")],
    "8.2.2 transfer-encoding": [("transfer-encoding", "chunked")],
    "8.2.2 te other than trailers": [("te", "gzip")],
    "8.2.1 a value with a line feed": [("x", "a\nb")],
    "8.3 an unknown pseudo-header": [(":unknown", "x")],
    "8.3 a pseudo-header after others": [("x", "y"), (":path", "/")],
    "8.3.1 a path twice": [(":path", "/again")],
}


@pytest.mark.parametrize("case", MALFORMED)
def test_8_1_1_malformed_requests(wire, witness, case):
    this = wire()
    this.send(get(this, more=MALFORMED[case]))
    verdict = this.verdict(1)
    assert (verdict.what, verdict.code) in [("reset", PROTOCOL_ERROR), ("status", 400)], verdict
    this.send(get(this, 3))
    assert this.answer(3).headers[":status"] == "404"


@pytest.mark.parametrize("missing", [":method", ":scheme", ":path"])
def test_8_3_1_a_request_without_what_it_must_have(wire, witness, missing):
    this = wire()
    fields = {":method": "GET", ":scheme": "http", ":path": "/v1/nothing", ":authority": this.authority}
    del fields[missing]
    this.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, this.block(*fields.items())))
    verdict = this.verdict(1)
    assert (verdict.what, verdict.code) in [("reset", PROTOCOL_ERROR), ("status", 400)], verdict
    this.roundtrip()


def test_8_1_1_a_body_of_another_length_than_content_length(wire, witness, topic):
    this = wire()
    head = this.request("POST", f"/v1/topics/{topic}.other/messages", ("content-length", "5"))
    this.send(frame(HEADERS, END_HEADERS, 1, head), data(1, b"more than that", end=True))
    verdict = this.verdict(1)
    assert (verdict.what, verdict.code) in [("reset", PROTOCOL_ERROR), ("status", 400)], verdict
    this.roundtrip()
    assert f"{topic}.other" not in [one["name"] for one in witness.listing("$SYS.topics")]


def test_5_1_data_after_the_end_of_a_stream(wire, witness):
    """STREAM_CLOSED, for the stream or for the connection; ignored if the stream has already gone."""
    this = wire()
    this.send(this.call(1, SUBSCRIBE, open_of("t.frames"), end=True), data(1, b"more"))
    verdict = this.verdict(1)
    assert (verdict.what == "status" or verdict.code == STREAM_CLOSED), verdict


@pytest.mark.parametrize("increment, code", [(0, PROTOCOL_ERROR), (0x7FFFFFFF, FLOW_CONTROL_ERROR)])
def test_6_9_a_streams_window(wire, witness, increment, code):
    this = wire()
    this.send(this.call(1, SUBSCRIBE, open_of("t.frames")), window_update(1, increment))
    verdict = this.verdict(1)
    assert verdict.what in ("reset", "goaway") and verdict.code == code, verdict


def test_5_3_1_a_stream_that_depends_on_itself(wire, witness):
    """Valid in RFC 9113, and an error for servers that still implement the priorities of RFC 7540."""
    this = wire()
    this.send(frame(PRIORITY, 0, 1, struct.pack(">IB", 1, 16)), get(this, 3))
    verdict = this.verdict(3)
    assert (verdict.what, verdict.code) in [("status", 404), ("goaway", PROTOCOL_ERROR)], verdict


def test_5_1_1_a_stream_lower_than_one_before(wire, witness):
    """A stream with a lower number counts as closed: a connection error, or ignored, but never served."""
    this = wire()
    this.send(get(this, 5), get(this, 3))
    this.verdict(5)
    if not this.goaway:
        this.roundtrip()
        assert 3 not in this.answers


def test_4_1_and_5_5_what_is_unknown_is_ignored(wire):
    this = wire()
    this.send(frame(0x42, 0xFF, 0, b"an unknown type"), settings((0x4242, 7)), frame(PING, 0xFE, 0, b"flags off"[:8]))
    this.until(lambda w: w.pongs == [b"flags of"])
    this.send(get(this))
    assert this.answer(1).headers[":status"] == "404"


def test_6_7_ping_is_answered_with_the_same(wire):
    this = wire()
    this.send(frame(PING, 0, 0, b"12345678"), frame(PING, 0, 0, b"abcdefgh"))
    this.until(lambda w: w.pongs == [b"12345678", b"abcdefgh"])


def test_6_1_and_6_2_padding_is_taken_off(wire, topic, a):
    this = wire()
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    head = this.request("POST", f"/v1/topics/{topic}/messages")
    this.send(frame(HEADERS, END_HEADERS | PADDED, 1, b"\x09" + head + bytes(9)))
    this.send(frame(DATA, END_STREAM | PADDED, 1, b"\x03payload" + bytes(3)))
    assert this.answer(1).headers[":status"] == "200"
    assert sub.data(1) == [b"payload"]


def test_6_10_headers_in_pieces(wire):
    this = wire()
    head = this.request("GET", "/v1/nothing", ("x-long", "y" * 500))
    this.send(frame(HEADERS, END_STREAM, 1, head[:10]), frame(CONTINUATION, 0, 1, head[10:20]),
              frame(CONTINUATION, END_HEADERS, 1, head[20:]))
    assert this.answer(1).headers[":status"] == "404"


def test_4_1_frames_byte_by_byte(wire):
    this = wire(preface=None)
    for byte in PREFACE + settings() + get(this):
        this.send(bytes([byte]))
    assert this.answer(1).headers[":status"] == "404"
