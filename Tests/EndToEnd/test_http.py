"""Plain HTTP over HTTP/1.1 and HTTP/2, as specified in Protocol/http.md."""

import base64
import json
import os
import signal
import threading
import time
from email.utils import parsedate_to_datetime

import pytest

from client import *
from web import Web

pytestmark = pytest.mark.rsocket  # Publishes and observes; test_faces.py does so over gRPC.

DEAD_ID = "0123456789abcdef0123456789ab"


@pytest.fixture
def web(broker, http_version):
    this = Web(broker, http_version)
    yield this
    this.close()


# Streams


def test_messages_come_as_they_are_published(web, topic):
    stream = web.events(topic)
    assert stream.headers["content-type"] == "text/event-stream"
    for number in range(1, 4):
        (sequence,) = web.publish(topic, b"message %d" % number)
        event = stream.event()
        assert (event.type, event.data) == ("message", f"message {number}")
        assert event.id.endswith(f"-{sequence}")


def test_payloads_come_out_as_they_went_in(web, topic):
    payloads = [b"", b"two\nlines", b"\n", b"a\r\nb", b"\xff\x00", "å–😀".encode(), b" x"]
    assert web.publish(topic, *payloads) == list(range(1, 8))
    read = []
    for event in web.events(topic, "replay=all").take(7):
        read.append(base64.b64decode(event.data) if event.type == "base64" else event.data.encode())
    assert read == payloads


def test_lines_of_json(web, topic):
    web.send(web.topic(topic), "-H", "content-type: text/plain", "-H", "forebay-header-Station: blindern", body=b"4.1")
    web.send(web.topic(topic), "-H", "content-type:", body=b"\xff")
    stream = web.lines(topic, "replay=all")
    assert stream.headers["content-type"] == "application/x-ndjson"
    first, second = stream.line(), stream.line()
    assert (first["sequence"], first["payload"], first["content_type"]) == (1, "4.1", "text/plain")
    assert first["headers"] == {"station": "blindern"}
    assert abs(int(first["timestamp"]) - time.time_ns()) < 60e9
    assert (second["sequence"], second["payload_base64"]) == (2, "/w==")
    assert second["epoch"] == first["epoch"] and "dropped" not in second


def test_long_messages(web, a, topic):
    payloads = [os.urandom(700_000).hex().encode()[:1_048_576], os.urandom(1_048_576), b"end"]
    web.publish(topic, *payloads)
    lines = web.lines(topic, "replay=all")
    first, second, third = lines.line(), lines.line(), lines.line()
    assert first["payload"].encode() == payloads[0]
    assert base64.b64decode(second["payload_base64"]) == payloads[1]
    assert third["payload"] == "end"
    # The other way round: the log holds them in fragments.
    assert [one.data for one in a.subscribe(f"{topic}?replay=all").take(3)] == payloads


def test_rsocket_and_http_share_topics(web, a, topic):
    sub = a.subscribe(topic)
    stream = web.events(topic)
    a.joined(topic, 2)
    web.publish(topic, b"by http")
    a.publish(topic, b"by rsocket")
    assert sub.data(2) == [b"by http", b"by rsocket"]
    assert [event.data for event in stream.take(2)] == ["by http", "by rsocket"]


def test_who_disconnects_has_unsubscribed(web, a, topic):
    stream = web.events(topic)
    a.joined(topic, 1)
    stream.close()
    a.until(topic, lambda info: info["subscriptions"] == 0)
    assert web.ask(stream.id, 1).problem == "not-found"


# Resuming


@pytest.mark.parametrize("form", ["events", "lines"])
def test_resuming_loses_and_repeats_nothing(web, topic, form):
    web.publish(topic, *[b"%d" % number for number in range(1, 8)])
    seen, last = [], None
    while len(seen) < 7:
        options = ["-H", f"last-event-id: {last}"] if last else []
        stream = getattr(web, form)(topic, "replay=all", *options)
        for _ in range(min(2, 7 - len(seen))):
            if form == "events":
                event = stream.event()
                assert event.type == "message"
                seen, last = [*seen, event.data], event.id
            else:
                line = stream.line()
                assert "dropped" not in line and "restarted" not in line
                seen, last = [*seen, line["payload"]], f"{line['epoch']}-{line['sequence']}"
        stream.close()
    assert seen == [str(number) for number in range(1, 8)]


