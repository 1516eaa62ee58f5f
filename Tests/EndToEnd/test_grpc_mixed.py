"""RSocket and gRPC on one topic: the same messages, with the same content types and headers, and the same outcome."""

import base64
import queue

import grpc
import pytest

from common import *
from grpc_client import pb

pytestmark = pytest.mark.grpc

HEADERS_MIME = b"application/vnd.forebay.headers"
CONTENT_TYPE = 0x7A
JSON_ID = b"\x85"  # application/json, by its well-known id.


@pytest.fixture
def r(connect):
    """A client over RSocket; `a` and `b` use gRPC here."""
    return connect(over="rsocket")


def content_type(name: str) -> bytes:
    """An entry's content: a mime written out."""
    return bytes([len(name) - 1]) + name.encode()


def packed(headers: dict[str, str]) -> bytes:
    """Headers as encoded in their entry: each name after 2 bytes of length, each value after 4."""
    parts = [(name.encode(), value.encode()) for name, value in headers.items()]
    return b"".join(len(name).to_bytes(2, "big") + name + len(value).to_bytes(4, "big") + value
                    for name, value in parts)


def unpacked(content: bytes) -> dict[str, str]:
    found, at = {}, 0
    while at < len(content):
        words = []
        for width in (2, 4):
            length = int.from_bytes(content[at : at + width], "big")
            words.append(content[at + width : at + width + length].decode())
            at += width + length
        found[words[0]] = words[1]
    assert at == len(content)
    return found


def test_messages_of_both_reach_subscribers_of_both(a, r, topic):
    subs = [a.subscribe(topic), r.subscribe(topic, meta=True)]
    a.joined(topic, 2)
    assert [r.publish(topic, b"r1"), a.publish(topic, b"g2")] == [[1], [2]]
    r.fire(topic, b"r3")
    r.barrier(topic)
    channels = [r.channel(topic, b"r4"), None]
    channels[0].acknowledged(4)
    channels[1] = a.channel(topic, b"g5")
    channels[1].acknowledged(5)
    told = [[(one.epoch, one.sequence, one.timestamp, one.data) for one in sub.take(5)] for sub in subs]
    assert told[0] == told[1] and [one[3] for one in told[0]] == [b"r1", b"g2", b"r3", b"r4", b"g5"]


def test_content_type_and_headers_from_grpc_to_both(a, b, r, topic):
    headers = {"station": "blindern", "größe": "4 µm", "empty": ""}
    subs = a.subscribe(topic), r.subscribe(topic, meta=True)
    a.joined(topic, 2)
    b.publish(topic, b"{}", content_type="application/json", headers=headers)
    b.publish(topic, b"x", content_type="text/x-own")
    b.publish(topic, b"plain")
    first, second, third = subs[0].take(3)
    assert (first.content_type, first.headers) == ("application/json", headers)
    assert (second.content_type, second.headers) == ("text/x-own", {})
    assert (third.content_type, third.headers) == ("", {})
    first, second, third = (dict(one.entries) for one in subs[1].take(3))
    assert first.pop(CONTENT_TYPE) in (JSON_ID, content_type("application/json"))
    assert unpacked(first.pop(HEADERS_MIME)) == headers and first == {}
    assert second == {CONTENT_TYPE: content_type("text/x-own")} and third == {}


def test_content_type_and_headers_from_a_grpc_channel(a, b, topic):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    channel = b.channel(topic, b"0")
    channel.send(b"1", content_type="text/plain", headers={"k": "v"})
    first, second = sub.take(2)
    assert (first.headers, second.content_type, second.headers) == ({}, "text/plain", {"k": "v"})


@pytest.mark.parametrize("entry, told", [
    ((CONTENT_TYPE, JSON_ID), "application/json"),
    ((CONTENT_TYPE, content_type("text/x-own")), "text/x-own"),
])
def test_content_type_from_rsocket(a, r, topic, entry, told):
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    r.publish(topic, b"x", extra=[entry])
    one = sub.take(1)[0]
    assert (one.data, one.content_type, one.headers) == (b"x", told, {})


def test_entries_from_rsocket_come_as_headers(a, r, topic):
    sub, peer = a.subscribe(topic), r.subscribe(topic, meta=True)
    a.joined(topic, 2)
    extra = [(b"application/x.text", "für uns".encode()), (HEADERS_MIME, packed({"one": "1", "two": ""})),
             (b"application/x.bytes", b"\xff\xfe\xfd\xfc")]
    r.publish(topic, b"x", extra=extra)
    assert peer.take(1)[0].entries == tuple(extra)
    value = base64.b64encode(b"\xff\xfe\xfd\xfc").rstrip(b"=").decode()
    assert sub.take(1)[0].headers == {
        "application/x.text": "für uns", "one": "1", "two": "", "application/x.bytes-bin": value}


def test_what_the_broker_says_of_a_publishers_message_is_not_the_publishers(a, b, topic):
    """A publisher's sequence and time are ignored."""
    sub = a.subscribe(topic)
    a.joined(topic, 1)
    b.publish(topic, b"x", sequence=77, timestamp_ns=5)
    one = sub.take(1)[0]
    assert one.sequence == 1 and one.timestamp > 1 << 60


