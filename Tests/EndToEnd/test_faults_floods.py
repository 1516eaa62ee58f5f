"""Hostile clients: garbage at full speed, requests that never complete, and more connections than are allowed. A
healthy client next to them loses nothing."""

import contextlib
import socket
import ssl
import threading
import time

import pytest
import requests

import garbage
import raw
import tls
from common import *
from faults import *
from floods import crowd
from http2 import PREFACE, frame

pytestmark = pytest.mark.rsocket
MIB = 1 << 20

# Garbage


@pytest.mark.timeout(180)
@pytest.mark.parametrize("port", ["rsocket", "http", "admin", "rsockets"])
def test_garbage(begin, port):
    """Up to 200 MB per second, limited by what two processors can do next to everything else; `heavy` requires the full
    rate."""
    pair = tls.server()
    broker = begin("--admin", "127.0.0.1:0", *(pair.options if port.endswith("s") else ()))
    address = {"rsocket": broker.address, "http": broker.http, "admin": broker.admin}[port.removesuffix("s")]
    with beside(broker, "rsocket", "grpc", growth=24 * MIB, slowest=15) as wells:
        before = [well.count for well in wells]
        told = garbage.throw(address, port, seconds=2)
        assert told["offered"] > 40 and told["taken"] > 5 and told["connections"] >= 2 * garbage.THREADS, told
        assert all(well.count > count for well, count in zip(wells, before)), "they made no progress meanwhile"
    broker.stop()


# Requests that never complete: the listener, and the bytes. The broker must close the connection within its limits.

DRIPS = {
    "nothing": ("address", b""),
    "half a SETUP": ("address", raw.setup()),
    "a SETUP of length 0xffffff": ("address", b"\xff\xff\xff" + raw.setup()[3:9]),
    "nothing over HTTP": ("http", b""),
    "HTTP/1.1 head": ("http", b"GET /v1/topics/t/messages HTTP/1.1\r\nHost: localhost\r\nX-Drip: " + b"x" * 1000),
    "HTTP/1.1 request line": ("http", b"GET /" + b"x" * 1000),
    "HTTP/2 preface": ("http", PREFACE),
    "HTTP/2 without SETTINGS": ("http", PREFACE + frame(4, 0, 0, b"", 6000)),
}


class Drip:
    """Connections that send a byte at a time, and never a complete request."""

    def __init__(self, address, text: bytes, count: int):
        self.sockets = [socket.create_connection(address, timeout=DEADLINE) for _ in range(count)]
        self.text, self.closed = text[:-1], 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        began, left = time.monotonic(), list(self.sockets)
        for one in left:
            one.setblocking(False)
        place = 0
        while left and time.monotonic() - began < 60:
            for one in list(left):
                if not self._step(one, place):
                    left.remove(one)
                    self.closed += 1
            place += 1
            time.sleep(0.05)  # The rate.

    def _step(self, one: socket.socket, place: int) -> bool:
        """Sends one more byte; false if the broker has closed the connection."""
        try:
            if place < len(self.text):
                one.send(self.text[place:place + 1])
            while one.recv(1000):
                pass
            return False
        except BlockingIOError:
            return True
        except OSError:
            return False

    def over(self, timeout: float):
        self._thread.join(timeout)
        assert self.closed == len(self.sockets), f"{self.closed} of {len(self.sockets)} were closed"
        for one in self.sockets:
            one.close()


def test_slowloris(begin):
    """Each connection is closed when its time limit expires, although it is never silent."""
    broker, count = begin("--setup-time", "1s"), 40
    with beside(broker, "rsocket", "grpc", growth=16 * MIB):
        drips = [Drip(getattr(broker, port), text, count) for port, text in DRIPS.values()]
        for drip in drips:
            drip.over(DEADLINE)
    broker.stop()


@pytest.mark.parametrize("port", ["address", "http"])
def test_slowloris_of_handshakes(begin, port):
    pair = tls.server()
    broker = begin("--setup-time", "1s", *pair.options)
    with beside(broker, "rsocket", growth=16 * MIB):
        for text in (b"", garbage.HELLO + bytes(200)):
            Drip(getattr(broker, port), text, 40).over(DEADLINE)
        # A completed handshake, and half of a request over it.
        context = tls.context(getattr(broker, port))
        with context.wrap_socket(socket.create_connection(getattr(broker, port)), server_hostname="127.0.0.1") as line:
            line.settimeout(DEADLINE)
            line.send(raw.setup()[:20] if port == "address" else b"GET / HT")
            with contextlib.suppress(ConnectionResetError, ssl.SSLError):
                while line.recv(1000):
                    pass
    broker.stop()


def test_slowloris_on_the_admin_listener(begin):
    """The admin listener allows few connections. One that has sent no request gives way to a new one."""
    broker = begin("--admin", "127.0.0.1:0")
    ready = "http://%s:%d/readyz" % broker.admin
    with beside(broker, growth=16 * MIB):
        lines = []
        for _ in range(4):
            for _ in range(40):
                lines.append(socket.create_connection(broker.admin, timeout=DEADLINE))
                lines[-1].sendall(b"GET /metrics HTTP/1.1\r\nHost: loc")
            assert requests.get(ready, timeout=DEADLINE, proxies={"http": ""}).text == "ok\n"
        for one in lines:
            one.close()
    broker.stop()


# Connections


def test_many_connections_at_once(begin):
    """Clients connect as fast as possible, subscribe, receive what is published, and leave at once."""
    count = 600
    broker = begin("--max-connections", "100000")
    with beside(broker, "rsocket", "grpc", growth=24 * MIB) as wells:
        crowd(broker, count, wells)
    broker.stop()
