"""Users and permissions, over each protocol and by other people's clients."""

import asyncio
import json
import os
import signal
import stat
import subprocess
import time

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
from cli.commands import Commands
from common import DEADLINE, Message
from conftest import Broker
from curl import VERSIONS, Curl, path

PASSWORD = "correct horse: battery"
SUBSCRIBE, BLOCK, PUBLISH, CONTROL = "subscribe", "block", "publish", "control"


@pytest.fixture(scope="module")
def hashed():
    return password_hash(PASSWORD)


def users(hashed) -> dict:
    """A user for each permission that has it alone, one that has all, and one that has none."""
    alone = [dict(name=f"only-{one}", token=token_hash(f"only-{one}"), **{one: ["t.>", "$SYS.>"]})
             for one in (PUBLISH, SUBSCRIBE, CONTROL, BLOCK)]
    everything = {one: [">", "$SYS.>"] for one in (PUBLISH, SUBSCRIBE, CONTROL, BLOCK)}
    return {"users": alone + [
        dict(name="root", password=hashed, token=token_hash("root"), **everything),
        dict(name="nobody", token=token_hash("nobody")),
        dict(name="blocker", token=token_hash("blocker"), subscribe=["t.>"], block=["t.>"]),
    ]}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory, hashed):
    this = Broker("-c", str(write(tmp_path_factory.mktemp("access"), users(hashed))))
    yield this
    this.stop()


# Who is let in


@pytest.mark.parametrize("entry", [simple("root", PASSWORD), bearer("root")])
def test_setup_lets_in(guarded, entry):
    rsocket(guarded, entry).close()


@pytest.mark.parametrize("entry, text", [
    (None, "This broker needs credentials"), (simple("root", "wrong"), "The credentials are not right"),
    (simple("stranger", PASSWORD), "The credentials are not right"), (bearer("stranger"), "The credentials are not"),
    (simple("only-publish", "only-publish"), "The credentials are not right"),
    (raw.entry(AUTHENTICATION, b"\x80\x00\xff"), "The credentials cannot be read"),
    (bearer("x") + bearer("root"), "The credentials cannot be read"),
    (bearer("x" * 9000), "The credentials cannot be read"),
])
def test_setup_turns_away(tmp_path, hashed, entry, text):
    broker = Broker("-c", str(write(tmp_path, users(hashed))))
    with pytest.raises(Rejected, match=text):
        rsocket(broker, entry)
    # Neither names nor secrets are in the log.
    broker.stop()
    assert not any(word in line for line in broker.log for word in ("stranger", PASSWORD, "only-publish"))


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
    # And the broker goes on.
    rsocket(guarded, bearer("root")).close()


# What they may do

RSOCKET = {
    "subscribe": (SUBSCRIBE, lambda peer: peer.subscribe("t.a?replay=1", n=1).event()),
    "events": (CONTROL, lambda peer: peer.subscribe("$SYS.events?replay=1", n=1).event()),
    "publish": (PUBLISH, lambda peer: peer.offer("t.a", b"x").sequence()),
    "channel": (PUBLISH, lambda peer: peer.channel("t.a", b"x", complete=True).end()),
    "info": (None, lambda peer: peer.control("$SYS.topic.info", name="t.a")),
    "fail": (CONTROL, lambda peer: peer.control("$SYS.topic.fail", name="t.b")),
    "delete": (CONTROL, lambda peer: peer.control("$SYS.topic.delete", name="t.c")),
    "complete": (CONTROL, lambda peer: peer.control("$SYS.topic.complete", name="t.d")),
}


@pytest.mark.parametrize("user", ["only-publish", "only-subscribe", "only-control", "only-block", "nobody"])
def test_each_permission_over_rsocket(tmp_path, hashed, user):
    broker = Broker("-c", str(write(tmp_path, users(hashed))))
    root = rsocket(broker, bearer("root"))
    for topic in "abcd":
        root.publish(f"t.{topic}", b"old")
    peer = rsocket(broker, bearer(user))
    for name, (needed, action) in RSOCKET.items():
        refusal = refused(lambda: action(peer))
        isAllowed = user == f"only-{needed}" if needed else user not in ("only-block", "nobody")
        assert (refusal is None) == isAllowed, (name, refusal)
        if refusal:
            assert refusal.startswith(f"0x202 User '{user}' may not "), refusal
    # Fire is dropped without a word.
    before = root.control("$SYS.topic.info", name="t.a")["published"]
    peer.fire("t.a", b"fired")
    refused(lambda: peer.control("$SYS.info"))
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


