"""Subscriptions to patterns over plain HTTP. test_grpc.py has those over gRPC."""

import json

import pytest

from web import Web

pytestmark = pytest.mark.rsocket  # The wire is HTTP, whichever transport the suite runs over.


@pytest.fixture
def web(broker, http_version):
    this = Web(broker, http_version)
    yield this
    this.close()


def test_a_pattern_names_the_topic_of_each_message(web, topic):
    events, lines = web.events(f"{topic}.*", "request=3"), web.lines(f"{topic}.%3E")
    for part in "ab":
        web.publish(f"{topic}.{part}", b"1", b"2")
    read = [lines.line() for _ in range(4)]
    everything = sorted((f"{topic}.{part}", text) for part in "ab" for text in "12")
    assert sorted((line["topic"], line["payload"]) for line in read) == everything
    epochs = {line["topic"]: line["epoch"] for line in read}
    found = events.take(6)
    assert web.ask(events.id, 1).status == 204
    found += events.take(2)
    assert [event.type for event in found] == ["topic", "message"] * 4
    assert {event.id for event in found} == {None}
    names = [json.loads(event.data) for event in found[::2]]
    assert sorted((name["topic"], event.data) for name, event in zip(names, found[1::2])) == everything
    assert all(name["epoch"] == epochs[name["topic"]] and name["sequence"] in (1, 2) for name in names)


def test_a_pattern_that_fails(web, topic):
    stream = web.events(f"{topic}.*", "request=1&buffer=1&overflow=fail")
    web.publish(f"{topic}.a", b"1", b"2", b"3")
    web.ask(stream.id, 1)
    assert [event.type for event in stream.take(4)] == ["topic", "message"] * 2
    end = stream.event()
    assert end.type == "failed" and json.loads(end.data)["message"].startswith(f"overflow: topic '{topic}.a': ")
    # An EventSource that reconnects is stopped.
    again = web.send(web.topic(f"{topic}.*"), "-H", f"last-event-id: {end.id}")
    assert again.status == 204


@pytest.mark.parametrize("query", ["from=3", "overflow=block", "opening=on"])
def test_what_a_pattern_cannot_be(web, topic, query):
    answer = web.send(web.topic(f"{topic}.*", query))
    assert answer.status == 400 and answer.problem == "invalid"
