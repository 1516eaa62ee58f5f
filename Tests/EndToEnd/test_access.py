"""Users and permissions, over each protocol and with independent clients."""

import asyncio
import json
import subprocess

import grpc
import pytest
from rsocket.extensions.helpers import authenticate_bearer, authenticate_simple, composite, route
from rsocket.extensions.mimetypes import WellKnownMimeTypes
from rsocket.helpers import single_transport_provider
from rsocket.payload import Payload
from rsocket.rsocket_client import RSocketClient
from rsocket.transports.tcp import TransportTCP

import raw
from access import *
from curl import VERSIONS, Curl, path

PASSWORD = "correct horse: battery"
SUBSCRIBE, BLOCK, PUBLISH, CONTROL = "subscribe", "block", "publish", "control"


@pytest.fixture(scope="module")
def hashed(start):
    return password_hash(start.executable(), PASSWORD)


def users(hashed) -> dict:
    """One user for each single permission, one with all, and one with none."""
    alone = [dict(name=f"only-{one}", token=token_hash(f"only-{one}"), **{one: ["t.>", "$SYS.>"]})
             for one in (PUBLISH, SUBSCRIBE, CONTROL, BLOCK)]
    everything = {one: [">", "$SYS.>"] for one in (PUBLISH, SUBSCRIBE, CONTROL, BLOCK)}
    return {"users": alone + [
        dict(name="root", password=hashed, token=token_hash("root"), **everything),
        dict(name="nobody", token=token_hash("nobody")),
        dict(name="blocker", token=token_hash("blocker"), subscribe=["t.>"], block=["t.>"]),
    ]}


@pytest.fixture(scope="module")
def guarded(start, tmp_path_factory, hashed):
    this = start("-c", str(write(tmp_path_factory.mktemp("access"), users(hashed))))
    yield this
    this.stop()


# Authentication


@pytest.mark.parametrize("entry", [simple("root", PASSWORD), bearer("root")])
def test_setup_lets_in(guarded, entry):
    rsocket(guarded, entry).close()


@pytest.mark.parametrize("entry, text", [
    (None, "This broker requires credentials"), (simple("root", "wrong"), "The credentials are wrong"),
    (simple("stranger", PASSWORD), "The credentials are wrong"), (bearer("stranger"), "The credentials are wrong"),
    (simple("only-publish", "guess"), "The credentials are wrong"),
    (raw.entry(AUTHENTICATION, b"\x80\x00\xff"), "The credentials are malformed"),
    (bearer("x") + bearer("root"), "The credentials are malformed"),
    (bearer("x" * 9000), "The credentials are malformed"),
])
def test_setup_turns_away(start, tmp_path, hashed, entry, text):
    broker = start("-c", str(write(tmp_path, users(hashed))))
    with pytest.raises(Rejected, match=text):
        rsocket(broker, entry)
    # The log contains no secrets, and no names except those of existing users.
    broker.stop()
    assert not any(word in line for line in broker.log for word in ("stranger", PASSWORD, "guess"))


def test_rsocket_py_logs_in(guarded):
    async def ask(metadata):
        transport = TransportTCP(*await asyncio.open_connection(*guarded.address))
        client = RSocketClient(single_transport_provider(transport),
                               metadata_encoding=WellKnownMimeTypes.MESSAGE_RSOCKET_COMPOSITE_METADATA,
                               setup_payload=Payload(metadata=metadata))
        await client.connect()
        try:
            return (await client.request_response(Payload(b"", composite(route("$SYS.info"))))).data
        finally:
            await client.close()

    for metadata in (composite(authenticate_simple("root", PASSWORD)), composite(authenticate_bearer("root"))):
        assert json.loads(asyncio.run(asyncio.wait_for(ask(metadata), 20)))["name"] == "forebay"


def test_requests_right_behind_setup_wait(guarded):
    peer = raw.Connection(guarded.address)
    requests = [raw.request(raw.REQUEST_RESPONSE, 2 * i + 1, b"x", raw.route("t.behind")) for i in range(200)]
    peer.send(raw.setup(metadata=simple("root", PASSWORD)), *requests)
    assert [int(peer.frame(2 * i + 1).data) for i in range(200)] == list(range(1, 201))
    peer.close()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("header, status", [
    (None, 401), ("Basic !", 401), ("Digest x", 401), ("Bearer stranger", 401), ("Bearer nobody", 403),
    (basic("stranger", "x"), 401), (basic("root", PASSWORD), 200), ("Bearer root", 200), ("bearer root", 200),
])
def test_plain_requests_say_who_makes_them(guarded, version, header, status):
    curl = Curl(guarded.http, VERSIONS[version])
    given = ("-H", f"authorization: {header}") if header else ()
    for body in (b"x", b"y" * 200_000):
        reply = curl.publish("t.plain", body, *given)
        assert reply.status == status
        if status == 401:
            reply.problem(401, "unauthenticated")
            assert "www-authenticate" in reply.headers
        elif status == 403:
            reply.problem(403, "forbidden")


