"""Limits on connections, users and addresses of a real broker with several threads: requests beyond them are refused
and counted, and others are not affected. Limits that can be reached only in the engine are tested in CoreTests."""

import contextlib
import http.client
import json
import signal
import socket
import time

import pytest
import requests

import access
import raw
from common import *
from faults import processor_time
from http2 import END_HEADERS, END_STREAM, HEADERS, REFUSED_STREAM, Wire, data, frame

pytestmark = pytest.mark.rsocket


def test_a_body_that_is_not_complete_counts_as_a_power_of_two(start):
    """Two of 40,000 bytes use up 128 KiB; so do four of 32,768."""
    broker = start("--max-unfinished", "128K", "--max-payload", "64K")
    for size, most in [(40_000, 2), (32_768, 4)]:
        with contextlib.closing(Wire(broker.http)) as wire:
            streams = [1 + 2 * i for i in range(most + 1)]
            for stream in streams:
                head = wire.request("POST", "/v1/topics/t.bodies/messages")
                wire.send(frame(HEADERS, END_HEADERS, stream, head))
                for at in range(0, size, 16_384):
                    wire.send(data(stream, bytes(min(size - at, 16_384))))
                wire.roundtrip()
                if stream != streams[-1]:
                    assert not wire.answers, (size, stream)
            wire.until(lambda this: streams[-1] in this.answers)
            assert wire.answers[streams[-1]].headers[":status"] == "429"
    broker.stop()


class Limited:
    """A broker with limits, and its clients."""

    def __init__(self, start, *options: str):
        self.broker = start("--admin", "127.0.0.1:0", *options)
        self.opened = []
        # If there are users, one of them reads the metrics.
        self.who = ("alice", "secret") if "-c" in options else None

    def reached(self) -> dict[str, int]:
        """How often each limit was reached, without those at 0."""
        with requests.Session() as session:
            session.trust_env = False
            answer = session.get("http://%s:%d/metrics" % self.broker.admin, auth=self.who, timeout=DEADLINE)
            assert answer.status_code == 200, answer.text
            text = answer.text
        family = 'forebay_limit_reached_total{limit="'
        rows = [line.removeprefix(family).split('"} ') for line in text.splitlines() if line.startswith(family)]
        return {name: int(count) for name, count in rows if int(count)}

    def logged(self, message: str) -> list[dict]:
        lines = [json.loads(line) for line in list(self.broker.log)]
        return [line for line in lines if line["message"] == message]

    def told(self, limit: str, cause: str):
        """Waits until the log warns that the limit was reached, and by which client."""
        eventually(lambda: [(line["level"], line["limit"], cause in line["cause"])
                            for line in self.logged("limit reached")], lambda lines: ("warn", limit, True) in lines)

    def peer(self, entry: bytes | None = None):
        self.opened.append(access.rsocket(self.broker, entry))
        return self.opened[-1]

    def post(self, topic: str, source="127.0.0.1", user: str | None = None, **headers: str) -> tuple[int, dict]:
        """Publishes over HTTP/1.1, on a separate connection."""
        line = http.client.HTTPConnection(*self.broker.http, timeout=DEADLINE, source_address=(source, 0))
        with contextlib.closing(line):
            if user:
                headers["authorization"] = access.basic(user, "secret")
            line.request("POST", f"/v1/topics/{topic}/messages", b"x", headers)
            answer = line.getresponse()
            return answer.status, json.loads(answer.read() or b"{}")

    def stop(self):
        for one in self.opened:
            one.close()
        self.broker.stop()


@pytest.fixture
def limited(start):
    started = []

    def begin(*options: str) -> Limited:
        started.append(Limited(start, *options))
        return started[-1]

    yield begin
    for one in started:
        one.stop()


@pytest.fixture
def users(start, tmp_path):
    """Options for a broker with two users."""
    hashed = access.password_hash(start.executable(), "secret")
    everything = dict.fromkeys(("publish", "subscribe", "control", "block"), [">", "$SYS.>"])
    return lambda **settings: ("-c", str(access.write(tmp_path, {
        "users": [{"name": name, "password": hashed, **everything} for name in ("alice", "bob")], **settings})))


