"""The clients of `clusters.py`: subscribers and publishers that go to another node after each failure, and the ledgers
of what they have learned of each topic."""

import contextlib
import json
import random
import threading
import time
from collections import defaultdict, deque

import grpc

import curl
import grpc_client
from client import *
from events import EventStream
from http1 import Line, get, post

SILENCE = 4.0  # Seconds without an event, or an answer, after which a client goes to another node.
WINDOW = 32  # Messages that a subscriber requests at first. It requests half as many after each half.


class Gone(Exception):
    """The node ended the stream, refused a request, or is not there: the client goes to another one."""


LOST = (Gone, OSError, grpc.RpcError, grpc.FutureTimeoutError)


def gone(end: End | StreamError) -> Gone:
    """Checks that an error only says that this node cannot serve now."""
    assert end.kind in (Kind.REJECTED, Kind.CANCELLED, Kind.OTHER), f"no failure of a node: {end}"
    assert not end.text.startswith(("publisher:", "not-found:", "ended:")), f"no failure of a node: {end}"
    return Gone(end.text.partition(":")[0])


class Ledger:
    """What everyone has learned of a topic: `line` are the messages by sequence, `acknowledged` the last number of each
    publisher."""

    def __init__(self, topic: str):
        self.topic, self.epoch = topic, 0
        self.sent: set[bytes] = set()
        self.line: dict[int, bytes] = {}
        self.acknowledged: dict[str, int] = {}
        self.top = 0
        self.last: int | None = None  # The sequence of the last message, once nothing more is published.

    def note(self, epoch: int, sequence: int, payload: bytes):
        """A message has this sequence."""
        assert epoch == self.epoch, f"{self.topic}: epoch {epoch} instead of {self.epoch}"
        assert payload in self.sent, f"{self.topic} {sequence}: nobody published {payload[:80]}"
        known = self.line.setdefault(sequence, payload)
        assert known == payload, f"{self.topic} {sequence}: {known[:80]} and {payload[:80]}"
        self.top = max(self.top, sequence)

    def check(self, found: list[Message]):
        """Compares the whole topic, as a node replays it, with what is known."""
        assert [one.sequence for one in found] == list(range(1, self.last + 1)), f"{self.topic} has holes"
        assert max(self.line, default=0) <= self.last, f"{self.topic} ends at {self.last}, but {self.top} is known"
        numbers = defaultdict(list)
        for one in found:
            self.note(one.epoch, one.sequence, one.data)
            publisher, number, *_ = one.data.decode().split(" ")
            numbers[publisher].append(int(number))
        for publisher, acknowledged in self.acknowledged.items():
            mine = numbers[publisher]
            assert mine == list(range(1, len(mine) + 1)), f"{self.topic}, {publisher}: not each number once, in order"
            assert len(mine) >= acknowledged, f"{self.topic}, {publisher}: {acknowledged} is missing, last {len(mine)}"


class Pauses:
    """The longest time without progress."""

    def __init__(self):
        self.last, self.longest, self.count = time.monotonic(), 0.0, 0

    def progress(self):
        now = time.monotonic()
        self.longest, self.last = max(self.longest, now - self.last), now
        self.count += 1

    def take(self) -> float:
        """The longest pause since the last call."""
        longest, self.longest = self.longest, 0.0
        return longest


class Client:
    """Runs in a thread of its own, at one node after the other, until `over`. Sometimes it goes to another node without
    need, because otherwise all clients would soon be at the one that failed last."""

    def __init__(self, nodes: list, ledger: Ledger, protocol: str, number: int):
        self.nodes, self.ledger, self.protocol, self.place = nodes, ledger, protocol, number
        self.pauses, self.left = Pauses(), defaultdict(int)
        self.stopping, self.dice = threading.Event(), random.Random(number)
        self.stay = 0

    def run(self):
        while not self.over:
            node = self.nodes[self.place % len(self.nodes)]
            self.place += 1
            self.stay = self.pauses.count + self.dice.randrange(20, 300)
            try:
                getattr(self, self.protocol)(node)
            except LOST as error:
                self.left[str(error) if isinstance(error, Gone) else type(error).__name__] += 1
                time.sleep(0.1)  # Between attempts.


    def progress(self):
        self.pauses.progress()
        if self.pauses.count >= self.stay and not self.stopping.is_set():
            raise Gone("moves")


