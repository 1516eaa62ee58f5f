"""Subscriptions to patterns that shared topics match: several brokers over one nats-server."""

import collections
import contextlib

import pytest

from client import *
from patterns import follow, positions, subscribe, summaries, topic_of
from proxy import Proxy

pytestmark = pytest.mark.rsocket


@pytest.fixture
def node(begin, nats):
    """Starts nodes with the topics s.> in common."""
    def start(*options: str, upstream: str = ""):
        return begin("--upstream", upstream or nats.url(), "--shared", "s.>", *options)
    return start


def by_topic(messages) -> dict[str, list[bytes]]:
    found = collections.defaultdict(list)
    for one in messages:
        found[topic_of(one)].append(one.data)
    return dict(found)


def test_topics_of_other_nodes_match(node):
    here, there = node().peer(), node().peer()
    assert there.publish("s.old", b"before") == [1]
    everything, news = follow(here, "s.>?replay=all"), follow(here, "s.*")
    assert by_topic(everything.take(1)) == {"s.old": [b"before"]}
    there.publish("s.old", b"after")
    there.publish("s.new", b"1", b"2")
    here.publish("s.here", b"3")
    here.publish("private", b"4")
    expected = {"s.old": [b"after"], "s.new": [b"1", b"2"], "s.here": [b"3"]}
    for subscription in (everything, news):
        assert by_topic(subscription.take(4)) == expected


def test_replay_and_private_topics_together(node):
    here, there = node().peer(), node().peer()
    for number in range(20):
        there.publish(f"s.{number}", b"a", b"b", b"c")
        here.publish(f"private.{number}", b"a", b"b", b"c")
    found = by_topic(follow(here, ">?replay=2").take(80))
    assert found == {f"{kind}.{number}": [b"b", b"c"] for kind in ("s", "private") for number in range(20)}


def test_a_topic_that_is_not_in_use_is_followed_again(node):
    here, there = node("--topic-idle", "1s").peer(), node().peer()
    subscription = follow(here, "s.>")
    for round in range(2):
        there.publish("s.a", b"%d" % round)
        assert by_topic(subscription.take(1)) == {"s.a": [b"%d" % round]}
        # Five seconds until the cursor is removed, and one until the topic is.
        eventually(lambda: [one["name"] for one in here.listing("$SYS.topics")], lambda names: "s.a" not in names, 20)


def test_what_was_published_without_a_link_to_nats_follows(node, nats):
    with contextlib.closing(Proxy(("127.0.0.1", nats.port))) as proxy:
        here = node(upstream="nats://%s:%d" % proxy.address).peer()
        there = node().peer()
        there.publish("s.known", b"0")
        subscription = follow(here, "s.>")
        proxy.hold()
        there.publish("s.known", b"1", b"2")
        there.publish("s.new", b"1", b"2")
        proxy.cut()
        proxy.release()
        assert by_topic(subscription.take(4)) == {"s.known": [b"1", b"2"], "s.new": [b"1", b"2"]}


def test_nats_that_cannot_be_reached_does_not_hold_up_private_topics(node):
    here = node("--upstream-time", "1s", upstream="nats://127.0.0.1:1").peer()
    subscription = follow(here, ">")
    here.publish("private", b"1")
    assert by_topic(subscription.take(1)) == {"private": [b"1"]}


@pytest.mark.parametrize("over", ["rsocket", "grpc"])
def test_history_is_refused_while_shared_topics_are_not_known(node, over):
    here = node("--upstream-time", "1s", upstream="nats://127.0.0.1:1")
    text = refusal(subscribe(here.peer(over), ">?replay=all")).text
    assert "unavailable: NATS JetStream has not listed all shared topics that may match '>'" in text
    # What no shared topic may match does not wait for NATS.
    peer = here.peer(over)
    peer.publish("private.a", b"1")
    assert by_topic(follow(peer, "private.*?replay=all").take(1)) == {"private.a": [b"1"]}


def test_a_topic_ends_and_begins_again(node):
    here, there = node().peer(), node().peer()
    subscription = follow(here, "s.>")
    there.publish("s.a", b"1")
    assert by_topic(subscription.take(1)) == {"s.a": [b"1"]}
    there.control("$SYS.topic.delete", name="s.a")
    there.publish("s.a", b"2")
    assert by_topic(subscription.take(1)) == {"s.a": [b"2"]}


@pytest.mark.parametrize("over", ["rsocket", "grpc"])
def test_positions_continue_at_another_node(node, over):
    """Positions hold on every node, also for topics of which the other node has no messages in memory."""
    here, there = node(), node()
    publisher = here.peer()
    for part in "abc":
        publisher.publish(f"s.{part}", *numbers(1, 5))
    leaving = here.peer(over)
    found = follow(leaving, "s.>?replay=all", n=7).take(7)
    leaving.close()
    # Some messages are published while the client has no connection, also to a topic that it does not know.
    publisher.publish("s.a", b"6")
    publisher.publish("s.new", b"1", b"2")
    places = positions(found)
    resumed = there.peer(over)
    sub = follow(resumed, "s.>?replay=all", n=4, positions=places)
    found += sub.take(4)
    publisher.publish("s.b", b"6")
    sub.request(9)
    found += sub.take(8)
    # Sequences have holes, because control messages take some.
    expected = [(part, text) for part in "ab" for text in numbers(1, 6)] + [("c", text) for text in numbers(1, 5)]
    assert sorted((topic_of(one)[2:], one.data) for one in found) == expected + [("new", b"1"), ("new", b"2")]
    assert all(dropped == 0 for _, _, dropped in summaries(found))
    back = follow(here.peer(over), "s.>?gap=fail", positions=positions(found))
    publisher.publish("s.c", b"6")
    assert [(topic_of(one), one.data) for one in back.take(1)] == [("s.c", b"6")]
