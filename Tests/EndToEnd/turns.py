"""Floods, and how much processor time a turn of the broker's loop takes meanwhile: during a turn, no other client of
the shard is served."""

import contextlib
import os
import selectors
import signal
from pathlib import Path

import pytest

import raw
from admin import Admin
from common import *
from executables import executable

LIMIT = 0.020  # Seconds of processor time, for the release build.
SIGN = b"all was dealt with"
PRECISION = 0.001  # The amount by which the metric may overstate the time.

release = pytest.mark.skipif(
    Path(executable()).resolve().parent.name == "debug" or "ASAN_OPTIONS" in os.environ,
    reason="what a turn may take is the release build's: run `make build`, or set FOREBAYD to its path")


class Turns:
    """A broker, of one shard by default, whose turns are measured. `longest` is the longest so far."""

    def __init__(self, begin, *options: str, threads=1):
        self.threads = threads
        self.broker = begin("--threads", str(threads), "--admin", "127.0.0.1:0", *options)
        self.admin = Admin(self.broker)
        self.lines = []
        assert self.longest < LIMIT, "too slow before any request"

    @property
    def longest(self) -> float:
        told = self.admin.metrics()
        return max(told[f'forebay_loop_turn_cpu_seconds_max{{shard="{n}"}}'] for n in range(self.threads))

    def check(self, what: str):
        longest = self.longest
        print(f"{what}: the longest turn took {longest * 1000:.1f} ms of processor time")
        assert longest < LIMIT + PRECISION, f"a turn took {longest * 1000:.1f} ms of processor time"

    @contextlib.contextmanager
    def standing_still(self):
        """What is sent in the meantime arrives all at once."""
        self.broker.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.broker.process.send_signal(signal.SIGCONT)

    def complete(self, lines, request: bytes):
        """Sends the last byte of a request on each line, so that all requests are complete at once."""
        with self.standing_still():
            for line in lines:
                line.send(request[-1:])

    def line(self) -> "Line":
        self.lines.append(Line(self.broker.address))
        return self.lines[-1]

    def end(self):
        for line in self.lines:
            line.close()
        self.broker.stop()


class Line:
    """A connection that is written and read at the same time."""

    def __init__(self, address):
        self.connection = raw.Connection(address)
        self.socket = self.connection.socket
        self.socket.setblocking(False)
        self.left = memoryview(raw.setup())
        self.tail, self.is_done = b"", False

    def queue(self, frames: bytes):
        """Queues frames, followed by a KEEPALIVE whose echo shows that all of them were handled."""
        self.left = memoryview(bytes(self.left) + frames + raw.keepalive(SIGN))
        self.is_done = False

    def write(self):
        with contextlib.suppress(BlockingIOError):
            while self.left:
                self.left = self.left[self.socket.send(self.left[:1 << 16]):]

    def read(self):
        with contextlib.suppress(BlockingIOError):
            while True:
                piece = self.socket.recv(1 << 20)
                assert piece, "the broker has closed the connection"
                seen = self.tail + piece
                self.is_done = self.is_done or SIGN in seen
                self.tail = seen[1 - len(SIGN):]

    def close(self):
        self.connection.close()


def throw(lines: list[Line], also: list[Line] = (), timeout=60):
    """Waits until everything was sent and handled. What the lines in `also` receive is read in the meantime."""
    with selectors.DefaultSelector() as selector:
        for line in [*lines, *also]:
            selector.register(line.socket, selectors.EVENT_READ | (selectors.EVENT_WRITE if line.left else 0), line)
        waiting = {id(line) for line in lines}
        while waiting:
            ready = selector.select(timeout)
            assert ready, f"no progress: {len(waiting)} connections are waiting"
            for key, events in ready:
                line = key.data
                if events & selectors.EVENT_READ:
                    line.read()
                if events & selectors.EVENT_WRITE:
                    line.write()
                    if not line.left:
                        selector.modify(line.socket, selectors.EVENT_READ, line)
                if line.is_done:
                    waiting.discard(id(line))


def streams(count: int):
    return range(1, 2 * count, 2)


def pairs(route: str, count: int, kind=raw.REQUEST_STREAM, data=b"") -> bytes:
    """`count` requests, each followed by its cancel, on streams that are reused."""
    n = raw.UNBOUNDED if kind in (raw.REQUEST_STREAM, raw.REQUEST_CHANNEL) else None
    one = raw.request(kind, 1, data, raw.route(route), n) + raw.cancel(1)
    return one * count


def subscriptions(count: int, route) -> bytes:
    """`route` is a route for all streams, or a function that returns the route of a stream."""
    name = route if callable(route) else lambda _: route
    return b"".join(raw.request(raw.REQUEST_STREAM, stream, metadata=raw.route(name(stream)), n=raw.UNBOUNDED)
                    for stream in streams(count))


def cancels(count: int) -> bytes:
    return b"".join(raw.cancel(stream) for stream in streams(count))
