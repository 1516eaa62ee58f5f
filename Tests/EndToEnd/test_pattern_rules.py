"""What Protocol/conformance.md says of subscriptions to patterns, over RSocket and gRPC. test_patterns.py has those
over plain HTTP, Protocol/vectors the bytes of all three."""

import json

import pytest

from common import *
from patterns import follow, positions, subscribe, summaries, topic_of


def create(peer, topic: str, parts: str):
    """Publishes a first message to topics below `topic`."""
    for part in parts:
        peer.publish(f"{topic}.{part}", b"1")


def waiting(peer, pattern: str, count: int):
    """Waits until the subscription has so many messages waiting."""
    eventually(lambda: peer.ledger(pattern), lambda rows: [row["waiting"] for row in rows] == [count])


def test_one_demand_is_for_all_topics(a, b, topic):
    sub = follow(a, f"{topic}.*", n=2)
    for part in "abc":
        b.publish(f"{topic}.{part}", b"1", b"2")
    waiting(a, f"{topic}.*", 4)
    found = sub.take(2)
    sub.nothing()
    sub.request(3)
    found += sub.take(3)
    waiting(a, f"{topic}.*", 1)
    sub.nothing()
    sub.request(1)
    found += sub.take(1)
    assert sorted(summaries(found)) == [(part, number, 0) for part in "abc" for number in (1, 2)]


def test_each_message_names_its_topic(a, b, topic):
    sub = follow(a, f"{topic}.>")
    names = [f"{topic}.a", f"{topic}.a.b", f"{topic}.b"]
    for name in names:
        b.publish(name, name.encode())
    b.publish(f"{topic}x", b"does not match")
    b.publish(topic, b"nor does this")
    found = sub.take(3)
    assert sorted(topic_of(one) for one in found) == names
    assert all(topic_of(one).encode() == one.data for one in found)
    a.barrier(topic)
    sub.nothing()


def test_topics_with_messages_take_turns(a, b, topic):
    sub = follow(a, f"{topic}.*", n=1)
    b.numbers(f"{topic}.busy", 1, 41)
    create(b, topic, "de")
    waiting(a, f"{topic}.*", 42)
    assert summaries(sub.take(1)) == [("busy", 1, 0)]
    # Whichever topic is first, each of the three has had a turn after three messages.
    sub.request(3)
    assert sorted(summaries(sub.take(3))) == [("busy", 2, 0), ("d", 1, 0), ("e", 1, 0)]
    sub.request(39)
    assert summaries(sub.take(39)) == [("busy", number, 0) for number in range(3, 42)]


def test_a_topic_keeps_its_order(a, b, topic):
    sub = follow(a, f"{topic}.*", n=7)
    for number in range(1, 21):
        for part in "abc":
            b.numbers(f"{topic}.{part}", number, number)
    found = sub.take(7)
    while len(found) < 60:
        sub.request(9)
        found += sub.take(min(9, 60 - len(found)))
    for part in "abc":
        assert [one.data for one in found if topic_of(one).endswith(part)] == numbers(1, 20)


def test_later_topics_begin_with_their_first_message(a, b, topic):
    create(b, topic, "a")
    sub = follow(a, f"{topic}.*")
    b.publish(f"{topic}.a", b"2")
    b.publish(f"{topic}.b", b"1", b"2")
    assert sorted(summaries(sub.take(3))) == [("a", 2, 0), ("b", 1, 0), ("b", 2, 0)]
    # A topic that is deleted and created again is another one.
    epoch = a.info(f"{topic}.a")["epoch"]
    b.control("$SYS.topic.delete", name=f"{topic}.a")
    create(b, topic, "a")
    (again,) = sub.take(1)
    assert summaries([again]) == [("a", 1, 0)] and str(again.epoch) != epoch


def test_replay_counts_for_each_topic(a, b, topic):
    for part in "ab":
        b.numbers(f"{topic}.{part}", 1, 4)
    sub = follow(a, f"{topic}.*?replay=2")
    assert sorted(summaries(sub.take(4))) == [(part, number, 0) for part in "ab" for number in (3, 4)]


def in_use(a, b, topic: str, options: str, parts: str):
    """A subscription that has received a message of each topic, and has no credit."""
    sub = follow(a, f"{topic}.*?{options}", n=len(parts))
    create(b, topic, parts)
    assert sorted(summaries(sub.take(len(parts)))) == [(part, 1, 0) for part in parts]
    return sub


def test_buffer_and_policy_count_for_each_topic(a, b, topic):
    sub = in_use(a, b, topic, "buffer=2&overflow=drop-oldest", "ab")
    b.numbers(f"{topic}.a", 2, 6)
    b.numbers(f"{topic}.b", 2, 2)
    waiting(a, f"{topic}.*", 3)
    sub.request(9)
    assert sorted(summaries(sub.take(3))) == [("a", 5, 3), ("a", 6, 0), ("b", 2, 0)]


def test_overflow_fail_names_the_topic(a, b, topic):
    sub = in_use(a, b, topic, "buffer=1&overflow=fail", "ab")
    b.numbers(f"{topic}.b", 2, 2)
    b.numbers(f"{topic}.a", 2, 3)
    sub.request(9)
    found, end = summaries(sub.rest()), sub.end()
    assert ("a", 2, 0) in found and set(found) <= {("a", 2, 0), ("b", 2, 0)}
    assert end.kind == Kind.OVERFLOW and f"topic '{topic}.a'" in end.text


