"""Control calls, lists, and the broker's own topics below `$SYS.`."""

import pytest

import json

from common import *

TOPIC_FIELDS = {"name", "epoch", "state", "first", "next", "retained", "retain", "retain_bytes",
                "retain_age_ms", "bytes", "subscriptions", "publishers", "published", "dropped"}
SUBSCRIPTION_FIELDS = {"id", "topic", "connection", "peer", "policy", "buffer", "requested", "outstanding", "delivered",
                       "waiting", "dropped", "meta"}
CONNECTION_FIELDS = {"id", "peer", "shard", "age_ms", "streams", "subscriptions", "publishers", "bytes_in", "bytes_out",
                     "output"}


def test_info(a):
    assert isinstance(a.control("$SYS.info"), dict)


def test_topic_info(a, b, topic):
    b.publish(topic, bytes(100), bytes(100), bytes(100))
    a.subscribe(topic)
    a.joined(topic, 1)
    info = a.info(topic)
    assert TOPIC_FIELDS <= info.keys()
    assert (info["name"], info["state"], info["first"], info["next"]) == (topic, "live", 1, 4)
    assert (info["retained"], info["subscriptions"], info["published"], info["dropped"]) == (3, 1, 3, 0)
    assert info["bytes"] >= 300
    assert isinstance(info["epoch"], str) and int(info["epoch"]) > 0
    assert not info.get("error")


def test_topic_info_of_an_evicted_window(connect, small, topic):
    b = connect(small)
    b.numbers(topic, 1, 20)
    info = b.info(topic)
    assert (info["first"], info["next"], info["retained"], info["published"]) == (13, 21, 8, 20)


def test_topics_are_listed(a, b, topic):
    names = [f"{topic}.{i}" for i in range(20)]
    for i, name in enumerate(names):
        b.numbers(name, 1, i + 1)
    told = {one["name"]: one for one in a.listing("$SYS.topics")}
    for i, name in enumerate(names):
        assert TOPIC_FIELDS <= told[name].keys()
        assert (told[name]["next"], told[name]["state"]) == (i + 2, "live")


def test_subscriptions_are_listed(a, b, topic, transport):
    a.subscribe(f"{topic}?buffer=5&overflow=drop-newest", n=2, meta=True)
    a.subscribe(topic)
    a.joined(topic, 2)
    arrive(a, b, topic, 1, 9)
    one, two = sorted(b.ledger(topic), key=lambda one: one["buffer"])
    assert SUBSCRIPTION_FIELDS <= one.keys()
    assert (one["policy"], one["buffer"], one["requested"], one["outstanding"]) == ("drop-newest", 5, 2, 0)
    assert (one["delivered"], one["waiting"], one["dropped"]) == (2, 5, 2)
    assert one["peer"] == two["peer"] == a.peer and one["connection"] == two["connection"]
    assert one["id"] != two["id"]
    assert (two["policy"], two["buffer"], two["requested"]) == ("drop-oldest", 1024, "unbounded")
    assert (two["delivered"], two["waiting"], two["dropped"]) == (9, 0, 0)
    assert one["meta"] and two["meta"] == (transport != "rsocket")


def test_a_topic_tells_what_its_subscriptions_lost(a, b, topic):
    a.subscribe(f"{topic}?buffer=5", n=1)
    a.joined(topic, 1)
    b.numbers(topic, 1, 10)
    b.until(topic, lambda info: info["dropped"] == 4)