ALICE, BOB = access.simple("alice", "secret"), access.simple("bob", "secret")


def refused(limited: Limited, reason: str):
    """A connection that is refused with a reason and ended, whether or not it sends anything."""
    with contextlib.closing(raw.Connection(limited.broker.address)) as line:
        with contextlib.suppress(OSError):
            line.send(raw.setup())
        error = line.frame(0)
        assert (error.kind, error.code) == (raw.ERROR, raw.REJECTED_SETUP) and reason in error.text
        line.end()


def refused_http2(limited: Limited, reason: str):
    """A refusal over HTTP/2: SETTINGS, and GOAWAY before any stream."""
    with socket.create_connection(limited.broker.http, timeout=DEADLINE) as line:
        line.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        answer = b""
        while piece := line.recv(4096):
            answer += piece
    assert answer[:9] == bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
    assert answer[12] == 7 and answer[18:26] == bytes(8) and reason in answer[26:].decode()


# Connections


def test_connections_in_all(limited):
    this = limited("--max-connections", "3")
    peers = [this.peer() for _ in range(3)]
    reason = "The broker has 3 connections, the maximum"
    refused(this, reason)
    refused_http2(this, reason)
    status, problem = this.post("t")
    assert (status, problem["type"]) == (503, "/problems/too-many-connections") and reason in problem["detail"]
    assert this.reached() == {"connections": 3}
    eventually(lambda: sum(int(line["attempts"]) for line in this.logged("connections refused")), lambda sum: sum == 3)
    for index, peer in enumerate(peers):
        assert peer.publish("t", b"x") == [index + 1]
    peers[0].close()
    eventually(lambda: len(peers[1].listing("$SYS.connections")), lambda count: count == 2)
    this.peer()


def test_connections_from_an_address(limited):
    this = limited("--max-connections-per-address", "3")
    peers = [this.peer() for _ in range(3)]
    for _ in range(3):
        refused(this, "Your address has 3 connections, the maximum; close some.")
    assert this.post("t", source="127.0.0.2")[0] == 200, "another address is not affected"
    assert this.reached() == {"connections-per-address": 3}
    peers[0].close()
    eventually(lambda: len(peers[1].listing("$SYS.connections")), lambda count: count == 2)
    assert this.post("t")[0] == 200


def test_connections_of_a_user(limited, users):
    this = limited(*users(**{"max-connections-per-user": 2}))
    peers = [this.peer(ALICE) for _ in range(2)]
    with pytest.raises(access.Rejected, match="User 'alice' has 2 connections"):
        this.peer(ALICE)
    status, problem = this.post("t", user="alice")
    assert (status, problem["type"]) == (429, "/problems/limit")
    this.peer(BOB)
    assert this.post("t", user="bob")[0] == 200
    assert this.reached() == {"connections-per-user": 2}
    this.told("connections-per-user", "User 'alice' has 2 connections")
    peers[0].close()
    eventually(lambda: this.post("t", user="alice")[0], lambda status: status == 200)


def test_streams_of_a_connection(limited):
    this = limited("--max-streams", "3")
    peer, other = this.peer(), this.peer()
    for index in range(3):
        peer.subscribe(f"t{index}")
    assert refusal(peer.subscribe("t3")).kind == Kind.REJECTED
    other.joined("t0", 1)
    with contextlib.closing(Wire(this.broker.http)) as wire:
        for stream in (1, 3, 5, 7):
            block = wire.request("GET", "/v1/topics/t/messages")
            wire.send(frame(HEADERS, END_STREAM | END_HEADERS, stream, block))
        assert wire.verdict(7).code == REFUSED_STREAM
    eventually(this.reached, lambda reached: reached == {"streams-per-connection": 2})
    assert other.publish("t0", b"x") == [1]


# Subscriptions and topics