def test_what_is_no_longer_retained_is_a_gap(small, http_version, topic):
    web = Web(small, http_version)
    web.publish(topic, b"1")
    last = web.events(topic, "replay=all").event().id
    web.publish(topic, *[b"%d" % number for number in range(2, 13)])
    stream = web.events(topic, "", "-H", f"last-event-id: {last}")
    gap, first, second = stream.take(3)
    assert (gap.type, gap.data, gap.id) == ("gap", '{"dropped":3}', None)
    assert (first.data, second.type, second.data) == ("5", "message", "6")
    refused = web.send(web.topic(topic, "gap=fail"), "-H", f"last-event-id: {last}")
    assert (refused.status, refused.problem) == (409, "gap")
    web.close()


def test_a_topic_that_began_anew(web, a, topic):
    web.publish(topic, b"old", b"old")
    last = web.events(topic, "replay=all").take(2)[-1].id
    a.control("$SYS.topic.delete", name=topic)
    web.publish(topic, b"new", b"new")
    stream = web.lines(topic, "", "-H", f"last-event-id: {last}")
    first, second = stream.line(), stream.line()
    assert first["sequence"] == 1 and first["restarted"] is True
    assert second["sequence"] == 2 and "restarted" not in second


@pytest.mark.parametrize("end", ["complete", "fail"])
def test_a_topic_that_began_anew_and_ended_without_a_message(web, a, topic, end):
    web.publish(topic, b"old")
    last = web.events(topic, "replay=all").event().id
    epoch, sequence = last.split("-")
    a.control("$SYS.topic.delete", name=topic)
    streams = [web.events(topic, "", "-H", f"last-event-id: {last}"), web.lines(topic, f"from=2&epoch={epoch}")]
    plain = web.lines(topic)
    a.joined(topic, 3)
    a.control(f"$SYS.topic.{end}", name=topic)
    told, line, untold = streams[0].event(), streams[1].line(), plain.line()
    assert told.type == line["end"] == untold["end"] == {"complete": "complete", "fail": "failed"}[end]
    assert json.loads(told.data)["restarted"] is True and line["restarted"] is True
    assert json.loads(told.data)["dropped"] == line["dropped"] == 0 and "restarted" not in untold


# Demand


def delivered(peer, topic) -> int:
    return peer.ledger(topic)[0]["delivered"]


def test_no_more_comes_than_was_asked_for(web, a, topic):
    stream = web.events(topic, "request=2")
    a.joined(topic, 1)
    web.publish(topic, *[b"%d" % number for number in range(1, 8)])
    assert [event.data for event in stream.take(2)] == ["1", "2"]
    assert delivered(a, topic) == 2
    # Each request has its own connection, and so reaches either thread.
    for n, last in [(1, 3), (1, 4), (2, 6)]:
        answer = web.ask(stream.id, n)
        assert (answer.status, answer.body) == (204, b"")
        assert [event.data for event in stream.take(n)][-1] == str(last)
        assert delivered(a, topic) == last
    web.ask(stream.id, 2147483647)
    assert stream.event().data == "7"


def test_demand_that_is_none(web, topic):
    stream = web.events(topic, "request=1")
    for n in ["0", "-1", "2147483648", "x"]:
        assert web.ask(stream.id, n).problem == "invalid"
        assert web.send(web.topic(topic, f"request={n}")).problem == "invalid"
    web.publish(topic, b"1")
    assert stream.event().data == "1"


@pytest.mark.parametrize("id", [DEAD_ID + "0000", DEAD_ID + "0001", DEAD_ID + "ffff", "x"])
def test_subscriptions_that_are_not(web, id):
    answer = web.ask(id, 1)
    assert (answer.status, answer.problem) == (404, "not-found")


def test_loss_is_told_and_costs_nothing(web, a, topic):
    stream = web.events(topic, "request=1&buffer=2&overflow=drop-oldest")
    a.joined(topic, 1)
    web.publish(topic, *[b"%d" % number for number in range(1, 7)])
    assert stream.event().data == "1"
    web.ask(stream.id, 2)
    gap, fifth, sixth = stream.take(3)
    assert (gap.type, gap.data) == ("gap", '{"dropped":3}')
    assert [fifth.data, sixth.data] == ["5", "6"]


# The end


