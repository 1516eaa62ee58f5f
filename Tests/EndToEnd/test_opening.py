"""Openings: where a subscription begins, reported before its first message, so that a client that is cut off before
that message can resume."""

import contextlib
import json
import signal
import struct
import sys
from pathlib import Path

import pytest

import raw
from client import *
from grpc_client import pb
from proxy import Proxy
from web import Web

sys.path.append(str(Path(__file__).with_name("cli")))
from commands import Commands

pytestmark = pytest.mark.rsocket  # Each test chooses its protocols.

OPENING_MIME = b"application/vnd.forebay.opening"
SCHEMES = {"rsocket": "address", "http": "http"}


@pytest.fixture(scope="module")
def broker(start):
    """Topics retain eight messages."""
    this = start("--retain", "8")
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


def epoch_of(root, topic: str) -> int:
    return int(root.info(topic)["epoch"])


# RSocket


def opening(sub: Subscription) -> tuple[int, int]:
    """Epoch and next sequence, from the first PAYLOAD of a subscription, whose bytes are those of the documents."""
    frame = sub.peer.frame(sub.stream)
    assert (frame.kind, frame.data) == (raw.PAYLOAD, b"") and frame.flags == raw.M | raw.N, frame
    (content,) = [content for mime, content in raw.entries(frame.metadata) if mime == OPENING_MIME]
    assert frame.metadata == raw.entry(OPENING_MIME, content) and len(content) == 16
    sub.count()
    return struct.unpack(">QQ", content)


@pytest.mark.parametrize("mime", [raw.COMPOSITE, raw.ROUTING, b"text/plain"])
def test_an_opening_is_a_payload_of_metadata_alone(peer, root, topic, mime):
    root.numbers(topic, 1, 3)
    sub = peer(mime=mime).subscribe(f"{topic}?opening=on")
    assert opening(sub) == (epoch_of(root, topic), 4)
    root.numbers(topic, 4, 4)
    assert sub.data(1) == [b"4"]


def test_an_opening_costs_one_credit(root, topic):
    sub = root.subscribe(f"{topic}?opening=on", n=1)
    assert opening(sub)[1] == 1
    root.numbers(topic, 1, 2)
    (row,) = root.ledger(topic)
    assert (row["requested"], row["delivered"], row["outstanding"], row["waiting"]) == (1, 0, 0, 2)
    sub.nothing()
    sub.request(3)
    assert sub.data(2) == [b"1", b"2"]
    (row,) = root.ledger(topic)
    assert row["requested"] == row["delivered"] + row["outstanding"] + 1 == 4


@pytest.mark.parametrize("options, first", [
    ("", 13), ("replay=0", 13), ("replay=3", 10), ("replay=all", 5), ("replay=100", 5), ("from=7", 7), ("from=13", 13),
    ("from=2", 5), ("from=99", 13), ("from=7&epoch=1", 5), ("replay=3&overflow=latest", 12),
])
def test_an_opening_tells_the_first_message_that_comes(peer, root, topic, options, first):
    root.numbers(topic, 1, 12)
    sub = peer().subscribe(topic, *filter(None, options.split("&")), "opening=on", meta=True)
    assert opening(sub) == (epoch_of(root, topic), first)
    root.numbers(topic, 13, 13)
    assert sub.take(1)[0].sequence == first


def test_an_opening_comes_before_the_end(root, topic):
    root.numbers(topic, 1, 2)
    root.control("$SYS.topic.complete", name=topic)
    for options, next_, data in [("", 3, []), ("&replay=1", 2, [b"2"])]:
        sub = root.subscribe(f"{topic}?opening=on{options}")
        assert opening(sub) == (epoch_of(root, topic), next_)
        assert datas(sub.rest()) == data and sub.ended == End()


def test_a_refused_subscription_has_no_opening(root, topic):
    root.numbers(topic, 1, 1)
    assert refusal(root.subscribe(f"{topic}?opening=on&from=9&gap=fail")).text.startswith("gap: ")


def test_no_opening_without_asking(root, topic):
    root.numbers(topic, 1, 1)
    assert root.subscribe(f"{topic}?opening=off&replay=1").data(1) == [b"1"]


@pytest.mark.parametrize("options", ["opening=", "opening=yes", "opening=1", "opening=on&opening=on", "opening"])
def test_values_of_opening(root, topic, options):
    assert refusal(root.subscribe(f"{topic}?{options}")).kind == Kind.INVALID


