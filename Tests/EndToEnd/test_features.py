"""What lets clients and brokers of several versions agree: options that begin with `x-`, the protocol's number and
features, and options of control requests that are in the data because a route has no room for them."""

import contextlib
import json
import re

import pytest

from admin import Admin
from client import *
from grpc_client import PROTOCOL, pb
from web import Web

pytestmark = pytest.mark.rsocket  # Each test chooses its protocols.


@pytest.fixture(scope="module")
def broker(start):
    this = start("--admin", "127.0.0.1:0")
    yield this
    this.stop()


@pytest.fixture
def root(broker):
    with contextlib.closing(broker.peer()) as this:
        yield this


@pytest.fixture
def web(broker, http_version):
    this = Web(broker, http_version)
    yield this
    this.close()


# Options that a broker does not know


@pytest.mark.parametrize("path", ["{}?x-new=1", "{}?x-a=1&x-b=2&replay=1", "{}?x-=", "{}?replay=1&x-opening=maybe"])
def test_subscriptions_ignore_options_that_begin_with_x(root, topic, path):
    root.numbers(topic, 1, 1)
    sub = root.subscribe(path.format(topic), "x-tag=1")
    root.joined(topic, 1)
    root.numbers(topic, 2, 2)
    assert sub.data(1) == [b"1" if "replay" in path else b"2"]


def test_publishes_and_lists_ignore_them(root, topic):
    assert root.publish(f"{topic}?x-new=1", b"1") == [1]
    root.fire(f"{topic}?x-new=1", b"2")
    channel = root.channel(f"{topic}?x-new=1&complete=true", b"3", complete=True)
    assert channel.end() == End() and channel.acks[-1][0] == 3
    assert topic in [row["name"] for row in root.listing("$SYS.topics?x-new=1")]


def test_control_requests_ignore_them(root, topic):
    root.numbers(topic, 1, 1)
    assert root.control("$SYS.info", **{"x-new": "1"})["name"] == "forebay"
    assert root.control("$SYS.topic.info", name=topic, **{"x-new": "1"})["next"] == 2
    stream = root.call("$SYS.topic.info", f"x-new=1&name={topic}&x-other=".encode())
    assert json.loads(root.answer(stream).data)["next"] == 2


@pytest.mark.parametrize("options", ["y-new=1", "x=1", "xnew=1", "X-new=1", "x-new", "x-new=1&x-new=2"])
def test_other_unknown_options_are_refused(root, web, topic, options):
    assert refusal(root.subscribe(f"{topic}?{options}")).kind == Kind.INVALID
    with pytest.raises(StreamError) as error:
        root.answer(root.call(f"$SYS.info?{options}"))
    assert error.value.kind == Kind.INVALID
    assert web.send(web.topic(topic, options)).problem == "invalid"


def test_requests_over_http_ignore_options_that_begin_with_x(web, topic):
    assert web.send(web.topic(topic, "x-new=1"), body=b"1").json["sequence"] == 1
    lines = web.lines(topic, "x-new=1&replay=1&request=1&x-other=2")
    assert lines.line()["sequence"] == 1
    assert web.ask(lines.id, "1&x-new=1").status == 204
    assert web.send(web.topic(topic, "x-new=1"), "-I").status == 200


def test_calls_ignore_fields_that_are_unknown(broker, topic):
    new, caller = b"\xfa\x3e\x03new", broker.peer("grpc")  # Field 1007.
    publish = caller.channel_.unary_unary("/forebay.v1.PubSub/PublishOne")
    request = pb.PublishOneRequest(topic=topic, message=pb.Message(payload=b"1"))
    assert pb.PublishOneResponse.FromString(publish(request.SerializeToString() + new, timeout=DEADLINE)).sequence == 1
    open_ = pb.Open(topic=topic, request_n=1, replay_all=True).SerializeToString() + new
    subscribe = caller.channel_.stream_stream("/forebay.v1.PubSub/Subscribe")
    call = subscribe(iter([b"\x0a" + bytes([len(open_)]) + open_ + new]), timeout=DEADLINE)
    responses = [pb.SubscribeResponse.FromString(one) for one in call]
    assert [one.payload for response in responses for one in response.messages] == [b"1"]
    caller.close()


