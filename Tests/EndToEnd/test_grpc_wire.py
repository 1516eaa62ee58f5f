"""gRPC at the byte level, as no gRPC library would send it; and streams by the thousand."""

import pytest

from common import *
from grpc_client import pb
from http2 import *

pytestmark = pytest.mark.grpc

INVALID_ARGUMENT, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL = 3, 4, 8, 12, 13


def test_the_broker_itself_keeps_the_deadline(wire, a, topic):
    """The client does not cancel when the deadline expires."""
    this = wire()
    this.send(this.call(1, SUBSCRIBE, open_of(topic[:90]), more=[("grpc-timeout", "300m")]))
    a.joined(topic[:90], 1)
    assert this.answer(1).status == DEADLINE_EXCEEDED
    a.joined(topic[:90], 0)


@pytest.mark.parametrize("timeout", ["", "x", "1", "-1S", "1.5S", "123456789S", "1s"])
def test_a_deadline_that_is_none(wire, topic, timeout):
    this = wire()
    this.send(this.call(1, SUBSCRIBE, open_of(topic[:90]), more=[("grpc-timeout", timeout)]))
    verdict = this.verdict(1)
    assert verdict.what == "status"
    assert this.answers[1].status in (INVALID_ARGUMENT, INTERNAL)


@pytest.mark.parametrize("timeout", ["99999999H", "1H", "60M", "5000000u", "99999999n"])
def test_deadlines_of_every_unit(wire, a, topic, timeout):
    """The last timeout is a tenth of a second; none expires at once."""
    this, name = wire(), topic[:90]
    this.send(this.call(1, SUBSCRIBE, open_of(name), more=[("grpc-timeout", timeout)]))
    this.until(lambda w: 1 in w.answers)
    assert this.answers[1].headers[":status"] == "200" and "grpc-status" not in this.answers[1].headers


def test_an_answer_looks_as_grpc_wants_it(wire, a, topic):
    this, name = wire(), topic[:90]
    this.send(this.call(1, SUBSCRIBE, open_of(name, n=1), end=True))
    a.joined(name, 1)
    a.numbers(name, 1, 1)
    answer = this.answer(1)
    assert answer.headers[":status"] == "200" and answer.headers["content-type"].startswith("application/grpc")
    assert answer.status == 0 and len(answer.messages()) == 2 and b"1" in answer.messages()[1]


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "snappy", "nonsense"])
def test_an_encoding_that_is_not_known(wire, topic, encoding):
    this = wire()
    this.send(this.call(1, PUBLISH_ONE, b"", end=True, more=[("grpc-encoding", encoding)], compressed=1))
    answer = this.answer(1)
    assert answer.status == UNIMPLEMENTED
    assert (answer.trailers | answer.headers).get("grpc-accept-encoding") == "identity"


def test_identity_is_an_encoding(wire, a, topic):
    this, name = wire(), topic[:90]
    this.send(this.call(1, SUBSCRIBE, open_of(name), more=[("grpc-encoding", "identity")]))
    a.joined(name, 1)


def test_a_compressed_message_without_an_encoding(wire, topic):
    this = wire()
    this.send(this.call(1, PUBLISH_ONE, b"x", end=True, compressed=1))
    assert this.answer(1).status in (UNIMPLEMENTED, INTERNAL)


@pytest.mark.parametrize("body", [b"\xff", b"\x0a\x05ab", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
                                  b"\x0a\x02\xff\xfe"], ids=["cut", "too long", "a varint of 11", "not UTF-8"])
@pytest.mark.parametrize("path", [SUBSCRIBE, PUBLISH, PUBLISH_ONE])
def test_bytes_that_are_no_protobuf(wire, a, topic, path, body):
    this = wire()
    this.send(this.call(1, path, body, end=True))
    assert this.answer(1).status == INVALID_ARGUMENT
    assert a.publish(topic, b"x") == [1]


def test_a_message_cut_short(wire, topic):
    this = wire()
    this.send(this.call(1, PUBLISH_ONE), data(1, framed(bytes(100))[:50], end=True))
    assert this.answer(1).status == INTERNAL