@pytest.mark.parametrize("header, status", [
    (None, grpc.StatusCode.UNAUTHENTICATED), ("Bearer stranger", grpc.StatusCode.UNAUTHENTICATED),
    (basic("root", "x"), grpc.StatusCode.UNAUTHENTICATED), ("Bearer nobody", grpc.StatusCode.PERMISSION_DENIED),
    (basic("root", PASSWORD), None), ("Bearer root", None),
])
def test_calls_say_who_makes_them(guarded, header, status):
    with Calls(guarded, header) as calls:
        for size in (1, 200_000):
            request = pb.PublishOneRequest(topic="t.call", message=pb.Message(payload=b"x" * size))
            assert calls.refusal(lambda how: calls.pubsub.PublishOne(request, **how)) == status


def test_a_megabyte_of_token_is_refused(guarded):
    with pytest.raises((Rejected, AssertionError, raw.Closed)):
        rsocket(guarded, bearer("x" * (1 << 20)))
    for version in VERSIONS.values():
        reply = subprocess.run(["curl", "-q", "-sS", "-o", "/dev/null", "-w", "%{http_code}", *version,
                                "http://%s:%d" % guarded.http + path("t"), "-H", "@-"],
                               input=b"authorization: Bearer " + b"x" * (1 << 20), capture_output=True)
        assert reply.stdout != b"200"
    # The broker still serves others.
    rsocket(guarded, bearer("root")).close()


# Authorization

RSOCKET = {
    "subscribe": (SUBSCRIBE, lambda peer: peer.subscribe("t.a?replay=1", n=1).event()),
    "events": (CONTROL, lambda peer: peer.subscribe("$SYS.events?replay=1", n=1).event()),
    "publish": (PUBLISH, lambda peer: peer.offer("t.a", b"x").sequence()),
    "channel": (PUBLISH, lambda peer: peer.channel("t.a", b"x", complete=True).end()),
    "info": (None, lambda peer: peer.control("$SYS.topic.info", name="t.a")),
    "info to publish": (PUBLISH, lambda peer: peer.control("$SYS.topic.info", **{"name": "t.a", "for": "publish"})),
    "fail": (CONTROL, lambda peer: peer.control("$SYS.topic.fail", name="t.b")),
    "delete": (CONTROL, lambda peer: peer.control("$SYS.topic.delete", name="t.c")),
    "complete": (CONTROL, lambda peer: peer.control("$SYS.topic.complete", name="t.d")),
}


@pytest.mark.parametrize("user", ["only-publish", "only-subscribe", "only-control", "only-block", "nobody"])
def test_each_permission_over_rsocket(start, tmp_path, hashed, user):
    broker = start("-c", str(write(tmp_path, users(hashed))))
    root = rsocket(broker, bearer("root"))
    for topic in "abcd":
        root.publish(f"t.{topic}", b"old")
    peer = rsocket(broker, bearer(user))
    for name, (needed, action) in RSOCKET.items():
        refusal = refused(lambda: action(peer))
        isAllowed = user == f"only-{needed}" if needed else user not in ("only-block", "nobody")
        assert (refusal is None) == isAllowed, (name, refusal)
        if refusal:
            assert refusal.startswith(f"0x202 forbidden: User '{user}' may not "), refusal
    # A fire-and-forget publish is dropped silently.
    before = root.control("$SYS.topic.info", name="t.a")["published"]
    peer.fire("t.a", b"fired")
    assert refused(lambda: peer.control("$SYS.info")) is None  # Available to everybody.
    for kind in ("connection", "subscription"):
        told = refused(lambda: peer.control(f"$SYS.{kind}.close", id="7-7-7" if kind == "connection" else "777"))
        assert (f"may not control '$SYS.{kind}s'" in told) == (user != "only-control")
    published = root.control("$SYS.topic.info", name="t.a")["published"] - before
    assert published == (1 if user == "only-publish" else 0)
    for one in (peer, root):
        one.close()
    broker.stop()


