"""A proxy cuts the connection at every byte of a conversation, in each direction. A client that resumes its connection
loses and duplicates nothing in either direction. A client that returns by epoch and sequence loses and duplicates no
delivery."""

import base64
import contextlib
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

import raw
from client import Peer
from common import *
from curl import path
from grpc_client import pb
from http1 import get
from http2 import END_HEADERS, END_STREAM, HEADERS, SUBSCRIBE, Wire, data, frame, framed
from proxy import Proxy
from resuming import Resuming, check, converse

pytestmark = pytest.mark.rsocket
AT_ONCE = 6
PAYLOADS = [b"one", b"two", b"three", b"\x00\xff", b"five"]
BEFORE = 3  # The number of messages that exist when the reader arrives.


def at_every_place(address, direction: str, hold, first=1):
    """Holds a conversation through a proxy for each byte of it in this direction, from the `first` one on."""
    def cut_at(place: int) -> bool:
        with contextlib.closing(Proxy(address, place=(direction, place))) as proxy:
            hold(proxy.address, place)
        return proxy.connections > 1

    with contextlib.closing(Proxy(address)) as proxy:
        hold(proxy.address, 0)
    places = range(first, proxy.bytes[direction] + 1)
    with ThreadPoolExecutor(AT_ONCE) as threads:
        came_back = sum(threads.map(cut_at, places))
    # Messages are not always batched in the same way, and the total length varies. Losing the last bytes has no effect.
    print(f"{came_back} of {len(places)} clients resumed")
    assert 0.8 * len(places) <= came_back and len(places) > 80


@pytest.mark.parametrize("direction", ["in", "out"])
def test_a_socket_that_breaks_anywhere_loses_and_doubles_nothing(broker, topic, direction):
    def one(address, place: int):
        this = converse(Resuming(address, comes_back=True), f"{topic}.{place}")
        check(this)
        this.end()

    # A break before SETUP is accepted leaves no session.
    first = len(raw.keepalive()) + (len(raw.setup(flags=raw.R, token=bytes(16))) if direction == "out" else 0)
    at_every_place(broker.address, direction, one, first + 1)


# By epoch and sequence. Each protocol's function yields what arrives over one connection, and the end if it arrives.


def rsocket(address, topic: str, last: Message | None):
    token = f"from={last.sequence + 1}&epoch={last.epoch}&gap=fail" if last else "replay=all"
    with contextlib.closing(Peer(address)) as peer:
        subscription = peer.subscribe(f"{topic}?{token}", n=2, meta=True)
        while not isinstance(event := subscription.event(), End):
            yield event
            subscription.request(1)
        yield event


def grpc(address, topic: str, last: Message | None):
    token = dict(from_sequence=last.sequence + 1, epoch=last.epoch, gap_fail=True) if last else dict(replay_all=True)
    with contextlib.closing(Wire(address)) as wire:
        first = pb.SubscribeRequest(open=pb.Open(topic=topic, request_n=2, **token))
        wire.send(wire.call(1, SUBSCRIBE, first.SerializeToString()))
        rest, epoch = b"", 0
        for piece in body_of_stream(wire):
            rest += piece
            while len(rest) >= 5 and len(rest) >= (size := 5 + int.from_bytes(rest[1:5], "big")):
                response, rest = pb.SubscribeResponse.FromString(rest[5:size]), rest[size:]
                epoch = response.epoch or epoch
                for one in response.messages:
                    yield Message(one.payload, epoch, one.sequence, dropped=response.dropped)
                    wire.send(data(1, framed(pb.SubscribeRequest(request_n=1).SerializeToString())))
        assert wire.answers[1].status == 0 and not rest
        yield End()


def body_of_stream(wire: Wire):
    """What arrives on stream 1, piece by piece."""
    count = 0
    while True:
        wire.until(lambda this: this.closed or 1 in this.ended or (1 in this.answers and this.answers[1].body[count:]))
        body = wire.answers[1].body if 1 in wire.answers else b""
        yield body[count:]
        count = len(body)
        if 1 in wire.ended:
            return
        if wire.closed:
            raise ConnectionResetError


def event_stream_2(address, topic: str, last: Message | None):
    with contextlib.closing(Wire(address)) as wire:
        head = wire.request("GET", path(topic, "replay=all"), *([("last-event-id", event_id(last))] if last else []))
        wire.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, head))
        yield from events(body_of_stream(wire))


def event_stream_1(address, topic: str, last: Message | None):
    more = f"Last-Event-ID: {event_id(last)}\r\n".encode() if last else b""
    with socket.create_connection(address, timeout=DEADLINE) as line:
        line.sendall(get(topic, "replay=all", more))
        yield from events(body_of_line(line))


def event_id(message: Message) -> str:
    return f"{message.epoch}-{message.sequence}"


def body_of_line(line: socket.socket):
    """What arrives in chunks, piece by piece."""
    text, count, body = b"", 0, b""
    while b"\r\n\r\n" not in text:
        text += received(line)
    head, text = text.split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 200"), head
    while True:
        body, at = b"", 0
        while (end := text.find(b"\r\n", at)) >= 0 and (size := int(text[at:end], 16)):
            body += text[end + 2:end + 2 + size]
            at = end + 2 + size + 2
        yield body[count:]
        count = len(body)
        if end >= 0:
            return
        text += received(line)


def received(line: socket.socket) -> bytes:
    piece = line.recv(1 << 16)
    if not piece:
        raise ConnectionResetError
    return piece


def events(pieces):
    rest = b""
    for piece in pieces:
        *blocks, rest = (rest + piece).split(b"\n\n")
        for block in blocks:
            fields = dict(line.split(": ", 1) for line in block.decode().split("\n") if not line.startswith(":"))
            kind = fields.get("event", "message")
            if kind in ("message", "base64") and "data" in fields:
                epoch, sequence = fields["id"].split("-")
                text = fields["data"]
                yield Message(base64.b64decode(text, validate=True) if kind == "base64" else text.encode(),
                              int(epoch), int(sequence), dropped=0)
            elif fields:
                assert kind in ("subscribed", "complete"), block
                if kind == "complete":
                    yield End()


FACES = [rsocket, grpc, event_stream_1, event_stream_2]


@pytest.mark.parametrize("direction", ["in", "out"])
@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_a_reader_by_epoch_and_sequence_misses_nothing_wherever_it_is_cut(broker, topic, face, direction):
    def one(address, place: int):
        """Reads a topic to its end, over at most two connections. The rest of the topic and its end are published when
        the reader has the initial messages."""
        name, got, over = f"{topic}.{place}", [], False
        with contextlib.closing(broker.peer()) as publisher:
            publisher.publish(name, *PAYLOADS[:BEFORE])
            for _ in range(2):
                with contextlib.suppress(ConnectionError):
                    for event in face(address, name, got[-1] if got else None):
                        assert not over, f"{event} after the end"
                        if isinstance(event, End):
                            assert event.kind is None, event
                            over = True
                            continue
                        got.append(event)
                        if len(got) == BEFORE:
                            publisher.publish(name, *PAYLOADS[BEFORE:])
                            publisher.control("$SYS.topic.complete", name=name)
                if over:
                    break
        assert over and [one.data for one in got] == PAYLOADS
        assert [one.sequence for one in got] == list(range(1, len(PAYLOADS) + 1))
        assert len({one.epoch for one in got}) == 1 and not any(one.dropped for one in got)

    at_every_place(broker.address if face is rsocket else broker.http, direction, one)