def test_opening_is_of_subscriptions_alone(root, topic):
    assert root.channel(f"{topic}?opening=on", b"1").end().kind == Kind.INVALID
    assert refusal(root.subscribe("$SYS.topics?opening=on")).kind == Kind.INVALID
    with pytest.raises(StreamError, match="opening") as error:
        root.publish(f"{topic}?opening=on", b"1")
    assert error.value.kind == Kind.INVALID


def test_topics_of_the_broker_have_openings(root):
    sub = root.subscribe("$SYS.events?opening=on&replay=1", meta=True)
    told, first = opening(sub), sub.take(1)[0]
    assert told == (first.epoch, first.sequence)


def test_who_is_cut_off_before_the_first_message_misses_nothing(peer, root, topic):
    """Each attempt has its own connection, so both threads take part."""
    for first in (1, 3, 5, 7):
        cut = peer()
        epoch, next_ = opening(cut.subscribe(f"{topic}?opening=on", n=2))
        assert next_ == first
        cut.close()
        root.numbers(topic, first, first + 1)
        sub = peer().subscribe(f"{topic}?from={next_}&epoch={epoch}&gap=fail")
        assert sub.data(2) == numbers(first, first + 1)


# gRPC


def subscribed(caller, topic: str, n=10, **how):
    """A call that gives no more credit, and its first response."""
    first = pb.SubscribeRequest(open=pb.Open(topic=topic, request_n=n, **how))
    call = caller.pubsub.Subscribe(iter([first]), timeout=DEADLINE)
    return call, next(call)


@pytest.mark.parametrize("how, first", [({}, 13), ({"replay_last": 3}, 10), ({"replay_all": True}, 5),
                                        ({"from_sequence": 7}, 7), ({"from_sequence": 99}, 13)])
def test_the_first_response_tells_where_it_begins(peer, root, topic, how, first):
    root.numbers(topic, 1, 12)
    call, response = subscribed(peer("grpc"), topic, n=1, opening=True, **how)
    assert (response.epoch, response.next_sequence) == (epoch_of(root, topic), first)
    assert (len(response.messages), response.outstanding_credit) == (0, 1), "it uses no credit"
    root.numbers(topic, 13, 13)
    response = next(call)
    assert (response.messages[0].sequence, response.next_sequence) == (first, 0)
    call.cancel()
    call, response = subscribed(peer("grpc"), topic, **how)
    assert response.next_sequence == 0
    call.cancel()


def test_a_call_that_is_cut_off_before_its_first_message_misses_nothing(peer, root, topic):
    call, response = subscribed(peer("grpc"), topic, opening=True)
    call.cancel()
    root.numbers(topic, 1, 2)
    position = dict(from_sequence=response.next_sequence, epoch=response.epoch)
    again, _ = subscribed(peer("grpc"), topic, gap_fail=True, **position)
    got = list(next(again).messages)
    while len(got) < 2:
        got += next(again).messages
    assert [one.payload for one in got] == numbers(1, 2)
    again.cancel()


# Plain HTTP


class EventSource:
    """What a browser's EventSource does: it remembers the last id, and sends that id when it connects again."""

    def __init__(self, web: Web, topic: str, query: str):
        self.web, self.topic, self.query, self.id = web, topic, query, None
        self.connect()

    def connect(self):
        last = ["-H", f"last-event-id: {self.id}"] if self.id else []
        self.stream = self.web.open(self.topic, self.query, *last)
        assert self.stream.status == 200, self.stream.status

    def event(self):
        event = self.stream.event()
        self.id = event.id or self.id
        return event

    def cut(self):
        self.stream.close()


@pytest.mark.parametrize("query", ["opening=on", "opening=on&replay=2&request=9"])
def test_an_event_source_cut_off_before_its_first_message_misses_nothing(web, root, topic, query):
    source = EventSource(web, topic, query)
    for first in (1, 3, 5):
        told = source.event()
        data = json.loads(told.data)
        assert (told.type, data) == ("subscribed", {
            "subscription": source.stream.id, "epoch": str(epoch_of(root, topic)), "next": first})
        assert told.id == source.id == f"{data['epoch']}-{first - 1}"
        source.cut()
        root.numbers(topic, first, first + 1)
        source.connect()
        resumed = source.event()
        assert json.loads(resumed.data)["next"] == first
        events = [source.event() for _ in range(2)]
        assert [(one.type, one.data) for one in events] == [("message", b.decode()) for b in numbers(first, first + 1)]
        # Once more, this time after the messages.
        source.cut()
        source.connect()


