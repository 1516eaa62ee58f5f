"""Many clients that subscribe, request everything and do not read, over each protocol: the memory the broker may use
for them, and what they receive when they read again."""

import json
import socket
import struct
import time

import hpack

import raw
import tls
from common import *
from curl import path
from faults import Well
from http2 import ACK, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, SETTINGS, SUBSCRIBE
from http2 import data as data_frame
from http2 import frame, framed, settings, window_update

MIB = 1 << 20
LIMIT = 64 * MIB
OPTIONS = ("--memory", "64M", "--threads", "1")
BUFFER = 16  # Messages that may wait for a subscription; its policy drops the others.
RECEIVE = 4096  # The size of a client's receive buffer in bytes, or the kernel's minimum.
SIZES = {MIB - 64: 20, 64 << 10: 40, 1 << 10: 1000}  # Bytes of a message, and how many of that size are published.


def varint(number: int) -> bytes:
    return b"" if number < 0 else bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


def fields(message: bytes):
    """The fields of a protobuf message: (number, value)."""
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
        else:
            assert key & 7 == 2, f"field {key >> 3} is of kind {key & 7}"
            length = number()
            yield key >> 3, message[at : at + length]
            at += length


class Unread:
    """A connection with one subscription. `got` is what it has read: (number of the message, sequence, messages lost
    just before it). The last two are None if its protocol does not report them."""

    def __init__(self, broker, topic: str):
        self.address = self.where(broker)
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE)
        plain.settimeout(DEADLINE)
        plain.connect(self.address)
        self.peer = "%s:%d" % plain.getsockname()
        self.socket = tls.wrap(plain, self.address, *self.alpn)
        self.held, self.got, self.lost = bytearray(), [], 0
        self.socket.sendall(self.hello(topic))

    alpn = ()

    @staticmethod
    def where(broker):
        return broker.http

    def greeted(self):
        """Takes what was sent before the first message."""

    def live(self):
        """Sends a keepalive if its protocol requires one, because it does not read the broker's."""

    def last(self) -> int:
        return self.got[-1][0] if self.got else -1

    def read_until(self, number: int, timeout=60):
        end = time.monotonic() + timeout
        self.socket.settimeout(DEADLINE)
        while self.last() < number:
            assert time.monotonic() < end, f"no sign of message {number} after {self.got[-3:]}"
            piece = self.socket.recv(1 << 18)
            assert piece, f"closed by the broker after {self.got[-3:]}"
            self.held += piece
            self.split()

    def note(self, text: bytes, sequence: int | None, lost: int | None):
        self.got.append((int(text.partition(b"|")[0]), sequence, lost))

    def check(self):
        """Checks that each message arrived once and in order, and that each loss was reported before the following
        message."""
        numbers = [number for number, _, _ in self.got]
        assert numbers == sorted(set(numbers)), numbers
        before = 0
        for number, sequence, lost in self.got:
            if sequence is not None:
                assert sequence == number == before + lost + 1, (before, self.got)
                before = sequence

    def close(self):
        self.socket.close()


class RSocket(Unread):
    query = ""

    @staticmethod
    def where(broker):
        return broker.address

    def hello(self, topic: str) -> bytes:
        self.partial = b""
        route = raw.route(f"{topic}?buffer={BUFFER}{self.query}")
        return raw.setup() + raw.request(raw.REQUEST_STREAM, 1, metadata=route, n=raw.UNBOUNDED)

    def split(self):
        at, held = 0, self.held
        while len(held) - at >= 3 and len(held) - at - 3 >= (length := int.from_bytes(held[at : at + 3], "big")):
            self.take(raw.parse(bytes(held[at + 3 : at + 3 + length])))
            at += 3 + length
        del held[:at]

    def take(self, this: raw.Frame):
        if this.kind == raw.KEEPALIVE and this.has(raw.R):
            return self.socket.sendall(raw.keepalive(this.data, respond=False))
        assert this.kind == raw.PAYLOAD and this.has(raw.N), this
        if this.metadata is not None:
            self.told = struct.unpack_from(">QQqQ", raw.entries(this.metadata)[0][1])
        self.partial += this.data[: 64 - len(self.partial)]
        if not this.has(raw.F):
            self.note(self.partial, *((self.told[1], self.told[3]) if self.query else (None, None)))
            self.partial = b""


