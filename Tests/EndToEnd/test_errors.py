"""Error words: every row of the table in Protocol/errors.md, provoked on each protocol against a running broker.

A case is a function that makes a client receive an error at one of the places that the table names: `rsocket` and
`grpc` are errors of a request or stream, `connection` is stream 0 of RSocket, `http STATUS` is a problem, and `events`
and `lines` are streams over plain HTTP that end with `failed`. Cases of plain HTTP run over HTTP/1.1 and HTTP/2.
"""

import contextlib
import signal

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2

import access
import http1
from grpc_client import pb
from http2 import *
from provoked import CASES, LARGEST, PILE, STREAMS, crowd
from resuming import Refused, Resuming
from words import *

pytestmark = pytest.mark.rsocket  # Each case chooses its protocol.

EVERYTHING = dict.fromkeys(("publish", "subscribe", "control", "block"), [">", "$SYS.>"])

# The places where no client can receive a word, and why.
NEVER = {
    ("unsupported", "rsocket"): "versions and features of RSocket are chosen by SETUP, on stream 0",
    ("credit", "http 429"): "plain HTTP has no channels",
    ("unavailable", "rsocket"): "only logins are refused so, which are part of SETUP",
}


# Brokers and clients


@pytest.fixture(scope="module")
def broker(start, tmp_path_factory):
    """Clients without credentials may do everything here. Some users exist for a single case."""
    token = lambda name, **may: dict(name=name, token=access.token_hash(name), **may)
    hashed = access.password_hash(start.executable(), "secret")
    users = [token("nobody"), *(token(name, **EVERYTHING) for name in ("poor", "gone-1", "gone-2"))]
    users += [dict(name=f"{place}-{n}", password=hashed, **EVERYTHING)
              for place in ("connection", "grpc", "http-503") for n in PILE]
    settings = {"users": users, "anonymous": EVERYTHING, "max-payload": LARGEST, "max-subscriptions-per-user": 40,
                "park-time": "1s", "request-time": "1s",
                "topics": [{"match": "bytes.>", "retain-bytes": 4096}]}
    folder = tmp_path_factory.mktemp("errors")
    this = start("-c", str(access.write(folder, settings)), "--admin", "127.0.0.1:0")

    def remove(user: str):
        settings["users"] = [one for one in settings["users"] if one["name"] != user]
        access.write(folder, settings)
        this.process.send_signal(signal.SIGHUP)

    this.remove = remove
    poor = access.rsocket(this, access.bearer("poor"))
    for _ in range(40):
        poor.subscribe("poor")
    poor.joined("poor", 40)
    yield this
    poor.close()
    this.stop()


@pytest.fixture(scope="module")
def strict(start):
    """Few connections, little time for SETUP, no resumption."""
    this = start("--max-connections", "3", "--setup-time", "500ms", "--resume-time", "off")
    yield this
    this.stop()


@pytest.fixture(scope="module")
def full(start, tmp_path_factory):
    """A broker whose store has no room for another message of 1 MB."""
    this = start("--store", str(tmp_path_factory.mktemp("store")), "--store-bytes", "16M", "--durable", ">",
                 "--retain-bytes", "1G")
    peer = this.peer()
    with pytest.raises(StreamError, match="store: full"):
        for _ in range(20):
            peer.publish("most", bytes(1_000_000))
    peer.close()
    yield this
    this.stop()


@pytest.fixture(scope="module")
def drained(start):
    """The errors that clients receive while a broker shuts down, by place and version of HTTP. A client that does not
    read its messages keeps the broker from ending."""
    with contextlib.ExitStack() as stack:
        keep = lambda one: stack.callback(one.close) and one
        broker = start("--drain-time", "1h", threads=1)
        stack.callback(broker.process.wait)
        stack.callback(broker.process.kill)
        lazy, peer, caller = (keep(broker.peer(*how)) for how in ([], [], ["grpc"]))
        lazy.subscribe("long")
        peer.joined("long", 1)
        peer.publish("long", *[bytes(1 << 20)] * 8)
        channels = peer.channel("t", b"0"), caller.channel("t", b"0")
        for channel in channels:
            channel.until(lambda: channel.acks)
        web, silent = keep(Web(broker)), keep(raw.Connection(broker.address))
        events, lines = web.events("t"), web.lines("t")
        line, wire = keep(http1.Line(broker.http)), keep(Wire(broker.http))
        peer.subscribe("full?overflow=block&buffer=1", n=1)
        peer.joined("full", 1)
        peer.publish("full", b"1", b"2")
        line.send(http1.post("full", b"x"))
        peer.parked("full", 1)
        wire.send(plain(wire, 1, "GET", "t", "?replay=all&request=1"))
        wire.until(lambda this: 1 in this.answers)
        broker.process.send_signal(signal.SIGTERM)
        wire.until(lambda this: this.notified)
        wire.send(plain(wire, 3, "POST", "t"))
        yield {"rsocket": ended("rsocket", channels[0].end), "grpc": ended("grpc", channels[1].end),
               "connection": of_connection(silent), "http 503 1.1": problem_on(line), "http 503 2": problem_of(wire, 3),
               "goaway": of_goaway(wire), "events": events.event(), "lines": lines.line()}


