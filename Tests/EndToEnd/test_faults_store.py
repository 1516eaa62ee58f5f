"""A broker whose store runs into trouble: failed writes and syncs, damaged messages, and directories that it must not
use. Publishers and subscribers of topics in memory must not notice. `disk.c` lets calls fail."""

import json
import os
from pathlib import Path

import pytest

from client import *
from curl import Curl
from faults import Well
from troubles import *

pytestmark = pytest.mark.rsocket


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


def rejected(start, folder: Path, text: str, launcher=(), code=1):
    found, line = start.refusal("--store", str(folder), *TOPICS, "--listen", "127.0.0.1:0", "--http", "off", "--admin",
                                "off", launcher=launcher)
    assert found == code and text in line and str(folder) in line, (found, line)


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
    text = "is not a Forebay store" if name == "forebay.store" else "holds no Forebay store"
    rejected(start, file.parent, text, code=2)
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
    rejected(start, troubled.store, "was written by a newer version of Forebay", code=2)
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
            assert troubled.start.begun[-1].wait(30) in (1, 2), place
            continue
        peer = broker.peer()
        for row in peer.listing("$SYS.topics"):
            if row["name"] == "d.a":
                found = peer.subscribe("d.a?replay=all", meta=True, n=1)
        peer.barrier("d.a")
        assert broker.process.poll() is None, broker.log
        troubled.kill()