class RSocketMeta(RSocket):
    query = "&meta=on"


class HTTP2(Unread):
    alpn = ("h2",)

    def hello(self, topic: str) -> bytes:
        self.body = bytearray()
        heads = hpack.Encoder().encode([(":scheme", "http"), (":authority", "%s:%d" % self.address), *self.head(topic)],
                                       huffman=False)
        ask = self.request(topic)
        start = frame(HEADERS, END_HEADERS | (0 if ask else END_STREAM), 1, heads)
        return PREFACE + settings((4, 0x7FFFFFFF)) + window_update(0, 1 << 30) + start + ask

    def greeted(self):
        self.socket.settimeout(DEADLINE)
        while not self.acknowledged:
            self.held += self.socket.recv(4096)
            self.split()

    acknowledged = False

    def live(self):
        self.socket.sendall(frame(PING, ACK, 0, bytes(8)))

    def split(self):
        at, held = 0, self.held
        while len(held) - at >= 9 and len(held) - at - 9 >= (length := int.from_bytes(held[at : at + 3], "big")):
            kind, flags = held[at + 3], held[at + 4]
            body = held[at + 9 : at + 9 + length]
            at += 9 + length
            if kind in (SETTINGS, PING) and not flags & ACK:
                self.socket.sendall(frame(kind, ACK, 0, bytes(body) if kind == PING else b""))
                self.acknowledged = True
            elif kind == DATA:
                self.body += body
                self.take()
            else:
                assert kind not in (3, 7), f"frame {kind}: {bytes(body)}"
        del held[:at]


class GRPC(HTTP2):
    def head(self, topic: str) -> list:
        return [(":method", "POST"), (":path", SUBSCRIBE), ("te", "trailers"), ("content-type", "application/grpc")]

    def request(self, topic: str) -> bytes:
        name = topic.encode()
        body = b"\x0a" + varint(len(name)) + name + b"\x10" + varint(raw.UNBOUNDED) + b"\x38" + varint(BUFFER)
        return data_frame(1, framed(b"\x0a" + varint(len(body)) + body))

    def take(self):
        body = self.body
        while len(body) >= 5 and len(body) - 5 >= (length := int.from_bytes(body[1:5], "big")):
            told = list(fields(bytes(body[5 : 5 + length])))
            del body[: 5 + length]
            lost = sum(value for number, value in told if number == 4)
            for number, value in told:
                if number == 1:
                    message = dict(fields(value))
                    self.note(message[2][:64], message[1], lost)
                    lost = 0


class Plain:
    """What streams over plain HTTP have in common: `take` goes over whole lines."""

    form = "text/event-stream"

    def target(self, topic: str) -> str:
        return path(topic, f"buffer={BUFFER}")

    def lines(self, body: bytearray):
        at = 0
        while (end := body.find(b"\n", at)) >= 0:
            yield bytes(body[at:end])
            at = end + 1
        del body[:at]

    def take(self):
        for line in self.lines(self.body):
            self.line(line)

    sequence, lost_before, event, text = None, 0, b"", b""

    def line(self, line: bytes):
        name, _, value = line.partition(b": ")
        if name == b"id":
            self.sequence = int(value.split(b"-")[1])
        elif name == b"event":
            self.event = value
        elif name == b"data":
            self.text = value
        elif not line:
            if self.event == b"gap":
                self.lost_before = json.loads(self.text)["dropped"]
            elif not self.event and self.text:
                self.note(self.text[:64], self.sequence, self.lost_before)
                self.lost_before = 0
            self.event, self.text = b"", b""


class Lines(Plain):
    form = "application/x-ndjson"

    def line(self, line: bytes):
        if line:
            told = json.loads(line)
            self.note(told["payload"].encode(), told["sequence"], told.get("dropped", 0))


