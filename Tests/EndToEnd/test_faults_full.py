"""A broker whose store or disk becomes full. Publishers and subscribers of topics in memory must not notice, and
nothing that was acknowledged is lost. `disk.c` lets calls fail."""

import itertools
import threading
from pathlib import Path

import pytest

from client import *
from faults import Well
from troubles import *

pytestmark = pytest.mark.rsocket


def without_room(broker, make_room):
    """Fills the store and makes room again. Nothing that was acknowledged is lost, and nobody else notices."""
    peer, reader, well = broker.peer(), broker.peer(), Well(broker)
    subscription = reader.subscribe("d.a?replay=all", meta=True, n=1)
    peer.publish("d.b", b"first")
    acknowledged = fill(peer, "d.a")
    for topic in ("d.b", "d.new", "r.new"):
        eventually(lambda: taken(peer, topic, BIG), lambda done: not done)
    # Subscribers continue, with messages in memory and in the store.
    subscription.request(len(acknowledged) - 1)
    assert datas(subscription.take(len(acknowledged))) == acknowledged
    assert subscription.pending() == 0
    well.moves()
    assert stored(peer, "d.a") == acknowledged
    make_room(peer)
    eventually(lambda: taken(peer, "d.b", b"again"), lambda done: done)
    well.check()
    well.close()
    found = stored(peer, "d.b")
    assert (found[0], found[-1]) == (b"first", b"again")
    return found


def test_the_limit_of_the_store(troubled):
    broker = troubled.broker("", "--store-bytes", "16M", "--resident-bytes", "1M")
    found = without_room(broker, lambda peer: peer.control("$SYS.topic.delete", name="d.a"))
    troubled.kill()
    peer = troubled.broker().peer()
    assert stored(peer, "d.b") == found
    assert "d.a" not in {row["name"] for row in peer.listing("$SYS.topics")}


@pytest.mark.parametrize("failure", ["pwrite 1 28", "pwrite 1 122", "fdatasync 1 28", "fallocate 1 28"])
def test_a_full_disk(troubled, failure):
    """It is full at once, in the middle of what publishers do, and has room again."""
    broker = troubled.broker(failure)
    peer, well = broker.peer(), Well(broker)
    acknowledged = numbers(1, 20)
    peer.publish("d.a", *acknowledged)
    subscription = peer.subscribe("d.a", meta=True)
    peer.joined("d.a", 1)
    troubled.trouble.touch()
    while taken(peer, "d.a", payload := b"%d " % len(acknowledged) + BIG):  # With reserved space, some succeed.
        acknowledged.append(payload)
    refused(peer, "d.a", "store: full")
    well.moves()
    assert stored(peer, "d.a") == acknowledged
    troubled.trouble.unlink()
    eventually(lambda: taken(peer, "d.a", b"again"), lambda done: done)
    acknowledged.append(b"again")
    assert datas(subscription.take(len(acknowledged) - 20)) == acknowledged[20:]
    well.check()
    well.close()
    troubled.kill()
    peer = troubled.broker().peer()
    assert stored(peer, "d.a") == acknowledged


class Pipelined:
    """Publishes on a thread, several at a time, until it is stopped; knows what was acknowledged and what refused."""

    def __init__(self, broker, topic: str):
        self.peer, self.topic = broker.peer(), topic
        self.taken, self.refused, self.failure = {}, [], None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            for turn in itertools.count():
                if self._stopped.is_set():
                    return
                offers = [(self.peer.offer(self.topic, payload), payload)
                          for payload in (b"%d.%d" % (turn, number) for number in range(20))]
                for offer, payload in offers:
                    try:
                        sequence = offer.sequence(30)
                        assert sequence not in self.taken
                        self.taken[sequence] = payload
                    except StreamError as error:
                        assert error.text.startswith("store:") and "unknown" not in error.text, error
                        self.refused.append(payload)
        except BaseException as failure:
            self.failure = failure

    def stop(self):
        self._stopped.set()
        self._thread.join(60)
        assert not self._thread.is_alive() and self.failure is None, self.failure


