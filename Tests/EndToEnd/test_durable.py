"""Stored topics across restarts: kills under load at random moments, and what is certain about single ones. The load
and the books are in `crashes.py` and `books.py`; heavy/test_heavy_crashes.py runs them at full size."""

import random

import pytest

from client import *
from crashes import Crashes
from curl import NDJSON, Curl

pytestmark = pytest.mark.rsocket
KILLS = 10


@pytest.mark.timeout(180)
def test_what_clients_know_outlives_kills(tmp_path):
    seed = random.randrange(1 << 32)
    print(f"the seed is {seed}")
    crashes = Crashes(tmp_path, seed)
    crashes.run(KILLS, each=5, longest=0.3)
    print(dict(crashes.figures))
    for figure in ("published", "received", "resumed", "topics ended or deleted"):
        assert crashes.figures[figure] >= KILLS, crashes.figures


@pytest.fixture
def again(begin, tmp_path):
    """Starts a broker on the test's store. Relaxed topics are written only when a durable one is, or at the end."""
    def start(*options: str):
        limit = () if "--retain-bytes" in options else ("--retain-bytes", "64M")
        start.broker = begin("--store", str(tmp_path / "store"), "--durable", "d.>", "--relaxed", "r.>", "--threads",
                             "1", "--store-interval", "10s", *limit, *options)
        return start.broker
    return start


def kill(broker):
    broker.process.kill()
    broker.process.wait()


def resume(peer: Peer, topic: str, sequence: int, epoch: int, *more: str, n=UNBOUNDED):
    return peer.subscribe(f"{topic}?from={sequence}&epoch={epoch}", *more, meta=True, n=n)


def flush(peer: Peer):
    """Writes what relaxed topics have."""
    peer.publish("d.flush", b"")


def test_positions_in_a_relaxed_topic_after_kills(again):
    """Those up to the last stored message resume exactly, in every former epoch; later ones get a gap and what is
    new."""
    broker, epochs, expected = again(), [], {}
    for turn in range(3):
        peer = broker.peer()
        first = 1 + 5 * turn
        for number in range(first, first + 5):
            expected[number] = b"%d of %d" % (number, turn)
            assert peer.publish("r.a", expected[number]) == [number]
        flush(peer)
        subscription = peer.subscribe("r.a", n=4, meta=True)
        peer.joined("r.a", 1)
        peer.publish("r.a", *[b"lost %d" % turn] * 4)
        lost = subscription.take(4)
        assert [one.sequence for one in lost] == list(range(first + 5, first + 9))
        epochs.append(lost[0].epoch)
        kill(broker)
        broker = again()
        peer, end = broker.peer(), first + 5
        assert (peer.info("r.a")["first"], peer.info("r.a")["next"]) == (1, end)
        for former, epoch in enumerate(epochs):
            stored = 6 + 5 * former  # The sequence after the last stored message of that epoch.
            for sequence in (1, stored - 1, stored):
                subscription = resume(peer, "r.a", sequence, epoch, "gap=fail", n=99)
                found = subscription.take(end - sequence)
                subscription.cancel()
                assert [(one.sequence, one.data, one.dropped) for one in found] == [
                    (number, expected[number], 0) for number in range(sequence, end)]
            for sequence in (stored + 1, stored + 3):
                assert "restarted with epoch" in refusal(resume(peer, "r.a", sequence, epoch, "gap=fail")).text
        assert int(peer.info("r.a")["epoch"]) not in epochs
    late = resume(peer, "r.a", stored + 1, epochs[-1], n=9)
    peer.joined("r.a", 1)
    peer.publish("r.a", b"new")
    (message,) = late.take(1)
    assert (message.sequence, message.data) == (stored, b"new") and message.epoch not in epochs
    curl = Curl(broker.http, ["--http1.1"])
    stream = curl.stream(f"/v1/topics/r.a/messages?from={stored + 1}&epoch={epochs[-1]}", *NDJSON)
    (line,) = stream.objects(1)
    assert line["sequence"] == stored and line["restarted"] is True, line
    curl.stop()


def test_a_topic_at_its_byte_limit_keeps_its_messages(again):
    """Over restarts, and with more messages on disk than in memory."""
    options = ("--retain", "100000", "--retain-bytes", "256K", "--resident-bytes", "64K")
    payload, firsts = b"x" * 200, []
    for turn in range(3):
        broker = again(*options)
        peer = broker.peer()
        if turn:
            assert abs(peer.info("d.a")["first"] - firsts[-1]) <= 10
        peer.publish("d.a", *[payload] * (2000 if turn == 0 else 100))
        info = peer.info("d.a")
        assert 900 <= info["next"] - info["first"] <= 1100 and 200_000 < info["bytes"] < 300_000, info
        firsts.append(info["first"])
        found = resume(peer, "d.a", info["first"], info["epoch"], "gap=fail", n=9999).take(info["next"] - info["first"])
        assert {one.data for one in found} == {payload}
        peer.close()
        kill(broker)


def test_a_clean_stop_loses_nothing_of_a_relaxed_topic(again):
    broker = again()
    peer = broker.peer()
    peer.numbers("r.a", 1, 50)
    epoch = int(peer.info("r.a")["epoch"])
    peer.close()
    broker.stop()
    broker = again()
    peer = broker.peer()
    assert datas(resume(peer, "r.a", 1, epoch, "gap=fail").take(50)) == numbers(1, 50)
    assert peer.info("r.a")["epoch"] == str(epoch)
    peer.close()
    broker.stop()