def test_subscriptions(limited, users):
    this = limited(*users(**{"max-subscriptions": 3, "max-subscriptions-per-user": 2}))
    alice, more, bob = this.peer(ALICE), this.peer(ALICE), this.peer(BOB)
    first = alice.subscribe("t")
    more.subscribe("t")
    bob.joined("t", 2)
    assert "User 'alice' has 2 subscriptions" in refusal(alice.subscribe("t")).text
    bob.subscribe("t")
    bob.joined("t", 3)
    assert "The broker has 3 subscriptions" in refusal(bob.subscribe("t")).text
    assert this.reached() == {"subscriptions": 1, "subscriptions-per-user": 1}
    this.told("subscriptions-per-user", "User 'alice' has 2 subscriptions")
    this.told("subscriptions", "The broker has 3 subscriptions")
    first.cancel()
    bob.joined("t", 2)
    alice.subscribe("t")
    bob.joined("t", 3)


def test_topics(limited, users):
    this = limited(*users(**{"max-topics-per-user": 2}))
    alice, bob = this.peer(ALICE), this.peer(BOB)
    for topic in ("a", "b"):
        assert alice.publish(topic, b"x") == [1]
    with pytest.raises(StreamError, match="User 'alice' has created 2 topics"):
        alice.publish("c", b"x")
    status, problem = this.post("c", user="alice")
    assert (status, problem["type"]) == (429, "/problems/limit")
    assert bob.publish("c", b"x") == [1] and alice.publish("c", b"x") == [2]
    assert this.reached() == {"topics-per-user": 2}
    this.told("topics-per-user", "User 'alice' has created 2 topics")
    bob.control("$SYS.topic.delete", name="a")
    assert alice.publish("d", b"x") == [1]


# Sizes


def test_sizes(limited):
    this = limited("--max-payload", "1000", "--max-metadata", "100", "--max-headers", "1K")
    peer = this.peer()
    assert peer.publish("t", bytes(1000)) == [1]
    with pytest.raises(StreamError, match="1000"):
        peer.publish("t", bytes(1001))
    with pytest.raises(StreamError, match="100"):
        peer.answer(peer.call("t", b"x", extra=[(b"text/plain", bytes(100))]))
    assert this.post("t", **{"forebay-header-a": "x" * 200})[0] == 431
    assert this.post("t", cookie="x" * 1100)[0] == 431
    assert this.post("t", **{"content-type": "text/plain"})[0] == 200
    assert this.reached() == {"payload": 1, "metadata": 2, "headers": 1}


# Times


@pytest.mark.parametrize("face", ["address", "http"])
def test_setup_time(limited, face):
    this = limited("--setup-time", "500ms")
    peer = this.peer()
    began = time.monotonic()
    with socket.create_connection(getattr(this.broker, face), timeout=DEADLINE) as line:
        while line.recv(1000):
            pass
    assert time.monotonic() - began >= 0.45
    assert this.reached() == {"setup-time": 1}
    assert peer.publish("t", b"x") == [1]


# Rates


def test_a_channel_is_slowed_and_not_broken(limited, users):
    """Two channels of one user, on two threads, share the rate while another user publishes at full speed."""
    this = limited(*users(**{"publish-rate": 100}))
    alice, more, bob = this.peer(ALICE), this.peer(ALICE), this.peer(BOB)
    began = time.monotonic()
    channels = [peer.channel(f"slow{index}", b"0") for index, peer in enumerate((alice, more))]
    swift = bob.channel("swift", b"0")
    accepted = 2
    while time.monotonic() - began < 2.5:
        for channel in channels:
            channel.pump()
            while channel.credit > 0:
                channel.force(b"x")
                accepted += 1
        if swift.sent < 90:
            swift.send(b"x")
        for peer in (alice, more):  # Also reads the grants and acknowledgements received.
            peer.info("swift")
    bound = 100 * (time.monotonic() - began) + 100
    assert 200 < accepted <= bound + 1, (accepted, bound)
    for channel in channels:
        channel.complete()
        assert channel.end() == End()
    swift.complete()
    assert swift.end() == End() and swift.acks[-1][0] == 91
    assert sum(channel.acks[-1][0] for channel in channels) == accepted
    assert "publish-rate" in this.reached()