def test_a_length_beyond_the_limit_is_refused_before_it_comes(wire, topic):
    this = wire()
    this.send(this.call(1, PUBLISH_ONE), data(1, b"\x00\xff\xff\xff\xff"))
    assert this.answer(1).status == RESOURCE_EXHAUSTED


def one_of(topic: str) -> bytes:
    return pb.PublishOneRequest(topic=topic, message=pb.Message(payload=b"one")).SerializeToString()


MORE = {
    "a message": lambda one: [data(1, one), data(1, one, end=True)],
    "a message in the same frame": lambda one: [data(1, one * 2, end=True)],
    "a message in the same frame, and the end apart": lambda one: [data(1, one * 2), data(1, end=True)],
    "two bytes": lambda one: [data(1, one + bytes(2), end=True)],
    "two bytes apart": lambda one: [data(1, one), data(1, bytes(2)), data(1, end=True)],
    "an empty message": lambda one: [data(1, one), data(1, framed(b""), end=True)],
}


@pytest.mark.parametrize("more", MORE)
def test_what_is_refused_for_what_came_behind_its_message_did_nothing(wire, a, topic, more):
    """A publish publishes nothing, and a topic does not complete."""
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    this = wire()
    this.send(this.call(1, PUBLISH_ONE), *MORE[more](framed(one_of(topic))))
    assert this.answer(1).status == INVALID_ARGUMENT
    this = wire()
    request = pb.CompleteTopicRequest(topic=topic).SerializeToString()
    this.send(this.call(1, "/forebay.v1.Admin/CompleteTopic"), *MORE[more](framed(request)))
    assert this.answer(1).status == INVALID_ARGUMENT
    assert a.publish(topic, b"first") == [1]
    assert sub.data(1) == [b"first"]


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("apart", [False, True])
def test_a_call_is_acted_upon_at_its_end(wire, a, topic, size, apart):
    """The request comes in any number of pieces, with or without the end in the same write."""
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    this, one = wire(), framed(one_of(topic))
    pieces = [one[at : at + size] for at in range(0, len(one), size)]
    this.send(this.call(1, PUBLISH_ONE), *(data(1, piece) for piece in pieces[:-1]), data(1, pieces[-1], not apart))
    if apart:
        this.roundtrip()
        assert 1 not in this.answers
        this.send(data(1, end=True))
    assert this.answer(1).status == 0
    assert sub.data(1) == [b"one"]


def test_a_length_of_the_body_that_is_not_its_own_publishes_nothing(wire, a, topic):
    this = wire()
    this.send(this.call(1, PUBLISH_ONE, more=[("content-length", "5")]), data(1, framed(one_of(topic)), end=True))
    assert this.verdict(1).what == "reset"
    assert a.publish(topic, b"first") == [1]


@pytest.mark.parametrize("kind", ["application/grpc", "application/grpc+json", "application/grpc-web"])
def test_grpc_is_known_by_path_and_type_together(wire, a, topic, kind):
    """Below /v1/ the content type belongs to the message; elsewhere an unsupported type gets 415."""
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    this = wire()
    post = lambda stream, path: frame(HEADERS, END_HEADERS, stream, this.request("POST", path, ("content-type", kind)))
    this.send(post(1, f"/v1/topics/{topic}/messages"), data(1, b"grpc?", end=True))
    this.until(lambda w: 1 in w.ended)
    assert this.answers[1].headers[":status"] == "200" and b'"sequence":1' in this.answers[1].body
    assert sub.data(1) == [b"grpc?"]
    this.send(post(3, PUBLISH_ONE), data(3, framed(one_of(topic)), end=True))
    this.until(lambda w: 3 in w.ended)
    assert this.answers[3].headers[":status"] == ("200" if kind == "application/grpc" else "415")


