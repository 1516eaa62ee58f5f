"""Much data and many subscribers. The ledger tests run for 5 seconds, or for a minute with FOREBAY_HEAVY=full:

    FOREBAY_HEAVY=full python -m pytest -n 0 -s Tests/EndToEnd/heavy
"""

import os
import random
import selectors
import time

import pytest

from client import *
from load import Batch, Frames, Line

pytestmark = pytest.mark.rsocket

FULL = os.environ.get("FOREBAY_HEAVY") == "full"
RETAIN_BYTES = 16 << 20
MESSAGE = 1024


@pytest.fixture
def fresh(start):
    """A broker for this test only, so that no other test affects its memory."""
    this = start("--retain-bytes", str(RETAIN_BYTES))
    yield this
    this.stop()


class Publishing:
    """A channel that sends numbered messages as fast as its credit and its socket allow."""

    def __init__(self, peer: Peer, topic: str, count: int):
        self.channel = peer.channel(topic, (0).to_bytes(8, "big") + bytes(MESSAGE - 8))
        self.peer, self.sent, self.count = peer, 1, count
        peer.socket.setblocking(False)
        self.line = Line(peer.socket)
        self.batch = Batch(self.channel.stream, MESSAGE, 1024)

    @property
    def wants_to_write(self) -> bool:
        return not self.line.idle or (self.sent < self.count and self.channel.credit > 0)

    def write(self):
        self.line.flush()
        if self.line.idle and self.sent < self.count and self.channel.credit > 0:
            some = min(self.channel.credit, self.batch.count, self.count - self.sent)
            self.line.send(self.batch.numbered(self.sent, some))
            self.sent += some
            self.channel.sent += some

    def read(self):
        """Reads grants and acknowledgements."""
        chunk = self.peer.socket.recv(1 << 16)
        assert chunk, "the broker closed the publisher's connection"
        self.peer._buffer += chunk
        self.peer._split()
        self.channel.pump()
        assert self.channel.ended is None, self.channel.ended


class Reading:
    """A subscription that reads everything and requests more when half of its window is used."""

    def __init__(self, peer: Peer, path: str, window: int):
        self.sub, self.window = peer.subscribe(path, n=window), window
        peer.socket.setblocking(False)
        self.frames, self.line = Frames(peer.socket, MESSAGE), Line(peer.socket)
        self.received = 0

    def read(self):
        expected = self.received
        for stream, number in self.frames.read():
            if stream != self.sub.stream or number != expected:
                raise AssertionError(f"message {number} on stream {stream}, but {expected} was expected")
            expected += 1
        self.received = expected
        assert self.received <= self.sub.asked, f"{self.received} of {self.sub.asked} requested"
        spent = self.received + self.window - self.sub.asked
        if spent >= self.window // 2 and self.line.idle:
            self.sub.asked += spent
            self.line.send(raw.request_n(self.sub.stream, spent))


@pytest.mark.timeout(900)
def test_a_stalled_subscriber_beside_a_block_reader(fresh, connect, topic):
    """10 GB: the reader receives everything, memory stays bounded, and the stalled subscriber finally receives its
    window."""
    count = (1 << 30) // MESSAGE
    control, stalled = connect(fresh), connect(fresh, receive_buffer=64 << 10)
    publisher, reader = connect(fresh), connect(fresh)
    idle = stalled.subscribe(f"{topic}?overflow=drop-oldest")
    reading = Reading(reader, f"{topic}?overflow=block&buffer=8192", window=8192)
    control.joined(topic, 2)
    before, began = fresh.status("VmRSS"), time.monotonic()
    publishing = Publishing(publisher, topic, count)
    transfer(publishing, reading, count)
    grown, took = fresh.status("VmHWM") - before, time.monotonic() - began
    print(f"\n{count} messages of {MESSAGE} in {took:.1f} s: {count * MESSAGE / took / 1e6:.0f} MB/s; "
          f"the broker grew by {grown / 1024 / 1024:.1f} MiB")
    assert grown <= RETAIN_BYTES + 4 * (256 << 10) + (8 << 20)
    assert stalled.peer in [one["peer"] for one in control.listing("$SYS.connections")]
    told = eventually(lambda: next(one for one in control.ledger(topic) if one["peer"] == stalled.peer),
                      lambda row: row["delivered"] + row["dropped"] + row["waiting"] == count)
    assert told["waiting"] == 1024
    seen = [int.from_bytes(idle.take(1)[0].data[:8], "big")]
    while seen[-1] < count - 1:
        seen.append(int.from_bytes(idle.take(1)[0].data[:8], "big"))
        assert seen[-1] > seen[-2]
    assert len(seen) == told["delivered"] + told["waiting"]
    assert seen[-1024:] == list(range(count - 1024, count))


