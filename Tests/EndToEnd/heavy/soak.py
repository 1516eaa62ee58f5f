"""The participants of the soak: publishers of each kind, subscribers of each policy over each protocol, and clients
that come, go, and are cut off. Each is a thread that takes small steps and checks what it sees at each step."""

import contextlib
import json
import random
import signal
import socket
import struct
import threading
import time

import grpc
import requests

import raw
import tls
from client import Peer
from common import *
from grpc_client import pb, services
from http1 import Line, get, post

POLICIES = ["drop-oldest", "drop-newest", "replace-newest", "latest", "fail", "block"]


class Role(threading.Thread):
    """`step` is called repeatedly until the soak has ended. Exceptions in a step fail the soak."""

    def __init__(self, broker, name: str, pause=0.01):
        super().__init__(name=name, daemon=True)
        self.broker, self.pause, self.dice = broker, pause, random.Random(name)
        self.failure, self.steps, self.stopped = None, 0, threading.Event()

    def run(self):
        try:
            while not self.stopped.wait(self.pause):
                self.step()
                self.steps += 1
        except BaseException as failure:
            self.failure = failure

    def stop(self):
        self.stopped.set()
        self.join(60)
        assert not self.is_alive(), f"{self.name} hangs"
        if self.failure:
            raise AssertionError(f"{self.name}: {self.failure!r}") from self.failure

    def close(self):
        pass


# Publishers: each has its own topic and counts what it published.


class Acknowledged(Role):
    def __init__(self, broker, topic: str, transport: str, size=200):
        super().__init__(broker, f"acknowledged {topic}", 0.03)
        self.peer, self.topic, self.body, self.count = broker.peer(transport), topic, bytes(size), 0

    def step(self):
        bodies = [b"%d " % (self.count + index) + self.body for index in range(1, 9)]
        sequences = self.peer.publish(self.topic, *bodies)
        assert sequences == list(range(self.count + 1, self.count + 9)), (sequences, self.count)
        self.count += 8

    def close(self):
        self.peer.close()


class Posted(Role):
    """Acknowledged publishes by POST, on one connection."""

    def __init__(self, broker, topic: str):
        super().__init__(broker, f"posted {topic}", 0.02)
        self.line, self.topic, self.count = Line(broker.http), topic, 0

    def step(self):
        self.line.send(post(self.topic, b"%d" % (self.count + 1)))
        status, body = self.line.answer()
        self.count += 1
        assert status == 200 and json.loads(body)["sequence"] == self.count, (status, body)

    def close(self):
        self.line.close()


class Channelled(Role):
    """Channels, one after another, each of a few hundred messages under the broker's credit."""

    def __init__(self, broker, topic: str, transport: str):
        super().__init__(broker, f"channel {topic}", 0.01)
        self.peer, self.topic, self.count = broker.peer(transport), topic, 0

    def step(self):
        channel = self.peer.channel(self.topic, b"%d" % (self.count + 1))
        length = self.dice.randint(1, 400)
        for index in range(2, length + 1):
            # A `block` subscriber may stall for a while.
            channel.until(lambda: channel.credit > 0, timeout=60)
            channel.send(b"%d" % (self.count + index))
        channel.complete()
        channel.until(lambda: channel.ended is not None, timeout=60)
        assert channel.ended == End(), channel.ended
        self.count += length

    def close(self):
        self.peer.close()


class Fired(Role):
    def __init__(self, broker, topic: str):
        super().__init__(broker, f"fired {topic}", 0.02)
        self.peer, self.topic, self.count = broker.peer(), topic, 0

    def step(self):
        for _ in range(10):
            self.peer.fire(self.topic, b"x" * self.dice.randint(0, 2000))
            self.count += 1
        self.peer.info(self.topic)

    def close(self):
        self.peer.close()


# Subscribers