@pytest.mark.parametrize("form", ["events", "lines"])
def test_completion(web, a, topic, form):
    web.publish(topic, b"1")
    stream = getattr(web, form)(topic, "replay=all&request=1")
    (stream.event if form == "events" else stream.line)()
    a.control("$SYS.topic.complete", name=topic)
    if form == "lines":
        assert stream.line() == {"end": "complete", "dropped": 0}
    else:
        end = stream.event()
        assert (end.type, end.data) == ("complete", '{"dropped":0}')
        assert end.id.endswith("-1-end")
        # An EventSource reconnects with that id and must stop.
        assert web.send(web.topic(topic), "-H", f"last-event-id: {end.id}").status == 204
    assert stream.ended() == 0


def test_failure(web, a, topic):
    events, lines = web.events(topic), web.lines(topic)
    a.joined(topic, 2)
    a.control("$SYS.topic.fail", name=topic, message='no "sensor"')
    end = events.event()
    assert end.type == "failed" and '"topic failed: no \\"sensor\\""' in end.data
    assert lines.line() == {"end": "failed", "message": 'topic failed: no "sensor"', "dropped": 0}
    assert events.ended() == 0 and lines.ended() == 0


def test_overflow_fails_the_stream(web, a, topic):
    stream = web.lines(topic, "request=1&buffer=1&overflow=fail")
    a.joined(topic, 1)
    web.publish(topic, b"1", b"2", b"3")
    assert stream.line()["sequence"] == 1
    # Waiting messages are delivered first.
    web.ask(stream.id, 1)
    assert stream.line()["sequence"] == 2
    end = stream.line()
    assert end["end"] == "failed" and end["message"].startswith("overflow: ")
    assert stream.ended() == 0


def test_shutdown(start, http_version, topic):
    broker = start()
    web = Web(broker, http_version)
    events, lines = web.events(topic), web.lines(topic)
    broker.process.send_signal(signal.SIGTERM)
    assert lines.line() == {"end": "draining"}
    assert events.event() is None and events.comments == 1
    assert events.ended() == 0 and lines.ended() == 0
    assert broker.process.wait(15) == 0


# Publishing


def test_publishing(web, topic):
    answer = web.send(web.topic(topic), body=b"x")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json["sequence"] == 1 and int(answer.json["epoch"]) > 0
    assert web.send(web.topic(topic), "-X", "POST").json["sequence"] == 2
    assert answer.headers["cache-control"] == "no-store"
    assert abs(parsedate_to_datetime(answer.headers["date"]).timestamp() - time.time()) < 60


def test_expect_continue(web, topic):
    body = bytes(1 << 20)
    assert web.send(web.topic(topic), "-H", "expect: 100-continue", body=body).status == 200
    refused = web.send(web.topic("no/name".replace("/", "%2F")), "-H", "expect: 100-continue", body=body)
    assert (refused.status, refused.problem) == (400, "invalid")
    assert web.send(web.topic(topic), "-H", "expect: magic", body=b"").problem == "expectation-failed"


def test_a_body_that_is_too_long(web, topic):
    body = bytes((1 << 20) + 1)
    told = web.send(web.topic(topic), body=body)
    assert (told.status, told.problem) == (413, "too-large")
    # Without Content-Length the limit is detected as the body grows.
    grown = web.send(web.topic(topic), "-X", "POST", "-T", "-", body=body)
    assert (grown.status, grown.problem) == (413, "too-large")
    assert web.publish(topic, body[:-1]) == [1]


def test_an_ended_topic(web, a, topic):
    web.publish(topic, b"1")
    a.control("$SYS.topic.complete", name=topic)
    answer = web.send(web.topic(topic), body=b"2")
    assert (answer.status, answer.problem) == (409, "ended")


def test_a_publish_waits_for_room(web, a, topic):
    sub = a.subscribe(f"{topic}?overflow=block&buffer=1", n=1, meta=True)
    a.joined(topic, 1)
    web.publish(topic, b"1", b"2")
    answers = []
    thread = threading.Thread(target=lambda: answers.append(web.send(web.topic(topic), body=b"3")))
    thread.start()
    a.until(topic, lambda info: info["parked"] == 1)
    assert not answers
    sub.request(1)
    thread.join(10)
    assert answers[0].json["sequence"] == 3
    refused = web.send(web.topic(topic), body=b"4")
    assert (refused.status, refused.problem, refused.headers["retry-after"]) == (503, "blocked", "1")


# Refusals