class HTTP1(Plain, Unread):
    alpn = ("http/1.1",)

    def hello(self, topic: str) -> bytes:
        self.body, self.is_open = bytearray(), False
        return f"GET {self.target(topic)} HTTP/1.1\r\nHost: localhost\r\nAccept: {self.form}\r\n\r\n".encode()

    def split(self):
        held = self.held
        if not self.is_open:
            if (end := held.find(b"\r\n\r\n")) < 0:
                return
            assert held.startswith(b"HTTP/1.1 200") and b"chunked" in held[:end].lower(), bytes(held[:end])
            del held[: end + 4]
            self.is_open = True
        at = 0
        while (end := held.find(b"\r\n", at)) >= 0 and len(held) >= (rest := end + 2 + int(held[at:end], 16)) + 2:
            self.body += held[end + 2 : rest]
            at = rest + 2
        del held[:at]
        self.take()


class HTTP1Lines(Lines, HTTP1):
    pass


class HTTP2Events(Plain, HTTP2):
    def head(self, topic: str) -> list:
        return [(":method", "GET"), (":path", self.target(topic)), ("accept", self.form)]

    def request(self, topic: str) -> bytes:
        return b""


class HTTP2Lines(Lines, HTTP2Events):
    pass


PROTOCOLS = {"rsocket": RSocket, "rsocket-meta": RSocketMeta, "grpc": GRPC, "sse": HTTP1, "ndjson": HTTP1Lines,
             "sse2": HTTP2Events, "ndjson2": HTTP2Lines}


class Bound:
    """The memory the broker may use: the limit and a quarter, 16 MiB for itself and 8 MiB for each thread beyond the
    first, and for each connection what it used when idle. `check` looks at the peak."""

    def __init__(self, broker, limit=LIMIT, threads=1):
        self.broker, self.limit, self.began, self.idle = broker, limit, broker.status("VmRSS"), 0
        self.itself = (16 + 8 * (threads - 1)) * MIB

    def everybody_is_there(self):
        self.idle = self.broker.status("VmRSS") - self.began

    @property
    def most(self) -> int:
        return self.limit + self.limit // 4 + self.itself + self.idle

    def tell(self, what: str):
        if self.broker.process.poll() is not None:
            return
        print(f"\n{what}: RSS {self.began >> 20} MiB, {self.began + self.idle >> 20} with all, at most "
              f"{self.broker.status('VmHWM') >> 20}; {self.most >> 20} are allowed")

    def check(self):
        assert self.broker.status("VmHWM") >> 20 <= self.most >> 20


class Lives:
    """Keeps clients from being closed for their silence."""

    def __init__(self, crowd: list[Unread]):
        self.crowd, self.last = crowd, time.monotonic()

    def go(self):
        if time.monotonic() - self.last > 15:
            self.last = time.monotonic()
            for one in self.crowd:
                one.live()


def attack(broker, protocol: str, count: int, sizes=None, readers=8):
    """`count` clients that do not read, messages of each size for them, and another client that does; then `readers` of
    them read again."""
    topic, control, bound = "unread", broker.peer(), Bound(broker)
    well, crowd, number = Well(broker), [], 0
    lives = Lives(crowd)
    try:
        for _ in range(count):
            crowd.append(PROTOCOLS[protocol](broker, topic))
            lives.go()
        control.until(topic, lambda info: info["subscriptions"] == count, timeout=60)
        for one in crowd:
            one.greeted()
        bound.everybody_is_there()
        for size, messages in (sizes or SIZES).items():
            for _ in range(messages):
                number += 1
                control.publish(topic, (b"%d|" % number).ljust(size, b"x"))
                lives.go()
            well.moves()
        well.moves(50)
        bound.check()
        assert control.info(topic)["subscriptions"] == count
        there = {row["peer"] for row in control.listing("$SYS.connections")}
        assert all(one.peer in there for one in crowd)
        read_again(control, topic, crowd[:readers], number)
        well.check(slowest=5)
        bound.check()
    finally:
        bound.tell(f"{count} × {protocol}, {number} messages, slowest beside {well.slowest:.2f} s")
        for one in (*crowd, well, control):
            one.close()


def read_again(control, topic: str, readers: list[Unread], number: int):
    control.publish(topic, b"%d|" % (number + 1))
    for one in readers:
        one.read_until(number + 1)
        one.check()
    # More was published than any socket accepts.
    assert all(len(one.got) < number for one in readers)