def transfer(publishing: Publishing, reading: Reading, count: int):
    """Transfers `count` messages. The deadline applies to a standstill, not to the whole transfer."""
    with selectors.DefaultSelector() as selector:
        selector.register(reading.frames.socket, selectors.EVENT_READ, reading)
        selector.register(publishing.peer.socket, selectors.EVENT_READ, publishing)
        while reading.received < count or publishing.sent < count:
            writing = selectors.EVENT_WRITE if publishing.wants_to_write else 0
            selector.modify(publishing.peer.socket, selectors.EVENT_READ | writing, publishing)
            ready = selector.select(timeout=20)
            assert ready, f"no progress: {publishing.sent} sent, {reading.received} received of {count}"
            for key, events in ready:
                if events & selectors.EVENT_READ:
                    key.data.read()
                if events & selectors.EVENT_WRITE:
                    key.data.write()
            reading.line.flush()


POLICIES = ["drop-oldest", "drop-newest", "replace-newest"]
STREAMS = 10  # Per connection. Streams are identified by their buffers, and the last by its policy, `latest`.


def key(peer: str, policy: str, buffer: int) -> tuple:
    return peer, policy if policy == "latest" else buffer


class Crowd:
    """Connections with `STREAMS` subscriptions each, of different policies, buffers and credit."""

    def __init__(self, connect, fresh, topic: str, connections: int):
        self.dice, self.subs, self.peers, self.asking = random.Random(7), {}, [], []
        for index in range(connections):
            peer = connect(fresh)
            self.peers.append((peer, Frames(peer.socket, MESSAGE // 16)))
            for place in range(STREAMS):
                policy = "latest" if place == STREAMS - 1 else POLICIES[(index + place) % 3]
                n = UNBOUNDED if place == 0 else self.dice.randint(1, 50)
                sub = peer.subscribe(f"{topic}?overflow={policy}&buffer={1 + 7 * place}", n=n)
                sub.key, sub.last = key(peer.peer, policy, 1 + 7 * place), -1
                self.subs[peer, sub.stream] = sub
                if place > 1:  # The first of each connection is unbounded, the second never requests again.
                    self.asking.append(sub)

    def begin(self):
        for peer, _ in self.peers:
            peer.socket.setblocking(False)

    def read(self) -> int:
        """Reads what has arrived, and returns the number of messages."""
        total = 0
        for peer, frames in self.peers:
            for stream, number in frames.read():
                sub = self.subs[peer, stream]
                sub.received += 1
                total += 1
                assert number > sub.last and sub.received <= sub.asked, (sub.key, number, sub.last, sub.asked)
                sub.last = number
        return total

    def ask(self, count: int):
        for sub in self.dice.sample(self.asking, count):
            sub.request(self.dice.randint(1, 30))

    def read_until(self, deadline: float):
        with selectors.DefaultSelector() as selector:
            for peer, _ in self.peers:
                selector.register(peer.socket, selectors.EVENT_READ)
            while (left := deadline - time.monotonic()) > 0:
                if selector.select(left):
                    self.read()


@pytest.mark.timeout(300)
def test_the_ledgers_of_a_thousand_subscribers(fresh, connect, topic):
    control, publisher, published = connect(fresh), connect(fresh), 0
    crowd = Crowd(connect, fresh, topic, connections=100)
    control.joined(topic, len(crowd.subs))
    crowd.begin()
    end = time.monotonic() + (60 if FULL else 5)
    while time.monotonic() < end:
        turn = time.monotonic()
        bodies = [(published + i).to_bytes(8, "big") + bytes(MESSAGE // 16 - 8) for i in range(20)]
        publisher.publish(topic, *bodies)
        published += len(bodies)
        crowd.ask(100)
        crowd.read_until(turn + 0.05)  # The rate: 400 messages per second.
    rows = eventually(lambda: (crowd.read(), control.ledger(topic)), lambda seen: settled(crowd, seen[1]), 20)[1]
    assert len(rows) == len(crowd.subs) == 1000
    by_key = {key(row["peer"], row["policy"], row["buffer"]): row for row in rows}
    for sub in crowd.subs.values():
        row = by_key[sub.key]
        if sub.asked >= UNBOUNDED:
            assert row["requested"] == "unbounded"
        else:
            assert row["requested"] == sub.asked == row["delivered"] + row["outstanding"], row
        assert row["delivered"] == sub.received, row
        assert row["delivered"] + row["dropped"] + row["waiting"] == published, row
    print(f"\n{published} messages, {sum(sub.received for sub in crowd.subs.values())} deliveries, "
          f"{sum(row['dropped'] for row in rows)} drops")


def settled(crowd: Crowd, rows: list[dict]) -> bool:
    """Whether nothing is left in flight in either direction."""
    asked = sum(sub.asked for sub in crowd.subs.values() if sub.asked < UNBOUNDED)
    told = sum(row["requested"] for row in rows if row["requested"] != "unbounded")
    return told == asked and sum(row["delivered"] for row in rows) == sum(sub.received for sub in crowd.subs.values())