class Link(grpc_client.Peer):
    """A connection that several subscribers of a node share."""

    def __init__(self, address):
        settings = {"grpc.use_local_subchannel_pool": 1, "grpc.enable_http_proxy": 0, "grpc.enable_retries": 0,
                    "grpc.initial_reconnect_backoff_ms": 100, "grpc.max_reconnect_backoff_ms": 500}
        self.lazy, self.calls = False, deque(maxlen=1)
        self.channel_ = grpc.insecure_channel("%s:%d" % address, list(settings.items()))
        self.pubsub = grpc_client.services.PubSubStub(self.channel_)


class Text(curl.Stream):
    """The lines of an event stream over HTTP/1.1."""

    def __init__(self, line: Line):
        self.source, self.rest = line.input, b""

    def line(self, timeout=SILENCE) -> str | None:
        while b"\n" not in self.rest:
            size = self.source.readline()
            count = int(size, 16) if size.endswith(b"\r\n") else 0
            chunk = self.source.read(count + 2)
            if not size.endswith(b"\r\n") or len(chunk) < count + 2:
                raise Gone("cut off")
            if not count:
                return None
            self.rest += chunk[:-2]
        line, _, self.rest = self.rest.partition(b"\n")
        return line.decode()


class Events(EventStream):
    """An event stream that continues after `last`, with a second connection for requests."""

    def __init__(self, address, topic: str, query: str, last: str | None, n: int):
        Stream.__init__(self, n)
        self.address, self.last, self.other = address, last, None
        self.line = Line(address)
        self.line.socket.settimeout(SILENCE)
        position = f"Last-Event-ID: {last}\r\n".encode() if last else b""
        self.line.send(get(topic, f"{query}&request={n}", b"Accept: text/event-stream\r\n" + position))
        status, headers = head(self.line)
        if status != 200:
            assert status >= 500, status
            raise Gone(f"status {status}")
        self.id, self.stream = headers["forebay-subscription"], Text(self.line)
        assert self.stream.event().kind == "subscribed"

    def request(self, n: int):
        self.asked += n
        if not self.other:
            self.other = Line(self.address)
            self.other.socket.settimeout(SILENCE)
        path = f"/v1/subscriptions/{self.id}/request?n={n}"
        self.other.send(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode())
        status, _ = head(self.other)
        if status != 204:  # The stream has just ended.
            raise Gone(f"status {status}")

    def close(self):
        self.line.close()
        if self.other:
            self.other.close()


def head(line: Line) -> tuple[int, dict]:
    try:
        return line.head()
    except AssertionError as error:
        raise Gone("cut off") if str(error).startswith("the connection ended within a head") else error from None


