"""Numbered publishes: a message that is sent again is published once, on every protocol."""

import contextlib
import json
import time
import struct
from urllib.parse import quote

import grpc
import pytest

import access
import raw
from client import *
from grpc_client import pb
from web import Web

pytestmark = pytest.mark.rsocket  # Each test chooses its protocols.

DUPLICATE_MIME = b"application/vnd.forebay.duplicate"
DUPLICATE = raw.entry(DUPLICATE_MIME, b"")


@pytest.fixture(scope="module")
def broker(start):
    this = start()
    yield this
    this.stop()


@pytest.fixture
def peer(broker):
    """Opens connections."""
    with contextlib.ExitStack() as stack:

        def open_peer(transport="rsocket", to=broker, **how) -> Observer:
            one = to.peer(transport, **how)
            stack.callback(one.close)
            return one

        yield open_peer


@pytest.fixture
def root(peer) -> Peer:
    return peer()


@pytest.fixture
def web(broker, http_version):
    this = Web(broker, http_version)
    yield this
    this.close()


def contents(root, topic: str, count: int) -> list[bytes]:
    """The messages of the topic, of which there are `count`."""
    assert root.info(topic)["published"] == count
    return root.subscribe(topic, "replay=all").data(count)


def last(root, topic: str, publisher: str = "p") -> dict:
    return root.control("$SYS.publisher.info", topic=topic, publisher=publisher)


# RSocket


def publish(peer, topic: str, number: int, data: bytes, publisher="p") -> tuple[int, bool]:
    """The sequence, and whether the message is a duplicate. The bytes are those of the documents."""
    frame = peer.answer(peer.call(f"{topic}?publisher={publisher}&number={number}", data))
    assert frame.metadata in (None, DUPLICATE)
    return int(frame.data), frame.metadata is not None


def refused(action, text: str):
    with pytest.raises(StreamError) as caught:
        action()
    assert caught.value.text.startswith(text), caught.value


@pytest.mark.parametrize("mime", [raw.COMPOSITE, raw.ROUTING, b"text/plain"])
def test_a_number_is_published_once(peer, root, topic, mime):
    one = peer(mime=mime)
    refused(lambda: publish(one, topic, 2, b"x"), "publisher: unknown, start at 1")
    assert publish(one, topic, 1, b"a") == (1, False)
    assert publish(one, topic, 1, b"a") == (1, True)
    assert publish(one, topic, 2, b"b") == (2, False)
    refused(lambda: publish(one, topic, 4, b"x"), "publisher: expected 3")
    assert publish(root, topic, 3, b"c") == (3, False)
    assert publish(one, topic, 2, b"b") == (3, True), "the sequence is that of the last message"
    assert publish(one, topic, 1, b"d", "q") == (4, False)
    assert contents(root, topic, 4) == [b"a", b"b", b"c", b"d"]


def test_a_number_in_tags_of_its_own(root, topic):
    stream = root.call(topic, b"a", "publisher=" + "x" * 200, "number=1")
    assert root.answer(stream).metadata is None
    stream = root.call(topic, b"a", "number=1", "publisher=" + "x" * 200)
    assert root.answer(stream).metadata == DUPLICATE


@pytest.mark.parametrize("options", [
    "publisher=p", "number=1", "publisher=p&number=0", "publisher=p&number=-1", "publisher=&number=1",
    "publisher=p&number=9223372036854775808", "publisher=p&number=1&number=1",
])
def test_numbers_that_are_invalid(root, topic, options):
    for call in (lambda: root.answer(root.call(f"{topic}?{options}", b"x")),):
        refused(call, "invalid: ")
    channel = root.channel(f"{topic}?{options}", b"x")
    while channel.event() != "end":
        pass
    assert channel.ended.kind is Kind.INVALID
    refused(lambda: root.info(topic), "not-found: ")


def test_fire_and_forget_takes_no_number(root, topic):
    root.publish(topic, b"a")
    root.fire(f"{topic}?publisher=p&number=1", b"x")
    root.fire(topic, b"b")
    assert contents(root, topic, 2) == [b"a", b"b"]
    assert last(root, topic)["number"] == 0


