"""Subscriptions to patterns over plain HTTP, and how they resume over RSocket. test_grpc.py has those over gRPC."""

import json

import pytest

from common import Kind
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


def test_ends_of_topics(web, a, topic):
    events, lines = web.events(f"{topic}.*", "request=1"), web.lines(f"{topic}.*")
    web.publish(f"{topic}.a", b"1", b"2")
    web.publish(f"{topic}.b", b"1")
    a.control("$SYS.topic.complete", name=f"{topic}.a")
    a.control("$SYS.topic.delete", name=f"{topic}.b")
    read = [lines.line() for _ in range(5)]
    epochs = {line["topic"]: line["epoch"] for line in read if "topic" in line}
    ends = [
        {"topic_end": f"{topic}.a", "epoch": epochs[f"{topic}.a"], "dropped": 0},
        {"topic_end": f"{topic}.b", "epoch": epochs[f"{topic}.b"], "dropped": 0, "failure": "topic failed: deleted"}]
    assert [line for line in read if "topic_end" in line] == ends
    # Messages wait for credit, and the ends for the messages.
    assert [event.type for event in events.take(2)] == ["topic", "message"]
    web.ask(events.id, 2)
    found = events.take(6)
    assert [event.type for event in found] == ["topic", "message", "topic-end"] * 2
    found = [{"topic_end" if key == "topic" else key: value for key, value in json.loads(event.data).items()}
             for event in found[2::3]]
    assert sorted(found, key=lambda end: end["topic_end"]) == ends


@pytest.mark.parametrize("query", ["from=3", "overflow=block", "opening=on"])
def test_what_a_pattern_cannot_be(web, topic, query):
    answer = web.send(web.topic(f"{topic}.*", query))
    assert answer.status == 400 and answer.problem == "invalid"


def positions(web, topic: str, **sequences: int) -> str:
    """Where to continue in topics below `topic`, as JSON."""
    found = {}
    for part, sequence in sequences.items():
        # The first message shows the epoch.
        epoch = web.lines(f"{topic}.{part}", "replay=all").line()["epoch"]
        found[f"{topic}.{part}"] = [epoch, sequence]
    return json.dumps(found)


def test_a_pattern_resumes_in_each_topic(web, topic):
    for part in "abc":
        web.publish(f"{topic}.{part}", b"1", b"2", b"3")
    body = positions(web, topic, a=2, b=4)
    lines = web.lines(f"{topic}.*", "replay=1", "-d", body)
    events = web.events(f"{topic}.*", "request=3", "-d", body)
    read = [lines.line() for _ in range(3)]
    assert sorted((line["topic"], line["payload"]) for line in read) == [
        (f"{topic}.a", "2"), (f"{topic}.a", "3"), (f"{topic}.c", "3")]
    for part in "abcd":
        web.publish(f"{topic}.{part}", b"new")
    names = sorted(json.loads(event.data)["topic"] for event in events.take(6)[::2])
    # Without replay, a topic without a position begins with its next message.
    assert names[:2] == [f"{topic}.a"] * 2
    assert sorted(lines.line()["topic"] for _ in range(4)) == [f"{topic}.{part}" for part in "abcd"]


def test_a_pattern_resumes_over_rsocket(web, a, b, topic):
    for part in "abc":
        b.publish(f"{topic}.{part}", b"1", b"2")
    body = positions(web, topic, a=2, b=3)
    sub = a.subscribe(f"{topic}.*", n=1, meta=True, data=body.encode())
    assert sub.take(1)[0].data == b"2"
    b.publish(f"{topic}.c", b"3")
    sub.request(1)
    assert [(one.data, one.sequence) for one in sub.take(1)] == [(b"3", 3)]
    # Longer than a frame, and more topics than there are.
    many = {**json.loads(body), **{f"{topic}.{part}": ["1", 1] for part in range(9000)}}
    sub = a.subscribe(f"{topic}.*", meta=True, data=json.dumps(many).encode())
    b.publish(f"{topic}.7", b"later")
    assert sorted(one.data for one in sub.take(2)) == [b"2", b"later"]


@pytest.mark.parametrize("body", ["[1]", '{"x": ["1", 1]}', '{"TOPIC.a": ["0", 1]}', '{"TOPIC.a": ["1", 0]}'])
def test_wrong_positions_are_refused(web, a, topic, body):
    body = body.replace("TOPIC", topic)
    answer = web.send(web.topic(f"{topic}.*"), "-d", body)
    assert answer.status == 400 and answer.problem == "invalid"
    end = a.subscribe(f"{topic}.*", meta=True, data=body.encode()).end()
    assert end.kind == Kind.INVALID and answer.json["detail"] in end.text


def test_a_body_of_positions_has_a_limit(web, topic):
    answer = web.send(web.topic(f"{topic}.*"), body=b"{" + b" " * (1 << 20) + b"}")
    assert answer.status == 413 and answer.problem == "too-large"