def test_a_subscription_that_is_over_is_listed_no_more(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    sub.cancel()
    a.joined(topic, 0)
    assert b.ledger(topic) == []


def test_connections_are_listed(a, b, topic):
    a.subscribe(topic)
    channel = a.channel(f"{topic}.x", b"1")
    channel.acknowledged(1)
    a.joined(topic, 1)
    mine = [one for one in b.listing("$SYS.connections") if one["peer"] == a.peer]
    assert len(mine) == 1 and CONNECTION_FIELDS <= mine[0].keys()
    assert (mine[0]["subscriptions"], mine[0]["publishers"]) == (1, 1)
    assert mine[0]["streams"] >= 2 and mine[0]["shard"] >= 0
    assert mine[0]["bytes_in"] > 0 and mine[0]["bytes_out"] > 0 and mine[0]["age_ms"] >= 0


def test_connections_tell_where_they_publish(a, b, topic):
    def row():
        (mine,) = [one for one in b.listing("$SYS.connections") if one["peer"] == a.peer]
        return mine["publishes_to"], mine["publishes_to_more"]

    assert row() == ([], False)
    a.publish(f"{topic}.single", b"1", b"2")
    eventually(row, lambda got: got == ([f"{topic}.single"], False))
    channels = []
    for index in range(2):
        channels.append(a.channel(f"{topic}.{index}", b"1"))
        channels[-1].acknowledged(1)
    assert row() == ([f"{topic}.0", f"{topic}.1", f"{topic}.single"], False)
    for index in range(2, 9):
        channels.append(a.channel(f"{topic}.{index}", b"1"))
        channels[-1].acknowledged(1)
    names, has_more = row()
    assert names == [f"{topic}.{index}" for index in range(8)] and has_more
    for channel in channels:
        channel.complete()
    eventually(row, lambda got: got == ([f"{topic}.single"], False))


def test_a_lost_connection_is_listed_no_more(connect, b):
    lost = connect()
    lost.barrier("x")
    assert lost.peer in [one["peer"] for one in b.listing("$SYS.connections")]
    lost.close()
    eventually(lambda: [one["peer"] for one in b.listing("$SYS.connections")], lambda peers: lost.peer not in peers)


@pytest.mark.rsocket
@pytest.mark.parametrize("path", ["$SYS.topics", "$SYS.subscriptions", "$SYS.connections"])
def test_lists_come_under_credit_and_then_end(a, b, topic, path):
    for i in range(10):
        a.subscribe(f"{topic}.{i}")
    for i in range(10):
        a.joined(f"{topic}.{i}", 1)
    count = len(b.listing(path))
    assert count >= (2 if path == "$SYS.connections" else 10)
    listing, seen = b.subscribe(path, n=1), 0
    while listing.ended is None:
        event = listing.event()
        if isinstance(event, Message):
            json.loads(event.data)
            seen += 1
            b.barrier(topic)
            if seen < count:
                listing.nothing()
                listing.request(1)
    assert listing.ended == End() and seen == count


@pytest.mark.rsocket
def test_a_list_may_be_cancelled(a, topic):
    listing = a.subscribe("$SYS.connections", n=1)
    listing.take(1)
    listing.cancel()
    a.barrier(topic)


@pytest.mark.rsocket
def test_control_needs_a_name(a):
    for path in ("$SYS.topic.info", "$SYS.topic.info?name=", "$SYS.topic.info?name=a..b", "$SYS.topic.info?nom=x",
                 "$SYS.topic.info?name=x&for=fun", "$SYS.topic.complete?name=x&for=publish"):
        with pytest.raises(StreamError) as refused:
            a.control(path)
        assert refused.value.kind == Kind.INVALID, path


@pytest.mark.parametrize("name", ["$SYS.nothing", "$SYS.topic", "$SYS.topic.nothing", "$SYS.", "$SYS.topics.x"])
def test_unknown_sys_names(a, name):
    """INVALID or REJECTED, whatever the operation."""
    refused = {Kind.INVALID, Kind.REJECTED}
    assert refusal(a.subscribe(name)).kind in refused
    assert a.channel(name, b"x").end().kind in refused


@pytest.mark.rsocket
@pytest.mark.parametrize("name", ["$SYS.nothing", "$SYS.topic", "$SYS.topic.nothing", "$SYS.", "$SYS.topics.x"])
def test_unknown_control_calls(a, name):
    with pytest.raises(StreamError) as error:
        a.control(name)
    assert error.value.kind in {Kind.INVALID, Kind.REJECTED}


@pytest.mark.parametrize("name", ["$SYS.topics", "$SYS.subscriptions", "$SYS.connections", "$SYS.events", "$SYS.stats"])
def test_nothing_can_be_published_under_sys(a, name):
    refused = {Kind.INVALID, Kind.REJECTED}
    with pytest.raises(StreamError) as error:
        a.publish(name, b"x")
    assert error.value.kind in refused
    assert a.channel(name, b"x").end().kind in refused


@pytest.mark.rsocket
@pytest.mark.parametrize("name", ["$SYS.topics", "$SYS.events", "$SYS.stats"])
def test_a_fire_under_sys_is_dropped(a, topic, name):
    a.fire(name, b"x")
    a.numbers(topic, 1, 1)
    for one in a.subscribe("$SYS.topics").rest():
        assert json.loads(one.data)["name"] != name or json.loads(one.data)["publishers"] == 0


@pytest.mark.parametrize("name", ["$SYS.events", "$SYS.stats"])
def test_no_block_on_the_brokers_own_topics(a, name):
    assert refusal(a.subscribe(f"{name}?overflow=block")).kind in {Kind.INVALID, Kind.REJECTED}


@pytest.mark.rsocket
@pytest.mark.parametrize("name", ["$SYS.events", "$SYS.stats"])
def test_nobody_may_publish_to_the_brokers_own_topics_and_is_told_so(a, name):
    a.subscribe(name)
    assert a.control("$SYS.topic.info", name=name)["name"] == name
    with pytest.raises(StreamError) as refused:
        a.control(f"$SYS.topic.info?name={name}&for=publish")
    assert refused.value.kind == Kind.REJECTED


@pytest.mark.parametrize("verb", ["complete", "fail", "delete"])
@pytest.mark.parametrize("name", ["$SYS.events", "$SYS.stats"])
def test_the_brokers_own_topics_cannot_be_ended(a, name, verb):
    with pytest.raises(StreamError) as refused:
        a.control(f"$SYS.topic.{verb}", name=name, **({"message": "x"} if verb == "fail" else {}))
    assert refused.value.kind in {Kind.INVALID, Kind.REJECTED}


def test_events_tell_of_topics(a, b, topic):
    events = a.subscribe("$SYS.events?buffer=100000")
    a.barrier(topic)
    b.numbers(topic, 1, 1)
    while topic not in json.dumps(json.loads(events.take(1)[0].data)):
        pass


def test_events_are_an_ordinary_topic(a, b, topic):
    """Replay, credit and meta, as for any topic."""
    events = a.subscribe("$SYS.events", n=1, meta=True)
    a.barrier(topic)
    for i in range(3):
        b.numbers(f"{topic}.{i}", 1, 1)
    first = events.take(1)[0]
    a.barrier(topic)
    events.nothing()
    events.request(1)
    second = events.take(1)[0]
    assert second.sequence == first.sequence + 1 and second.epoch == first.epoch
    again = b.subscribe(f"$SYS.events?from={first.sequence}", meta=True).take(2)
    assert datas(again) == [first.data, second.data]


def test_subscriptions_to_events_raise_no_events(a, b, topic):
    events = a.subscribe("$SYS.events?buffer=100000")
    a.barrier(topic)
    others = [b.subscribe(name) for name in ("$SYS.events", "$SYS.stats", "$SYS.events?replay=all")]
    b.barrier(topic)
    for other in others:
        other.cancel()
    b.barrier(topic)
    b.numbers(topic, 1, 1)  # An event that is certain to follow any events about the subscriptions.
    told = b""
    while topic.encode() not in told:
        told = events.take(1)[0].data
        assert b"$SYS" not in told, told


def test_stats_come_every_second(a):
    stats = a.subscribe("$SYS.stats")
    got = stats.take(2)
    assert all(isinstance(json.loads(one.data), dict) for one in got)