@case("publisher", "rsocket", "grpc", "http 409")
def a_number_that_does_not_follow(here):
    if here.place == "rsocket":
        return ended("rsocket", here.peer().offer(f"{here.topic}?publisher=p&number=2", b"2").sequence)
    if here.place == "http 409":
        return here.send("-H", "forebay-publisher: p", "-H", "forebay-number: 2", body=b"2")
    request = pb.PublishOneRequest(topic=here.topic, message=pb.Message(payload=b"2"), publisher_id="p", number=2)
    return ended("grpc", lambda: here.peer().pubsub.PublishOne(request, timeout=DEADLINE))


@case("store", "rsocket", "grpc", "http 503")
def a_full_store(here):
    here.broker = here.request.getfixturevalue("full")
    if here.place == "http 503":
        return here.send(body=bytes(1_000_000))
    return ended(here.place, here.peer().offer(here.topic, bytes(1_000_000)).sequence)


@case("closed-by-operator", *STREAMS)
def a_subscription_that_is_closed(here):
    root, taken = here.subscribe()
    root.control("$SYS.subscription.close", id=str(root.ledger(here.topic)[0]["id"]))
    return taken()


@case("closed-by-operator", "connection")
def a_connection_that_is_closed(here):
    peer = here.peer("rsocket")
    peer.subscribe(here.topic)
    root = here.peer("rsocket")
    root.joined(here.topic, 1)
    root.control("$SYS.connection.close", id=root.ledger(here.topic)[0]["connection"])
    return of_connection(peer)


@pytest.mark.parametrize("word, place, type, version, function", CASES)
def test_the_word_and_code_are_those_of_the_table(request, topic, word, place, type, version, function):
    here = Here(request, topic, place, version)
    with here.stack:
        told = function(here)
    assert told.target == place
    told.check(word, type)


def test_every_place_of_the_table_has_a_case_or_a_reason():
    provoked = {case.values[:2] for case in CASES}
    named = {(word, place) for word, row in TABLE.items() for place in row.targets}
    assert provoked <= named
    assert named - provoked == NEVER.keys(), "these have no case, or a case and a reason"


# Cases outside the table


def test_streams_over_plain_http_stop_when_the_broker_shuts_down(drained):
    assert drained["events"] is None and drained["lines"] == {"end": "draining"}


@pytest.mark.parametrize("version", ["1.1", "2"])
@pytest.mark.parametrize("place", ["events", "lines", "grpc"])
def test_streams_of_a_connection_that_is_closed_can_be_resumed(request, topic, place, version):
    """Streams end as when the connection is lost: EventSource reconnects, and gRPC reports UNAVAILABLE."""
    here = Here(request, topic, place, version)
    with here.stack:
        root, taken = here.subscribe()
        root.control("$SYS.connection.close", id=root.ledger(topic)[0]["connection"])
        if place == "grpc":
            told = taken()
            assert told.code == grpc.StatusCode.UNAVAILABLE and told.text.startswith("closed-by-operator: "), told
        elif place == "lines":
            assert here.last.line() is None
        else:
            assert not any(event.type == "failed" for event in iter(here.last.event, None))


@pytest.fixture
def goaway(request, topic, broker):
    here = Here(request, topic, "goaway", "2")
    with here.stack:
        yield here


def test_goaway_of_a_shutdown_has_the_word(drained):
    drained["goaway"].check("draining")


def test_goaway_of_a_connection_too_many_has_the_word(goaway):
    crowd(goaway)
    of_goaway(goaway.wire()).check("limit")


@pytest.mark.parametrize("word, frames", [
    ("limit", frame(PING, 0, 0, bytes(8)) * 250), ("limit", settings() * 150),
    ("protocol", frame(PRIORITY, 0, 0, bytes(5))),
])
def test_goaway_of_a_rule_that_is_broken_has_the_word(goaway, word, frames):
    wire = goaway.wire()
    wire.roundtrip()
    wire.send(frames)
    of_goaway(wire).check(word)


def test_goaway_of_an_operator_has_the_word(goaway):
    wire, root = goaway.wire(), goaway.peer("rsocket")
    wire.send(wire.call(1, SUBSCRIBE, open_of(goaway.topic[:80])))
    root.joined(goaway.topic[:80], 1)
    (row,) = root.ledger(goaway.topic[:80])
    root.control("$SYS.connection.close", id=row["connection"])
    of_goaway(wire).check("closed-by-operator")


def test_a_resumption_is_refused_with_a_word(broker, topic):
    """`too-large` applies to a token that no SETUP may have."""
    this = Resuming(broker.address)
    this.greet()

    def refused(word: str, **how):
        with pytest.raises(Refused) as error:
            this.resume(**how)
        assert CODES[error.value.code][0] == "REJECTED_RESUME" and word in RESUMPTION
        Told("connection", error.value.code, error.value.text).check(word)

    refused("gap", server=1)
    refused("gap", client=1)
    refused("not-found", token=bytes(16))
    this.resume()
    this.end()


def test_reflection_has_the_word_in_its_response(broker):
    peer = broker.peer("grpc")
    call = peer.channel_.stream_stream(
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString)
    (response,) = call(iter([reflection_pb2.ServerReflectionRequest(file_containing_symbol="no.such.Symbol")]))
    (code,) = [code for code in grpc.StatusCode if code.value[0] == response.error_response.error_code]
    Told("grpc", code, response.error_response.error_message).check("not-found")
    peer.close()
