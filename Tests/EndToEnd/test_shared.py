"""Shared topics: several brokers over one nats-server."""

import asyncio
import contextlib
import os
import contextlib

import nats as nats_client
import nkeys
import pytest

import tls
from client import *
from nats_server import Server
from proxy import Proxy

pytestmark = pytest.mark.rsocket


@pytest.fixture
def node(begin, nats):
    """Starts nodes with the topics s.> in common."""
    def start(*options: str):
        return begin("--upstream", nats.url(), "--shared", "s.>", *options)
    return start


def payloads(messages) -> list[bytes]:
    return [one.data for one in messages]


def test_a_message_reaches_the_subscribers_of_all_nodes(node):
    nodes = [node(), node()]
    peers = [each.peer() for each in nodes]
    subscriptions = [peer.subscribe("s.a?replay=all", n=10, meta=True) for peer in peers]
    assert peers[0].publish("s.a", b"one", b"two") == [1, 2]
    assert peers[1].publish("s.a", b"three") == [3]
    found = [subscription.take(3) for subscription in subscriptions]
    for messages in found:
        assert payloads(messages) == [b"one", b"two", b"three"]
        assert [one.sequence for one in messages] == [1, 2, 3]
    assert found[0] == found[1], "epochs and times differ"


def test_a_topic_that_exists_is_replayed_on_a_new_node(node):
    first = node().peer()
    first.publish("s.a", *[b"%d" % number for number in range(20)])
    later = node("--retain", "10").peer()
    replayed = later.subscribe("s.a?replay=3", n=10, meta=True)
    assert payloads(replayed.take(3)) == [b"17", b"18", b"19"]
    everything = later.subscribe("s.a?replay=all", n=20, meta=True)
    assert [one.sequence for one in everything.take(10)] == list(range(11, 21))
    following = later.subscribe("s.a", n=10, meta=True)
    later.joined("s.a", 3)
    assert first.publish("s.a", b"new") == [21]
    assert following.take(1)[0].sequence == 21


@pytest.mark.grpc
def test_a_position_is_valid_on_all_nodes(node, transport):
    nodes = [node(), node()]
    publisher = nodes[0].peer()
    before = nodes[0].peer(transport).subscribe("s.a?replay=all", n=3, meta=True)
    publisher.publish("s.a", *[b"%d" % number for number in range(1, 6)])
    last = before.take(3)[-1]
    nodes[0].process.kill()
    nodes[0].process.wait()
    path = f"s.a?from={last.sequence + 1}&epoch={last.epoch}"
    after = nodes[1].peer(transport).subscribe(path, "gap=fail", n=10, meta=True)
    assert [(one.sequence, one.data, one.dropped) for one in after.take(2)] == [(4, b"4", 0), (5, b"5", 0)]


@pytest.mark.grpc
def test_a_position_that_a_node_has_not_reached_is_waited_for(begin, node, nats, transport):
    with contextlib.closing(Proxy(("127.0.0.1", nats.port))) as proxy:
        behind = begin("--upstream", "nats://%s:%d" % proxy.address, "--shared", "s.>")
        publisher = node().peer()
        publisher.publish("s.a", b"1")
        epoch = behind.peer().subscribe("s.a?replay=all", n=1, meta=True).take(1)[0].epoch
        proxy.hold()
        publisher.publish("s.a", b"2", b"3")
        peer = behind.peer(transport)
        subscription = peer.subscribe(f"s.a?from=4&epoch={epoch}", "gap=fail", n=10, meta=True)
        peer.barrier("s.a")
        publisher.publish("s.a", b"4")
        proxy.release()
        assert [(one.sequence, one.data, one.dropped) for one in subscription.take(1)] == [(4, b"4", 0)]


def test_channels_stay_in_order(node):
    nodes = [node(), node()]
    subscription = nodes[1].peer().subscribe("s.a?replay=all", "buffer=1000", meta=True)
    channels = [each.peer().channel("s.a", b"%d-0" % index, complete=False) for index, each in enumerate(nodes)]
    for index, channel in enumerate(channels):
        for number in range(1, 50):
            channel.send(b"%d-%d" % (index, number))
    messages = subscription.take(100)
    assert [one.sequence for one in messages] == list(range(1, 101))
    for index in range(2):
        mine = [one.data for one in messages if one.data.startswith(b"%d-" % index)]
        assert mine == [b"%d-%d" % (index, number) for number in range(50)]


def test_metadata_reaches_other_nodes(node):
    nodes = [node(), node()]
    subscription = nodes[1].peer().subscribe("s.a?replay=all", n=1, meta=True)
    entry = (b"application/x.trace", bytes(range(256)))
    nodes[0].peer().offer("s.a", b"with", extra=[entry]).sequence()
    assert subscription.take(1)[0].entries == (entry,)


