"""Plain HTTP except streams: publishing, refusals, methods, over HTTP/1.1 and HTTP/2."""

import json
import os
import threading

import pytest

from common import *
from curl import *

pytestmark = pytest.mark.rsocket  # For comparison: `a` and `b` use RSocket.

HEADERS = ("-H", "content-type: text/plain", "-H", "forebay-header-Station: blindern")


def test_publish(curl, a, topic):
    sub = a.subscribe(topic, meta=True)
    a.joined(topic, 1)
    for i in range(1, 4):
        reply = curl.publish(topic, b"%d" % i, *HEADERS)
        assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
        assert json.loads(reply.body) == {"sequence": i, "epoch": a.info(topic)["epoch"]}
    got = sub.take(3)
    assert datas(got) == numbers(1, 3)
    (told,) = curl.stream(path(topic, "replay=1"), *NDJSON).objects(1)
    assert (told["content_type"], told["headers"]) == ("text/plain", {"station": "blindern"})


@pytest.mark.parametrize("size", [0, 1, 100_000, 1 << 20])
def test_publish_of_any_size(curl, a, topic, size):
    sub, body = a.subscribe(topic), os.urandom(size)
    a.joined(topic, 1)
    assert curl.publish(topic, body).status == 200
    assert sub.data(1) == [body]


def test_publish_of_too_much(curl, b, topic):
    curl.publish(topic, bytes((1 << 20) + 1)).problem(413, "too-large")
    curl.publish(topic, bytes(2 << 20), "-H", "expect:", unannounced=True).problem(413, "too-large")
    assert b.numbers(topic, 1, 1) == [1]


def test_publish_to_what_has_ended(curl, b, topic):
    b.numbers(topic, 1, 1)
    b.control("$SYS.topic.complete", name=topic)
    curl.publish(topic, b"x").problem(409, "ended")


def test_publish_waits_for_room(curl, a, topic):
    sub = a.subscribe(f"{topic}?overflow=block&buffer=1", n=1)
    a.joined(topic, 1)
    a.numbers(topic, 1, 2)
    done = []
    waiting = threading.Thread(target=lambda: done.append(curl.publish(topic, b"3")))
    waiting.start()
    a.until(topic, lambda info: info["parked"] == 1)
    assert not done
    sub.request(10)
    assert sub.data(3) == numbers(1, 3)
    waiting.join(DEADLINE)
    assert done[0].status == 200


@pytest.mark.slow
def test_publish_without_room_for_too_long(curl, a, topic):
    a.subscribe(f"{topic}?overflow=block&buffer=1", n=1)
    a.joined(topic, 1)
    a.numbers(topic, 1, 2)
    reply = curl.publish(topic, b"3")
    reply.problem(503, "blocked")
    assert int(reply.headers["retry-after"]) > 0


@pytest.mark.parametrize("query, named", [
    ("request=0", "request"), ("request=x", "request"), ("replya=1", "replya"), ("replay=1&replay=1", "replay"),
    ("replay=1&from=1", "from"), ("buffer=0", "buffer"), ("overflow=sideways", "overflow"), ("meta=off", "meta"),
    ("epoch=1", "epoch"), ("replay", "replay"), ("replay=%zz", "%"),
])
def test_bad_options(curl, topic, query, named):
    assert named in curl(path(topic, query)).problem(400, "invalid")


@pytest.mark.parametrize("name", ["a..b", "a%20b", "a*", "a.%3E.b", "%24other", "x" * 256])
def test_bad_names(curl, name):
    curl(path(name)).problem(400, "invalid")
    curl.publish(name, b"x").problem(400, "invalid")


@pytest.mark.parametrize("pattern", ["*", "a.%3E"])
def test_a_pattern_cannot_be_published_to(curl, pattern):
    curl.publish(pattern, b"x").problem(400, "invalid")


def test_publishing_to_the_brokers_own_topics_is_forbidden(curl):
    curl.publish("$SYS.events", b"x").problem(403, "forbidden")


@pytest.mark.parametrize("where", ["/", "/v1", "/v1/topics", "/v1/topics/x", "/v1/topics/x/messages/", "/nothing"])
def test_unknown_paths(curl, where):
    curl(where).problem(404, "not-found")


def test_methods(curl, topic):
    for method in ("PUT", "DELETE", "PATCH"):
        reply = curl(path(topic), "-X", method)
        reply.problem(405, "method-not-allowed")
        assert {one.strip() for one in reply.headers["allow"].split(",")} >= {"GET", "HEAD", "POST", "OPTIONS"}
    curl(f"/v1/subscriptions/{'0' * 32}/request?n=1").problem(405, "method-not-allowed")


def test_head(curl, b, topic):
    b.numbers(topic, 1, 1)
    reply = curl(path(topic, "replay=1"), "--head")
    assert (reply.status, reply.headers["content-type"], reply.body) == (200, "text/event-stream", b"")
    assert "forebay-subscription" not in reply.headers
    assert curl(path(topic), "--head", *NDJSON).headers["content-type"] == "application/x-ndjson"
    assert (curl(path(topic, "request=0"), "--head").status, curl("/nothing", "--head").status) == (400, 404)
    assert b.info(topic)["subscriptions"] == 0


def test_options(curl, topic):
    reply = curl(path(topic), "-X", "OPTIONS")
    assert (reply.status, reply.body) == (204, b"")
    assert {one.strip() for one in reply.headers["allow"].split(",")} == {"GET", "HEAD", "POST", "OPTIONS"}
    assert curl("/nothing", "-X", "OPTIONS").status == 404


@pytest.mark.parametrize("accept, kind", [
    ("*/*", "text/event-stream"), ("text/*", "text/event-stream"), ("application/*", "application/x-ndjson"),
    ("text/event-stream;q=0.5, application/x-ndjson", "application/x-ndjson"),
    ("application/x-ndjson;q=0, */*", "text/event-stream"),
])
def test_accept(curl, topic, accept, kind):
    assert curl(path(topic), "--head", "-H", f"accept: {accept}").headers["content-type"] == kind


def test_accept_that_fits_nothing(curl, topic):
    curl(path(topic), "-H", "accept: image/png").problem(406, "not-acceptable")


def test_pages_of_other_origins_are_refused(curl, topic):
    reply = curl(path(topic), "--head", "-H", "origin: http://elsewhere.example")
    assert reply.status == 403 and not [name for name in reply.headers if name.startswith("access-control")]
    curl.publish(topic, b"x", "-H", "origin: null").problem(403, "foreign-origin")
    assert curl(path(topic), "--head", "-H", f"origin: {curl.base}").status == 200


def test_every_answer_says_that_it_is_not_to_be_kept(curl, topic):
    for reply in (curl(path(topic), "--head"), curl("/nothing"), curl.publish(topic, b"x")):
        assert reply.headers["cache-control"] == "no-store" and reply.headers["x-content-type-options"] == "nosniff"