def test_lists_show_what_may_be_seen(tmp_path, hashed):
    settings = {"users": [
        dict(name="root", token=token_hash("root"), publish=[">"], subscribe=[">"], control=[">", "$SYS.>"]),
        dict(name="alice", token=token_hash("alice"), publish=["a.*"], control=["b"]),
    ]}
    broker = Broker("-c", str(write(tmp_path, settings)))
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


# Reloading


def reload(broker):
    seen = len(broker.log)
    os.kill(broker.pid, signal.SIGHUP)
    until = time.monotonic() + DEADLINE
    while not any('"reloaded"' in line or '"reload refused"' in line for line in broker.log[seen:]):
        assert time.monotonic() < until, broker.log[seen:]
        time.sleep(0.02)
    return broker.log[seen:]


def test_what_is_withdrawn_ends_and_nothing_else(tmp_path, hashed):
    def settings(alice, others=("bob",)):
        named = [dict(name="alice", token=token_hash("alice"), **alice)]
        return {"users": named + [dict(name=name, token=token_hash(name), publish=[">"], subscribe=[">"])
                                  for name in others]}

    file = write(tmp_path, settings(dict(subscribe=["a", "b"], publish=["a"]), ("bob", "carol")))
    broker = Broker("-c", str(file))
    alice, bob, carol = (rsocket(broker, bearer(name)) for name in ("alice", "bob", "carol"))
    kept, lost = alice.subscribe("a"), alice.subscribe("b")
    other, gone = bob.subscribe("b"), carol.subscribe("a")
    with Calls(broker, "Bearer alice") as calls:
        opening = pb.SubscribeRequest(open=pb.Open(topic="b", request_n=1))
        # The request iterator stays open, so that the call ends by the broker alone.
        call = calls.pubsub.Subscribe(endless(opening), metadata=calls.metadata)
        next(call)
        for topic, count in (("a", 2), ("b", 3)):
            wait_joined(broker, topic, count)
        write(tmp_path, settings(dict(subscribe=["a"], publish=["a"])))
        reload(broker)
        end = lost.event()
        assert (end.code, end.text.startswith("User 'alice' may not subscribe to 'b'")) == (raw.REJECTED, True)
        assert gone.event().code == raw.REJECTED
        with pytest.raises(grpc.RpcError) as error:
            next(call)
        assert error.value.code() == grpc.StatusCode.PERMISSION_DENIED
    # Whose user is gone is cut off; and is not let in again.
    refusal = carol.frame(0)
    assert (refusal.code, refusal.text) == (0x101, "The user is no longer known here.")
    with pytest.raises(Rejected):
        rsocket(broker, bearer("carol"))
    bob.publish("a", b"1")
    bob.publish("b", b"2")
    assert kept.data(1) == [b"1"] and other.data(1) == [b"2"]
    # A file with a mistake changes nothing.
    write(tmp_path, {"users": [dict(name="alice", password="$y$nonsense")]})
    assert any("users.password" in line and "nonsense" not in line for line in reload(broker))
    bob.publish("a", b"3")
    assert kept.data(1) == [b"3"]
    for one in (alice, bob):
        one.close()
    broker.stop()


def endless(*requests):
    yield from requests
    while True:
        time.sleep(0.05)
        yield pb.SubscribeRequest(request_n=1)


def wait_joined(broker, topic, count):
    peer = rsocket(broker, bearer("bob"))
    until = time.monotonic() + DEADLINE
    while peer.control("$SYS.topic.info", name=topic)["subscriptions"] < count:
        assert time.monotonic() < until
        time.sleep(0.02)
    peer.close()


# Failures are slowed, and counted