class Subscriber(Client):
    """Resumes where it was. Asserts that nothing is missing without notice, repeated, or out of order."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.next, self.last, self.dropped = 1, None, 0

    @property
    def over(self) -> bool:
        """At the end, once everything is received."""
        return self.ledger.last is not None and self.next > self.ledger.last

    @property
    def query(self) -> str:
        position = f"from={self.next}&epoch={self.ledger.epoch}" if self.last else "replay=all"
        return f"{self.ledger.topic}?{position}&buffer=100000"

    def take(self, one: Message):
        dropped = one.dropped or 0
        assert one.sequence == self.next + dropped, (self.protocol, self.ledger.topic, self.next, one)
        self.ledger.note(one.epoch, one.sequence, one.data)
        self.next, self.last, self.dropped = one.sequence + 1, f"{one.epoch}-{one.sequence}", self.dropped + dropped
        self.progress()

    def follow(self, subscription):
        for count in range(1, 1 << 40):
            if isinstance(event := subscription.event(SILENCE), End):
                raise gone(event)
            self.take(event)
            if self.over:
                return
            if count % (WINDOW // 2) == 0:
                subscription.request(WINDOW // 2)

    def rsocket(self, node):
        with contextlib.closing(Peer(node.address)) as peer:
            self.follow(peer.subscribe(self.query, meta=True, n=WINDOW))

    def grpc(self, node):
        try:
            subscription = node.link().subscribe(self.query, n=WINDOW)
        except ValueError:
            raise Gone("closed by us") from None
        try:
            self.follow(subscription)
        finally:
            subscription.cancel()

    def sse(self, node):
        topic, _, query = self.query.partition("?")
        if self.last:
            query = "buffer=100000"
        with contextlib.closing(Events(node.http, topic, query, self.last, WINDOW)) as stream:
            self.follow(stream)


class Publisher(Client):
    """Publishes numbered messages. After a failure it asks another node for its last number, and goes on after it."""

    def __init__(self, nodes, ledger: Ledger, protocol: str, number: int, interval: float):
        super().__init__(nodes, ledger, protocol, number)
        self.name, self.interval, self.attempt = f"p{number}", interval, 0
        self.sent, self.due = 0, time.monotonic()
        ledger.acknowledged[self.name] = 0

    @property
    def acknowledged(self) -> int:
        return self.ledger.acknowledged[self.name]

    def payload(self, number: int) -> bytes:
        """Of this attempt: the payloads of two attempts differ."""
        text = f"{self.name} {number} {self.attempt} " + "." * self.dice.choice((0, 10, 100, 1000))
        self.ledger.sent.add(text.encode())
        self.sent = max(self.sent, number)
        return text.encode()

    def acknowledge(self, number: int):
        assert self.acknowledged <= number <= self.sent, (self.name, self.acknowledged, number, self.sent)
        self.ledger.acknowledged[self.name] = number
        self.progress()

    @property
    def over(self) -> bool:
        """Messages without an acknowledgement are sent again even when no new ones are."""
        return self.stopping.is_set() and self.acknowledged == self.sent

    def wait(self) -> bool:
        """Waits until the next message is due. Returns whether there is one."""
        self.due = max(self.due + self.interval, time.monotonic() - 1)
        self.stopping.wait(max(0, self.due - time.monotonic()))
        return not self.over

    def begin(self, node) -> Peer:
        """Asks for the last number."""
        self.attempt += 1
        peer = Peer(node.address)
        try:
            call = peer.call(f"$SYS.publisher.info?topic={self.ledger.topic}&publisher={self.name}")
            number = json.loads(peer.answer(call, SILENCE).data)["number"]
            assert self.acknowledged <= number <= self.sent, (self.name, self.acknowledged, number, self.sent)
            self.ledger.acknowledged[self.name] = number
            return peer
        except StreamError as error:
            peer.close()
            raise gone(error) from None
        except BaseException:
            peer.close()
            raise

    @property
    def options(self) -> str:
        return f"?publisher={self.name}&number={self.acknowledged + 1}"

    def rsocket(self, node):
        with contextlib.closing(self.begin(node)) as peer:
            while self.wait():
                number = self.acknowledged + 1
                payload = self.payload(number)
                try:
                    frame = peer.answer(peer.call(self.ledger.topic + self.options, payload), SILENCE)
                except StreamError as error:
                    raise gone(error) from None
                if frame.metadata is None:  # Otherwise it was published before, by another attempt.
                    self.ledger.note(self.ledger.epoch, int(frame.data), payload)
                self.acknowledge(number)

    def http(self, node):
        self.begin(node).close()
        with contextlib.closing(Line(node.http)) as line:
            line.socket.settimeout(SILENCE)
            while self.wait():
                number = self.acknowledged + 1
                payload = self.payload(number)
                line.send(post(self.ledger.topic, payload,
                               f"Forebay-Publisher: {self.name}\r\nForebay-Number: {number}\r\n".encode()))
                status, headers = head(line)
                body = line.input.read(int(headers["content-length"]))
                if status >= 500 or len(body) < int(headers["content-length"]):
                    raise Gone(f"status {status}")
                assert status in (200, 201), (status, body)
                if not json.loads(body).get("duplicate"):
                    self.ledger.note(int(json.loads(body)["epoch"]), json.loads(body)["sequence"], payload)
                self.acknowledge(number)

    def channel(self, node):
        with contextlib.closing(self.begin(node)) as peer:
            first = self.acknowledged + 1
            channel = peer.channel(self.ledger.topic + self.options, self.payload(first))
            # All duplicates may be acknowledged with the sequence of the last one.
            channel.acknowledge = lambda ack: self.acknowledge(first + ack[1] - 1)
            latest = time.monotonic()
            while not self.over:
                last = first + channel.sent
                ready = channel.credit > 0 and last - self.acknowledged < 8
                ready = ready and (last < self.sent or not self.stopping.is_set())
                if ready and time.monotonic() >= self.due:
                    self.due = max(self.due + self.interval, time.monotonic() - 1)
                    channel.force(self.payload(last + 1))
                before = self.acknowledged
                with contextlib.suppress(TimeoutError):
                    channel.event(min(max(0.001, self.due - time.monotonic()), 0.1) if ready else 0.1)
                if channel.ended:
                    raise gone(channel.ended)
                if self.acknowledged > before or last == before:
                    latest = time.monotonic()
                if time.monotonic() > latest + SILENCE:
                    raise Gone("silence")
