"""Many topics and many patterns at full size, only with FOREBAY_HEAVY=full: what other clients notice. Next to each
load runs the round trip of a client that has nothing to do with it, and the same round trip at an idle broker, which
shows what the machine itself adds. The figures are printed. The bound on processor time is that of `turns.py`. The
bound on round trips is far above the figures, because other processes use the machine too."""

import multiprocessing
import os
import selectors
import socket
import threading
import time

import pytest

import raw
from common import UNBOUNDED, eventually
from turns import Turns

pytestmark = [pytest.mark.rsocket, pytest.mark.timeout(600),
              pytest.mark.skipif(os.environ.get("FOREBAY_HEAVY") != "full", reason="FOREBAY_HEAVY=full runs it")]
SUBSCRIBERS = 10_000
PATTERNS, EACH = 1000, 99
LONGEST = 0.1  # Seconds that a round trip may take.
OPTIONS = ("--max-patterns", "20000", "--memory", "8G")


class Probe:
    """A process that publishes a message every 2 ms and waits for it on another connection."""

    def __init__(self, address):
        self.here, there = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("fork").Process(target=self._run, args=(address, there), daemon=True)
        self.process.start()
        assert self.here.recv() == "ready"

    @staticmethod
    def _run(address, told):
        reader, writer = (socket.create_connection(address) for _ in range(2))
        for one in (reader, writer):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one.settimeout(30)
            one.sendall(raw.setup(keepalive_ms=600_000))
        # The message may come before the subscription begins.
        writer.sendall(raw.request(raw.REQUEST_FNF, 1, b"x", raw.route("probe")))
        reader.sendall(raw.request(raw.REQUEST_STREAM, 1, metadata=raw.route("probe?replay=1"), n=UNBOUNDED))
        assert reader.recv(1 << 16)
        told.send("ready")
        times = []
        while not told.poll(0.002):
            began = time.monotonic()
            writer.sendall(raw.request(raw.REQUEST_FNF, 2 * len(times) + 3, b"x", raw.route("probe")))
            assert reader.recv(1 << 16)
            times.append(time.monotonic() - began)
        told.send(times)

    def end(self) -> list[float]:
        self.here.send("end")
        times = self.here.recv()
        self.process.join()
        return sorted(times)


class Crowd:
    """Connections with subscriptions, whose messages are read and counted only by the broker."""

    def __init__(self, address, count: int):
        self.lines = [socket.create_connection(address) for _ in range(count)]
        for line in self.lines:
            line.sendall(raw.setup(keepalive_ms=600_000))
        self.next, self.ended = [1] * count, threading.Event()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def subscribe(self, paths: list[str]):
        """Distributes subscriptions over the connections, and sends those of a connection at once."""
        for index, line in enumerate(self.lines):
            frames = bytearray()
            for path in paths[index :: len(self.lines)]:
                frames += raw.request(raw.REQUEST_STREAM, self.next[index], metadata=raw.route(path), n=UNBOUNDED)
                self.next[index] += 2
            line.sendall(frames)

    def _read(self):
        with selectors.DefaultSelector() as ready:
            for line in self.lines:
                ready.register(line, selectors.EVENT_READ)
            buffer = bytearray(1 << 20)
            while not self.ended.is_set():
                for key, _ in ready.select(0.1):
                    if key.fileobj.recv_into(buffer) == 0:
                        ready.unregister(key.fileobj)

    def end(self):
        self.ended.set()
        self.thread.join()
        for line in self.lines:
            line.close()