@pytest.mark.parametrize("stalled", ["grpc", "rsocket"])
def test_a_stalled_subscriber_of_one_transport_disturbs_none_of_the_other(connect, topic, stalled):
    """The stalled subscriber reads nothing; subscribers of either transport receive everything at once."""
    idle = connect(over=stalled, receive_buffer=64 << 10)
    readers = [connect(over="grpc"), connect(over="rsocket")]
    subs = [reader.subscribe(topic) for reader in readers]
    idle.subscribe(f"{topic}?buffer=10")
    readers[0].joined(topic, 3)
    for at in range(1, 501, 50):
        for writer in readers:
            writer.publish(topic, *(b"%08d" % i + bytes(8 << 10) for i in range(at, at + 25)))
        for sub in subs:
            assert [int(one[:8]) for one in sub.data(50)] == list(range(at, at + 25)) * 2


def test_block_of_one_transport_holds_up_publishers_of_the_other(connect, topic):
    for blocking, publishing in (("grpc", "rsocket"), ("rsocket", "grpc")):
        name = f"{topic}.{blocking}"
        reader, writer = connect(over=blocking), connect(over=publishing)
        sub = reader.subscribe(f"{name}?overflow=block&buffer=2", n=1)
        reader.joined(name, 1)
        channel = writer.channel(name, b"0")
        channel.until(lambda: channel.granted >= 2)
        channel.force(b"1")
        channel.force(b"2")
        writer.until(name, lambda info: info["next"] == 4)
        offer = writer.offer(name, b"3")
        writer.parked(name, 1)
        assert not offer.answered()
        sub.request(1)
        assert offer.sequence() == 4
        sub.request(2)
        assert sub.data(4) == numbers(0, 3)


@pytest.mark.parametrize("ending", ["grpc", "rsocket"])
def test_the_end_reaches_both(connect, topic, ending):
    readers, writer = [connect(over="grpc"), connect(over="rsocket")], connect(over=ending)
    for how in ("complete", "fail"):
        subs = [reader.subscribe(f"{topic}.{how}") for reader in readers]
        writer.joined(f"{topic}.{how}", 2)
        channel = writer.channel(f"{topic}.{how}?complete=true", b"1")
        channel.acknowledged(1)
        channel.complete() if how == "complete" else channel.fail("over")
        for sub in subs:
            assert sub.data(1) == [b"1"]
            assert sub.end() == (End() if how == "complete" else failed("over"))


def test_each_lists_the_others(a, r, topic):
    a.subscribe(topic)
    r.subscribe(topic)
    a.joined(topic, 2)
    for peer in (a, r):
        assert {row["peer"] for row in peer.ledger(topic)} == {a.peer, r.peer}
        assert {a.peer, r.peer} <= {row["peer"] for row in peer.listing("$SYS.connections")}


def test_a_pattern_resumes_in_each_topic(a, b, topic):
    """Topics without a position begin where the other options say."""
    for part in "abc":
        b.publish(f"{topic}.{part}", b"1", b"2", b"3")
    places = [(part, int(a.info(f"{topic}.{part}")["epoch"]), sequence) for part, sequence in (("a", 2), ("b", 4))]
    positions = [pb.TopicPosition(topic=f"{topic}.{part}", epoch=epoch, sequence=sequence)
                 for part, epoch, sequence in places]
    this = pb.Open(topic=f"{topic}.*", request_n=3, replay_last=1, positions=positions)
    call = a.pubsub.Subscribe(iter([pb.SubscribeRequest(open=this)]), timeout=DEADLINE)
    got = [one for response in call for one in response.messages]
    assert sorted((one.topic, one.sequence) for one in got) == [
        (f"{topic}.a", 2), (f"{topic}.a", 3), (f"{topic}.c", 3)]
    this.positions[0].epoch = 0
    with pytest.raises(grpc.RpcError) as raised:
        list(a.pubsub.Subscribe(iter([pb.SubscribeRequest(open=this)]), timeout=DEADLINE))
    assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT and "epoch" in raised.value.details()


def test_ends_of_topics_in_a_pattern(a, r, topic):
    """They come after the last message of the topic, without credit. Over RSocket there are messages only."""
    other = r.subscribe(f"{topic}.*", n=9, meta=True)
    for part in "abc":
        r.publish(f"{topic}.{part}", b"1")
    requests = queue.SimpleQueue()
    requests.put(pb.SubscribeRequest(open=pb.Open(topic=f"{topic}.*", request_n=1)))
    call = a.pubsub.Subscribe(iter(requests.get, None), timeout=DEADLINE)
    assert next(call).epoch == 0
    a.control("$SYS.topic.complete", name=f"{topic}.a")
    a.control("$SYS.topic.delete", name=f"{topic}.b")
    ends = [next(call), next(call)]
    assert [(end.topic_end.topic, end.topic_end.failure, len(end.messages)) for end in ends] == [
        (f"{topic}.a", "", 0), (f"{topic}.b", "topic failed: deleted", 0)]
    assert [end.outstanding_credit for end in ends] == [1, 1] and len({end.epoch for end in ends}) == 2
    r.publish(f"{topic}.c", b"2", b"3")
    a.control("$SYS.topic.fail", name=f"{topic}.c", message="broken")
    assert [one.payload for one in next(call).messages] == [b"2"]
    requests.put(pb.SubscribeRequest(request_n=5))
    assert [one.payload for one in next(call).messages] == [b"3"]
    last = next(call)
    assert last.topic_end == pb.TopicEnd(topic=f"{topic}.c", failure="topic failed: broken")
    assert last.outstanding_credit == 4
    call.cancel()
    assert len(other.take(5)) == 5 and other.pending() == 0
