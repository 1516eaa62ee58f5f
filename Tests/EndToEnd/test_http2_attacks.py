"""Known attacks on HTTP/2 servers: each ends its own connection or stream, and costs other clients nothing."""

import json
import time

import pytest

from common import *
from http2 import *

pytestmark = pytest.mark.grpc

# The broker ends a connection with GOAWAY, unless unread input at the close made the kernel discard it.
MAY_END_BY = {ENHANCE_YOUR_CALM, PROTOCOL_ERROR, FLOW_CONTROL_ERROR}
TOPIC = "t.attacked"


def ends(this: Wire) -> Verdict:
    verdict = this.over()
    assert verdict.what == "closed" or verdict.code in MAY_END_BY, verdict
    return verdict


def forgotten(witness, this: Wire):
    """Nothing of the connection is left."""
    eventually(lambda: [one["peer"] for one in witness.listing("$SYS.connections")], lambda all: this.peer not in all)


@pytest.fixture
def steady(broker, witness):
    """Checks that the broker's memory, including its peak, stays about the same."""
    before = broker.status("VmHWM")
    yield
    assert broker.status("VmHWM") - before < 8 << 20


# Each slightly exceeds its limit, so that the broker reads all of it and the GOAWAY can be read.
FLOODS = {
    "rapid reset": lambda w: b"".join(w.call(i, SUBSCRIBE) + reset(i) for i in range(1, 2051, 2)),
    "CONTINUATION": lambda w: frame(HEADERS, 0, 1, w.request("GET", "/")) + frame(CONTINUATION, 0, 1) * 8,
    "empty DATA": lambda w: w.call(1, PUBLISH) + data(1) * 20,
    "PING": lambda w: frame(PING, 0, 0, bytes(8)) * 250,
    "SETTINGS": lambda w: settings() * 150,
    "PRIORITY": lambda w: frame(PRIORITY, 0, 1, bytes([0, 0, 0, 3, 1])) * 250,
    "WINDOW_UPDATE": lambda w: w.call(1, SUBSCRIBE, open_of(TOPIC)) + window_update(1, 1) * 2100,
    "unknown frames": lambda w: frame(0x77, 0, 0, b"x") * 2100,
}


def figures(peer, seconds: int) -> dict:
    """The broker's statistics after `seconds` of its updates, one per second."""
    return json.loads(peer.subscribe("$SYS.stats", n=seconds).take(seconds)[-1].data)


def test_attacks_have_a_reason_and_are_counted(wire, witness):
    """GOAWAY says which limit was exceeded, and the broker counts each connection and stream that it ended."""
    # By then every shard has counted what other tests did.
    before = figures(witness, 3)
    for name, flood in FLOODS.items():
        this = wire()
        this.roundtrip()
        this.send(flood(this))
        verdict = ends(this)
        assert verdict.what == "goaway" and len(verdict.text) > 20, (name, verdict)
    this = wire()
    this.until(lambda w: w.settings)
    most = this.settings[3]
    # Two streams too many, headers that are too long, and a window that is opened too far.
    this.send(*(this.call(i, SUBSCRIBE, open_of(f"{TOPIC}.counted")) for i in range(1, 2 * (most + 2), 2)))
    this.until(lambda w: 2 * most + 3 in w.ended)
    this.send(reset(1), window_update(3, 0x7FFFFFFF))
    this.until(lambda w: 3 in w.ended)
    fields = [("x-%d" % i, "y" * 250) for i in range(60)]
    this.send(frame(HEADERS, END_HEADERS | END_STREAM, 2 * most + 5, this.request("GET", "/", *fields)))
    this.until(lambda w: 2 * most + 5 in w.ended)
    counts = lambda: {key: figures(witness, 1)[key] - before[key] for key in ("protocol_errors", "stream_errors")}
    eventually(counts, lambda seen: seen == {"protocol_errors": len(FLOODS), "stream_errors": 4})
    this.close()
    forgotten(witness, this)


def test_messages_begun_on_many_streams(wire, witness):
    """Each window fits the beginning of its stream's message, so the rest must wait in the broker: bounded for all
    streams of a connection together."""
    topics = [f"{TOPIC}.begun.{i}" for i in range(40)]
    for name in topics:
        witness.publish(name, bytes(500_000))
    memory = lambda: witness.control("$SYS.info")["memory"]
    before = memory()
    this = wire((4, 1000))
    this.send(*(this.call(2 * i + 1, SUBSCRIBE, open_of(name, replay_all=True)) for i, name in enumerate(topics)))
    for name in topics:
        witness.joined(name, 1)
    begun = lambda: sum(len(one.body) == 1000 for one in this.answers.values())
    this.until(lambda w: begun() >= 9)
    this.roundtrip()
    assert memory() - before < 8 << 20
    # Waiting streams proceed as others are read.
    for i in range(40):
        this.send(window_update(2 * i + 1, 1 << 20))
    this.until(lambda w: all(len(w.answers[2 * i + 1].body) > 500_000 for i in range(40)))
    this.close()
    forgotten(witness, this)
    for name in topics:
        witness.control("$SYS.topic.delete", name=name)