@pytest.mark.parametrize("unit", "HMSmun")
def test_a_call_without_time_does_nothing(wire, a, topic, unit):
    this = wire()
    this.send(this.call(1, PUBLISH_ONE, one_of(topic), end=True, more=[("grpc-timeout", "0" + unit)]))
    assert this.answer(1).status == DEADLINE_EXCEEDED
    assert a.publish(topic, b"first") == [1]


def test_no_message_where_one_is_due(wire):
    this = wire()
    this.send(this.call(1, PUBLISH_ONE), data(1, end=True))
    assert this.answer(1).status in (INVALID_ARGUMENT, INTERNAL, UNIMPLEMENTED)


def test_messages_byte_by_byte(wire, a, topic):
    this, name = wire(), topic[:90]
    this.send(this.call(1, SUBSCRIBE))
    for byte in framed(open_of(name)):
        this.send(data(1, bytes([byte])))
    a.joined(name, 1)


def test_several_messages_in_one_frame(wire, a, topic):
    """`open` with one credit and four times `request_n` of one."""
    this, name = wire(), topic[:90]
    this.send(this.call(1, SUBSCRIBE), data(1, framed(open_of(name, n=1)) + framed(b"\x10\x01") * 4))
    a.joined(name, 1)
    a.until(name, lambda _: a.ledger(name)[0]["requested"] == 5)


