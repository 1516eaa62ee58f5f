"""A broker whose store runs into trouble: a full disk, failed writes and syncs, damaged messages, and directories that
it must not use. Publishers and subscribers of topics in memory must not notice. `disk.c` lets calls fail."""

import itertools
import json
import os
import threading
from pathlib import Path

import pytest

from client import *
from curl import Curl
from faults import Well
from test_store_disk import library

pytestmark = pytest.mark.rsocket
TOPICS = ("--durable", "d.>", "--relaxed", "r.>", "--retain-bytes", "1G", "--retain", "1000000")
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
BIG = b"." * 900_000


class Troubled:
    """Brokers on one store, one after the other, whose calls of `failure` fail while `trouble` exists."""

    def __init__(self, start, library: Path, folder: Path):
        self.start, self.library, self.folder = start, library, folder
        self.store, self.trouble = folder / "store", folder / "trouble"
        self.brokers = []

    def broker(self, failure: str = "", *options: str, **how):
        variables = {"LD_PRELOAD": str(self.library), "DISK_FAIL": failure, "DISK_SWITCH": str(self.trouble)}
        self.brokers.append(self.start("--store", str(self.store), *TOPICS, *options,
                                       variables=variables if failure else {}, **how))
        return self.brokers[-1]

    def kill(self):
        for broker in self.brokers:
            broker.process.kill()
            broker.process.wait()


@pytest.fixture
def troubled(start, library, tmp_path):
    this = Troubled(start, library, tmp_path)
    yield this
    this.kill()


def refused(peer: Peer, topic: str, text: str, payload=b"refused"):
    with pytest.raises(StreamError) as error:
        peer.publish(topic, payload)
    assert error.value.kind == Kind.REJECTED and error.value.text.startswith(text), error.value


def taken(peer: Peer, topic: str, payload: bytes) -> bool:
    try:
        peer.publish(topic, payload)
        return True
    except StreamError as error:
        assert error.text.startswith("store:"), error
        return False


def fill(peer: Peer, topic: str) -> list[bytes]:
    """Publishes until the store is full; returns what was acknowledged."""
    acknowledged = []
    while taken(peer, topic, payload := b"%d " % len(acknowledged) + BIG):
        acknowledged.append(payload)
        assert len(acknowledged) < 1000, "the store does not become full"
    refused(peer, topic, "store: full")
    return acknowledged


def stored(peer: Peer, topic: str) -> list[bytes]:
    """All messages of a topic, which must have consecutive sequences from 1 on."""
    count = peer.info(topic)["next"] - 1
    found = peer.subscribe(f"{topic}?replay=all", meta=True, n=max(count, 1)).take(count)
    assert [(one.sequence, one.dropped) for one in found] == [(number, 0) for number in range(1, count + 1)]
    return datas(found)


# No room


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


# Failed writes and syncs


@pytest.mark.parametrize("failure", ["pwrite 1 5", "pwrite 1 0 1", "fdatasync 1 5 1", "meta 1 5 1"])
def test_a_failed_write(troubled, failure):
    """Nobody knows whether the message is kept. Stored topics can only be read until the restart, which decides it."""
    broker = troubled.broker(failure)
    peer, well = broker.peer(), Well(broker)
    acknowledged = numbers(1, 20)
    peer.publish("d.a", *acknowledged)
    peer.publish("d.ended", b"1")
    subscription = peer.subscribe("d.a?replay=all", meta=True)
    assert datas(subscription.take(20)) == acknowledged
    channel = broker.peer().channel("d.a", b"channel")
    channel.acknowledged(21)
    acknowledged.append(b"channel")
    troubled.trouble.touch()
    refused(peer, "d.a", "store: outcome unknown", b"doubtful")
    # It is not tried again, even though the disk is in order now.
    troubled.trouble.unlink()
    for topic in ("d.a", "d.other", "r.a"):
        refused(peer, topic, "store:")
    reply = Curl(broker.http, ["--http1.1"]).publish("d.a", b"refused")
    assert reply.status >= 400 and b"restarted" in reply.body, reply
    with pytest.raises(StreamError, match="store:"):
        peer.control("$SYS.topic.complete", name="d.ended")
    assert [(one.data, one.sequence) for one in subscription.take(1)] == [(b"channel", 21)]
    assert stored(peer, "d.a") == acknowledged
    peer.barrier("d.a")
    subscription.nothing()
    well.check()
    well.close()
    epoch = peer.info("d.a")["epoch"]
    troubled.kill()
    peer = troubled.broker().peer()
    found = stored(peer, "d.a")
    assert found in (acknowledged, [*acknowledged, b"doubtful"]) and peer.info("d.a")["epoch"] == epoch
    peer.publish("d.a", b"again")
    assert stored(peer, "d.a") == [*found, b"again"]


# Damage


