"""What tests of a store in trouble share: brokers on one store whose writes fail, and what their topics must have."""

import os
from pathlib import Path

import pytest

from client import *
from test_store_disk import library

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


__all__ = [name for name in dir() if not name.startswith("_")]