@pytest.mark.parametrize("path, options, status, problem", [
    ("/v1/topics/{}/messages?nope=1", [], 400, "invalid"),
    ("/v1/topics/{}/messages?demand=cumulative", [], 400, "invalid"),
    ("/v1/topics/{}/messages?replay=1&from=2", [], 400, "invalid"),
    ("/v1/topics/a%20b/messages", [], 400, "invalid"),
    ("/v1/topics/a%20b/messages", ["-d", "x"], 400, "invalid"),
    ("/v1/topics/{}/messages?x=1", ["-d", "x"], 400, "invalid"),
    ("/v1/topics/{}/messages", ["-H", "last-event-id: x"], 400, "invalid"),
    ("/v1/topics/$SYS.topics/messages", [], 400, "invalid"),
    ("/v1/topics/$SYS.events/messages", ["-d", "x"], 403, "forbidden"),
    ("/v1/topics/{}/messages", ["-H", "origin: https://example.org"], 403, "foreign-origin"),
    ("/v1/topics/{}", [], 404, "not-found"),
    ("/", [], 404, "not-found"),
    ("/v1/topics/{}/messages", ["-X", "DELETE"], 405, "method-not-allowed"),
    ("/v1/subscriptions/x/request?n=1", [], 405, "method-not-allowed"),
    ("/v1/topics/{}/messages", ["-H", "accept: text/html"], 406, "not-acceptable"),
    ("/v1/topics/{}/messages?x=" + 9000 * "x", [], 414, "target-too-long"),
])
def test_refusals(web, topic, path, options, status, problem):
    answer = web.send(web.base + path.format(topic[:60]), "-g", *options)
    assert (answer.status, answer.problem) == (status, problem)
    assert answer.json["detail"].endswith(".")
    assert problem != "foreign-origin" or "--allow-origin https://example.org" in answer.json["detail"]
    assert ("allow" in answer.headers) == (status == 405)
    assert "access-control-allow-origin" not in answer.headers


def test_head_and_options(web, a, topic):
    web.publish(topic, b"1")
    head = web.send(web.topic(topic), "-I")
    assert (head.status, head.headers["content-type"], head.body) == (200, "text/event-stream", b"")
    assert "forebay-subscription" not in head.headers
    assert web.send(web.topic(topic, "nope=1"), "-I").status == 400
    assert a.control("$SYS.topic.info", name=topic)["subscriptions"] == 0
    options = web.send(web.topic(topic), "-X", "OPTIONS")
    assert (options.status, options.headers["allow"]) == (204, "GET, HEAD, POST, OPTIONS")
    everything = web.send(web.base, "-X", "OPTIONS", "--request-target", "*")
    assert everything.status == 204


@pytest.mark.slow
def test_a_silent_stream_gives_signs_of_life(web, a, topic):
    stream = web.events(topic, "request=1")
    a.joined(topic, 1)
    began = time.monotonic()
    # In stream order: the comment is between the opening and the message.
    later = threading.Timer(17, lambda: web.publish(topic, b"1"))
    later.start()
    assert stream.event(20).data == "1"
    later.join()
    assert time.monotonic() - began > 15 and stream.comments == 1
    assert delivered(a, topic) == 1


# Slow readers


@pytest.mark.parametrize("form", ["events", "lines"])
def test_a_slow_reader_disturbs_nobody(broker, web, a, topic, form):
    slow, quick = getattr(web, form)(topic, "buffer=4"), web.lines(topic)
    a.joined(topic, 2)
    slow.stop()
    before = broker.status("VmRSS")
    payload = b"x" * 60_000
    for number in range(400):
        a.publish(topic, b"%04d" % number + payload)
        assert quick.line()["payload"].startswith(f"{number:04}x")
    # The topic retains 16 MiB for replay; the output for the two clients is far less.
    assert broker.status("VmRSS") - before < 40 << 20
    slow.go()
    if form == "events":
        events = []
        while not events or not events[-1].data.startswith("0399"):
            events.append(slow.event())
        lost = sum(int(event.data.removeprefix('{"dropped":')[:-1]) for event in events if event.type == "gap")
        got = sum(event.type == "message" for event in events)
    else:
        lines = []
        while not lines or not lines[-1]["payload"].startswith("0399"):
            lines.append(slow.line())
        lost, got = sum(line.get("dropped", 0) for line in lines), len(lines)
    assert lost > 0 and lost + got == 400