def test_ten_thousand_streams_opened_and_reset(wire, broker, a, topic):
    """Streams of every kind, a hundred per connection, because more in a short time would be an attack. Afterwards the
    broker's counted memory, and every table, are as the first thousand streams left them. The memory of the process may
    grow while the topic of events turns over; a leak would add as much each time."""
    name = topic[:90]
    streams = range(1, 200, 2)
    half = framed(channel_of(name))[:-3]

    def begin(this, stream: int) -> bytes:
        """A subscription with a message waiting for credit, a channel, a stream of plain HTTP, or half a message."""
        kind = stream // 2 % 4
        if kind == 0:
            return this.call(stream, SUBSCRIBE, open_of(name, n=1, replay_all=True))
        if kind == 1:
            return this.call(stream, PUBLISH, channel_of(name))
        if kind == 2:
            head = this.request("GET", f"/v1/topics/{name}/messages?replay=all&request=1")
            return frame(HEADERS, END_HEADERS | END_STREAM, stream, head)
        return this.call(stream, PUBLISH) + data(stream, half)

    def connection():
        this = wire()
        this.send(*(begin(this, i) for i in streams))
        this.until(lambda w: all(i in w.answers for i in streams if i // 2 % 4 < 3))
        this.send(*(reset(i) for i in streams))
        this.roundtrip()
        assert not this.goaway
        this.close()

    def counts():
        info = a.info(name)
        return (info["subscriptions"], info["publishers"], info["parked"], len(a.listing("$SYS.subscriptions")),
                len(a.listing("$SYS.connections")), a.control("$SYS.info")["memory"])

    a.numbers(name, 1, 5)
    for _ in range(10):
        connection()
    settled = eventually(counts, lambda seen: seen[:5] == (0, 0, 0, 0, 1))

    def grown() -> int:
        before = broker.status("VmRSS")
        for _ in range(100):
            connection()
        # A spare block of 256 KiB may or may not be kept for later messages.
        eventually(counts, lambda seen: seen[:5] == settled[:5] and seen[5] - settled[5] < (256 + 64) << 10)
        return broker.status("VmRSS") - before

    growth = [grown()]
    while growth[-1] > 256 << 10:
        assert len(growth) < 6, growth
        growth.append(grown())
    sub = a.subscribe(f"{name}?replay=1")
    assert sub.data(1) == [b"5"]


# A socket that is not read, with HTTP/2 windows as wide as possible: only TCP holds the broker back.


def subscribing(topic: str, **more) -> bytes:
    return pb.SubscribeRequest(open=pb.Open(topic=topic, **more)).SerializeToString()


def responses(this: Wire, stream: int) -> list:
    """The responses that have arrived completely."""
    found, at, body = [], 0, this.answers[stream].body if stream in this.answers else b""
    while at + 5 <= len(body) and at + 5 + (length := int.from_bytes(body[at + 1 : at + 5], "big")) <= len(body):
        found.append(pb.SubscribeResponse.FromString(bytes(body[at + 5 : at + 5 + length])))
        at += 5 + length
    return found


def messages(this: Wire, stream: int) -> list:
    return [message for response in responses(this, stream) for message in response.messages]


WIDE = (4, 0x7FFFFFFF)  # SETTINGS_INITIAL_WINDOW_SIZE


def test_a_socket_that_is_not_read_holds_up_its_own_subscription_alone(wire, a, b, topic):
    """Messages that neither the socket nor the connection's output can take wait, and overflow by the subscription's
    policy."""
    this, count, body = wire(WIDE, receive_buffer=64 << 10), 2000, bytes(4 << 10)
    this.send(this.call(1, SUBSCRIBE, subscribing(topic, request_n=UNBOUNDED, buffer=50)))
    quick = a.subscribe(topic)
    b.joined(topic, 2)
    for at in range(1, count + 1, 100):
        b.publish(topic, *(b"%08d" % i + body for i in range(at, at + 100)))
        assert [int(one[:8]) for one in quick.data(100)] == list(range(at, at + 100))
    mine = lambda: [row for row in b.ledger(topic) if row["peer"] == this.peer][0]
    told = eventually(mine, lambda row: sum(row[part] for part in ("delivered", "dropped", "waiting")) == count)
    assert told["waiting"] == 50 and told["dropped"] > count // 2
    this.until(lambda w: any(one.sequence == count for one in messages(w, 1)))
    got = [one.sequence for one in messages(this, 1)]
    assert got == sorted(set(got)) and got[-50:] == list(range(count - 49, count + 1))
    assert len(got) + sum(response.dropped for response in responses(this, 1)) == count


def test_streams_of_a_socket_that_is_not_read_share_it_fairly(wire, b, topic):
    """One stream is megabytes behind; a message of another arrives before most of that."""
    this, count, body, quiet = wire(WIDE, receive_buffer=64 << 10), 200, bytes(16 << 10), f"{topic}.quiet"
    this.send(this.call(1, SUBSCRIBE, subscribing(topic, request_n=UNBOUNDED, buffer=4000)))
    this.send(this.call(3, SUBSCRIBE, subscribing(quiet, request_n=UNBOUNDED)))
    b.joined(topic, 1)
    b.joined(quiet, 1)
    for _ in range(20):
        b.publish(topic, *([body] * (count // 20)))
    b.numbers(quiet, 1, 1)
    this.until(lambda w: messages(w, 3))
    assert len(messages(this, 1)) < count // 2, "the other stream's message arrived after most of them"
    this.until(lambda w: len(w.answers[1].body) > count * len(body))
    assert len(messages(this, 1)) == count


def test_memory_stays_bounded_under_sockets_that_are_not_read(wire, start, connect, topic):
    """G3: 40 connections, each with a subscription and its buffer."""
    retained = 256 << 10
    tight = start("--retain-bytes", str(retained))
    try:
        b = connect(tight, over="rsocket")
        stalled = [wire(WIDE, to=tight, receive_buffer=16 << 10) for _ in range(40)]
        for i, this in enumerate(stalled):
            this.send(this.call(1, SUBSCRIBE, subscribing(topic, request_n=UNBOUNDED, buffer=1 + 100 * i)))
        b.joined(topic, 40)
        for _ in range(2):
            b.publish(topic, *([bytes(1000)] * 50))
        before = tight.status("VmRSS")
        for _ in range(400):
            b.publish(topic, *([bytes(1000)] * 50))
        grown = tight.status("VmHWM") - before
        assert grown <= retained + 40 * (256 << 10) + (8 << 20), f"grew by {grown >> 10} KiB"
        assert b.info(topic)["subscriptions"] == 40
        for this in stalled:
            this.close()  # Otherwise the broker would wait for these clients before it ends.
    finally:
        tight.stop()
