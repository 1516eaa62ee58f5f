"""Fragments, in both directions."""

import pytest

from client import *
from raw import C, F, N

pytestmark = pytest.mark.rsocket

BODY = bytes(range(256)) * 40


@pytest.mark.parametrize("size", [64, 100, 1000])
def test_fragmentation_of_a_request_response(a, b, topic, size):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    stream = next(b.ids)
    b.send(*raw.fragments(raw.REQUEST_RESPONSE, stream, BODY, b.route(topic), size=size))
    assert b.answer(stream).data == b"1"
    assert sub.data(1) == [BODY]


def test_fragmentation_of_a_request_fnf(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    b.send(*raw.fragments(raw.REQUEST_FNF, next(b.ids), BODY, b.route(topic)))
    assert sub.data(1) == [BODY]


def test_fragmentation_has_all_metadata_first(a, b, topic):
    sub = a.subscribe(topic, meta=True)
    a.joined(topic, 1)
    extra = (b"application/x.mine", bytes(range(256)) * 2)
    stream = next(b.ids)
    b.send(*raw.fragments(raw.REQUEST_RESPONSE, stream, BODY, b.route(topic, extra=[extra])))
    b.answer(stream)
    one = sub.take(1)[0]
    assert (one.data, one.entries) == (BODY, (extra,))


def test_fragmentation_of_metadata_alone(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    stream = next(b.ids)
    b.send(*raw.fragments(raw.REQUEST_RESPONSE, stream, b"", b.route(topic, extra=[(b"x/y", bytes(300))])))
    b.answer(stream)
    assert sub.data(1) == [b""]


def test_fragmentation_of_a_request_stream(a, b, topic):
    b.numbers(topic, 1, 5)
    path = f"{topic}?replay=all&buffer=1000&overflow=drop-newest"
    stream = next(a.ids)
    a.send(*raw.fragments(raw.REQUEST_STREAM, stream, b"ignored", a.route(path), n=3))
    assert Subscription(a, stream, 3, False).data(3) == numbers(1, 3)


def test_fragmentation_costs_one_credit_a_message(a, b, topic):
    """Item 0 and the rest in fragments: each complete message costs one credit."""
    sub = a.subscribe(f"{topic}?overflow=block&buffer=4", n=1)
    a.joined(topic, 1)
    stream = next(b.ids)
    b.send(*raw.fragments(raw.REQUEST_CHANNEL, stream, b"0" + BODY, b.route(topic), n=UNBOUNDED))
    channel = Channel(b, stream, UNBOUNDED)
    channel.until(lambda: channel.granted >= 4)
    for i in range(1, 5):
        b.send(*raw.fragments(PAYLOAD, stream, b"%d" % i + BODY, flags=N))
    channel.acknowledged(5)
    sub.request(10)
    assert sub.data(5) == [b"%d" % i + BODY for i in range(5)]
    assert channel.ended is None


def test_fragmentation_completes_with_the_last_fragment(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    channel = b.channel(topic, b"0")
    channel.until(lambda: channel.granted)
    b.send(*raw.fragments(PAYLOAD, channel.stream, BODY, flags=N | C))
    assert channel.end() == End()
    assert sub.data(2) == [b"0", BODY]


def test_fragmentation_interleaves_with_other_streams(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    bodies = {next(b.ids): bytes([65 + i]) * 2000 for i in range(4)}
    parts = [raw.fragments(raw.REQUEST_RESPONSE, stream, body, b.route(topic)) for stream, body in bodies.items()]
    for turn in range(max(map(len, parts))):
        b.send(*(one[turn] for one in parts if turn < len(one)), raw.keepalive(b"between"))
    assert sorted(int(b.answer(stream).data) for stream in bodies) == [1, 2, 3, 4]
    assert sorted(sub.data(4)) == list(bodies.values())


def test_fragmentation_lets_other_requests_between(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    stream = next(b.ids)
    first, *rest = raw.fragments(raw.REQUEST_RESPONSE, stream, BODY, b.route(topic))
    b.send(first)
    assert b.publish(topic, b"between") == [1]
    b.send(*rest)
    assert b.answer(stream).data == b"2"
    assert sub.data(2) == [b"between", BODY]


def test_unexpected_follows_with_complete_is_complete(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    channel = b.channel(topic, b"0")
    channel.send(b"1", flags=N | C | F)
    assert channel.end() == End()
    assert sub.data(2) == numbers(0, 1)


def test_fragmentation_given_up_by_cancel(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    stream = next(b.ids)
    first, *rest = raw.fragments(raw.REQUEST_RESPONSE, stream, BODY, b.route(topic))
    b.send(first, raw.cancel(stream), *rest)
    assert b.publish(topic, b"next") == [1]
    assert sub.data(1) == [b"next"]
    assert b.pending(stream) == 0


def test_fragmentation_without_end_is_capped(broker, b, topic):
    """Fragments without end: refused once they exceed the maximum size of a message, and never kept."""
    sub = b.subscribe(topic)
    b.joined(topic, 1)
    before, stream, piece = broker.status("VmHWM"), next(b.ids), bytes(60 << 10)
    b.send(raw.request(raw.REQUEST_RESPONSE, stream, piece, b.route(topic), flags=F))
    for _ in range(300):
        b.send(raw.payload(stream, piece, flags=N | F))
    frame = b.frame(stream)
    assert frame.kind == ERROR and frame.code == raw.REJECTED
    assert b.numbers(topic, 1, 1) == [1]
    assert sub.data(1) == [b"1"]
    assert broker.status("VmHWM") - before < 8 << 20


def test_fragmentation_of_many_streams_is_capped(broker, b, topic):
    """Each message is within its limit, but together they exceed the limit of a connection."""
    before, piece = broker.status("VmHWM"), bytes(60 << 10)
    streams = [next(b.ids) for _ in range(64)]
    for stream in streams:
        b.send(raw.request(raw.REQUEST_RESPONSE, stream, piece, b.route(topic), flags=F))
        for _ in range(9):
            b.send(raw.payload(stream, piece, flags=N | F))
    b.barrier(topic)
    assert any(b.pending(stream) for stream in streams)
    assert all(b.frame(stream).code == raw.REJECTED for stream in streams if b.pending(stream))
    assert broker.status("VmHWM") - before < 16 << 20
    assert b.numbers(topic, 1, 1) == [1]


@pytest.mark.parametrize("size", [(64 << 10) + 1, 200 << 10, 1 << 20])
def test_fragmentation_of_what_the_broker_sends(a, b, topic, size):
    """One credit, N on each, C on none, none above 64 KiB; `Connection` checks the form of every fragment."""
    sub = a.subscribe(topic, n=2)
    a.joined(topic, 1)
    body = (b"%032d" % size) * (size // 32 + 1)
    b.publish(topic, body[:size], b"small", b"beyond the credit")
    assert sub.data(2) == [body[:size], b"small"]
    assert a.read > size
    a.barrier(topic)
    sub.nothing()
    sub.request(1)
    assert sub.data(1) == [b"beyond the credit"]


def test_a_payload_below_64_kib_goes_out_in_one_frame(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    body = bytes(60 << 10)
    b.publish(topic, body)
    frame = a.frame(sub.stream)
    assert frame.data == body and frame.size == 6 + len(body)


def test_large_payloads_with_meta(a, b, topic):
    sub = a.subscribe(topic, meta=True)
    a.joined(topic, 1)
    extra = [(b"application/x.mine", bytes(30 << 10))]
    body = bytes(range(256)) * 1000
    b.publish(topic, body, extra=extra)
    b.publish(topic, b"after")
    one, after = sub.take(2)
    assert (one.sequence, one.data, one.entries) == (1, body, tuple(extra))
    assert (after.sequence, after.data, after.entries) == (2, b"after", ())


def test_large_payloads_of_two_streams(a, b, topic):
    one, two = a.subscribe(topic), a.subscribe(topic, meta=True)
    a.joined(topic, 2)
    body = bytes(range(256)) * 2000
    b.publish(topic, *[b"%d" % i + body for i in range(8)])
    assert one.data(8) == [b"%d" % i + body for i in range(8)]
    assert two.data(8) == [b"%d" % i + body for i in range(8)]


def test_fragmentation_beside_credit_and_acknowledgements(a, topic):
    """Subscriber and publisher of large messages on one connection."""
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    channel, body = a.channel(topic, b"0"), bytes(150 << 10)
    for i in range(1, 11):
        channel.send(b"%d" % i + body)
    assert sub.data(11) == [b"0"] + [b"%d" % i + body for i in range(1, 11)]
    channel.acknowledged(11)
