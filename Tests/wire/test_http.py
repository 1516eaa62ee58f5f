"""Plain HTTP, subscribing: event streams and lines of JSON, over HTTP/1.1 and HTTP/2; credit, resuming, the end."""

import base64
import json
import re
import signal

import pytest

from common import *
from curl import *

pytestmark = pytest.mark.rsocket  # What it is compared with: `a` and `b` are over RSocket.


def test_an_event_stream(curl, b, topic):
    stream = curl.stream(path(topic))
    assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream")
    assert stream.version in ("HTTP/1.1", "HTTP/2")
    told = stream.event()
    assert told.kind == "subscribed"
    assert json.loads(told.data)["subscription"] == stream.headers["forebay-subscription"]
    assert re.fullmatch("[0-9a-f]{32}", stream.headers["forebay-subscription"])
    b.joined(topic, 1)
    epoch = b.info(topic)["epoch"]
    for i in range(1, 6):  # Each one comes before the next is published.
        b.numbers(topic, i, i)
        assert stream.event() == Event("message", str(i), f"{epoch}-{i}")


def test_lines_of_json(curl, b, topic):
    stream = curl.stream(path(topic), *NDJSON)
    assert stream.headers["content-type"] == "application/x-ndjson"
    b.joined(topic, 1)
    for i in range(1, 6):
        b.publish(topic, b"%d" % i)
        (told,) = stream.objects(1)
        assert (told["sequence"], told["payload"], told["epoch"]) == (i, str(i), b.info(topic)["epoch"])
        assert int(told["timestamp"]) > 1 << 60


PAYLOADS = {
    "lines": b"two\nlines", "ends with a line feed": b"x\n", "only line feeds": b"\n\n", "empty": b"",
    "looks like a field": b"id: 7\nevent: failed\n\ndata: x", "begins with a space": b" x", "unicode": "für ☃".encode(),
    "carriage return": b"a\r\nb", "not UTF-8": b"\xff\x00\xfe", "controls": bytes(range(32)),
    "separators": "a\u2028b\u2029c\u0085d".encode(), "NUL": b"a\0b",
}


@pytest.mark.parametrize("what", PAYLOADS)
def test_payloads_come_out_as_they_went_in(curl, b, topic, what):
    payload = PAYLOADS[what]
    b.publish(topic, payload)
    (event,) = curl.stream(path(topic, "replay=1")).messages(1)
    text = b"\r" not in payload and what != "not UTF-8"
    assert event.kind == ("message" if text else "base64")
    assert (event.data.encode() if text else base64.b64decode(event.data, validate=True)) == payload
    (told,) = curl.stream(path(topic, "replay=1"), *NDJSON).objects(1)
    got = told["payload"].encode() if "payload" in told else base64.b64decode(told["payload_base64"], validate=True)
    assert got == payload and ("payload" in told) == (what != "not UTF-8")


@pytest.mark.parametrize("form", ["events", "lines"])
def test_killed_and_resumed_nothing_is_lost_or_doubled(curl, b, topic, form):
    seen, last, options = [], None, NDJSON if form == "lines" else ()
    for turn in range(5):
        stream = curl.stream(path(topic), *options, *(("-H", f"last-event-id: {last}") if last else ()))
        if last is None:
            b.joined(topic, 1)
        b.numbers(topic, turn * 20 + 1, turn * 20 + 15)
        for _ in range(15 if turn == 0 else 20):
            if form == "lines":
                (told,) = stream.objects(1)
                assert "dropped" not in told and "restarted" not in told
                seen.append(int(told["payload"]))
                last = f"{told['epoch']}-{told['sequence']}"
            else:
                (event,) = stream.messages(1)
                assert event.kind == "message", event
                seen.append(int(event.data))
                last = event.id
            if len(seen) >= turn * 20 + 15:
                break
        stream.kill()
        b.numbers(topic, turn * 20 + 16, turn * 20 + 20)
    assert seen == list(range(1, 96))


def test_resuming_after_the_window_tells_the_gap(start, connect, topic):
    own = start("--retain", "8")
    try:
        this, b = Curl(own.http, VERSIONS["2"]), connect(own)
        b.numbers(topic, 1, 20)
        epoch = b.info(topic)["epoch"]
        stream = this.stream(path(topic), "-H", f"last-event-id: {epoch}-4")
        gap, first = stream.messages(2)
        assert (gap.kind, json.loads(gap.data), gap.id) == ("gap", {"dropped": 8}, None)
        assert first.id == f"{epoch}-13"
        again = this.stream(path(topic), "-H", "last-event-id: 12345-4", *NDJSON)
        (told,) = again.objects(1)
        assert told["restarted"] is True and told["sequence"] == 13
        this(path(topic, "gap=fail"), "-H", f"last-event-id: {epoch}-4").problem(409, "gap")
        this.stop()
    finally:
        own.stop()


def test_the_end_of_a_topic(curl, b, topic):
    events, lines = curl.stream(path(topic)), curl.stream(path(topic), *NDJSON)
    b.joined(topic, 2)
    b.numbers(topic, 1, 2)
    b.control("$SYS.topic.complete", name=topic)
    events.messages(2)
    end = events.event()
    assert (end.kind, json.loads(end.data)) == ("complete", {"dropped": 0})
    assert re.fullmatch(r"\d+-2-end", end.id) and events.event() is None
    assert [one["sequence"] for one in lines.objects(2)] == [1, 2]
    assert json.loads(lines.line())["end"] == "complete" and lines.line() is None
    assert curl(path(topic), "-H", f"last-event-id: {end.id}").status == 204