def test_a_flipped_bit(troubled):
    """The batch is never delivered. Subscribers get a gap notice and the rest; it is counted and logged."""
    broker = troubled.broker()
    peer = broker.peer()
    payloads = [b"payload %d " % number + b"." * 70_000 for number in range(6)]
    for payload in payloads:  # A batch each.
        peer.publish("d.a", payload)
    epoch = peer.info("d.a")["epoch"]
    peer.close()
    broker.stop()
    file = troubled.store / "forebay.store"
    content = bytearray(file.read_bytes())
    place = content.find(b"payload 2 ")
    assert place > 0 and content.count(b"payload 2 ") == 1
    content[place + 1000] ^= 1
    file.write_bytes(content)
    broker = troubled.broker()
    peer = broker.peer()
    for path in ("d.a?replay=all", f"d.a?from=3&epoch={epoch}"):
        subscription = peer.subscribe(path, meta=True)
        found = subscription.take(5 if "all" in path else 3)
        assert [one.data for one in found] == [one for one in payloads if one != payloads[2]][-len(found):]
        assert [one.dropped for one in found if one.sequence == 4] == [1]
        assert sum(one.dropped for one in found) == 1
    curl = Curl(broker.http, ["--http1.1"])
    events = curl.stream("/v1/topics/d.a/messages?replay=all").messages(6)
    assert [event.data[:10] for event in events] == [
        "payload 0 ", "payload 1 ", '{"dropped"', "payload 3 ", "payload 4 ", "payload 5 "]
    curl.stop()
    assert any("stored messages are unreadable" in line for line in broker.log), broker.log
    row = [row for row in peer.ledger("d.a") if row["dropped"]]
    assert row and all(one["dropped"] == 1 for one in row), peer.ledger("d.a")
    peer.publish("d.a", b"more")
    assert datas(subscription.take(1)) == [b"more"]


# Directories that cannot be used


def rejected(start, folder: Path, text: str, launcher=()):
    code, line = start.refusal("--store", str(folder), *TOPICS, "--listen", "127.0.0.1:0", "--http", "off", "--admin",
                               "off", launcher=launcher)
    assert code == 1 and text in line and str(folder) in line, (code, line)


def test_two_brokers_on_one_directory(troubled, start):
    broker = troubled.broker()
    broker.peer().publish("d.a", b"1")
    rejected(start, troubled.store, "is in use by another process")
    assert broker.peer().publish("d.a", b"2") == [2]
    troubled.kill()
    assert stored(troubled.broker().peer(), "d.a") == [b"1", b"2"]


@ROOT_ONLY
def test_a_directory_that_cannot_be_written_to(troubled, start, tmp_path):
    broker = troubled.broker()
    broker.peer().publish("d.a", b"1")
    troubled.kill()
    mount = f"mount --bind {tmp_path}/store {tmp_path}/store && mount -o remount,bind,ro {tmp_path}/store && " \
        "exec \"$@\""
    rejected(start, tmp_path / "store", "Read-only file system", ["unshare", "-m", "sh", "-c", mount, "sh"])
    assert stored(troubled.broker().peer(), "d.a") == [b"1"]


@pytest.mark.parametrize("name", ["notes.txt", "forebay.store"])
def test_a_directory_of_others(start, tmp_path, name):
    """It is left as it was."""
    file = tmp_path / "store" / name
    file.parent.mkdir()
    file.write_bytes(b"mine" * 5000)
    rejected(start, file.parent, "is not a Forebay store" if name == "forebay.store" else "holds no Forebay store")
    assert file.read_bytes() == b"mine" * 5000 and os.listdir(file.parent) in ([name], [name, "lock"], ["lock", name])


def test_a_file_instead_of_a_directory(start, tmp_path):
    (tmp_path / "store").write_bytes(b"")
    code, line = start.refusal("--store", str(tmp_path / "store"))
    assert code != 0 and "is not a directory" in line


def test_a_store_of_a_newer_version(troubled, start):
    broker = troubled.broker()
    broker.peer().publish("d.a", b"1")
    troubled.kill()
    file = troubled.store / "forebay.store"
    content = file.read_bytes()
    assert b"forebay-store\0\0\0\1" in content
    file.write_bytes(content.replace(b"forebay-store\0\0\0\1", b"forebay-store\0\0\0\2"))
    before = file.read_bytes()
    rejected(start, troubled.store, "was written by a newer version of Forebay")
    assert file.read_bytes() == before


def test_a_damaged_file(troubled, start):
    """Whatever is damaged, the broker starts or says why it does not; it never crashes."""
    broker = troubled.broker()
    broker.peer().publish("d.a", *numbers(1, 50))
    troubled.kill()
    file = troubled.store / "forebay.store"
    content = file.read_bytes()
    for place in range(0, min(len(content), 10 * 4096), 4096):
        file.write_bytes(content[:place] + b"\xff" * 4096 + content[place + 4096:])
        try:
            broker = troubled.broker()
        except (AssertionError, json.JSONDecodeError):  # It has not started: the last line says why.
            assert troubled.start.begun[-1].wait(30) == 1, place
            continue
        peer = broker.peer()
        for row in peer.listing("$SYS.topics"):
            if row["name"] == "d.a":
                found = peer.subscribe("d.a?replay=all", meta=True, n=1)
        peer.barrier("d.a")
        assert broker.process.poll() is None, broker.log
        troubled.kill()
