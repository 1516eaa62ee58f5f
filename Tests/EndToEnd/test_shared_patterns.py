"""Subscriptions to patterns that shared topics match: several brokers over one nats-server."""

import collections
import contextlib

import pytest

from client import *
from proxy import Proxy

pytestmark = pytest.mark.rsocket
TOPIC_MIME = b"application/vnd.forebay.topic"


@pytest.fixture
def node(begin, nats):
    """Starts nodes with the topics s.> in common."""
    def start(*options: str, upstream: str = ""):
        return begin("--upstream", upstream or nats.url(), "--shared", "s.>", *options)
    return start


def follow(peer, path: str):
    """Subscribes to a pattern, and waits until the subscription has begun."""
    subscription = peer.subscribe(path, meta=True)
    pattern = path.partition("?")[0]
    eventually(lambda: peer.ledger(pattern), lambda rows: rows and all(row["waits_for"] != "topic" for row in rows))
    return subscription


def by_topic(messages) -> dict[str, list[bytes]]:
    found = collections.defaultdict(list)
    for one in messages:
        found[dict(one.entries)[TOPIC_MIME].decode()].append(one.data)
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


def test_a_topic_ends_and_begins_again(node):
    here, there = node().peer(), node().peer()
    subscription = follow(here, "s.>")
    there.publish("s.a", b"1")
    assert by_topic(subscription.take(1)) == {"s.a": [b"1"]}
    there.control("$SYS.topic.delete", name="s.a")
    there.publish("s.a", b"2")
    assert by_topic(subscription.take(1)) == {"s.a": [b"2"]}