class Subscribed(Role):
    """Requests now and then, stalls now and then, and counts: every missing message was reported as lost."""

    def __init__(self, broker, topic: str, transport: str, policy: str, buffer: int):
        super().__init__(broker, f"{policy} {topic} {transport} {buffer}", 0)
        self.peer, self.topic, self.policy, self.buffer = broker.peer(transport), topic, policy, buffer
        self.last = self.received = self.lost = self.renewed = 0
        self.subscription = self.subscribe()

    def subscribe(self, token=""):
        path = f"{self.topic}?overflow={self.policy}&buffer={self.buffer}{token}"
        return self.peer.subscribe(path, n=self.dice.randint(1, 100), meta=True)

    def step(self):
        if self.dice.random() < 0.0005:
            self.stopped.wait(self.dice.random() * 3)
        try:
            self.take(self.subscription.event(0.1))
        except TimeoutError:
            pass
        if self.subscription.ended is None and self.subscription.asked - self.subscription.received < 20:
            self.subscription.request(self.dice.randint(1, 200))

    def take(self, event):
        if isinstance(event, End):
            assert event.kind == Kind.OVERFLOW and self.policy == "fail", (self.name, event)
            self.renewed += 1
            self.subscription = self.subscribe(f"&from={self.last + 1}&epoch={self.epoch}")
            return
        assert event.sequence == self.last + 1 + event.dropped, (self.name, self.last, event)
        self.last, self.epoch = event.sequence, event.epoch
        self.received, self.lost = self.received + 1, self.lost + event.dropped

    def settle(self, published: int):
        """Waits until the remaining messages have arrived, as nothing more is published; checks the broker's ledger."""
        end = time.monotonic() + 60
        while True:
            self.step()
            (row,) = [row for row in self.peer.ledger(self.topic) if row["peer"] == self.peer.peer] or [None]
            # Over gRPC the last request may still be in flight when the list is made.
            if (row and self.policy != "fail" and not row["waiting"] and row["delivered"] == self.received
                    and row["requested"] == self.subscription.asked):
                break
            if self.policy == "fail" and self.last == published:
                break
            assert time.monotonic() < end, (self.name, row, self.received, published)
        if self.policy == "block":
            assert row["dropped"] == 0, row
        if self.policy != "fail":
            assert row["delivered"] + row["dropped"] == published, (self.name, row, published)
            # A loss after the last message would be reported with the next message, which does not exist.
            assert self.lost <= row["dropped"], row
            asked = self.subscription.asked
            assert row["requested"] == asked == row["delivered"] + row["outstanding"], (row, asked)

    def close(self):
        self.peer.close()


class Streamed(Role):
    """An event stream over HTTP/1.1 that is left and resumed by the id of its last event."""

    def __init__(self, broker, topic: str):
        super().__init__(broker, f"streamed {topic}", 0)
        self.topic, self.id, self.received, self.line = topic, None, 0, None
        self.open()

    def open(self):
        self.line = Line(self.broker.http)
        more = b"Last-Event-ID: %s\r\n" % self.id.encode() if self.id else b""
        self.line.send(get(self.topic, "buffer=100000", more))
        assert self.line.head()[0] == 200

    def step(self):
        for line in self.line.chunk().decode().split("\n"):
            if line.startswith("id: "):
                sequence = int(line.split("-")[1])
                former = int(self.id.split("-")[1]) if self.id else sequence - 1
                # Between two connections of the stream, more messages may be published than are retained.
                assert sequence > former, (self.id, line)
                self.id, self.received = line[4:], self.received + 1
        if self.dice.random() < 0.002:
            self.line.close()
            self.open()

    def close(self):
        self.line.close()


# Clients that come and go