class Publisher:
    """Publishes to topics in order, at a rate per second."""

    def __init__(self, address):
        self.line, self.stream = socket.create_connection(address), 1
        self.line.sendall(raw.setup(keepalive_ms=600_000))

    def publish(self, topics: list[str], rate: int):
        began, step = time.monotonic(), max(1, rate // 200)
        for first in range(0, len(topics), step):
            frames = bytearray()
            for topic in topics[first : first + step]:
                frames += raw.request(raw.REQUEST_FNF, self.stream, b"x", raw.route(topic))
                self.stream += 2
            time.sleep(max(0, began + first / rate - time.monotonic()))
            self.line.sendall(frames)


class Measured:
    """A broker with two shards, and an idle one; `during` measures both."""

    def __init__(self, begin):
        self.turns, self.idle = Turns(begin, *OPTIONS, threads=2), begin()
        self.address, self.watcher = self.turns.broker.address, self.turns.broker.peer()

    def delivered(self) -> int:
        found = self.turns.admin.metrics()
        return int(sum(value for name, value in found.items() if name.startswith("forebay_messages_delivered_total")))

    def patterns(self, pattern: str, count: int):
        """Waits until all subscriptions to a pattern have begun."""
        eventually(lambda: self.watcher.ledger(pattern), lambda rows: len(rows) == count
                   and all(row["waits_for"] != "topic" for row in rows), 60)

    def during(self, what: str, load, deliveries: int):
        before = self.delivered()
        probes = [Probe(self.address), Probe(self.idle.address)]
        load()
        end = before + deliveries
        while self.delivered() < end:
            time.sleep(0.25)  # A scrape costs the machine 50 ms with 100,000 topics.
        busy, control = (probe.end() for probe in probes)
        assert busy[-1] < LONGEST + control[-1], (what, busy[-10:], control[-10:])
        print(f"\n{what}: {len(busy)} round trips, {self.times(busy)}; at an idle broker {self.times(control)}")

    @staticmethod
    def times(sorted_times: list[float]) -> str:
        p50, p99 = (sorted_times[int(len(sorted_times) * part)] * 1000 for part in (0.5, 0.99))
        return f"p50 {p50:.2f}, p99 {p99:.1f}, max {sorted_times[-1] * 1000:.1f} ms"

    def end(self, what: str):
        self.turns.check(what)
        self.watcher.close()
        self.turns.end()
        self.idle.stop()


@pytest.fixture
def measured(begin):
    return Measured(begin)


def test_a_new_topic_with_ten_thousand_subscriptions(measured):
    crowd, publisher = Crowd(measured.address, 10), Publisher(measured.address)
    crowd.subscribe(["m.>"] * SUBSCRIBERS)
    measured.patterns("m.>", SUBSCRIBERS)
    topics = [f"m.{number}" for number in range(10)]
    measured.during("10 new topics x 10,000 subscriptions", lambda: publisher.publish(topics, 5), 10 * SUBSCRIBERS)
    crowd.end()
    measured.end("a new topic with 10,000 subscriptions")


def test_ten_thousand_new_topics_in_a_second(measured):
    crowd, publisher = Crowd(measured.address, 10), Publisher(measured.address)
    crowd.subscribe(["m.>"] * 10)
    measured.patterns("m.>", 10)
    topics = [f"m.{number}" for number in range(10_000)]
    measured.during("10,000 new topics in a second", lambda: publisher.publish(topics, 10_000), 10 * len(topics))
    crowd.end()
    measured.end("10,000 new topics")


def test_a_thousand_patterns_over_a_hundred_thousand_topics(measured):
    crowd, publisher = Crowd(measured.address, 10), Publisher(measured.address)
    patterns = [f"c.{number}.>" for number in range(PATTERNS)]
    crowd.subscribe(patterns)
    measured.patterns(patterns[-1], 1)
    topics = [f"c.{number}.{each}" for each in range(EACH) for number in range(PATTERNS)]
    measured.during(f"{len(topics)} new topics of 1,000 patterns", lambda: publisher.publish(topics, 16_000),
                    len(topics))
    further = [f"{pattern}?replay=1" for pattern in patterns]
    # Each of the ten subscriptions to all topics matches more of them than `max-matches` allows.
    measured.during("1,000 further subscriptions to them, and 10 to all",
                    lambda: crowd.subscribe(further + ["c.>"] * 10), len(topics))
    crowd.end()
    measured.end("1,000 patterns x 99,000 topics")