def test_a_disk_that_is_full_again_and_again(troubled):
    """What was refused is not stored. Messages of relaxed topics, which have been delivered, are stored later."""
    broker = troubled.broker("pwrite 1 28", "--store-interval", "10ms")
    publishers = {topic: Pipelined(broker, topic) for topic in ("d.a", "d.b", "r.a", "r.b")}
    peer, received = broker.peer(), {}
    for topic in publishers:
        eventually(lambda: len(publishers[topic].taken), lambda count: count > 0)
        received[topic] = peer.subscribe(f"{topic}?replay=all&buffer=1000000", meta=True)
    for _ in range(6):
        refused, before = len(publishers["d.a"].refused), len(publishers["d.a"].taken)
        troubled.trouble.touch()
        eventually(lambda: len(publishers["d.a"].refused), lambda count: count > refused)
        troubled.trouble.unlink()
        eventually(lambda: len(publishers["d.a"].taken), lambda count: count > before + 100)
    for publisher in publishers.values():
        publisher.stop()
    epochs = {topic: peer.info(topic)["epoch"] for topic in publishers}
    for topic, publisher in publishers.items():
        found = received[topic].take(len(publisher.taken))
        assert [one.dropped for one in found] == [0] * len(found)
        assert {one.sequence: one.data for one in found} == publisher.taken
    peer.publish("d.a", b"last")
    for publisher in publishers.values():
        publisher.peer.close()
    peer.close()
    broker.stop()
    peer = troubled.broker().peer()
    for topic, publisher in publishers.items():
        last = [b"last"] if topic == "d.a" else []
        assert stored(peer, topic) == [publisher.taken[one] for one in sorted(publisher.taken)] + last
        assert peer.info(topic)["epoch"] == epochs[topic]


def test_a_stop_while_the_disk_is_full(troubled):
    """It does not hang, whatever waits for the disk, and what was not acknowledged is decided by the restart."""
    broker = troubled.broker("pwrite 1 28", "--drain-time", "1s")
    peer = broker.peer()
    for topic in ("d.a", "d.b"):
        peer.publish(topic, b"1")
    troubled.trouble.touch()
    peer.call("$SYS.topic.complete?name=d.a")
    peer.call("$SYS.topic.delete?name=d.b")
    peer.barrier("d.a")
    peer.close()
    broker.stop()
    troubled.trouble.unlink()
    assert stored(troubled.broker().peer(), "d.a") == [b"1"]


@ROOT_ONLY
def test_a_file_system_without_room(troubled, tmp_path):
    (tmp_path / "store").mkdir()
    mount = f"mount -t tmpfs -o size=24m forebay {tmp_path}/store && exec \"$@\""
    broker = troubled.broker("", "--resident-bytes", "1M", launcher=["unshare", "-m", "sh", "-c", mount, "sh"])
    without_room(broker, lambda peer: peer.control("$SYS.topic.delete", name="d.a"))


@ROOT_ONLY
def test_a_file_system_gets_room(troubled, tmp_path):
    (tmp_path / "store").mkdir()
    mount = f"mount -t tmpfs -o size=48m forebay {tmp_path}/store && mkdir {tmp_path}/store/here && " \
        f"fallocate -l 24m {tmp_path}/store/other && exec \"$@\""
    troubled.store = tmp_path / "store/here"
    broker = troubled.broker("", "--resident-bytes", "1M", launcher=["unshare", "-m", "sh", "-c", mount, "sh"])
    other = Path(f"/proc/{broker.pid}/root{tmp_path}/store/other")
    without_room(broker, lambda peer: other.unlink())


def test_a_restart_on_a_full_disk(troubled):
    """Topics can be read, ended and deleted, which makes room for messages in what the store has of the disk."""
    broker = troubled.broker("", "--store-bytes", "16M")
    peer = broker.peer()
    peer.publish("d.b", b"first")
    acknowledged = fill(peer, "d.a")
    troubled.kill()
    troubled.trouble.touch()
    broker = troubled.broker("fallocate 1 28", "--store-bytes", "16M")
    peer = broker.peer()
    assert stored(peer, "d.a") == acknowledged
    waiting = peer.subscribe("d.end?replay=all")
    peer.joined("d.end", 1)
    peer.control("$SYS.topic.complete", name="d.b")
    peer.control("$SYS.topic.complete", name="d.end")
    assert waiting.end().kind is None
    peer.control("$SYS.topic.delete", name="d.a")
    eventually(lambda: taken(peer, "d.c", BIG), lambda done: done)
    for turn in range(3):  # Again and again, without more of the disk.
        topic = f"d.turn.{turn}"
        assert len(fill(peer, topic)) > len(acknowledged) // 2, turn
        peer.control("$SYS.topic.delete", name=topic)
        eventually(lambda: taken(peer, "d.c", b"again"), lambda done: done)
    troubled.kill()
    peer = troubled.broker("fallocate 1 28").peer()
    assert stored(peer, "d.c")[0] == BIG and peer.info("d.b")["state"] == "completed"
    assert peer.info("d.end")["state"] == "completed"