def test_failed_logins_are_slowed_and_counted(tmp_path, hashed):
    broker = Broker("-c", str(write(tmp_path, users(hashed))))
    root = rsocket(broker, bearer("root"))
    curl = Curl(broker.http, VERSIONS["1.1"])
    statuses = []
    for index in range(8):
        reply = curl(path("t"), "-I", "-H", f"authorization: Bearer guess-{index}")
        statuses.append(reply.status)
        if reply.status == 429:
            assert int(reply.headers["retry-after"]) >= 1
            break
    assert statuses[:6] == [401] * 6 and statuses[-1] == 429
    with pytest.raises(Rejected, match="Too many logins failed"):
        rsocket(broker, bearer("guess"))
    assert sum('"logins slowed"' in line for line in broker.log) == 1
    # Whoever is in already goes on, and sees it.
    refused_logins = root.subscribe("$SYS.stats", n=3)
    seen = [json.loads(refused_logins.event().data)["logins_refused"] for _ in range(3)]
    assert seen[-1] >= 7
    root.close()
    broker.stop()


# Without users


def test_without_users_only_this_machine_is_served(tmp_path):
    for option in ("--listen", "--http"):
        code, words = Broker.refusal("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", option, "0.0.0.0:0")
        assert code == 1 and option in words and "--allow-anonymous" in words, words


def test_it_serves_others_if_it_is_told_to(tmp_path, hashed):
    for options in (("--allow-anonymous",), ("-c", str(write(tmp_path, users(hashed))))):
        # On all addresses, asked on this machine's own.
        broker = Broker("--listen", "0.0.0.0:0", *options)
        broker.stop()


def test_what_anonymous_clients_may_do(tmp_path, hashed):
    settings = dict(users(hashed), anonymous={"subscribe": ["public.>"]})
    broker = Broker("-c", str(write(tmp_path, settings)))
    peer = rsocket(broker, None)
    rsocket(broker, bearer("root")).publish("public.a", b"x")
    assert isinstance(peer.subscribe("public.a?replay=1", n=1).event(), Message)
    assert refused(lambda: peer.subscribe("t.a").event()).startswith("0x202 Without credentials one may not")
    with pytest.raises(Rejected):
        rsocket(broker, bearer("stranger"))
    assert Curl(broker.http, VERSIONS["2"])(path("public.a"), "-I").status == 200
    peer.close()
    broker.stop()


# Secrets


def test_secrets_are_told_nowhere(tmp_path, hashed):
    file = write(tmp_path, users(hashed))
    done = subprocess.run([executable(), "--print-config", "-c", str(file)], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0 and "only-publish" in done.stdout
    assert "$y$" not in done.stdout and "sha256" not in done.stdout


# forebay


@pytest.mark.parametrize("scheme", ["rsocket", "http"])
def test_the_command_line_logs_in(guarded, tmp_path, scheme):
    commands = Commands(guarded.http if scheme == "http" else guarded.address, scheme)
    password, token = tmp_path / "password", tmp_path / "token"
    password.write_text(PASSWORD + "\n")
    token.write_text("root\n")
    for file in (password, token):
        file.chmod(stat.S_IRUSR)
    host = commands.url.partition("//")[2]
    encoded = PASSWORD.replace(":", "%3A").replace(" ", "%20")
    for words, environment, code in (
        (("--user", "root", "--password-file", str(password)), {}, 0), (("--token-file", str(token)), {}, 0),
        ((), dict(FOREBAY_USER="root", FOREBAY_PASSWORD=PASSWORD), 0), ((), dict(FOREBAY_TOKEN="root"), 0),
        (("--user", "root"), dict(FOREBAY_PASSWORD=PASSWORD), 0),
        (("--url", f"{scheme}://root:{encoded}@{host}"), {}, 0), ((), {}, 1), ((), dict(FOREBAY_TOKEN="x"), 1),
        (("--user", "root"), {}, 2), (("--password-file", str(password)), {}, 2),
        (("--token-file", str(tmp_path / "none")), {}, 2), (("--token-file", str(token), "--user", "a"), {}, 2),
    ):
        done = subprocess.run([commands_executable(), "topics", *words], env=commands.environment | environment,
                              capture_output=True, timeout=30)
        assert done.returncode == code, (words, done)
        assert PASSWORD.encode() not in done.stderr and encoded.encode() not in done.stderr


def commands_executable():
    from cli.commands import executable as forebay

    return forebay()