def test_rapid_reset(wire, witness, steady):
    """CVE-2023-44487: streams that are opened and reset at once. 1,000 in 30 seconds are tolerated."""
    this = wire()
    this.flood(*(this.call(i, SUBSCRIBE, open_of(TOPIC)) + reset(i) for i in range(1, 1_801, 2)))
    this.roundtrip()
    this.flood(*(this.call(i, SUBSCRIBE, open_of(TOPIC)) + reset(i) for i in range(1_801, 20_001, 2)))
    ends(this)
    forgotten(witness, this)
    eventually(lambda: witness.ledger(TOPIC), lambda rows: rows == [])


def test_subscriptions_cancelled_are_no_rapid_reset(wire, witness, steady):
    """Cancelling is how subscriptions end, however many there are: 300 at a time, 3,000 in all, next to one that
    stays."""
    this = wire()
    this.send(this.call(1, SUBSCRIBE, open_of(TOPIC)))
    for first in range(3, 6_003, 600):
        streams = range(first, first + 600, 2)
        this.send(*(this.call(i, SUBSCRIBE, open_of(TOPIC)) for i in streams))
        this.until(lambda w: all(i in w.answers for i in streams))
        this.send(*(reset(i) for i in streams))
        witness.joined(TOPIC, 1)
    assert not this.goaway
    witness.publish(TOPIC, b"still there")
    this.until(lambda w: b"still there" in w.answers[1].body)
    this.close()
    forgotten(witness, this)


def test_resets_that_the_broker_is_made_to_send(wire, witness, steady):
    """Rapid reset through errors: a stream's window that is opened too far."""
    this = wire()
    streams = range(1, 20_001, 2)
    this.flood(*(this.call(i, SUBSCRIBE, open_of(TOPIC)) + window_update(i, 0x7FFFFFFF) for i in streams))
    ends(this)
    forgotten(witness, this)


def test_continuation_flood(wire, witness, steady):
    """CVE-2024-27316 and similar: a header block that never ends."""
    this = wire()
    this.flood(frame(HEADERS, 0, 1, this.request("GET", "/")), *([frame(CONTINUATION, 0, 1, bytes(0))] * 1000))
    ends(this)


def test_continuation_flood_of_headers(wire, witness, steady):
    this = wire()
    piece = this.block(("x-more", "y" * 1000))
    this.flood(frame(HEADERS, 0, 1, this.request("GET", "/")), *([frame(CONTINUATION, 0, 1, piece)] * 10_000))
    ends(this)


def test_five_continuations_are_borne(wire, witness):
    this = wire()
    head = this.call(1, SUBSCRIBE)[9:]
    pieces = [head[i : i + 10] for i in range(0, 50, 10)]
    this.send(frame(HEADERS, 0, 1, pieces[0]), *(frame(CONTINUATION, 0, 1, piece) for piece in pieces[1:]),
              frame(CONTINUATION, END_HEADERS, 1, head[50:]), data(1, framed(open_of("not a name")), end=True))
    assert this.answer(1).status == 3


def test_some_empty_data_is_borne(wire, witness):
    """Some clients use empty DATA to flush."""
    this = wire()
    name, empty = f"{TOPIC}.empty", b"".join([data(1)] * 16)
    head = frame(HEADERS, END_HEADERS, 1, this.request("POST", f"/v1/topics/{name}/messages"))
    this.send(head, empty, data(1, b"a"), empty, data(1, b"b"), empty, data(1, end=True))
    this.until(lambda w: 1 in w.ended)
    assert json.loads(this.answers[1].body)["sequence"] == 1


def test_empty_data(wire, witness, steady):
    """CVE-2019-9518."""
    this = wire()
    this.flood(this.call(1, PUBLISH), *([data(1)] * 10_000))
    verdict = this.verdict(1)
    assert verdict.what in ("closed", "goaway", "reset"), verdict


@pytest.mark.parametrize("flood", [
    frame(PING, 0, 0, bytes(8)), settings(), settings((4, 65_535)), frame(PRIORITY, 0, 1, bytes([0, 0, 0, 3, 1]))],
    ids=["CVE-2019-9512 PING", "CVE-2019-9515 SETTINGS", "SETTINGS with a window", "CVE-2019-9513 PRIORITY"])
