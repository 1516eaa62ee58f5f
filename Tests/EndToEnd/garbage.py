"""Sends garbage to every port of a broker at a given rate, from separate processes so that the test's own work is not
affected: `garbage.py HOST PORT KIND SECONDS RATE`, with the rate in bytes per second. Noise ends its connection at the
first frame, so there is also data that a server must keep reading: frames to be ignored, frames longer than any
message, bodies of refused requests. Connection errors are not reported; the next connection is opened."""

import collections
import contextlib
import itertools
import json
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import raw
from curl import path
from http2 import DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, frame, settings

MIB = 1 << 20
RATE = 200_000_000  # Bytes per second.
PROCESSES, THREADS = 2, 16  # At least as many threads as kinds.
NOISE = os.urandom(MIB)
TCP_INFO_ACKED = 120  # Offset of tcpi_bytes_acked, 64 bits, in struct tcp_info.

# RSocket

UNKNOWN_TYPE, CLOSED = 0x2A, 0x7FFFFFFF  # A stream that was never opened.


def some(make, length: int) -> bytes:
    """About a MiB of frames, each around `length` bytes of noise."""
    return b"".join(make(NOISE[at:at + length]) for at in range(0, MIB, length))


IGNORED = {
    "a type that there is not": some(lambda noise: raw.frame(0, UNKNOWN_TYPE, raw.I, noise), 50_000),
    "extensions": some(lambda noise: raw.frame(7, raw.EXT, raw.I, noise), 100),
    "payloads of no stream": some(lambda noise: raw.payload(CLOSED, noise), 1000),
    "demand of no stream": raw.request_n(CLOSED, 1) * 20_000,
    "payloads longer than any message": raw.payload(CLOSED, (NOISE * 16)[:0xFFFFFF - 6]),
    "fires without a route": some(lambda noise: raw.request(raw.REQUEST_FNF, 1, noise, noise[:9]), 4000),
}
SUBSCRIBE = raw.request(raw.REQUEST_STREAM, 1, metadata=raw.route("t.garbage"), n=10)
RSOCKET = [(b"", NOISE), (raw.setup(), NOISE), (raw.setup() + SUBSCRIBE, NOISE), (b"\x00\xff\xff", NOISE),
           (raw.u24(0xFFFFFF) + raw.setup()[3:], NOISE), *((raw.setup(), frames) for frames in IGNORED.values())]

# HTTP

UPLOAD = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s\r\n\r\n"
ENDLESS = b"Content-Length: 1000000000000", b"Transfer-Encoding: chunked"
REFUSED = path("not..a..name").encode()
HEAD = b"".join(b"\x00" + b"".join(bytes([len(one)]) + one for one in field) for field in (
    (b":method", b"POST"), (b":scheme", b"http"), (b":path", REFUSED), (b":authority", b"localhost")))
# A completed request followed by more of its body, and one whose body ignores the window.
OVER = PREFACE + settings() + frame(HEADERS, END_HEADERS | END_STREAM, 1, HEAD)
OPEN = PREFACE + settings() + frame(HEADERS, END_HEADERS, 1, HEAD)
LONGEST = 16 << 10


def uploads(where: bytes) -> list[tuple[bytes, bytes]]:
    """Uploads in refused requests, one after another, and in one that never ends."""
    whole = UPLOAD % (where, b"Content-Length: %d" % MIB) + NOISE
    chunks = b"%x\r\n" % MIB + NOISE + b"\r\n"
    return [(b"", whole), *((UPLOAD % (where, one), NOISE) for one in ENDLESS),
            (UPLOAD % (where, ENDLESS[1]), chunks)]


HTTP = [(b"", NOISE), (PREFACE, NOISE), (PREFACE + settings(), NOISE),
        (PREFACE + settings(), some(lambda noise: frame(0xFA, 0, 0, noise), LONGEST)),
        (OVER, some(lambda noise: frame(DATA, 0, 1, noise), LONGEST)),
        (OPEN, some(lambda noise: frame(DATA, 0, 1, noise), LONGEST)),
        *uploads(REFUSED), uploads(path("t.garbage").encode())[-1]]