class Churn(Role):
    """Connections of every kind that end in every way."""

    def __init__(self, broker, number: int):
        super().__init__(broker, f"churn {number}", 0.02)

    def step(self):
        kind = self.dice.choice([self.subscriber, self.subscriber, self.half, self.request, self.grpc, self.garbage])
        kind()

    def subscriber(self):
        peer = Peer(self.broker.address)
        subscriptions = []
        for _ in range(self.dice.randint(1, 5)):
            policy, buffer = self.dice.choice(POLICIES[:5]), self.dice.randint(1, 500)
            topic = self.dice.choice(["s.acknowledged", "s.grpc", "s.posted", f"c.{self.dice.randint(0, 50)}"])
            replay = self.dice.choice(["0", "10", "all"])
            subscriptions.append(peer.subscribe(f"{topic}?overflow={policy}&buffer={buffer}&replay={replay}",
                                                n=self.dice.choice([1, 10, UNBOUNDED])))
        for one in subscriptions[::2]:
            with contextlib.suppress(TimeoutError):
                one.event(0.05)
            one.cancel()
        peer.info("s.acknowledged")
        if self.dice.random() < 0.5:  # With a reset.
            peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()

    def half(self):
        with socket.create_connection(self.broker.address) as line:
            line.sendall(raw.setup()[:self.dice.randint(0, 30)])

    def garbage(self):
        with socket.create_connection(self.broker.address) as line, contextlib.suppress(OSError):
            line.sendall(raw.setup() + self.dice.randbytes(5000))

    def request(self):
        line = Line(self.broker.http)
        line.send(get("s.posted", "request=3"))
        assert line.head()[0] == 200
        line.close()

    def grpc(self):
        trusted = grpc.ssl_channel_credentials(open(tls.authority().file, "rb").read())
        settings = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
        with grpc.secure_channel("%s:%d" % self.broker.http, trusted, settings) as channel:
            opening = pb.Open(topic="s.acknowledged", request_n=5, replay_last=self.dice.randint(0, 10))
            call = services.PubSubStub(channel).Subscribe(iter([pb.SubscribeRequest(open=opening)]), timeout=30)
            next(call)
            if self.dice.random() < 0.5:
                call.cancel()


class Endings(Role):
    """Topics that are created, ended in each way, and deleted. Their subscribers are notified."""

    def __init__(self, broker):
        super().__init__(broker, "endings", 0.05)
        self.peer = broker.peer()

    def step(self):
        topic = f"e.{self.steps}"
        subscription = self.peer.subscribe(topic)
        self.peer.numbers(topic, 1, 20)
        how = self.dice.choice(["complete", "fail", "delete"])
        more = {"message": "soaked"} if how == "fail" else {}
        self.peer.control(f"$SYS.topic.{how}", name=topic, **more)
        assert subscription.data(20) == numbers(1, 20)
        end = subscription.end()
        assert end == {"complete": End(), "fail": failed("soaked"), "delete": failed("deleted")}[how], end
        if how != "delete":
            with contextlib.suppress(StreamError):  # The topic may have been removed as idle.
                self.peer.control("$SYS.topic.delete", name=topic)

    def close(self):
        self.peer.close()


class Deaf(Role):
    """Requests everything, and leaves its socket unread for seconds at a time."""

    def __init__(self, broker, topic: str):
        super().__init__(broker, f"deaf {topic}", 0)
        self.peer, self.last, self.received, self.topic = Peer(broker.address, receive_buffer=8192), 0, 0, topic
        self.subscription = self.peer.subscribe(topic, n=UNBOUNDED, meta=True)

    def step(self):
        self.stopped.wait(self.dice.random() * 2)
        with contextlib.suppress(TimeoutError):
            for _ in range(self.dice.randint(1, 5000)):
                message = self.subscription.event(0.05)
                assert message.sequence == self.last + 1 + message.dropped, (self.last, message)
                self.last, self.received = message.sequence, self.received + 1

    def close(self):
        self.peer.close()


class Reloads(Role):
    def __init__(self, broker, file):
        super().__init__(broker, "reloads", 2)
        self.file = file

    def step(self):
        settings = {"topic-idle": "2s", "retain": 1000 + self.steps % 2 * 100, "park-time": "30s",
                    "topics": [{"match": "c.*", "retain": 1 + self.steps % 3}]}
        self.file.write_text(json.dumps(settings))
        self.broker.process.send_signal(signal.SIGHUP)


class Scrapes(Role):
    PATHS = ["metrics?subscriptions=1", "api/v1/overview", "api/v1/topics?limit=7", "api/v1/connections",
             "api/v1/subscriptions", "api/v1/stats", "readyz"]

    def __init__(self, broker):
        super().__init__(broker, "scrapes", 0.3)
        self.session = requests.Session()
        self.session.trust_env = False

    def step(self):
        one = self.PATHS[self.steps % len(self.PATHS)]
        answer = self.session.get("http://%s:%d/%s" % (*self.broker.admin, one), timeout=30)
        assert answer.status_code == 200, (one, answer.text)
        if not self.steps % 10:
            self.session.close()

    def close(self):
        self.session.close()
