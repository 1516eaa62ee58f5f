"""Memory stays within its bound, whatever clients leave unread, hold open or send. These tests use a few hundred
connections; `heavy` has five thousand. Meanwhile, other clients are served. A client that did not read keeps its
connection and receives the count of its losses."""

import contextlib
import select
from concurrent.futures import ThreadPoolExecutor

import pytest

import tls
from http1 import GET, Line, post
from http2 import PUBLISH_ONE, Wire
from unread import *

pytestmark = [pytest.mark.rsocket, pytest.mark.timeout(180)]


def crowd_of(broker, protocol: str):
    attack(broker, protocol, count=400)
    broker.stop()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_clients_that_do_not_read(begin, protocol):
    crowd_of(begin(*OPTIONS), protocol)


@pytest.mark.parametrize("protocol", ["rsocket-meta", "grpc", "sse"])  # The others are encrypted in the same way.
def test_clients_that_do_not_read_over_tls(begin, protocol):
    crowd_of(begin(*OPTIONS, *tls.server().options), protocol)


@pytest.fixture
def bounded(begin):
    """A broker with a bound, and a client next to the attack that is served all the time."""

    def one(limit=LIMIT, threads=1):
        broker = begin("--memory", str(limit), "--threads", str(threads))
        wells.append(Well(broker))
        wells[-1].moves()
        bounds.append(Bound(broker, limit, threads))
        return broker, bounds[-1], wells[-1]

    wells, bounds = [], []
    yield one
    for bound, well in zip(bounds, wells):
        bound.tell(f"slowest beside {well.slowest:.2f} s")
        well.close()


def over(bound: Bound, well: Well, slowest=5.0):
    """The outcome of an attack."""
    bound.tell(f"slowest beside {well.slowest:.2f} s")
    bound.check()
    well.check(slowest)
    bound.broker.stop()


def pour(sockets: list, chunk: bytes, seconds: float, total: int, reads=True):
    """Sends up to `total` bytes to each socket, repeating the chunk, while it accepts them. Responses are read if
    `reads`; closed sockets are skipped."""
    end, left = time.monotonic() + seconds, {one.socket: total for one in sockets}
    for this in left:
        this.setblocking(False)
    while left and time.monotonic() < end:
        ready = {one.fileno(): one for one in left}
        poller = select.poll()
        for number in ready:
            poller.register(number, select.POLLOUT | (select.POLLIN if reads else 0))
        told = [(ready[number], what) for number, what in poller.poll(100)]
        readable = [one for one, what in told if what & ~select.POLLOUT]
        writable = [one for one, what in told if what & select.POLLOUT]
        for this in readable:
            with contextlib.suppress(BlockingIOError):
                try:
                    if not this.recv(1 << 16):
                        left.pop(this)
                except ConnectionError:
                    left.pop(this)
        for this in writable:
            if this not in left:
                continue
            try:
                at = (total - left[this]) % len(chunk)
                left[this] -= this.send(memoryview(chunk)[at : at + left[this]])
            except BlockingIOError:
                pass
            except ConnectionError:
                left.pop(this)
                continue
            if left[this] <= 0:
                left.pop(this)


def test_requests_that_are_never_whole(bounded):
    """3.75 MB in fragments on each of 100 connections: accepted while there is memory, then refused."""
    broker, bound, well = bounded()
    crowd = [raw.Connection(broker.address) for _ in range(100)]
    piece = bytes(62_500)
    for one in crowd:
        one.send(raw.setup())
    well.moves()
    bound.everybody_is_there()
    route = raw.route("unfinished")
    chunk = b"".join(
        raw.request(raw.REQUEST_RESPONSE, stream, piece, route, flags=raw.F)
        + raw.request(raw.PAYLOAD, stream, piece, flags=raw.F | raw.N) * 14 for stream in range(1, 9, 2))
    pour(crowd, chunk, 20, len(chunk))
    well.moves(50)
    over(bound, well)
    for one in crowd:
        one.close()


