"""What the tests of faults share: clients beside the fault whose ledgers must stay whole, and what the broker must be
back to when the fault is over."""

import contextlib
import os
import threading
import time
from pathlib import Path

from common import *
from http1 import GET, Line


class Well:
    """A client that has nothing to do with the fault. It publishes numbers, each acknowledged, reads them on a
    connection of its own, and notes how long the slowest took to come round. `check` ends it: every number came once
    and in order, and the broker's ledger says the same."""

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
        except BaseException as failure:  # Told by whoever waits for it.
            self.failure = failure

    def moves(self, count=5):
        """Waits until so many more numbers have come round."""
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
    """Each thread makes what it needs for HTTP/1.1 when the first connection speaks it, and keeps it. Connections are
    dealt to the threads in turn."""
    for _ in range(8):
        line = Line(broker.http)
        line.send(GET)
        assert line.answer()[0] == 404
        line.close()


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


class Before:
    """What a broker held before a fault; `restored` is that it holds no more afterwards."""

    def __init__(self, broker, watcher: Observer):
        self.broker, self.watcher = broker, watcher
        self.figures, self.resident = self._settled(), broker.status("VmRSS")

    def _settled(self) -> dict[str, int]:
        """Once what came before is gone."""
        seen = []
        return eventually(self._figures, lambda now: seen[-3:] == [now] * 3 or seen.append(now))

    def _figures(self) -> dict[str, int]:
        listings = ("connections", "subscriptions")
        return {"descriptors": descriptors(self.broker.pid)} | {
            name: len(self.watcher.listing(f"$SYS.{name}")) for name in listings}

    def restored(self, growth: int):
        """Descriptors, connections and subscriptions are those of before; memory has grown by `growth` bytes at most:
        what the allocator keeps for the next time, and the topics that are still there. The broker looks now and then
        whether that is much; and the admin listener may miss that somebody has gone until he was silent for 30 s."""
        eventually(self._figures, lambda seen: seen == self.figures, 40)
        eventually(lambda: (self.broker.status("VmRSS") - self.resident) >> 10, lambda grown: grown <= growth >> 10, 40)


@contextlib.contextmanager
def beside(broker, *transports: str, growth: int, slowest: float = 30):
    """Runs a fault with well clients beside it, and checks afterwards that it left nothing behind."""
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
    """Seconds that a process was given, by itself and by the kernel for it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
