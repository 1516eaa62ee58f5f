"""Many connections opened at once by a single client."""

import os
import selectors
import socket

import raw
from common import *
from curl import path


class Comer:
    """A connection that sends everything at once. `expected` is the end of what it must receive."""

    def __init__(self, address, source: str, hello: bytes, expected: bytes):
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.bind((source, 0))
        self.socket.connect_ex(address)
        self.hello, self.expected, self.got = hello, expected, b""

    def write(self):
        error = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        assert error == 0, os.strerror(error)
        assert self.socket.send(self.hello) == len(self.hello)

    def read(self) -> bool:
        """Reads once. Returns whether everything has arrived."""
        piece = self.socket.recv(1 << 16)
        assert piece, f"closed by the broker after {self.got}"
        self.got += piece
        return self.got.endswith(self.expected)


def crowd(broker, count: int, wells, topic="t.crowd", messages=5):
    """`count` connections at once, each a subscriber: three of four over RSocket, the others over HTTP/1.1."""
    hello = raw.setup() + raw.request(raw.REQUEST_STREAM, 1, metadata=raw.route(topic), n=raw.UNBOUNDED)
    bodies = numbers(1, messages)
    frames = b"".join(raw.payload(1, body) for body in bodies)
    get = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path(topic, "").encode()
    watcher = broker.peer()
    with selectors.DefaultSelector() as selector:
        comers = []
        for index in range(count):
            source = f"127.0.{1 + index // 250}.{1 + index % 250}"  # Each address has a few thousand ports.
            if index % 4:
                comers.append(Comer(broker.address, source, hello, frames))
            else:
                comers.append(Comer(broker.http, source, get, b"data: %d\n\n\r\n" % messages))
            selector.register(comers[-1].socket, selectors.EVENT_WRITE, comers[-1])
        everybody(selector, comers, lambda one: one.write() or True)
        eventually(lambda: subscribers(watcher, topic), lambda seen: seen == count, timeout=120)
        for well in wells:
            well.moves()
        watcher.publish(topic, *bodies)
        for one in comers:
            selector.register(one.socket, selectors.EVENT_READ, one)
        everybody(selector, comers, Comer.read)
        assert all(one.got == frames for index, one in enumerate(comers) if index % 4)
        for well in wells:
            well.moves()
        for one in comers:
            one.socket.close()
    eventually(lambda: subscribers(watcher, topic), lambda seen: seen == 0, timeout=120)
    info = watcher.info(topic)
    assert (info["published"], info["dropped"]) == (messages, 0), info
    watcher.close()


def subscribers(watcher, topic: str) -> int | None:
    """The number of subscriptions; None if there is no response: where processors are scarce, many connections take
    their time."""
    try:
        return watcher.info(topic)["subscriptions"]
    except (StreamError, TimeoutError):
        return None


def everybody(selector, comers: list[Comer], step):
    """Continues until each connection has completed its step."""
    while selector.get_map():
        ready = selector.select(timeout=30)
        assert ready, f"no progress: {len(selector.get_map())} of {len(comers)} are waiting"
        for key, _ in ready:
            if step(key.data):
                selector.unregister(key.fileobj)
