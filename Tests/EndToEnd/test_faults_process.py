"""A broker that is killed and restarted, and one that is stopped for a while and resumed: its clients learn what they
lost, and nobody is blamed for input that the broker did not read."""

import json
import selectors
import signal
import threading
import time

import pytest

from client import Peer
from common import *
from faults import *
from http1 import Line, get
import raw

LIVES = 3


class Load:
    """Publishes numbers, a few at a time and each acknowledged, until its connection is lost. The next load begins with
    the unacknowledged numbers."""

    def __init__(self, broker, transport: str, topic: str, first: int):
        self.peer, self.topic, self.next = broker.peer(transport), topic, first
        self.acknowledged = {}  # The number published at each sequence.
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            while not self._stopped.is_set():
                offers = [(number, self.peer.offer(self.topic, b"%d" % number))
                          for number in range(self.next, self.next + 8)]
                for number, offer in sorted(offers):
                    self.acknowledged[offer.sequence()] = number
                    self.next = number + 1
        except (raw.Closed, OSError, StreamError):
            pass

    def stop(self):
        self._stopped.set()
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive()


def all_there_is(subscription) -> list[Message]:
    """What still arrives on a connection whose broker was killed."""
    got = []
    try:
        while not isinstance(event := subscription.event(), End):
            got.append(event)
    except (raw.Closed, OSError):
        pass
    return got


def test_killed_and_started_again_under_load(begin, transport):
    """Each life of the broker is an epoch. Within it nothing is skipped, duplicated or changed. The next life has
    another epoch, and clients that must not miss anything are refused instead."""
    topic, token, first, lives = "t.killed", "replay=all", 1, []
    broker = begin()
    options = ["--listen", "%s:%d" % broker.address, "--http", "%s:%d" % broker.http]
    for life in range(LIVES):
        load, reader = Load(broker, transport, topic, first), broker.peer(transport)
        subscription = reader.subscribe(f"{topic}?{token}&buffer=100000", meta=True)
        got = subscription.take(200)
        if life == LIVES - 1:
            load.stop()
            got += subscription.take(max(load.acknowledged) - len(got))
            broker.stop()
        else:
            broker.process.kill()
            broker.process.wait()
            load.stop()
            got += all_there_is(subscription)
        assert [one.sequence for one in got] == list(range(1, len(got) + 1))
        assert len({one.epoch for one in got}) == 1 and not any(one.dropped for one in got)
        told = {one.sequence: int(one.data) for one in got}
        assert all(told.get(sequence, number) == number for sequence, number in load.acknowledged.items())
        # Over gRPC the requests of one connection are unordered.
        assert sorted(told.values()) == list(range(min(told.values()), min(told.values()) + len(told))) or (
            transport == "grpc")
        assert min(told.values()) <= first, "unacknowledged messages were not sent again"
        lives.append(got)
        token, first = f"from={got[-1].sequence + 1}&epoch={got[-1].epoch}", load.next
        for one in (load.peer, reader):
            one.close()
        if life < LIVES - 1:
            broker = begin(*options)
            strict = broker.peer(transport)
            strict.publish(topic, b"%d" % first)
            assert refusal(strict.subscribe(f"{topic}?{token}&gap=fail")).kind == Kind.REJECTED
            strict.control("$SYS.topic.delete", name=topic)
            strict.close()
    assert len({got[0].epoch for got in lives}) == LIVES


class Quiet:
    """RSocket clients that send nothing unprompted: they stay alive by answering the broker's keepalives."""

    def __init__(self, broker, count: int, lifetime_ms: int):
        self.peers = [Peer(broker.address, lifetime_ms=lifetime_ms) for _ in range(count)]
        self.cut, self._stopped = 0, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        with selectors.DefaultSelector() as selector:
            for peer in self.peers:
                selector.register(peer.socket, selectors.EVENT_READ, peer)
            while not self._stopped.is_set():
                for key, _ in selector.select(0.1):
                    try:
                        key.data._receive(time.monotonic() + DEADLINE, "anything")
                    except raw.Closed:
                        selector.unregister(key.fileobj)
                        self.cut += 1

    def fall_silent(self):
        self._stopped.set()
        self._thread.join(DEADLINE)

    def close(self):
        self.fall_silent()
        for peer in self.peers:
            peer.close()


@pytest.mark.rsocket
def test_a_broker_that_was_stopped_blames_nobody(begin):
    """The broker is stopped for longer than every time limit of its clients. There are more clients than it reads in
    one turn."""
    limit, count = 3, 400
    broker = begin("--threads", "1", "--http-silence", f"{limit}s", "--setup-time", f"{limit}s", "--block-limit",
                   f"{limit}s")
    with beside(broker, "rsocket", "grpc", growth=16 << 20):
        watcher = broker.peer()
        here = len(watcher.listing("$SYS.connections"))
        blocker, quiet = broker.peer(), Quiet(broker, count, limit * 1000)
        others = [broker.peer("grpc"), Line(broker.http)]
        stream = others[0].subscribe("t.quiet")
        others[1].send(get("t.quiet"))
        assert others[1].head()[0] == 200
        watcher.joined("t.quiet", 2)
        full = blocker.subscribe("t.blocked?overflow=block&buffer=1", n=1)
        watcher.joined("t.blocked", 1)
        watcher.numbers("t.blocked", 1, 2)
        parked = park(watcher, "t.blocked", 3, 3)
        late = raw.Connection(broker.address)
        whole = raw.setup()
        late.socket.sendall(whole[:20])
        before = eventually(lambda: len(watcher.listing("$SYS.connections")), lambda seen: seen == here + count + 4)

        broker.process.send_signal(signal.SIGSTOP)
        time.sleep(limit + 1.5)  # The fault.
        broker.process.send_signal(signal.SIGCONT)

        late.socket.sendall(whole[20:] + raw.keepalive(b"late"))
        late.opened.add(0)
        assert late.frame(0).data == b"late"
        full.request(10)
        assert full.data(3) == numbers(1, 3) and parked[0].sequence() == 3
        told = eventually(lambda: [json.loads(line) for line in list(broker.log) if "shard stalled" in line], bool)
        assert told[0]["level"] == "warn" and int(told[0]["milliseconds"]) >= limit * 1000
        # Longer than the cut for the earlier silence would take, with another keepalive in between.
        figures = watcher.subscribe("$SYS.stats", n=limit + 1)
        figures.take(limit + 1)
        assert (quiet.cut, len(watcher.listing("$SYS.connections"))) == (0, before)
        watcher.numbers("t.quiet", 1, 1)
        assert stream.data(1) == [b"1"]
        others[1].until(b"data: 1\n")
        # The limits still apply to clients that have really gone.
        quiet.fall_silent()
        gone = {peer.peer for peer in quiet.peers}
        # A closed connection to another listener may have had the same port as one of these.
        rows = lambda: [row for row in watcher.listing("$SYS.connections") if row["protocol"] == "rsocket"]
        eventually(rows, lambda rows: not gone & {row["peer"] for row in rows}, 30)
        for one in [quiet, late, watcher, blocker, *others]:
            one.close()
    broker.stop()