def test_the_failure_of_a_topic(curl, b, topic):
    events, lines = curl.stream(path(topic)), curl.stream(path(topic), *NDJSON)
    b.joined(topic, 2)
    b.control("$SYS.topic.fail", name=topic, message='the "sensor" is gone')
    (end,) = events.messages(1)
    assert (end.kind, json.loads(end.data)["message"]) == ("failed", 'topic failed: the "sensor" is gone')
    assert json.loads(lines.line())["end"] == "failed" and lines.line() is None


def test_credit(curl, b, topic):
    stream = curl.stream(path(topic, "request=2"), *NDJSON)
    b.joined(topic, 1)
    b.numbers(topic, 1, 20)
    assert [one["sequence"] for one in stream.objects(2)] == [1, 2]
    identity = stream.headers["forebay-subscription"]
    for first, n in ((3, 1), (4, 5)):
        reply = curl(f"/v1/subscriptions/{identity}/request?n={n}", "-X", "POST")
        assert (reply.status, reply.body) == (204, b"")
        assert [one["sequence"] for one in stream.objects(n)] == list(range(first, first + n))
    b.barrier(topic)
    assert b.ledger(topic)[0]["outstanding"] == 0
    stream.nothing()
    curl(f"/v1/subscriptions/{identity}/request?n=0", "-X", "POST").problem(400, "invalid")
    curl(f"/v1/subscriptions/{identity}/request", "-X", "POST").problem(400, "invalid")
    stream.kill()
    b.joined(topic, 0)
    curl(f"/v1/subscriptions/{identity}/request?n=1", "-X", "POST").problem(404, "not-found")


def test_options_are_those_of_every_transport(curl, b, topic):
    stream = curl.stream(path(topic, "request=1&buffer=2&overflow=drop-newest"), *NDJSON)
    b.joined(topic, 1)
    b.numbers(topic, 1, 5)
    told = b.ledger(topic)[0]
    assert (told["policy"], told["buffer"], told["waiting"], told["dropped"]) == ("drop-newest", 2, 2, 2)
    curl(f"/v1/subscriptions/{stream.headers['forebay-subscription']}/request?n=10", "-X", "POST")
    assert [one["sequence"] for one in stream.objects(3)] == [1, 2, 3]
    b.numbers(topic, 6, 6)
    (after,) = stream.objects(1)
    assert (after["sequence"], after["dropped"]) == (6, 2)


def test_a_client_that_goes_is_unsubscribed(curl, b, topic):
    stream = curl.stream(path(topic))
    b.joined(topic, 1)
    stream.kill()
    b.joined(topic, 0)


def test_signs_of_life_cost_no_credit(curl, b, topic):
    """Comments may come at any time; whatever came, the credit is for messages."""
    stream = curl.stream(path(topic, "request=3"))
    b.joined(topic, 1)
    b.numbers(topic, 1, 5)
    assert [one.data for one in stream.messages(3)] == ["1", "2", "3"]
    told = b.ledger(topic)[0]
    assert (told["requested"], told["outstanding"], told["waiting"]) == (3, 0, 2)


@pytest.mark.parametrize("stalled", ["an event stream", "an RSocket subscriber"])
def test_a_stalled_reader_disturbs_nobody(curl, connect, a, b, topic, stalled):
    """SIGSTOP for curl; no reads for the other."""
    stream = curl.stream(path(topic, "buffer=10"), *NDJSON)
    idle = connect(receive_buffer=64 << 10)
    idle.subscribe(f"{topic}?buffer=10")
    sub = a.subscribe(topic)
    b.joined(topic, 3)
    if stalled == "an event stream":
        stream.process.send_signal(signal.SIGSTOP)
    try:
        for at in range(1, 501, 50):
            b.publish(topic, *(b"%08d" % i + b"." * 8192 for i in range(at, at + 50)))
            assert [int(one[:8]) for one in sub.data(50)] == list(range(at, at + 50))
            if stalled != "an event stream":
                assert [int(one["payload"][:8]) for one in stream.objects(50)] == list(range(at, at + 50))
    finally:
        stream.process.send_signal(signal.SIGCONT)


def test_the_shutdown_of_the_broker_ends_streams_without_an_end(start, connect, topic):
    own = start()
    try:
        this, b = Curl(own.http, VERSIONS["1.1"]), connect(own)
        events, lines = this.stream(path(topic)), this.stream(path(topic), *NDJSON)
        b.joined(topic, 2)
        b.numbers(topic, 1, 3)
        own.process.send_signal(signal.SIGTERM)
        assert [one.data for one in events.messages(3)] == ["1", "2", "3"]
        assert events.event() is None
        assert [one["sequence"] for one in lines.objects(3)] == [1, 2, 3]
        assert json.loads(lines.line())["end"] == "draining" and lines.line() is None
        assert own.process.wait(15) == 0
    finally:
        own.process.kill()


def test_resuming_across_a_restart_of_the_broker_is_told(curl, b, topic):
    """What another epoch's id means, without waiting for a restart."""
    b.numbers(topic, 1, 3)
    stream = curl.stream(path(topic), "-H", "last-event-id: 999-2")
    gap, first = stream.messages(2)
    assert gap.kind == "gap" and json.loads(gap.data)["restarted"] is True and first.data == "1"
    curl(path(topic), "-H", "last-event-id: not an id").problem(400, "invalid")
