"""Several shards: connections are assigned to them in turn, and each topic belongs to one shard. Clients must not
notice."""

import pytest

from common import *


@pytest.fixture(scope="module", params=[1, 2, 3])
def sharded(start, request):
    this = start(threads=request.param)
    this.threads = request.param
    yield this
    this.stop()


@pytest.fixture
def peers(connect, sharded):
    return [connect(sharded) for _ in range(6)]


def test_connections_are_dealt_to_all_shards(peers, sharded, topic):
    for peer in peers:
        peer.barrier(topic)
    mine = {peer.peer for peer in peers}
    shards = {one["shard"] for one in peers[0].listing("$SYS.connections") if one["peer"] in mine}
    assert shards == set(range(sharded.threads))


def test_every_connection_reaches_every_topic(peers, topic):
    names = [f"{topic}.{i}" for i in range(30)]
    subs = {(peer, name): peer.subscribe(name) for peer in peers for name in names}
    for name in names:
        peers[0].joined(name, len(peers))
        for i, peer in enumerate(peers):
            assert peer.publish(name, b"%d" % i) == [i + 1]
    for sub in subs.values():
        assert sub.data(len(peers)) == numbers(0, len(peers) - 1)


def test_channels_from_every_connection(peers, topic):
    names = [f"{topic}.{i}" for i in range(6)]
    subs = [peer.subscribe(name, meta=True) for peer in peers for name in names]
    for name in names:
        peers[0].joined(name, len(peers))
    channels = [peer.channel(name, b"0") for peer in peers for name in names]
    for i in range(1, 100):
        for channel in channels:
            channel.send(b"%d" % i)
    for channel in channels:
        channel.complete()
        assert channel.end() == End()
        assert channel.acks[-1][1] == 100
    for sub in subs:
        assert [one.sequence for one in sub.take(600)] == list(range(1, 601))


def test_policies_across_shards(peers, topic):
    """The results are the same for each subscriber, whatever its shard."""
    expected = {"drop-oldest": [1, 9, 10], "drop-newest": [1, 2, 3], "replace-newest": [1, 2, 10], "latest": [1, 10]}
    for i in range(8):
        name = f"{topic}.{i}"
        subs = [(peer.subscribe(f"{name}?overflow={policy}&buffer=2", n=1, meta=True), sequences)
                for peer in peers for policy, sequences in expected.items()]
        peers[0].joined(name, len(subs))
        peers[i % len(peers)].numbers(name, 1, 10)
        for peer in peers:
            peer.barrier(name)
        for sub, sequences in subs:
            sub.request(10)
            assert [one.sequence for one in sub.take(len(sequences))] == sequences


def test_block_across_shards(peers, topic):
    for i, peer in enumerate(peers):
        name = f"{topic}.{i}"
        subs = [other.subscribe(f"{name}?overflow=block&buffer=2", n=1) for other in peers]
        peer.joined(name, len(subs))
        assert peer.numbers(name, 1, 3) == [1, 2, 3]
        offers = park(peer, name, 4, 7)
        assert not any(offer.answered() for offer in offers)
        for sub in subs:
            sub.request(6)
        assert [offer.sequence() for offer in offers] == [4, 5, 6, 7]
        for sub in subs:
            assert sub.data(7) == numbers(1, 7)


def test_the_end_of_a_topic_across_shards(peers, topic):
    for i, peer in enumerate(peers):
        name = f"{topic}.{i}"
        subs = [other.subscribe(name, n=2) for other in peers]
        peer.joined(name, len(subs))
        peer.numbers(name, 1, 3)
        peer.control("$SYS.topic.fail", name=name, message="over")
        for sub in subs:
            sub.request(1)
            assert datas(sub.rest()) == numbers(1, 3)
            assert sub.ended.text == "topic failed: over"


def test_lists_tell_of_all_shards(peers, topic):
    names = {f"{topic}.{i}" for i in range(12)}
    for name in names:
        peers[0].subscribe(name)
        peers[1].joined(name, 1)
    for peer in peers:  # A broker counts a connection once it has read its set-up, which has no response.
        peer.listing("$SYS.topics")
    for peer in peers[:3]:
        assert names <= {one["name"] for one in peer.listing("$SYS.topics")}
        assert names <= {one["topic"] for one in peer.listing("$SYS.subscriptions")}
        assert {one.peer for one in peers} <= {one["peer"] for one in peer.listing("$SYS.connections")}


def test_ids_are_unique_across_shards(peers, topic):
    for peer in peers:
        for _ in range(5):
            peer.subscribe(topic)
    peers[0].joined(topic, 30)
    assert len({one["id"] for one in peers[0].ledger(topic)}) == 30


def test_large_messages_across_shards(peers, topic):
    body = bytes(range(256)) * 3000
    subs = [peer.subscribe(topic) for peer in peers]
    peers[0].joined(topic, len(subs))
    for i, peer in enumerate(peers):
        peer.publish(topic, b"%d" % i + body)
    for sub in subs:
        assert sub.data(len(peers)) == [b"%d" % i + body for i in range(len(peers))]
