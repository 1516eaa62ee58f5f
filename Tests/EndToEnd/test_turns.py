"""No input of any client occupies a shard for longer than 20 ms of processor time. The same floods at full size, with
FOREBAY_HEAVY=full:  FOREBAY_HEAVY=full .venv/bin/python -m pytest -n 0 -s Tests/EndToEnd/test_turns.py
"""

import json
import socket
from random import Random

import http1
import http2
import pytest
import tls

from turns import *

pytestmark = [pytest.mark.rsocket, pytest.mark.timeout(300), release]
FULL = os.environ.get("FOREBAY_HEAVY") == "full"


@pytest.fixture
def turns(begin):
    """`turns(*options)` is a broker."""
    made = []

    def one(*options: str, threads=1) -> Turns:
        made.append(Turns(begin, *options, threads=threads))
        return made[-1]

    yield one
    for this in made:
        this.end()


def requests_of(wire: http2.Wire, field: tuple[str, str], fields: int, count: int) -> bytes:
    """`count` requests, each with `field` `fields` times. HPACK keeps the field in its table, so a reference takes one
    byte."""
    path = "/v1/topics/t/messages"
    request = (":method", "GET"), (":scheme", "http"), (":path", path), (":authority", wire.authority)
    flags = http2.END_HEADERS | http2.END_STREAM
    wire.send(http2.frame(http2.HEADERS, flags, 1, wire.block(*request, field)))
    wire.roundtrip()
    block = wire.block(*request) + wire.block(field) * fields
    return b"".join(http2.frame(http2.HEADERS, flags, stream, block) for stream in range(3, 2 * count + 3, 2))


REQUESTS = {
    "subscriptions": ("t.flood", raw.REQUEST_STREAM, b""),
    "block": ("t.flood?overflow=block", raw.REQUEST_STREAM, b""),
    "channels": ("t.flood", raw.REQUEST_CHANNEL, b"x"),
    "publishes": ("t.flood", raw.REQUEST_RESPONSE, b"x"),
    "fire": ("t.flood", raw.REQUEST_FNF, b"x"),
    "lists": ("$SYS.subscriptions", raw.REQUEST_STREAM, b""),
    "calls": ("$SYS.subscription.close?id=1", raw.REQUEST_RESPONSE, b""),
}


