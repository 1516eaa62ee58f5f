"""What fault tests share: healthy clients next to the fault, whose ledgers must stay complete, and the state to which
the broker must return after it."""

import contextlib
import os
import threading
import time
from pathlib import Path

from common import *
from http1 import GET, Line


class Well:
    """A client unrelated to the fault. It publishes numbers with acknowledgements, reads them on another connection,
    and records the longest round trip. `check` stops it: every number arrived once and in order, and the broker's
    ledger agrees."""

    def __init__(self, broker, transport="rsocket", pause=0.01):
        self.topic = f"well.{transport}"
        self.writer, self.reader = broker.peer(transport), broker.peer(transport)
        self.subscription = self.reader.subscribe(self.topic)
        self.reader.joined(self.topic, 1)
        self.count, self.slowest, self.failure = 0, 0.0, None
        self._pause, self._stopped = pause, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            while not self._stopped.wait(self._pause):
                began, number = time.monotonic(), self.count + 1
                offer = self.writer.offer(self.topic, b"%d" % number)
                assert offer.sequence(timeout=30) == number
                (message,) = self.subscription.take(1, timeout=30)
                assert message.data == b"%d" % number, (message, number)
                self.count = number
                self.slowest = max(self.slowest, time.monotonic() - began)
        except BaseException as failure:  # Raised in the waiting thread.
            self.failure = failure

    def moves(self, count=5):
        """Waits until `count` more numbers have made the round trip."""
        if self.failure:
            raise self.failure
        goal = self.count + count
        eventually(lambda: self.failure or self.count, lambda seen: self.failure or seen >= goal, timeout=40)
        if self.failure:
            raise self.failure

    def check(self, slowest: float = 30):
        self.moves()
        self._stopped.set()
        self._thread.join(40)
        if self.failure:
            raise self.failure
        (row,) = self.reader.ledger(self.topic)
        told = {name: row[name] for name in ("delivered", "dropped", "waiting")}
        assert told == {"delivered": self.count, "dropped": 0, "waiting": 0}, row
        assert self.writer.info(self.topic)["published"] == self.count
        assert self.subscription.pending() == 0 and self.slowest < slowest, self.slowest

    def close(self):
        self._stopped.set()
        self._thread.join(40)
        self.writer.close()
        self.reader.close()


def warm(broker):
    """A thread allocates what it needs for HTTP/1.1 at its first such connection and keeps it. Connections are assigned
    to threads in turn."""
    for _ in range(8):
        line = Line(broker.http)
        line.send(GET)
        assert line.answer()[0] == 404
        line.close()


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


class Before:
    """What a broker held before a fault; `restored` checks that it holds no more afterwards."""

    def __init__(self, broker, watcher: Observer):
        self.broker, self.watcher = broker, watcher
        self.figures, self.resident = self._settled(), broker.status("VmRSS")

    def _settled(self) -> dict[str, int]:
        """Waits until earlier connections are gone."""
        seen = []
        return eventually(self._figures, lambda now: seen[-3:] == [now] * 3 or seen.append(now))

    def _figures(self) -> dict[str, int]:
        listings = ("connections", "subscriptions")
        return {"descriptors": descriptors(self.broker.pid)} | {
            name: len(self.watcher.listing(f"$SYS.{name}")) for name in listings}

    def restored(self, growth: int):
        """Checks that descriptors, connections and subscriptions are as before. Memory has grown by `growth` bytes at
        most: what the allocator keeps, and topics that still exist. The broker checks only now and then whether that is
        much, and the admin listener may notice a lost client only after 30 s of silence."""
        eventually(self._figures, lambda seen: seen == self.figures, 40)
        eventually(lambda: (self.broker.status("VmRSS") - self.resident) >> 10, lambda grown: grown <= growth >> 10, 40)


@contextlib.contextmanager
def beside(broker, *transports: str, growth: int, slowest: float = 30):
    """Runs a fault next to healthy clients, and checks afterwards that the fault left nothing behind."""
    watcher = broker.peer()
    wells = [Well(broker, transport) for transport in transports or ("rsocket",)]
    try:
        for well in wells:
            well.moves()
        warm(broker)
        before = Before(broker, watcher)
        yield wells
        before.restored(growth)
        for well in wells:
            well.check(slowest)
    finally:
        for well in wells:
            well.close()
        watcher.close()


def processor_time(pid: int) -> float:
    """Seconds of processor time that a process used, in user and kernel mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