@pytest.mark.timeout(60)
def test_everything_continues_after_nats_was_killed(node, nats):
    nodes = [node(), node()]
    peers = [each.peer() for each in nodes]
    subscriptions = [peer.subscribe("s.a?replay=all", meta=True) for peer in peers]
    sent = [b"%d" % number for number in range(300)]
    for round in range(3):
        peers[0].publish("s.a", *sent[round * 100:round * 100 + 50])
        nats.stop()
        # Neither waits for the server: both are answered once it is back.
        offers = [peers[index % 2].offer("s.a", sent[round * 100 + 50 + index]) for index in range(50)]
        nats.restart()
        for offer in offers:
            offer.sequence()
    for subscription in subscriptions:
        messages = subscription.take(300)
        assert sorted(payloads(messages), key=int) == sent, "each once"
        assert [one.sequence for one in messages] == list(range(1, 301))
        assert {one.dropped for one in messages} == {0}


@pytest.mark.timeout(60)
def test_an_unreachable_nats_server_is_reported(node, nats):
    broker = node("--upstream-time", "1s")
    peer = broker.peer()
    subscription = peer.subscribe("s.a", meta=True)
    peer.publish("s.a", b"one")
    subscription.take(1)
    nats.stop()
    end = subscription.end()
    assert end.text.startswith("unavailable: NATS JetStream cannot be reached"), end
    assert refusal(peer.subscribe("s.b")).text.startswith("unavailable: ")
    nats.restart()

    def works() -> bool:
        again = peer.subscribe("s.a?replay=all", n=5, meta=True)
        event = again.event()
        return isinstance(event, Message) and event.data == b"one"

    deadline = time.monotonic() + 20
    while not works():
        assert time.monotonic() < deadline
    assert peer.publish("s.a", b"two") == [2]


def test_a_blocking_subscription_is_refused(node):
    peer = node().peer()
    peer.publish("s.a", b"one")
    end = refusal(peer.subscribe("s.a?overflow=block"))
    assert end.kind is Kind.INVALID and end.text.startswith("invalid: The topic 's.a' is shared"), end


# Ends


@pytest.mark.parametrize("action", ["complete", "fail", "channel"])
def test_an_end_reaches_all_nodes(node, nats, action):
    nodes = [node(), node()]
    peers = [each.peer() for each in nodes]
    subscriptions = [peer.subscribe("s.a?replay=all", meta=True) for peer in peers]
    peers[0].publish("s.a", b"one", b"two")
    if action == "channel":
        channel = peers[0].channel("s.a?complete=true", b"three", complete=True)
        assert channel.end() == End()
    else:
        # On a node that does not follow the topic.
        reason = {"message": "why"} if action == "fail" else {}
        described = node().peer().control(f"$SYS.topic.{action}", name="s.a", **reason)
        assert described["state"] == {"complete": "completed", "fail": "failed"}[action]
    count = 3 if action == "channel" else 2
    late = node().peer().subscribe("s.a?replay=all", meta=True)
    for subscription in (*subscriptions, late):
        assert [one.sequence for one in subscription.take(count)] == list(range(1, count + 1))
        end = subscription.end()
        assert (end.kind, end.text) == ((Kind.FAILED, "topic failed: why") if action == "fail" else (None, "")), end
    for peer in (*peers, node().peer()):
        with pytest.raises(StreamError, match="ended: The topic 's.a' has"):
            peer.publish("s.a", b"late")
    # The end outlives everything but the topic.
    nats.stop()
    nats.restart()
    again = node().peer()
    assert again.subscribe("s.a?replay=1", meta=True).take(1)[0].sequence == count
    again.control("$SYS.topic.delete", name="s.a")
    assert again.publish("s.a", b"new") == [1]


def test_a_deletion_reaches_all_nodes(node):
    peers = [node().peer() for _ in range(3)]
    subscriptions = [peer.subscribe("s.a?replay=all", meta=True) for peer in peers[:2]]
    peers[0].publish("s.a", b"one")
    epoch = {subscription.take(1)[0].epoch for subscription in subscriptions}
    peers[2].control("$SYS.topic.delete", name="s.a")
    for subscription in subscriptions:
        assert subscription.end().text == "topic failed: deleted"
    assert peers[1].publish("s.a", b"two") == [1]
    found = peers[0].subscribe("s.a?replay=all", meta=True).take(1)[0]
    assert found.data == b"two" and found.epoch not in epoch
    for action in ("info", "complete", "delete"):
        with pytest.raises(StreamError, match="not-found: There is no topic 's.b'"):
            peers[0].control(f"$SYS.topic.{action}", name="s.b")