@pytest.mark.parametrize("ending", ["complete", "fail", "delete"])
def test_the_end_of_a_topic_does_not_end_the_subscription(a, b, topic, ending):
    sub = follow(a, f"{topic}.*", n=1)
    b.publish(f"{topic}.a", b"1", b"2")
    waiting(a, f"{topic}.*", 1)
    b.control(f"$SYS.topic.{ending}", name=f"{topic}.a", **({"message": "broken"} if ending == "fail" else {}))
    sub.request(2)
    assert summaries(sub.take(2)) == [("a", 1, 0), ("a", 2, 0)]
    create(b, topic, "b")
    assert summaries(sub.take(1)) == [("b", 1, 0)]
    sub.nothing()


def test_positions_continue_in_each_topic_exactly_once(connect, b, topic):
    """A client whose connections end again and again."""
    for part in "abc":
        b.numbers(f"{topic}.{part}", 1, 5)
    found, places = [], {}
    for size in (2, 4, 5, 3):
        peer = connect()
        part = follow(peer, f"{topic}.*?replay=all", n=size, positions=places).take(size)
        places |= positions(part)
        found += part
        peer.close()
    sub = follow(connect(), f"{topic}.*?replay=all", positions=places)
    for part in "abc":
        b.numbers(f"{topic}.{part}", 6, 6)
    found += sub.take(4)
    assert sorted(summaries(found)) == [(part, number, 0) for part in "abc" for number in range(1, 7)]


def test_positions_of_another_epoch_begin_with_what_is_retained(a, b, topic):
    create(b, topic, "ab")
    places = {f"{topic}.a": ("5", 2), f"{topic}.b": (a.info(f"{topic}.b")["epoch"], (1 << 64) - 1)}
    sub = follow(a, f"{topic}.*", positions=places)
    assert summaries(sub.take(1)) == [("a", 1, 0)]
    b.publish(f"{topic}.b", b"2")
    assert summaries(sub.take(1)) == [("b", 2, 0)]
    end = subscribe(a, f"{topic}.*?gap=fail", positions=places).end()
    assert end.kind == Kind.REJECTED and f"topic '{topic}." in end.text


@pytest.mark.parametrize("query", ["from=1", "overflow=block"])
def test_options_that_a_pattern_does_not_have(a, topic, query):
    end = subscribe(a, f"{topic}.*?{query}").end()
    assert end.kind == Kind.INVALID and "pattern" in end.text
    assert a.ledger(f"{topic}.*") == []


@pytest.mark.parametrize("name, place", [("t.a", ("0", 1)), ("t.a", ("1", 0)), ("u.a", ("1", 1)), ("t.*", ("1", 1)),
                                         ("t.ä", ("1", 1))])
def test_positions_that_a_pattern_does_not_have(a, name, place):
    assert subscribe(a, "t.*", positions={name: place}).end().kind == Kind.INVALID


def test_matches_and_patterns_are_limited(begin, connect, topic):
    broker = begin("--max-matches", "2", "--max-patterns", "1", threads=1)
    a, b = connect(to=broker), connect(to=broker)
    create(b, topic, "abc")
    end = subscribe(a, f"{topic}.*").end()
    assert end.kind == Kind.REJECTED and f"More than 2 topics match '{topic}.*'" in end.text
    places = {f"{topic}.{part}": ("1", 1) for part in "abc"}
    end = subscribe(a, f"{topic}.*", positions=places).end()
    assert end.kind == Kind.INVALID and "2 topics" in end.text
    sub = follow(a, f"{topic}.x.*")
    assert subscribe(a, f"{topic}.y.*").end().kind == Kind.REJECTED
    other = follow(b, f"{topic}.x.*")
    create(b, f"{topic}.x", "a")
    assert summaries(sub.take(1)) == summaries(other.take(1)) == [("a", 1, 0)]


def test_skipped_topics_are_received_later(begin, connect, topic):
    """While messages of two topics wait, others are skipped. What is no longer retained of them is reported."""
    broker = begin("--max-matches", "2", "--retain", "3")
    a, b = connect(to=broker), connect(to=broker)
    sub = follow(a, f"{topic}.*", n=1)
    for part in "ab":
        b.publish(f"{topic}.{part}", b"1", b"2")
    waiting(a, f"{topic}.*", 3)
    b.numbers(f"{topic}.c", 1, 5)
    b.numbers(f"{topic}.d", 1, 2)
    assert a.ledger(f"{topic}.*")[0]["skipped"] > 0
    sub.request(100)
    assert sorted(summaries(sub.take(4))) == [("a", 1, 0), ("a", 2, 0), ("b", 1, 0), ("b", 2, 0)]
    # The others are received when the first two have had no message for 5 s.
    assert sorted(summaries(sub.take(5))) == [("c", 3, 2), ("c", 4, 0), ("c", 5, 0), ("d", 1, 0), ("d", 2, 0)]


def test_a_pattern_lies_within_a_permission(begin, connect, tmp_path, topic):
    path = tmp_path / "forebayd.yaml"
    path.write_text(json.dumps({"anonymous": {"subscribe": ["t.>"], "publish": ["t.>"], "control": ["$SYS.>", "t.>"]}}))
    broker = begin("-c", str(path))
    a = connect(to=broker)
    for pattern in (">", "*.a", "u.>"):
        end = subscribe(a, pattern).end()
        assert end.kind == Kind.REJECTED and f"'{pattern}'" in end.text
    sub = follow(a, f"{topic}.*")
    create(a, topic, "a")
    assert summaries(sub.take(1)) == [("a", 1, 0)]


def test_a_pattern_is_cancelled(a, b, topic):
    sub = follow(a, f"{topic}.*", n=1)
    for part in "abc":
        b.publish(f"{topic}.{part}", b"1", b"2")
    sub.take(1)
    sub.cancel()
    eventually(lambda: a.ledger(f"{topic}.*"), lambda rows: rows == [])
    b.publish(f"{topic}.d", b"1")
    a.barrier(f"{topic}.d")
    assert sub.pending() == 0