# What a broker has


def features() -> set[str]:
    """The features in the table of Protocol/control.md."""
    section = (PROTOCOL / "control.md").read_text().partition("| feature | meaning |")[2].partition("\n\n")[0]
    return set(re.findall(r"^\| `(.+?)` \|", section, re.MULTILINE))


def told(broker) -> list[tuple[int, list[str]]]:
    """The protocol's number and the features, as reported over each protocol."""
    with contextlib.closing(broker.peer()) as peer, contextlib.closing(broker.peer("grpc")) as caller:
        answer = caller.admin.Info(pb.InfoRequest(), timeout=DEADLINE)
        objects = [peer.control("$SYS.info"), json.loads(answer.json), Admin(broker).json("api/v1/info")]
        return [(one["protocol"], one["features"]) for one in objects] + [(answer.protocol, list(answer.features))]


def test_protocol_and_features_are_told_over_each_protocol(broker):
    first, *others = told(broker)
    assert others == [first] * 3
    assert first[0] == 1 and set(first[1]) == features() >= {"opening", "control-data", "resume"}
    assert first[1] == sorted(set(first[1]))


def test_a_feature_that_is_turned_off_is_not_told(start):
    broker = start("--resume-time", "off", "--admin", "127.0.0.1:0")
    assert [set(names) for _, names in told(broker)] == [features() - {"resume"}] * 4
    broker.stop()


# Options of control requests in their data


def asked(root, path: str, data: bytes) -> dict:
    return json.loads(root.answer(root.call(path, data)).data)


def test_options_in_the_data_of_control_requests(root, topic):
    root.numbers(topic, 1, 1)
    assert asked(root, "$SYS.topic.info", f"name={topic}".encode())["next"] == 2
    assert asked(root, "$SYS.topic.info?for=publish", f"name={topic.replace('t', '%74')}".encode())["name"] == topic
    sub, words = root.subscribe(topic), "a+b & " + "ö" * 500
    failed = asked(root, f"$SYS.topic.fail?name={quote(topic)}", f"message={quote(words)}".encode())
    assert (failed["state"], failed["error"]) == ("failed", words)
    assert sub.end().text == f"topic failed: {words}"
    assert asked(root, "$SYS.topic.delete", f"name={topic}".encode())["epoch"] == failed["epoch"]


def test_a_topic_with_the_longest_name_is_named_in_the_data(root, topic):
    name = (topic + "." + "n" * 255)[:255]
    root.publish(name, b"1")
    assert asked(root, "$SYS.topic.complete", f"name={name}".encode())["state"] == "completed"


@pytest.mark.parametrize("path, data, word", [
    ("$SYS.topic.info?name={}", b"name={}", "invalid"), ("$SYS.topic.info", b"name", "invalid"),
    ("$SYS.topic.info", b"name={}&nope=1", "invalid"), ("$SYS.topic.info", b"name=%zz", "invalid"),
    ("$SYS.topic.info", b"name=\xff", "invalid"), ("$SYS.topic.info", b"?name={}", "invalid"),
    ("$SYS.info", b"{{}}", "invalid"), ("$SYS.topic.info", b"name=no.such", "not-found"),
    ("$SYS.topic.info", b"name={}&x-long=" + bytes(8192).replace(b"\0", b"x"), "too-large"),
])
def test_data_of_control_requests_that_is_refused(root, topic, path, data, word):
    root.numbers(topic, 1, 1)
    with pytest.raises(StreamError) as error:
        asked(root, path.format(topic), data.replace(b"{}", topic.encode()))
    assert error.value.text.startswith(f"{word}: ")


def test_data_of_publishes_is_not_read(root, topic):
    assert root.publish(topic, b"name=x&nope", b"\xff") == [1, 2]