# The admin listener refuses every body; it looks up nonexistent pages one after another.
NOWHERE = some(lambda noise: b"GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % noise.hex().encode(), 3500)
ADMIN = [(b"", NOISE), *uploads(b"/api/v1/topics/t.garbage/complete"), *uploads(b"/nothing"), (b"", NOWHERE)]

# TLS: raw bytes before and after the handshake, and garbage sent through TLS.

HELLO = bytes.fromhex("16030100c8010000c40303")  # The beginning of a 200-byte hello.
RECORDS = some(lambda noise: b"\x17\x03\x03" + len(noise).to_bytes(2, "big") + noise, LONGEST)
UNDER = [(b"", NOISE), (HELLO, NOISE), (b"", RECORDS), (b"\x16\x03\x03\x40\x00", NOISE)]

KINDS = {"rsocket": RSOCKET, "http": HTTP, "admin": ADMIN}


class Garbage:
    def __init__(self, address, kind: str, seconds: float, rate: float):
        """Kinds that end in `s` are sent over TLS."""
        self.address, self.tls = address, kind.endswith("s")
        self.ways = [(one, self.tls, False) for one in KINDS[kind.removesuffix("s")]]
        if self.tls:
            self.ways += [(one, False, False) for one in UNDER] + [((b"", RECORDS), True, True)]
        assert len(self.ways) <= THREADS
        self.began, self.end, self.rate = time.monotonic(), time.monotonic() + seconds, rate
        self.told, self._lock = collections.Counter(offered=0, taken=0, connections=0), threading.Lock()

    def run(self) -> dict:
        threads = [threading.Thread(target=self._throw, args=(index,)) for index in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self.told

    def _throw(self, index: int):
        for turn in itertools.count(index):
            if time.monotonic() >= self.end:
                return
            with contextlib.suppress(OSError), socket.socket() as plain:
                plain.settimeout(1)
                plain.connect(self.address)
                try:
                    self._connected(plain, *self.ways[turn % len(self.ways)])
                finally:
                    (taken,) = struct.unpack_from("Q", plain.getsockopt(
                        socket.IPPROTO_TCP, socket.TCP_INFO, 256), TCP_INFO_ACKED)
                    self._count(taken=taken, connections=1)

    def _connected(self, plain: socket.socket, texts: tuple[bytes, bytes], tls: bool, beneath: bool):
        """With `beneath`, what follows the handshake is not encrypted."""
        beginning, chunk = texts
        with contextlib.ExitStack() as stack:
            line = plain
            if tls:
                # A duplicate of the descriptor: the socket above is queried at the end.
                wrapped = ssl._create_unverified_context().wrap_socket(plain.dup())
                line = plain if beneath else stack.enter_context(wrapped)
                line.settimeout(1)
            self._send(line, beginning, plain)
            while time.monotonic() < self.end:
                self._send(line, chunk, plain)

    def _send(self, line: socket.socket, text: bytes, plain: socket.socket):
        left = memoryview(text)
        while left and time.monotonic() < self.end:
            count = line.send(left[:MIB])
            left = left[count:]
            with contextlib.suppress(BlockingIOError):  # An unread response would stall the following data.
                while os.read(plain.fileno(), 1 << 16):
                    pass
            ahead = self._count(offered=count) / self.rate - (time.monotonic() - self.began)
            if ahead > 0:
                time.sleep(ahead)  # Keeps to the rate.

    def _count(self, **more) -> int:
        with self._lock:
            self.told.update(more)
            return self.told["offered"]


def throw(address, kind: str, seconds: float, rate: float = RATE) -> dict[str, float]:
    """The result: `offered` to the kernel and `taken` by the broker's side in MB per second, and the number of
    `connections`."""
    command = [sys.executable, str(Path(__file__)), address[0], str(address[1]), kind, str(seconds),
               str(rate / PROCESSES)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(PROCESSES)]
    total = collections.Counter()
    for process in running:
        out, errors = process.communicate(timeout=seconds + 60)
        assert process.returncode == 0, errors.decode()
        total.update(json.loads(out))
    return {name: count if name == "connections" else count / seconds / 1e6 for name, count in total.items()}


if __name__ == "__main__":
    host, port, kind, seconds, rate = sys.argv[1:]
    print(json.dumps(Garbage((host, int(port)), kind, float(seconds), float(rate)).run()))