def test_control_frames_without_end(wire, witness, steady, flood):
    """None of the responses is read."""
    this = wire(receive_buffer=4 << 10)
    for _ in range(200):
        if not this.flood(*([flood] * 1000)):
            break
    ends(this)
    forgotten(witness, this)


def test_window_updates_without_end(wire, witness, steady):
    this = wire()
    this.send(this.call(1, SUBSCRIBE, open_of(TOPIC)))
    this.flood(*([window_update(1, 1) + window_update(0, 1)] * 50_000))
    ends(this)


def test_headers_too_large(wire, witness, steady):
    """The headers come in one frame: if possible, only that stream gets an error."""
    this = wire()
    fields = [("x-%d" % i, "y" * 250) for i in range(60)]
    this.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, this.request("GET", "/v1/nothing", *fields)))
    verdict = this.verdict(1)
    assert (verdict.what, verdict.code) == ("status", 431), verdict


def test_headers_that_grow_when_they_are_decoded(wire, witness, steady):
    """An HPACK bomb: a long value kept in the table, and referenced a thousand times with a byte each."""
    this = wire()
    bomb = this.request("GET", "/", ("x-bomb", "y" * 3900)) + b"\xbe" * 12_000
    for i in range(1, 100, 2):
        if not this.flood(frame(HEADERS, END_HEADERS | END_STREAM, i, bomb)):
            break
    verdict = this.verdict(1)
    assert verdict.what in ("closed", "goaway", "reset") or verdict.code == 431, verdict


def test_too_many_streams(wire, witness):
    """Streams beyond the limit are refused, so the client may retry them; the others are served."""
    this = wire()
    this.until(lambda w: w.settings)
    most = this.settings[3]
    streams = range(1, 2 * (most + 5), 2)
    this.send(*(this.call(i, SUBSCRIBE, open_of(f"{TOPIC}.many", n=1)) for i in streams))
    late = streams[most:]
    this.until(lambda w: all(i in w.ended for i in late))
    assert {this.answers[i].reset for i in late} == {REFUSED_STREAM}
    witness.joined(f"{TOPIC}.many", most)
    witness.numbers(f"{TOPIC}.many", 1, 1)
    this.until(lambda w: all(i in w.answers and b"1" in w.answers[i].body for i in streams[:most]))
    this.close()
    witness.joined(f"{TOPIC}.many", 0)


def test_a_dribbling_reader(wire, witness, broker, steady):
    """CVE-2019-9511: windows that are opened a byte at a time. The rate of tiny frames that the broker sends for them
    is limited; the remaining data waits as for any slow subscriber."""
    this = wire((4, 0))
    this.send(this.call(1, SUBSCRIBE, open_of(f"{TOPIC}.dribble", n=100)))
    witness.joined(f"{TOPIC}.dribble", 1)
    witness.publish(f"{TOPIC}.dribble", *([bytes(50_000)] * 20))
    for _ in range(1000):
        if not this.flood(window_update(1, 1)):
            break
    witness.barrier(TOPIC)
    small = len(this.answers[1].body) if 1 in this.answers else 0
    assert small <= 1000
    assert witness.publish(f"{TOPIC}.dribble", b"goes on")


def test_a_reader_of_many_streams_that_reads_nothing(wire, witness, broker, steady):
    """500 streams with credit and without a window: their messages stay in the topic's log."""
    this = wire((4, 0), receive_buffer=4 << 10)
    this.send(*(this.call(i, SUBSCRIBE, open_of(f"{TOPIC}.unread", n=100)) for i in range(1, 1001, 2)))
    witness.joined(f"{TOPIC}.unread", 500)
    for _ in range(10):
        witness.publish(f"{TOPIC}.unread", *([bytes(10_000)] * 10))
    this.close()
    witness.joined(f"{TOPIC}.unread", 0)


def test_a_publisher_whose_messages_never_end(wire, witness, steady):
    """Partial messages on many streams: bounded together, not only for each stream."""
    this = wire()
    started = framed(bytes(1 << 20))[:-1]
    for i in range(1, 201, 2):
        pieces = [data(i, started[at : at + 16_000]) for at in range(0, len(started), 16_000)]
        if not this.flood(this.call(i, PUBLISH_ONE), *pieces):
            break
    this.close()
    forgotten(witness, this)


@pytest.mark.slow
@pytest.mark.parametrize("sent", [PREFACE[:10], PREFACE, PREFACE + settings() + frame(HEADERS, 0, 1, b"\x82")],
                         ids=["half a preface", "no settings", "half of a request's headers"])
def test_a_beginning_that_does_not_go_on(wire, witness, sent):
    this = wire(preface=None)
    began = time.monotonic()
    this.send(sent)
    this.over(timeout=40)
    assert 2 < time.monotonic() - began < 35