def test_a_lost_publisher_fails_the_topic_on_all_nodes(node):
    peers = [node().peer() for _ in range(2)]
    subscription = peers[1].subscribe("s.a?replay=all", meta=True)
    channel = peers[0].channel("s.a?complete=true&on-loss=fail", b"one", complete=False)
    subscription.take(1)
    channel.cancel()
    assert subscription.end().text == "topic failed: the publisher cancelled"


# Numbers


def test_a_number_is_published_once_on_all_nodes(node):
    peers = [node().peer() for _ in range(2)]

    def publish(peer, number: int, data: bytes) -> tuple[int, bool]:
        frame = peer.answer(peer.call(f"s.a?publisher=p&number={number}", data))
        return int(frame.data), frame.metadata is not None

    def last(peer) -> tuple[int, int]:
        found = peer.control("$SYS.publisher.info", topic="s.a", publisher="p")
        return found["number"], found["sequence"]

    assert last(peers[0]) == (0, 0)
    assert publish(peers[0], 1, b"1") == (1, False)
    assert publish(peers[1], 1, b"1") == (1, True)
    assert publish(peers[1], 2, b"2") == (2, False)
    assert [last(peer) for peer in peers] == [(2, 2), (2, 2)]
    # The first node believes that 1 is the last number.
    assert publish(peers[0], 2, b"2") == (2, True)
    assert publish(peers[0], 3, b"3") == (3, False)
    for peer in peers:
        with pytest.raises(StreamError, match="publisher: expected 4"):
            publish(peer, 5, b"5")
    channel = peers[1].channel("s.a?publisher=p&number=3", b"3", complete=False)
    for number in range(4, 60):
        channel.send(b"%d" % number)
    channel.complete()
    assert channel.end() == End()
    messages = peers[0].subscribe("s.a?replay=all", "buffer=1000", meta=True).take(59)
    assert [int(one.data) for one in messages] == list(range(1, 60))
    peers[0].control("$SYS.topic.complete", name="s.a")
    assert publish(peers[1], 59, b"59") == (59, True), "the first answer may have been lost"
    with pytest.raises(StreamError, match="ended: The topic 's.a' has completed"):
        publish(peers[1], 60, b"60")


def test_a_stream_has_the_limits_of_its_topic(node, nats):
    broker = node("--retain", "77", "--retain-bytes", "100K", "--retain-age", "90s")
    broker.peer().publish("s.a", b"one")

    async def configuration():
        client = await nats_client.connect(nats.url())
        name = await client.jetstream().find_stream_name_by_subject("fb.p.-.s.a")
        info = await client.jetstream().stream_info(name)
        await client.close()
        return info.config

    found = asyncio.run(configuration())
    assert (found.max_msgs, found.max_bytes, found.max_age) == (77, 100 << 10, 90)
    assert found.subjects == ["fb.p.*.s.a"] and found.republish.dest == "fb.l.s.a"
    assert found.metadata["forebay-topic"] == "s.a"


def test_the_connection_to_nats_uses_tls(begin, tmp_path):
    pair = tls.authority().issue()
    server = Server(tmp_path / "nats", f'tls {{ cert_file: "{pair.cert}", key_file: "{pair.key}" }}')
    try:
        options = ("--upstream", server.url(scheme="tls"), "--shared", "s.>", "--upstream-time", "1s")
        trusting = begin(*options, variables={"SSL_CERT_FILE": str(tls.authority().file)})
        assert trusting.peer().publish("s.a", b"one") == [1]
        named = begin(*options, "--upstream-ca", str(tls.authority().file))
        assert named.peer().publish("s.a", b"two") == [2]
        other = begin(*options, variables={"SSL_CERT_FILE": str(tls.stranger().file)})
        assert refusal(other.peer().subscribe("s.a")).text.startswith("unavailable: ")
        assert any("TLS handshake with the NATS server failed" in line for line in other.log), other.log
    finally:
        server.stop()


def test_a_node_logs_in_with_a_key(begin, tmp_path):
    pair = nkeys.from_seed(nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER))
    server = Server(tmp_path / "nats", f"authorization {{ users: [ {{ nkey: {pair.public_key.decode()} }} ] }}")
    try:
        options = ("--upstream", server.url(), "--shared", "s.>", "--upstream-time", "1s")
        file = tmp_path / "seed"
        file.write_bytes(pair.seed)
        assert begin(*options, "--upstream-credentials", str(file)).peer().publish("s.a", b"one") == [1]
        assert refusal(begin(*options).peer().subscribe("s.a")).text.startswith("unavailable: ")
    finally:
        server.stop()
