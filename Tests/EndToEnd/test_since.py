"""since: subscriptions that begin at a time. The broker's time of day is simulated; messages are a minute apart."""

import contextlib
import json
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import grpc
import pytest

from client import *
from clock import Clock
from grpc_client import pb
from web import Web

sys.path.append(str(Path(__file__).with_name("cli")))
from commands import Commands

pytestmark = pytest.mark.rsocket  # Each test chooses its protocols.

SECOND, MINUTE, RETAINED = 1_000_000_000, 60, 8
SCHEMES = {"rsocket": "address", "http": "http"}


@pytest.fixture(scope="module")
def clock(tmp_path_factory):
    return Clock(tmp_path_factory.mktemp("clock"))


@pytest.fixture(scope="module")
def broker(start, clock):
    this = start("--retain", str(RETAINED), variables=clock.variables)
    yield this
    this.stop()


@pytest.fixture
def peer(broker):
    """Opens connections, which are on both threads in turn."""
    with contextlib.ExitStack() as stack:

        def open_peer(transport="rsocket", to=broker) -> Observer:
            one = to.peer(transport)
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


@pytest.fixture
def times(root, topic, clock) -> list[int]:
    """The timestamps of messages 1 to 6. The last one is a minute old."""
    return minutes(root, topic, clock, 6)


def minutes(root, topic: str, clock: Clock, count: int) -> list[int]:
    for number in range(1, count + 1):
        root.publish(topic, b"%d" % number)
        clock.step(clock.offset + MINUTE)
    sub = root.subscribe(f"{topic}?replay=all", meta=True)
    got = [one.timestamp for one in sub.take(min(count, RETAINED))]
    sub.cancel()
    return got


def iso(timestamp: int, hours: int = 0) -> str:
    """A timestamp with nine digits of a fraction, in UTC or in another time zone."""
    seconds, fraction = divmod(timestamp, SECOND)
    local = datetime.fromtimestamp(seconds, timezone(timedelta(hours=hours)))
    offset = "Z" if hours == 0 else local.isoformat()[-6:]
    return f"{local:%Y-%m-%dT%H:%M:%S}.{fraction:09}{offset}"