def acknowledged(channel, count: int) -> list[tuple[int, bool]]:
    """Takes acknowledgements until `count` messages are accepted: how many were, and whether any was a duplicate."""
    found = []
    while not found or found[-1][0] < count:
        frame = channel.peer.frame(channel.stream)
        if frame.kind == raw.REQUEST_N:
            channel.granted += frame.n
            continue
        entries = raw.entries(frame.metadata)
        (accepted,) = struct.unpack(">Q", dict(entries)[raw.ACCEPTED_MIME])
        assert frame.metadata == raw.entry(raw.ACCEPTED_MIME, struct.pack(">Q", accepted)) + (
            DUPLICATE if len(entries) == 2 else b"")
        found.append((accepted, len(entries) == 2))
    return found


def test_a_channel_goes_on_where_another_one_stopped(peer, root, topic):
    first = peer()
    channel = first.channel(f"{topic}?publisher=p&number=1", b"1")
    assert acknowledged(channel, 1) == [(1, False)]
    for n in (2, 3):
        channel.force(b"%d" % n)
    assert not any(again for _, again in acknowledged(channel, 3))
    first.close()
    second = root.channel(f"{topic}?publisher=p&number=2", b"2")
    assert acknowledged(second, 1) == [(1, True)]
    for n in (3, 4, 5):
        second.force(b"%d" % n)
    assert any(again for _, again in acknowledged(second, 4))
    second.force(b"6", last=True)
    assert acknowledged(second, 5) == [(5, False)]
    assert last(root, topic) == {"topic": topic, "epoch": root.info(topic)["epoch"], "publisher": "p", "number": 6,
                                 "sequence": 6}
    third = root.channel(f"{topic}?publisher=p&number=8", b"x")
    assert third.event() == "end" and third.ended.text.startswith("publisher: expected 7")
    assert contents(root, topic, 6) == [b"%d" % n for n in range(1, 7)]


def test_duplicates_use_grants_but_no_room(peer, root, topic):
    for n in (1, 2, 3):
        publish(root, topic, n, b"%d" % n)
    subscriber = peer().subscribe(f"{topic}?overflow=block&buffer=2", n=UNBOUNDED)
    root.joined(topic, 1)
    channel = root.channel(f"{topic}?publisher=p&number=1", b"1")
    assert acknowledged(channel, 1) == [(1, True)]
    while channel.granted < 2:
        assert channel.event() == "grant"
    channel.force(b"2")
    channel.force(b"3")
    acknowledged(channel, 3)
    channel.force(b"4", last=True)
    assert acknowledged(channel, 4)[-1] == (4, False)
    assert subscriber.data(1) == [b"4"]


def test_a_duplicate_is_acknowledged_after_the_end(root, topic):
    assert publish(root, topic, 1, b"a") == (1, False)
    root.control("$SYS.topic.complete", name=topic)
    assert publish(root, topic, 1, b"a") == (1, True)
    refused(lambda: publish(root, topic, 2, b"b"), "ended: ")
    root.control("$SYS.topic.delete", name=topic)
    refused(lambda: publish(root, topic, 2, b"b"), "publisher: unknown, start at 1")


def test_messages_that_wait_for_room_keep_their_numbers(peer, root, topic):
    subscriber = peer().subscribe(f"{topic}?overflow=block&buffer=1", n=1)
    root.joined(topic, 1)
    assert publish(root, topic, 1, b"1") == (1, False)
    assert publish(root, topic, 2, b"2") == (2, False)
    waiting = [root.offer(f"{topic}?publisher=p&number={n}", b"%d" % n) for n in (3, 4, 3, 5)]
    root.parked(topic, 4)
    waiting[0].cancel()
    refused(waiting[1].sequence, "publisher: expected 3")
    subscriber.request(10)
    assert waiting[2].sequence() == 3
    refused(waiting[3].sequence, "publisher: expected 4")
    assert subscriber.data(3) == [b"1", b"2", b"3"]