def test_block_takes_its_own_permission(guarded):
    for user, isAllowed in (("only-subscribe", False), ("only-block", False), ("blocker", True)):
        peer = rsocket(guarded, bearer(user))
        rsocket(guarded, bearer("root")).publish("t.block", b"x")
        refusal = refused(lambda: peer.subscribe("t.block?overflow=block&replay=1", n=1).event())
        assert (refusal is None) == isAllowed, refusal
        peer.close()


@pytest.mark.parametrize("user", ["only-publish", "only-subscribe", "only-control", "only-block", "nobody"])
def test_each_permission_over_grpc(guarded, user):
    with Calls(guarded, "Bearer root") as root:
        request = pb.PublishOneRequest(topic="t.grpc", message=pb.Message(payload=b"x"))
        assert root.refusal(lambda how: root.pubsub.PublishOne(request, **how)) is None
    opening = pb.SubscribeRequest(open=pb.Open(topic="t.grpc", request_n=1, replay_all=True))
    blocking = pb.SubscribeRequest(open=pb.Open(topic="t.grpc", request_n=1, replay_all=True, overflow=pb.BLOCK))
    channel = [pb.PublishRequest(open=pb.PublishOpen(topic="t.grpc")), pb.PublishRequest(message=pb.Message())]
    with Calls(guarded, f"Bearer {user}") as calls:
        for needed, call in (
            (SUBSCRIBE, lambda how: list(calls.pubsub.Subscribe(iter([opening]), **how))),
            ("both", lambda how: list(calls.pubsub.Subscribe(iter([blocking]), **how))),
            (PUBLISH, lambda how: calls.pubsub.PublishOne(request, **how)),
            (PUBLISH, lambda how: list(calls.pubsub.Publish(iter(channel), **how))),
            (CONTROL, lambda how: calls.admin.DeleteTopic(pb.DeleteTopicRequest(topic=f"t.{user}"), **how)),
        ):
            code = calls.refusal(call)
            allowed = (None, grpc.StatusCode.NOT_FOUND)
            assert (code in allowed) if user == f"only-{needed}" else code == grpc.StatusCode.PERMISSION_DENIED


def test_each_permission_over_plain_http(guarded):
    for version in VERSIONS.values():
        curl = Curl(guarded.http, version)
        for user in ("only-publish", "only-subscribe", "only-control", "only-block", "nobody"):
            given = ("-H", f"authorization: Bearer {user}")
            for needed, status in (
                (PUBLISH, curl.publish("t.http", b"x", *given).status),
                (SUBSCRIBE, curl(path("t.http"), "-I", *given).status),
                (CONTROL, curl(path("$SYS.events"), "-I", *given).status),
            ):
                assert status == (200 if user == f"only-{needed}" else 403), (user, needed)


def test_lists_show_what_may_be_seen(start, tmp_path, hashed):
    settings = {"users": [
        dict(name="root", token=token_hash("root"), publish=[">"], subscribe=[">"], control=[">", "$SYS.>"]),
        dict(name="alice", token=token_hash("alice"), publish=["a.*"], control=["b"]),
    ]}
    broker = start("-c", str(write(tmp_path, settings)))
    root, alice = rsocket(broker, bearer("root")), rsocket(broker, bearer("alice"))
    for topic in ("a.x", "a.y", "b", "c"):
        root.publish(topic, b"x")
    subs = [root.subscribe(topic, n=1) for topic in ("b", "c")]
    for topic in ("b", "c"):
        root.joined(topic, 1)
    assert sorted(row["name"] for row in alice.listing("$SYS.topics")) == ["a.x", "a.y", "b"]
    assert [row["topic"] for row in alice.listing("$SYS.subscriptions")] == ["b"]
    assert {row["user"] for row in alice.listing("$SYS.connections")} == {"alice"}
    assert {row["user"] for row in root.listing("$SYS.connections")} == {"alice", "root"}
    with Calls(broker, "Bearer alice") as calls:
        rows = calls.admin.ListTopics(pb.ListTopicsRequest(), metadata=calls.metadata)
        assert sorted(row.name for row in rows) == ["a.x", "a.y", "b"]
    assert len(subs) == 2
    for one in (root, alice):
        one.close()
    broker.stop()


def test_credit_is_for_the_same_user(guarded):
    curl = Curl(guarded.http, VERSIONS["1.1"])
    stream = curl.stream(path("t.credit", "request=1"), "-H", "authorization: Bearer root")
    target = f"/v1/subscriptions/{stream.headers['forebay-subscription']}/request?n=1"
    for header, status in (("Bearer only-subscribe", 403), (None, 401), (basic("root", PASSWORD), 204)):
        given = ("-H", f"authorization: {header}") if header else ()
        assert curl(target, "-X", "POST", *given).status == status
    curl.stop()