@pytest.mark.parametrize("what", REQUESTS)
@pytest.mark.parametrize("connections", [1, 5, 20, 60] if FULL else [1, 60])
def test_requests_given_up_at_once(turns, what, connections):
    """Subscriptions and cancels of 31 bytes a pair, and other requests, from a number of connections."""
    here, total = turns(), 400_000 if FULL else 30_000
    route, kind, data = REQUESTS[what]
    lines = [here.line() for _ in range(connections)]
    frames = pairs(route, total // connections, kind, data)
    for line in lines:
        line.queue(frames)
    throw(lines)
    here.check(f"{what} from {connections}")


@pytest.mark.parametrize("what", ["subscriptions", "channels", "publishes", "fire"])
def test_requests_to_topics_of_another_shard(turns, what):
    here = turns(threads=2)
    _, kind, data = REQUESTS[what]
    lines = [here.line() for _ in range(60)]
    for topic in ("t.1", "t.2", "t.3"):  # Each shard has at least one of these topics or the events.
        for line in lines:
            line.queue(pairs(topic, 10_000 if FULL else 1_000, kind, data))
        throw(lines)
    here.check(f"{what} from 60")


@pytest.mark.parametrize("policy", ["drop-oldest", "block"])
def test_twenty_thousand_join_and_leave(turns, policy):
    """One topic, two connections: some subscriptions leave one by one, the others with their connection."""
    here = turns()
    lines = [here.line() for _ in range(2)]
    for line in lines:
        line.queue(subscriptions(10_000, f"t.joins?overflow={policy}"))
    throw(lines)
    here.check("20,000 joins")
    lines[0].queue(cancels(10_000))
    throw(lines[:1])
    here.check("10,000 leaves")
    here.broker.peer().joined("t.joins", 10_000)
    lines[1].close()
    here.broker.peer().joined("t.joins", 0)
    here.check("a connection with 10,000 streams closes")


@pytest.mark.parametrize("many", [1, 2] if FULL else [1])
def test_a_connection_with_ten_thousand_waiting_channels_closes(turns, many):
    """The connection's user has used up the publish rate, and has as many channels on other connections."""
    here = turns("--publish-rate", "1000000")
    lines = [here.line() for _ in range(many)]
    route = raw.route("t.channels")
    watcher = here.broker.peer()
    # No more at a time than may wait to be opened.
    ids = list(streams(10_000))
    for first in range(0, 10_000, 2_000):
        for line in lines:
            line.queue(b"".join(raw.request(raw.REQUEST_CHANNEL, stream, b"x", route, raw.UNBOUNDED)
                                for stream in ids[first:first + 2_000]))
        throw(lines)
        eventually(lambda: watcher.info("t.channels")["publishers"],
                   lambda count: count == many * (first + 2_000), timeout=60)
    here.check(f"{many * 10_000} channels wait")
    for left in reversed(range(many)):
        lines[left].close()
        eventually(lambda: watcher.info("t.channels")["publishers"], lambda count: count == left * 10_000, timeout=60)
    here.check("they close")


def test_many_topics_come_rest_and_go(turns):
    here = turns()
    lines = [here.line() for _ in range(9 if FULL else 2)]
    for number, line in enumerate(lines):
        line.queue(subscriptions(10_000, lambda stream: f"t.{number}.{stream}"))
    throw(lines)
    here.check("10,000 topics for each connection")
    watcher = here.broker.peer()
    ticks = watcher.subscribe("$SYS.stats")
    for _ in range(3):
        ticks.take(1)
    here.check("they are at rest")
    for line in lines:
        line.close()
    eventually(lambda: here.admin.metrics()['forebay_connections{protocol="rsocket"}'], lambda count: count == 1)
    here.check("they are left")


def test_requests_over_http1(turns):
    """Several requests on each of many connections, all at once."""
    here, each = turns(), 100 if FULL else 20
    lines = [http1.Line(here.broker.http) for _ in range(1000 if FULL else 400)]
    requests = http1.post("t.flood", b"x") * each
    for line in lines:
        line.send(requests)
    for line in lines:
        for _ in range(each):
            assert line.answer()[0] == 200
    here.check(f"{each} requests on each of {len(lines)} connections")
    for line in lines:
        line.close()


def test_a_flood_of_http1_connections(turns):
    """Connections arrive faster than they are served, and close before they are served."""
    here, kept = turns(), []
    request = http1.post("t.flood", b"x")
    for _ in range(30_000 if FULL else 3_000):
        line = http1.Line(here.broker.http)
        line.send(request)
        kept.append(line)
        if len(kept) > 300:
            kept.pop(0).close()
    for line in kept:
        assert line.answer()[0] == 200
        line.close()
    here.check("connections with a request each")


def test_heads_that_are_complete_at_once(turns):
    here = turns()
    lines = [http1.Line(here.broker.http) for _ in range(8_000 if FULL else 1_000)]
    request = http1.post("t.flood", b"")
    for line in lines:
        line.send(request[:-1])
    # By then each connection has its state in the library.
    eventually(lambda: here.admin.metrics()['forebay_connections{protocol="http1"}'],
               lambda count: count == len(lines), timeout=60)
    here.complete(lines, request)
    for line in lines:
        assert line.answer()[0] == 200
        line.close()
    here.check(f"{len(lines)} heads")


def test_handshakes_that_expire_together(turns):
    here = turns(*tls.server().options, "--tls-except", "admin", "--setup-time", "2s")
    # The beginning of a ClientHello.
    hello = bytes.fromhex("1603010200010001fc0303") + bytes(60)
    clients = [socket.create_connection(here.broker.http) for _ in range(6_000 if FULL else 1_000)]
    for client in clients:
        client.sendall(hello)
    for client in clients:
        client.settimeout(60)
        while client.recv(1 << 10):
            pass
        client.close()
    here.check(f"{len(clients)} handshakes")


def test_requests_of_many_fields(turns):
    """Some 330 fields, each of one byte, in each of many requests on many connections."""
    here, count = turns(), 250
    wires = [http2.Wire(here.broker.http) for _ in range(40)]
    floods = [requests_of(wire, ("forebay-header-a", ""), 331, count) for wire in wires]
    with here.standing_still():
        for wire, flood in zip(wires, floods):
            wire.send(flood)
    for wire in wires:
        wire.roundtrip()
        wire.close()
    here.check(f"{count} requests of many fields on each of {len(wires)} connections")


def test_headers_that_expand_to_much(turns):
    """Some 90 bytes expand to nearly 16 times `max-headers`, and are answered with 431."""
    here = turns()
    wire = http2.Wire(here.broker.http)
    flood = requests_of(wire, ("x-a", "v" * 3500), 73, 900)
    with here.standing_still():
        wire.send(flood)
    wire.roundtrip()
    wire.close()
    here.check("900 requests with long headers")


def test_window_updates_for_many_streams(turns):
    """The connection's window grows a byte at a time, while those of its streams are closed."""
    here, count = turns(), 990
    wire = http2.Wire(here.broker.http, (4, 0))
    wire.send(*[wire.call(stream, http2.SUBSCRIBE, http2.open_of("t.windows")) for stream in streams(count)])
    peer = here.broker.peer()
    peer.joined("t.windows", count)
    peer.publish("t.windows", b"x" * 100)
    wire.roundtrip()
    # Each DATA frame that is not empty allows one WINDOW_UPDATE more.
    wire.send(http2.data(1, http2.framed(b"\x10\x01")) * 10_000)
    wire.roundtrip()
    with here.standing_still():
        assert wire.flood(http2.window_update(0, 1) * 11_900)
    wire.roundtrip()
    wire.close()
    here.check(f"11,900 updates for {count} streams")


@pytest.mark.parametrize("secured", [False, True], ids=["clear", "TLS"])
def test_much_to_read_at_once(turns, secured):
    """Each of many connections has sent part of a message that fills one read; over TLS, each byte of it in a separate
    record."""
    options = [*tls.server().options, "--tls-except", "admin"] if secured else []
    here = turns("--memory", "1G", *options)
    count, piece = (600, b"x" * 400) if secured else (400, b"x" * 96_000)
    # A frame that is much longer than what is sent of it.
    head = (200_000).to_bytes(3, "big") + raw.request(raw.REQUEST_FNF, 1, b"", raw.route("t.read"))[3:]
    lines = [raw.Connection(here.broker.address) for _ in range(count)]
    for line in lines:
        line.send(raw.setup())
        line.send(head)
    with here.standing_still():
        for line in lines:
            for part in [piece[n:n + 1] for n in range(len(piece))] if secured else [piece]:
                line.send(part)
    here.broker.peer().publish("t.other", b"x")
    here.check(f"{count} connections with {len(piece)} bytes each")
    for line in lines:
        line.close()


@pytest.mark.parametrize("form, byte", [("application/x-ndjson", b"\x01"), ("text/event-stream", b"\n")],
                         ids=["lines", "events"])
def test_histories_in_other_forms(turns, form, byte):
    """Readers that stall at different places of messages which take six times as much in their form: one is converted
    per turn, all of them use at most half of memory, and publishes to other topics succeed."""
    memory = 64 << 20
    here, text = turns("--memory", str(memory)), byte * ((1 << 20) - 100)
    publisher = here.broker.peer()
    for _ in range(15):
        publisher.publish("t.history", text)
    readers = [http1.Line(here.broker.http, receive_buffer=4096) for _ in range(200 if FULL else 60)]
    for number, line in enumerate(readers):
        replay = 15 - number % 15
        line.send(f"GET /v1/topics/t.history/messages?replay={replay} HTTP/1.1\r\nhost: localhost\r\n"
                  f"accept: {form}\r\n\r\n".encode())
    most = 0
    for _ in range(100):
        publisher.publish("t.other", b"x")
        most = max(most, here.admin.metrics()["forebay_memory_bytes"])
        time.sleep(0.02)
    for _ in range(10):
        publisher.publish("t.history", text)
        most = max(most, here.admin.metrics()["forebay_memory_bytes"])
    assert most <= memory
    here.check(f"{len(readers)} readers of a history, {most / memory:.2f} of memory at most")
    for line in readers:
        line.close()


@pytest.mark.parametrize("how", ["complete", "delete"])
def test_a_topic_of_many_ends(turns, how):
    here = turns()
    lines = [here.line() for _ in range(4)]
    for number, line in enumerate(lines):
        kind, data = (raw.REQUEST_STREAM, b"") if number % 2 else (raw.REQUEST_CHANNEL, b"x")
        for first in range(0, 20_000, 4_000):
            line.queue(b"".join(raw.request(kind, stream, data, raw.route("t.end"), raw.UNBOUNDED)
                                for stream in range(first + 1, first + 4_000, 2)))
            throw([line], also=[other for other in lines if other is not line])
    here.check("10,000 subscriptions and channels on each of 4 connections")
    here.broker.peer().control(f"$SYS.topic.{how}?name=t.end")
    for line in lines:
        line.queue(b"")
    throw(lines)
    here.check("the topic has ended")


def test_events_for_many(turns):
    """What one connection does is reported to every subscriber of the broker's events."""
    here, followers = turns(), [None] * (500 if FULL else 100)
    for index in range(len(followers)):
        followers[index] = here.line()
        followers[index].queue(subscriptions(1, "$SYS.events"))
    throw(followers)
    lines = [here.line() for _ in range(5)]
    for line in lines:
        line.queue(pairs("t.events", 20_000 if FULL else 500))
    throw(lines, also=followers)
    here.check(f"events for {len(followers)}")


@pytest.mark.parametrize("size", [1 << 10, 64 << 10, (1 << 20) - 1000])
@pytest.mark.parametrize("reading", [True, False], ids=["reading", "not reading"])
def test_large_messages_for_many(turns, size, reading):
    here, readers = turns("--memory", "64M"), []
    for _ in range(1000 if FULL else 150):
        readers.append(here.line())
        readers[-1].queue(subscriptions(1, "t.large"))
    throw(readers)
    here.check("before anything is published")
    publisher = here.line()
    route = raw.route("t.large")
    publisher.queue(b"".join(frame for _ in range(20) for frame in
                             raw.fragments(raw.REQUEST_FNF, 1, bytes(size), route, size=(1 << 24) - 1)))
    throw([publisher], also=readers if reading else [])
    here.check(f"20 messages of {size} bytes for {len(readers)}")


def test_positions_of_many(turns):
    """Clients that resume as many topics as they may, all at once."""
    here = turns()
    positions = json.dumps({f"t.{number}": ["1", 1] for number in range(10_000)}).encode()
    request = http1.post("t.*", positions, b"Accept: application/x-ndjson\r\n")
    lines = [http1.Line(here.broker.http) for _ in range(60 if FULL else 20)]
    for line in lines:
        line.send(request[:-1])
    here.complete(lines, request)
    for line in lines:
        assert line.head()[0] == 200
        line.close()
    here.check(f"{len(lines)} requests with 10,000 positions each")


@pytest.mark.parametrize("threads", [1, 2])
def test_new_topics_among_long_patterns(turns, threads):
    """Patterns that differ from the names only at the end, and between which the broker must choose at each token."""
    here, random = turns(threads=threads), Random(1)
    subscriber, publisher = here.line(), here.line()
    patterns = [".".join(random.choice("a*") for _ in range(110)) for _ in range(36)]
    subscriber.queue(b"".join(raw.request(raw.REQUEST_STREAM, stream, metadata=raw.route(f"{pattern}.z"), n=1)
                              for stream, pattern in zip(streams(36), patterns)))
    throw([subscriber])
    eventually(lambda: here.admin.metrics()["forebay_patterns"], lambda count: count == 36 * 28)
    topics = ["a." * 110 + str(number) for number in range(2_000 if FULL else 300)]
    publisher.queue(b"".join(raw.request(raw.REQUEST_FNF, stream, b"x", raw.route(topic))
                             for stream, topic in zip(streams(len(topics)), topics)))
    throw([publisher], [subscriber])
    eventually(lambda: here.admin.metrics()["forebay_topics"], lambda count: count >= len(topics))
    here.check(f"{len(topics)} topics and 36 patterns of 111 tokens")