def test_acknowledged_publishes_wait_and_fire_is_dropped(limited, users):
    this = limited(*users(**{"publish-rate": 10, "park-time": "2s"}))
    alice, bob = this.peer(ALICE), this.peer(BOB)
    began = time.monotonic()
    assert alice.numbers("t", 1, 10) == list(range(1, 11))
    assert bob.publish("t", b"bob") == [11]
    assert this.post("t", user="alice")[1]["sequence"] == 12
    assert time.monotonic() - began >= 0.1, "it did not wait for its token"
    offers = [alice.offer("t", b"x") for _ in range(60)]
    alice.fire("t", b"fire")
    results = []
    for offer in offers:
        try:
            results.append(offer.sequence())
        except StreamError as error:
            assert "User 'alice' may publish 10 messages per second" in error.text
            results.append(None)
    taken = [one for one in results if one]
    assert taken == list(range(13, 13 + len(taken))) and 10 <= len(taken) < 60
    assert results[len(taken):] == [None] * (60 - len(taken)), "not in order of arrival"
    info = bob.info("t")
    assert info["published"] == 12 + len(taken)
    assert this.reached()["publish-rate"] >= 60
    assert bob.publish("t", b"bob") == [13 + len(taken)]


def test_bytes_a_second(limited, users):
    this = limited(*users(**{"publish-bytes": "10K", "park-time": "1s"}))
    alice, bob = this.peer(ALICE), this.peer(BOB)
    assert alice.publish("t", bytes(9000)) == [1]
    began = time.monotonic()
    assert alice.publish("t", bytes(9000)) == [2]
    assert time.monotonic() - began >= 0.6
    assert bob.publish("t", bytes(9000)) == [3]
    # A message larger than the whole allowance is accepted in the end, and charged at that time.
    assert alice.offer("u", bytes(100_000)).sequence() == 1
    status, problem = this.post("t", user="alice")
    assert (status, problem["type"]) == (429, "/problems/limit")
    assert {"publish-bytes", "park-time"} <= this.reached().keys()


def test_a_reload_changes_limits(limited, users):
    options = users(**{"publish-rate": 1, "max-subscriptions": 1})
    this = limited(*options)
    alice = this.peer(ALICE)
    alice.subscribe("t")
    offers = [alice.offer("t", b"x") for _ in range(5)]
    assert offers[0].sequence() == 1
    users(**{"max-subscriptions": 2})
    this.broker.process.send_signal(signal.SIGHUP)
    assert [offer.sequence() for offer in offers[1:]] == [2, 3, 4, 5]
    alice.subscribe("t")
    alice.joined("t", 2)
    assert refusal(alice.subscribe("t")).kind == Kind.REJECTED


@pytest.mark.slow
def test_channels_that_wait_for_tokens_leave_at_once(start, tmp_path):
    """If leaving took quadratic time, closing one of these connections would take seconds, during which nobody is
    served."""
    file = tmp_path / "forebayd.yaml"
    file.write_text("publish-rate: 1000000\n")
    broker = start("-c", str(file), "--max-parked", "10000", threads=1)
    lines = []
    for place in range(4):
        line = raw.Connection(broker.address)
        line.send(raw.setup())
        for at in range(0, 10_000, 500):
            line.send(*(raw.request(raw.REQUEST_CHANNEL, 2 * number + 1, b"x", raw.route(f"t{place}"), n=1)
                        for number in range(at, at + 500)))
            while line.pending(0):
                line.frame(0)
        lines.append(line)
    well = broker.peer()
    well.until("t3", lambda info: info["publishers"] == 10_000, 120)
    # From now on no channel can use what it was granted.
    file.write_text("publish-rate: 1\n")
    broker.process.send_signal(signal.SIGHUP)
    eventually(lambda: any('"reloaded"' in line for line in list(broker.log)), bool)
    spent = processor_time(broker.pid)
    lines[0].close()
    well.until("t0", lambda info: info["publishers"] == 0)
    assert processor_time(broker.pid) - spent < 1.5
    for line in lines[1:]:
        line.close()
    well.close()
    broker.stop()