def test_a_relaxed_topic_that_has_ended_stays_ended(again):
    peer = again().peer()
    peer.numbers("r.a", 1, 3)
    peer.control("$SYS.topic.fail", name="r.a", message="over and out")
    flush(peer)
    for _ in range(2):
        kill(again.broker)
        peer = again().peer()
        subscription = peer.subscribe("r.a?replay=all")
        assert subscription.data(3) == numbers(1, 3) and subscription.end() == failed("over and out")


def test_everything_about_a_message_is_kept(again):
    """Long and empty ones, with content types, headers and timestamps."""
    broker = again("--memory", "1G")
    peer, other = broker.peer(), broker.peer("grpc")
    for topic in ("d.a", "r.a"):
        other.offer(topic, b"{}", content_type="application/json", headers={"a": "1", "b": "ü"}).sequence()
        peer.publish(topic, b"", bytes(range(256)) * 4000)
        peer.publish(topic, b"entries", extra=[(b"text/x-mine", b"\0\xff")])
    known = {}
    for topic in ("d.a", "r.a"):
        known[topic] = (other.subscribe(f"{topic}?replay=all").take(4), peer.subscribe(f"{topic}?replay=all", meta=True)
                        .take(4))
    flush(peer)
    kill(broker)
    broker = again("--memory", "1G")
    peer, other = broker.peer(), broker.peer("grpc")
    for topic, (by_grpc, by_rsocket) in known.items():
        for one, before in zip(other.subscribe(f"{topic}?replay=all").take(4), by_grpc):
            assert (one.data, one.timestamp, one.content_type, one.headers) == (
                before.data, before.timestamp, before.content_type, before.headers)
        for one, before in zip(peer.subscribe(f"{topic}?replay=all", meta=True).take(4), by_rsocket):
            assert (one.data, one.timestamp, one.entries) == (before.data, before.timestamp, before.entries)


def test_a_stored_topic_keeps_its_class(again, begin, tmp_path):
    """Whatever the patterns of the next run are."""
    broker = again()
    peer = broker.peer()
    peer.numbers("d.a", 1, 5)
    epoch = peer.info("d.a")["epoch"]
    for patterns in (["--relaxed", "d.>"], []):
        kill(broker)
        broker = begin("--store", str(tmp_path / "store"), *patterns)
        peer = broker.peer()
        assert peer.info("d.a")["epoch"] == epoch
        peer.publish("d.a", b"more")
    kill(broker)
    peer = again().peer()
    assert peer.info("d.a")["epoch"] == epoch
    assert datas(peer.subscribe("d.a?replay=all").take(7)) == [*numbers(1, 5), b"more", b"more"]


def fill(peer: Peer, topic: str) -> list[bytes]:
    """Publishes until the store is full; returns what was acknowledged."""
    acknowledged = []
    with pytest.raises(StreamError) as full:
        while True:
            payload = b"%d " % len(acknowledged) + b"." * 900_000
            peer.publish(topic, payload)
            acknowledged.append(payload)
    assert full.value.text.startswith("store: full"), full.value
    return acknowledged


def test_messages_of_a_relaxed_topic_for_which_there_was_no_room(again):
    """They were delivered. If a clean stop cannot write them either, the topic takes a new epoch, because their
    sequences are used again."""
    broker = again("--store-bytes", "16M")
    peer = broker.peer()
    peer.publish("r.a", b"first")
    subscription = peer.subscribe("r.a?replay=1", meta=True)
    known = {(one.epoch, one.sequence): one.data for one in subscription.take(1)}
    ((epoch, _),) = known
    fill(peer, "d.full")
    for number in range(10):
        eventually(lambda: accepted(peer, "r.a", b"%d " % number + b"." * 900_000), lambda done: done)
    known |= {(one.epoch, one.sequence): one.data for one in subscription.take(10)}
    peer.close()
    broker.stop()
    broker = again("--store-bytes", "64M")
    peer = broker.peer()
    end = peer.info("r.a")["next"]
    assert end < 12, "the test did not fill the store"
    peer.numbers("r.a", end, 12)
    for one in peer.subscribe("r.a?replay=all", meta=True).take(12):
        assert known.get((one.epoch, one.sequence), one.data) == one.data
    found = resume(peer, "r.a", 2, epoch, "gap=fail").take(1)
    assert found[0].sequence == 2


def accepted(peer: Peer, topic: str, payload: bytes) -> bool:
    try:
        peer.publish(topic, payload)
        return True
    except StreamError as error:
        assert error.text.startswith("store:"), error
        return False


@pytest.mark.parametrize("action", ["complete", "fail"])
def test_a_topic_that_ends_while_the_store_is_full_stays_ended(again, action):
    broker = again("--store-bytes", "16M")
    peer = broker.peer()
    fill(peer, "d.full")
    more = {"message": "over"} if action == "fail" else {}
    waiting = peer.subscribe("d.empty")
    peer.joined("d.empty", 1)
    for name in ("d.empty", "d.full"):
        peer.control(f"$SYS.topic.{action}", name=name, **more)
    state = {"complete": "completed", "fail": "failed"}[action]
    assert waiting.end().kind == (None if action == "complete" else Kind.FAILED)
    kill(broker)
    peer = again("--store-bytes", "16M").peer()
    for name in ("d.empty", "d.full"):
        assert peer.info(name)["state"] == state
        with pytest.raises(StreamError, match="ended"):
            peer.publish(name, b"late")