@pytest.mark.parametrize("form", ["grpc", "post2"])
def test_bodies_that_are_never_whole(bounded, form):
    """40 requests on each of 60 connections over HTTP/2, or as many as the windows allow."""
    broker, bound, well = bounded()
    crowd = [Wire(broker.http) for _ in range(60)]
    bound.everybody_is_there()
    for wire in crowd:
        wire.until(lambda this: this.settings)
        room = min(900_000, wire.settings.get(4, 65_535))
        for stream in range(1, 81, 2):
            if form == "grpc":
                head, body = wire.call(stream, PUBLISH_ONE), struct.pack(">BI", 0, MIB - 1000)
            else:
                head, body = frame(HEADERS, END_HEADERS, stream, wire.request("POST", path("unfinished"))), b""
            parts = [data_frame(stream, (body + bytes(16_384))[:16_384])]
            parts += [data_frame(stream, bytes(16_384))] * (room // 16_384 - 1)
            if not wire.flood(head, *parts):
                break  # The request is refused.
    well.moves(50)
    over(bound, well)
    for wire in crowd:
        wire.close()


def test_bodies_of_http1_that_are_never_whole(bounded):
    """1 MB on each of 200 connections, with one byte missing."""
    broker, bound, well = bounded()
    crowd = [Line(broker.http) for _ in range(200)]
    well.moves()
    bound.everybody_is_there()
    request = post("unfinished", bytes(1_000_000))[:-1]
    pour(crowd, request, 20, len(request))
    well.moves(50)
    over(bound, well)
    for line in crowd:
        line.close()


def test_heads_of_http1_without_bodies(bounded):
    """So many heads that the broker's state for them would use all memory: beyond half of it, requests are refused."""
    broker, bound, well = bounded()
    count = 2 * LIMIT // (32 << 10)
    control, head = broker.peer(), post("unfinished", bytes(100_000))[:-100_000]
    crowd = [Line(broker.http) for _ in range(count)]
    for line in crowd:
        line.send(head)
    well.moves(50)
    assert control.control("$SYS.info")["memory"] <= LIMIT * 3 // 4
    refused = count * 3 // 8
    for line in reversed(crowd[-refused:]):
        assert line.answer()[0] == 429
    over(bound, well)
    for line in (*crowd, control):
        line.close()


@pytest.mark.parametrize("sent", [GET[:20], GET], ids=["the beginning of a request", "a request"])
def test_idle_connections_of_http1(bounded, sent):
    """Idle connections use at most an eighth of the memory for messages: beyond that, connections close after a
    response."""
    broker, bound, well = bounded()
    control = broker.peer()
    used = lambda: control.control("$SYS.info")["memory"]
    before, crowd, ended = used(), [Line(broker.http) for _ in range(1000)], 0
    for line in crowd:
        line.send(sent)
        if sent == GET:
            assert line.answer()[0] == 404
            ended += line.headers.get("connection", "").lower() == "close"
    assert ended == (1000 - LIMIT // 8 // (32 << 10) if sent == GET else 0)
    eventually(lambda: used() - before, lambda more: more <= LIMIT // 8 + MIB)
    bound.tell(f"{used() - before >> 10} KiB of memory")
    over(bound, well)
    for line in (*crowd, control):
        line.close()


def test_events(bounded):
    """Subscribing and canceling at full speed, with every event sent to another shard that is busy with the same work.
    Nobody reads the events."""
    broker, bound, well = bounded(LIMIT // 4, threads=2)
    control, peers = broker.peer(), [broker.peer() for _ in range(12)]
    watchers = [broker.peer(receive_buffer=4096) for _ in range(2)]
    for one in (*peers, *watchers):
        one.subscribe("$SYS.events" if one in watchers else "beside")
    control.joined("beside", len(peers))
    shards = {row["peer"]: int(row["id"].split("-")[0]) for row in control.listing("$SYS.connections")}
    there = owner("$SYS.events", 2)
    first = [peer for peer in peers if shards[peer.peer] != there][:1]
    others = [peer for peer in peers if shards[peer.peer] == there][:3]
    topics = {owner(name, 2): name for name in (f"churn.{number}" for number in range(50))}
    bound.everybody_is_there()
    with ThreadPoolExecutor() as pool:
        for peer in first + others:
            route = raw.route(topics[shards[peer.peer]])
            chunk = b"".join(raw.request(raw.REQUEST_STREAM, stream, metadata=route, n=1) + raw.cancel(stream)
                             for stream in range(101, 40_001, 2))
            pool.submit(pour, [peer], chunk, 8, len(chunk) * 1000)
    over(bound, well, slowest=10)
    for one in (control, *peers, *watchers):
        one.close()


def owner(topic: str, shards: int) -> int:
    """The shard that owns a topic."""
    number = 0xCBF29CE484222325
    for byte in topic.encode():
        number = (number ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return (number >> 8) % shards


def test_publishes_to_a_shard_that_is_behind(bounded):
    """Fire-and-forget from many connections to a topic whose shard is busier than theirs."""
    broker, bound, well = bounded(threads=2)
    readers = [RSocket(broker, "behind") for _ in range(300)]
    crowd = [raw.Connection(broker.address) for _ in range(150)]
    for one in crowd:
        one.send(raw.setup())
    well.moves()
    bound.everybody_is_there()
    chunk = b"".join(raw.request(raw.REQUEST_FNF, stream, bytes(1000), raw.route("behind"))
                     for stream in range(1, 4001, 2))
    pour(crowd, chunk, 8, len(chunk))
    over(bound, well, slowest=20)
    for one in (*readers, *crowd):
        one.close()


def test_a_message_of_many_empty_entries(bounded):
    """16,000 metadata entries in one message, for 300 readers of NDJSON: they are refused, or share a single copy."""
    broker, bound, well = bounded()
    readers, control = [HTTP1Lines(broker, "entries") for _ in range(300)], broker.peer()
    control.joined("entries", 300)
    bound.everybody_is_there()
    well.moves()
    with contextlib.suppress(StreamError):
        control.publish("entries", b"1|", extra=[(0x05, b"")] * 16_000)
    well.moves(50)
    over(bound, well, slowest=0.5)
    for one in (*readers, control):
        one.close()


def test_messages_for_clients_that_can_resume(bounded):
    """Copies are kept for clients that may resume: 20 messages of a megabyte, and 400 clients that acknowledge
    nothing."""
    broker, bound, well = bounded()
    crowd = [raw.Connection(broker.address, receive_buffer=4096) for _ in range(400)]
    for number, one in enumerate(crowd):
        one.send(raw.setup(flags=raw.R, token=b"%020d" % number))
        one.send(raw.request(raw.REQUEST_STREAM, 1, metadata=raw.route("kept?buffer=16"), n=raw.UNBOUNDED))
    control = broker.peer()
    control.joined("kept", 400)
    bound.everybody_is_there()
    for _ in range(20):
        with contextlib.suppress(StreamError):
            control.publish("kept", bytes(MIB - 64))
    well.moves(50)
    over(bound, well)
    for one in (control, *crowd):
        one.close()


def requests(kind: int, count: int, route: str, body=b"", flags=0) -> bytes:
    return b"".join(raw.request(kind, stream, body, raw.route(route), flags=flags)
                    for stream in range(1, 2 * count, 2))


# What connections send, and their number: each stays within the limits of one connection.
HOARDS = {
    "frames without their last byte": (200, lambda: requests(raw.REQUEST_RESPONSE, 1, "hoard", bytes(1_000_000))[:-1]),
    "unfinished requests of a byte": (1500, lambda: requests(raw.REQUEST_RESPONSE, 255, "hoard", b"x", raw.F)),
    "refusals that are not read": (1000, lambda: requests(raw.REQUEST_RESPONSE, 4000, "not a name")),
    "publishes that wait": (300, lambda: requests(raw.REQUEST_RESPONSE, 4000, "full", bytes(1000))),
}


@pytest.mark.parametrize("what", HOARDS)
def test_hoards(bounded, what):
    broker, bound, well = bounded()
    count, chunk = HOARDS[what][0], HOARDS[what][1]()
    full = broker.peer()
    full.subscribe("full?overflow=block&buffer=1", n=1)
    full.joined("full", 1)
    crowd = [raw.Connection(broker.address, receive_buffer=4096) for _ in range(count)]
    for one in crowd:
        one.send(raw.setup())
    well.moves()
    bound.everybody_is_there()
    pour(crowd, chunk, 5, len(chunk), reads=False)
    well.moves(50)
    over(bound, well)
    for one in (full, *crowd):
        one.close()


def test_answers_over_http2_that_are_not_read(bounded):
    """2,000 requests on each of 500 connections, or as many as are accepted."""
    broker, bound, well = bounded()
    crowd = [Wire(broker.http, receive_buffer=4096) for _ in range(500)]
    well.moves()
    bound.everybody_is_there()
    for wire in crowd:
        wire.socket.settimeout(0.01)
        with contextlib.suppress(OSError):
            wire.send(*(frame(HEADERS, END_HEADERS | END_STREAM, stream,
                              wire.request("POST", "/v1/subscriptions/none/request?n=1"))
                        for stream in range(1, 4001, 2)))
    well.moves(50)
    over(bound, well)
    for wire in crowd:
        wire.close()