def test_numbers_on_a_topic_of_another_thread(peer, start):
    broker = start(threads=4)
    try:
        one = peer(to=broker)
        for topic in (f"t{n}" for n in range(8)):
            assert publish(one, topic, 1, b"a") == (1, False)
            assert publish(one, topic, 1, b"a") == (1, True)
            channel = one.channel(f"{topic}?publisher=p&number=1", b"a")
            assert acknowledged(channel, 1) == [(1, True)]
            channel.force(b"b", last=True)
            assert acknowledged(channel, 2)[-1] == (2, False)
            assert last(one, topic)["number"] == 2
    finally:
        broker.stop()


# gRPC


def of_grpc(error: grpc.RpcError) -> tuple[str, str]:
    return error.code().name, error.details()


def publish_one(calls, topic, number, data=b"x", publisher="p"):
    request = pb.PublishOneRequest(
        topic=topic, message=pb.Message(payload=data), publisher_id=publisher, number=number)
    return calls.pubsub.PublishOne(request, timeout=DEADLINE)


def test_numbers_over_grpc(peer, root, topic):
    calls = peer("grpc")
    with pytest.raises(grpc.RpcError) as caught:
        publish_one(calls, topic, 7)
    assert of_grpc(caught.value)[0] == "FAILED_PRECONDITION"
    assert of_grpc(caught.value)[1].startswith("publisher: unknown, start at 1")
    first = publish_one(calls, topic, 1, b"a")
    assert (first.sequence, first.duplicate) == (1, False)
    again = publish_one(calls, topic, 1, b"a")
    assert (again.sequence, again.epoch, again.duplicate) == (1, first.epoch, True)
    with pytest.raises(grpc.RpcError) as caught:
        publish_one(calls, topic, 3)
    assert of_grpc(caught.value)[1].startswith("publisher: expected 2")
    open_ = pb.PublishRequest(open=pb.PublishOpen(topic=topic, publisher_id="p", number=1))
    messages = [pb.PublishRequest(message=pb.Message(payload=b)) for b in (b"a", b"b", b"c")]
    got = []

    def requests():
        yield open_
        yield messages[0]
        while sum(one.granted_credit for one in got) < 2:
            time.sleep(0.01)
        yield from messages[1:]

    for response in calls.pubsub.Publish(requests(), timeout=DEADLINE):
        got.append(response)
    assert got[-1].accepted_count == 3 and got[-1].acknowledged_sequence == 3
    assert any(one.duplicate for one in got)
    info = calls.admin.PublisherInfo(pb.PublisherInfoRequest(topic=topic, publisher_id="p"), timeout=DEADLINE)
    assert (info.number, info.sequence, info.epoch) == (3, 3, first.epoch)
    assert json.loads(info.json) == last(root, topic)
    none = calls.admin.PublisherInfo(pb.PublisherInfoRequest(topic=topic + ".none", publisher_id="p"), timeout=DEADLINE)
    assert (none.number, none.sequence, none.epoch) == (0, 0, 0)
    assert contents(root, topic, 3) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("fields", [
    dict(publisher_id="p"), dict(number=1), dict(publisher_id="x" * 256, number=1),
    dict(publisher_id="p", number=1 << 63),
])
def test_numbers_that_are_invalid_over_grpc(peer, topic, fields):
    calls = peer("grpc")
    for call in (
        lambda: calls.pubsub.PublishOne(pb.PublishOneRequest(topic=topic, **fields), timeout=DEADLINE),
        lambda: list(calls.pubsub.Publish(
            iter([pb.PublishRequest(open=pb.PublishOpen(topic=topic, **fields))]), timeout=DEADLINE)),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            call()
        assert of_grpc(caught.value)[0] == "INVALID_ARGUMENT"


# Plain HTTP


def post(web, topic, number, data, publisher="p"):
    return web.send(
        web.topic(topic), "-H", f"forebay-publisher: {publisher}", "-H", f"Forebay-Number: {number}", body=data)


def test_numbers_over_http(web, root, topic):
    answer = post(web, topic, 2, b"x")
    assert (answer.status, answer.problem) == (409, "publisher")
    assert answer.json["detail"].startswith("publisher: unknown, start at 1")
    first = post(web, topic, 1, b"a")
    assert first.status == 200 and first.json == {"sequence": 1, "epoch": root.info(topic)["epoch"]}
    again = post(web, topic, 1, b"a")
    assert again.status == 200 and again.body == first.body.replace(b"}", b',"duplicate":true}')
    assert post(web, topic, 2, b"b", "sø n").problem == "publisher"
    assert post(web, topic, 1, b"b", "sø n").json["sequence"] == 2
    assert post(web, topic, 4, b"x").json["detail"].startswith("publisher: expected 2")
    for id, number in [("p", 1), ("sø n", 1), ("none", 0)]:
        answer = web.send(f"{web.base}/v1/topics/{topic}/publishers/{quote(id)}")
        assert answer.status == 200 and answer.headers["content-type"] == "application/json"
        assert answer.json == last(root, topic, id) and answer.json["number"] == number
    assert web.send(f"{web.base}/v1/topics/{topic}.none/publishers/p").json["number"] == 0
    assert contents(root, topic, 2) == [b"a", b"b"]


@pytest.mark.parametrize("headers", [
    ["forebay-publisher: p"], ["forebay-number: 1"], ["forebay-publisher: p", "forebay-number: 0"],
    ["forebay-publisher: p", "forebay-number: one"], ["forebay-publisher: " + "x" * 256, "forebay-number: 1"],
    ["forebay-publisher: p", "forebay-publisher: p", "forebay-number: 1"],
])
def test_numbers_that_are_invalid_over_http(web, topic, headers):
    answer = web.send(web.topic(topic), *(word for header in headers for word in ("-H", header)), body=b"x")
    assert (answer.status, answer.problem) == (400, "invalid")


def test_the_path_of_a_publisher(web, topic):
    url = f"{web.base}/v1/topics/{topic}/publishers/"
    assert web.send(url + "x" * 256).problem == "invalid"
    assert web.send(url).problem == "invalid"
    assert web.send(url + "p?x=1").problem == "invalid"
    assert web.send(url + "p?x-new=1").status == 200
    assert web.send(url + "p", body=b"x").status == 405
    assert web.send(f"{web.base}/v1/topics/a..b/publishers/p").problem == "invalid"
    assert web.send(f"{web.base}/v1/topics/$SYS.events/publishers/p").problem == "forbidden"


# Users


def test_publishers_belong_to_their_users(start, topic, tmp_path):
    users = [dict(name=name, token=access.token_hash(name), publish=[">"]) for name in ("alice", "bob")]
    users.append(dict(name="eve", token=access.token_hash("eve"), subscribe=[">"]))
    broker = start("-c", str(access.write(tmp_path, {"users": users})))
    with contextlib.ExitStack() as stack:
        stack.callback(broker.stop)
        alice, bob, eve = (stack.enter_context(contextlib.closing(access.rsocket(broker, access.bearer(name))))
                           for name in ("alice", "bob", "eve"))
        assert publish(alice, topic, 1, b"a") == (1, False)
        assert publish(bob, topic, 1, b"b") == (2, False)
        assert publish(alice, topic, 1, b"a") == (1, True)
        web = stack.enter_context(contextlib.closing(Web(broker)))
        bearer = ("-H", "authorization: Bearer bob")
        answer = web.send(web.topic(topic), *bearer, "-H", "forebay-publisher: p", "-H", "forebay-number: 1", body=b"b")
        assert answer.json["duplicate"] is True, "the same user over another protocol"
        assert last(bob, topic)["sequence"] == 2 and last(alice, topic)["sequence"] == 1
        refused(lambda: last(eve, topic), "forbidden: ")
        assert web.send(f"{web.base}/v1/topics/{topic}/publishers/p", "-H", "authorization: Bearer eve").status == 403