def test_the_event_subscribed_has_an_id_only_with_an_opening(web, root, topic):
    root.numbers(topic, 1, 9)
    for query, next_ in [("", None), ("opening=off", None), ("opening=on&replay=2", 8), ("opening=on&replay=all", 2)]:
        told = web.open(topic, query).event()
        assert json.loads(told.data).get("next") == next_
        assert told.id == (f"{epoch_of(root, topic)}-{next_ - 1}" if next_ else None)


def test_an_event_source_cut_off_behind_a_gap_still_learns_of_it(start):
    """The requested messages are gone: without an id, the source asks for the same position again."""
    broker = start("--retain", "3")
    try:
        with contextlib.closing(broker.peer("rsocket")) as root, contextlib.closing(Web(broker, "1.1")) as web:
            root.numbers("t", 1, 9)
            source = EventSource(web, "t", "opening=on&request=1")
            source.cut()
            source.id = position = f"{epoch_of(root, 't')}-2"
            for _ in range(2):
                source.connect()
                first = source.event()
                assert json.loads(first.data)["next"] == 7 and source.id == position
                source.cut()
            source.connect()
            assert [source.event().type for _ in range(3)] == ["subscribed", "gap", "message"]
    finally:
        broker.stop()


def test_lines_begin_with_the_opening(web, root, topic):
    lines = web.lines(topic, "opening=on&request=1")
    first = lines.line()
    assert first == {"epoch": str(epoch_of(root, topic)), "next": 1}
    lines.close()
    root.numbers(topic, 1, 3)
    again = web.lines(topic, "opening=on&request=2", "-H", f"last-event-id: {first['epoch']}-{first['next'] - 1}")
    assert again.line() == first
    assert [again.line()["sequence"] for _ in range(2)] == [1, 2], "the opening uses no demand"
    assert "payload" in web.lines(topic, "replay=1").line()


@pytest.mark.parametrize("query", ["opening=", "opening=yes", "opening=on&opening=off", "opening"])
def test_values_of_opening_over_http(web, topic, query):
    answer = web.send(web.topic(topic, query))
    assert (answer.status, answer.problem) == (400, "invalid")
    assert web.send(web.topic(topic, "opening=on"), body=b"x").problem == "invalid"


# The command line


@pytest.fixture(params=SCHEMES)
def network(request, broker):
    """Between the commands and the broker."""
    with contextlib.closing(Proxy(getattr(broker, SCHEMES[request.param]))) as proxy:
        proxy.scheme = request.param
        yield proxy


@pytest.fixture
def forebay(network):
    this = Commands(network.address, network.scheme)
    yield this
    this.stop()


def test_the_command_shows_the_opening(forebay, root, topic):
    root.numbers(topic, 1, 3)
    epoch = epoch_of(root, topic)
    done = forebay.run("sub", topic, "--opening", "--replay", "2", "--count", "1")
    assert (done.returncode, done.stdout) == (0, b"2\n")
    assert f"The subscription begins with #2 of epoch {epoch}." in done.stderr.decode()
    lines = forebay.ok("sub", topic, "--opening", "--replay", "2", "--count", "2", "--json").splitlines()
    assert json.loads(lines[0]) == {"epoch": str(epoch), "next": 2} and len(lines) == 3
    assert b"next" not in forebay.ok("sub", topic, "--replay", "2", "--count", "2", "--json")
    early = forebay.start("sub", topic, "--opening", "--json")
    assert json.loads(early.stdout.readline()) == {"epoch": str(epoch), "next": 4}


def test_the_command_cut_off_before_its_first_message_misses_nothing(network, forebay, root, topic):
    reader = forebay.start("sub", topic, "--count", "2", "--opening")
    assert b"The subscription begins with #1 of epoch" in reader.stderr.readline()
    reader.send_signal(signal.SIGSTOP)
    network.cut()
    root.joined(topic, 0)
    root.numbers(topic, 1, 2)
    reader.send_signal(signal.SIGCONT)
    assert reader.communicate(timeout=DEADLINE)[0] == b"1\n2\n"