def ahead(clock: Clock) -> str:
    """An hour from now."""
    return datetime.fromtimestamp(int(clock.now()) + 3600, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def begins(peer, root, topic: str, since: str, expected: int, published: int = 6):
    """Whether new subscriptions, on either thread, begin with this message and miss none after it."""
    for one in (peer(), peer()):
        sub = one.subscribe(topic, f"since={since}", "gap=fail", meta=True)
        got = sub.take(published + 1 - expected)
        assert [int(one.data) for one in got] == list(range(expected, published + 1)), since
        assert not any(one.dropped for one in got)
        one.barrier(topic)
        sub.nothing()
        sub.cancel()


# RSocket


def test_a_subscription_begins_at_a_time(peer, root, topic, times):
    for number, timestamp in enumerate(times, 1):
        begins(peer, root, topic, iso(timestamp), number)
    begins(peer, root, topic, iso(times[2] + 1), 4)
    begins(peer, root, topic, iso(times[2], hours=2).replace("+", "%2B"), 3)
    begins(peer, root, topic, iso(times[2], hours=-9), 3)
    begins(peer, root, topic, iso(times[4] - SECOND)[:19] + "Z", 5)
    begins(peer, root, topic, "1970-01-01T00:00:00Z", 1)


@pytest.mark.parametrize("since, first", [
    ("-90s", 6), ("-90000ms", 6), ("-3m", 5), ("-1h", 1), ("-7d", 1), ("-30s", 7), ("-0s", 7),
])
def test_a_duration_counts_back_from_the_request(peer, root, topic, times, since, first):
    # Message 6 is a minute old, and message 4 a little more than three minutes.
    begins(peer, root, topic, since, first)


def test_a_time_in_the_future_begins_with_the_next_message(peer, root, topic, times, clock):
    subs = [peer().subscribe(topic, f"since={since}") for since in (ahead(clock), iso(times[-1] + 1), "-1s")]
    root.joined(topic, 3)
    root.numbers(topic, 7, 8)
    assert [sub.data(2) for sub in subs] == [numbers(7, 8)] * 3


def test_a_topic_without_messages(peer, root, topic):
    sub = root.subscribe(f"{topic}?since=-1h")
    root.numbers(topic, 1, 2)
    assert sub.data(2) == numbers(1, 2)


def test_a_time_before_the_window_is_no_gap(peer, root, topic, clock):
    times = minutes(root, topic, clock, RETAINED + 3)
    for since in ("-1h", iso(times[0] - 2 * MINUTE * SECOND)):
        begins(peer, root, topic, since, 4, RETAINED + 3)


def test_an_opening_tells_where_it_begins(peer, root, topic, times):
    sub = peer().subscribe(topic, f"since={iso(times[3])}", "opening=on")
    frame = sub.peer.frame(sub.stream)
    assert frame.metadata[-8:] == (4).to_bytes(8, "big"), frame
    sub.count()
    assert sub.data(3) == numbers(4, 6)


def test_policies_apply_as_with_replay(peer, topic, times):
    latest = peer().subscribe(topic, "since=-1h", "overflow=latest", meta=True).take(1)[0]
    assert (latest.data, latest.dropped) == (b"6", 0)
    assert peer().subscribe(topic, "since=-1h", "buffer=1", "overflow=fail").data(6) == numbers(1, 6)


WRONG = [
    "since=", "since", "since=5m", "since=-5", "since=-5y", "since=now", "since=2026-11-22",
    "since=2026-13-22T09:30:00Z", "since=2026-02-29T09:30:00Z", "since=2026-11-22T09:30:00",
    "since=1969-12-31T23:59:59Z", "since=-106752d", "since=-5m&since=-5m", "since=-5m&replay=1",
    "since=-5m&replay=all", "since=-5m&from=1", "since=-5m&epoch=1",
]


@pytest.mark.parametrize("options", WRONG)
def test_values_of_since(root, topic, options):
    refused = refusal(root.subscribe(f"{topic}?{options}"))
    assert refused.kind == Kind.INVALID and refused.text.startswith("invalid: ")


def test_since_is_of_subscriptions_alone(root, topic):
    assert root.channel(f"{topic}?since=-5m", b"1").end().kind == Kind.INVALID
    assert refusal(root.subscribe("$SYS.topics?since=-5m")).kind == Kind.INVALID


def test_topics_of_the_broker_have_times(root):
    first = root.subscribe("$SYS.events?replay=1", meta=True).take(1)[0]
    assert root.subscribe(f"$SYS.events?since={iso(first.timestamp)}", meta=True).take(1)[0] == first


def test_timestamps_do_not_decrease(start, tmp_path):
    """With a clock that is set back, a search by time still finds every message."""
    clock = Clock(tmp_path)
    broker = start(variables=clock.variables)
    with contextlib.closing(broker.peer()) as root:
        root.numbers("t", 1, 2)
        clock.step(-3600)
        root.numbers("t", 3, 4)
        times = [one.timestamp for one in root.subscribe("t?replay=all", meta=True).take(4)]
        assert times[1] == times[2] == times[3]
        assert root.subscribe(f"t?since={iso(times[3])}").data(3 if times[0] < times[1] else 4)[-1] == b"4"
        clock.step(3600)
        root.numbers("t", 5, 5)
        assert root.subscribe(f"t?since={iso(times[3] + 1)}").data(1) == [b"5"]
    broker.stop()


# gRPC


def called(caller, topic: str, **how) -> list[int]:
    """What a call receives that asks for messages with the given field, as numbers; the last one is 6."""
    first = pb.SubscribeRequest(open=pb.Open(topic=topic, request_n=100, opening=True, **how))
    call = caller.pubsub.Subscribe(iter([first]), timeout=DEADLINE)
    expected, got = 7 - next(call).next_sequence, []
    while len(got) < expected:
        got += [int(one.payload) for one in next(call).messages]
    call.cancel()
    return got


def test_calls_begin_at_a_time(peer, topic, times):
    caller = peer("grpc")
    assert called(caller, topic, since_ns=times[2]) == [3, 4, 5, 6]
    assert called(caller, topic, since_ns=times[2] + 1) == [4, 5, 6]
    assert called(caller, topic, since_ago_ns=90 * SECOND) == [6]
    assert called(caller, topic, since_ago_ns=(1 << 64) - 1) == called(caller, topic, since_ns=1) == list(range(1, 7))
    assert called(caller, topic, since_ns=(1 << 63) - 1) == called(caller, topic, since_ago_ns=1) == []


@pytest.mark.parametrize("how", [
    dict(since_ns=5, since_ago_ns=5), dict(since_ns=5, replay_all=True), dict(since_ago_ns=5, replay_last=1),
    dict(since_ns=5, from_sequence=1), dict(since_ago_ns=5, epoch=1), dict(since_ns=-1),
])
def test_times_that_calls_may_not_ask_for(peer, topic, how):
    with pytest.raises(grpc.RpcError) as error:
        called(peer("grpc"), topic, **how)
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert error.value.details().startswith("invalid: ")


# Plain HTTP


def test_event_streams_begin_at_a_time(web, topic, times):
    for since, first in [(iso(times[3]), 4), (iso(times[3] + 1), 5), ("-90s", 6), (iso(times[1], hours=5), 2)]:
        events = web.events(topic, f"since={since}")
        assert [int(events.event().data) for _ in range(first, 7)] == list(range(first, 7)), since
        events.close()


def test_lines_begin_at_a_time(web, root, topic, times):
    lines = web.lines(topic, f"since={iso(times[4])}")
    assert [lines.line()["timestamp"] for _ in range(2)] == [str(one) for one in times[4:]]
    # An offset may be percent-encoded.
    lines = web.lines(topic, f"since={iso(times[5], hours=5).replace('+', '%2B')}&opening=on")
    assert lines.line()["next"] == 6 and lines.line()["sequence"] == 6


def test_last_event_id_takes_precedence_over_since(web, root, topic, times):
    """A reconnecting EventSource repeats its query."""
    epoch = root.info(topic)["epoch"]
    events = web.events(topic, "since=-1h", "-H", f"last-event-id: {epoch}-4")
    assert [int(events.event().data) for _ in range(2)] == [5, 6]


@pytest.mark.parametrize("query", WRONG)
def test_values_of_since_over_http(web, topic, query):
    answer = web.send(web.topic(topic, query))
    assert (answer.status, answer.problem) == (400, "invalid")
    assert web.send(web.topic(topic, query), "-I").status == 400


def test_publishes_over_http_take_no_time(web, topic):
    assert web.send(web.topic(topic, "since=-5m"), body=b"x").problem == "invalid"


# The command line


@pytest.fixture(params=SCHEMES)
def forebay(request, broker):
    this = Commands(getattr(broker, SCHEMES[request.param]), request.param)
    yield this
    this.stop()


def test_the_command_begins_at_a_time(forebay, topic, times):
    for words in (["--since", "-90s"], ["--since=-90s"], ["--since", iso(times[5])]):
        assert forebay.ok("sub", topic, *words, "--count", "1") == b"6\n"
    for since in (iso(times[2]), iso(times[1] + 1), iso(times[2], hours=2)):
        assert forebay.ok("sub", "--since", since, topic, "--count", "4") == b"3\n4\n5\n6\n"
    lines = forebay.ok("sub", topic, "--since", iso(times[4]), "--count", "2", "--json", "--meta").splitlines()
    assert [json.loads(line)["sequence"] for line in lines] == [5, 6]


@pytest.mark.parametrize("words, part", [
    (["--since", "5m"], "--since=5m is neither a time such as 2026-11-22T09:30:00Z nor a duration such as -5m"),
    (["--since", "2026-02-29T09:30:00Z"], "not in the calendar"), (["--since"], "--since needs a value"),
    (["--since", "-5m", "--replay", "3"], "--replay and --since are mutually exclusive"),
    (["--since", "-5m", "--from", "3"], "--from and --since are mutually exclusive"),
    (["--since", "-5m", "--epoch", "3"], "--epoch needs --from"),
])
def test_times_that_the_command_does_not_take(forebay, topic, words, part):
    done = forebay.run("sub", topic, *words)
    assert done.returncode == 2 and part in done.stderr.decode()
