"""Users and permissions over time: reloads, failed logins, brokers without users, and the command line."""

import json
import os
import signal
import stat
import subprocess
import time

import grpc
import pytest

import raw
from access import *
from cli.commands import Commands
from cli.commands import executable as forebay
from common import DEADLINE, Message, eventually
from curl import VERSIONS, Curl, path
from test_access import PASSWORD, guarded, hashed, users


# Reloading


def reload(broker):
    seen = len(broker.log)
    os.kill(broker.pid, signal.SIGHUP)
    until = time.monotonic() + DEADLINE
    while not any('"reloaded"' in line or '"reload refused"' in line for line in broker.log[seen:]):
        assert time.monotonic() < until, broker.log[seen:]
        time.sleep(0.02)
    return broker.log[seen:]


def test_what_is_withdrawn_ends_and_nothing_else(start, tmp_path, hashed):
    def settings(alice, others=("bob",)):
        named = [dict(name="alice", token=token_hash("alice"), **alice)]
        return {"users": named + [dict(name=name, token=token_hash(name), publish=[">"], subscribe=[">"])
                                  for name in others]}

    file = write(tmp_path, settings(dict(subscribe=["a", "b"], publish=["a"]), ("bob", "carol")))
    broker = start("-c", str(file))
    alice, bob, carol = (rsocket(broker, bearer(name)) for name in ("alice", "bob", "carol"))
    kept, lost = alice.subscribe("a"), alice.subscribe("b")
    other, gone = bob.subscribe("b"), carol.subscribe("a")
    with Calls(broker, "Bearer alice") as calls:
        opening = pb.SubscribeRequest(open=pb.Open(topic="b", request_n=1))
        # The request iterator stays open, so that only the broker can end the call.
        call = calls.pubsub.Subscribe(endless(opening), metadata=calls.metadata)
        next(call)
        for topic, count in (("a", 2), ("b", 3)):
            wait_joined(broker, topic, count)
        write(tmp_path, settings(dict(subscribe=["a"], publish=["a"])))
        reload(broker)
        end = lost.event()
        assert end.code == raw.REJECTED
        assert end.text.startswith("forbidden: User 'alice' may not subscribe to 'b'")
        assert gone.event().code == raw.REJECTED
        with pytest.raises(grpc.RpcError) as error:
            next(call)
        assert error.value.code() == grpc.StatusCode.PERMISSION_DENIED
    # Clients of a removed user are disconnected and cannot log in again.
    refusal = carol.frame(0)
    assert (refusal.code, refusal.text) == (0x101, "unauthenticated: The user was removed from this broker.")
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


# Failed logins are slowed and counted


def test_failed_logins_are_slowed_and_counted(start, tmp_path, hashed):
    broker = start("-c", str(write(tmp_path, users(hashed))))
    root = rsocket(broker, bearer("root"))
    curl = Curl(broker.http, VERSIONS["1.1"])
    statuses = []
    for index in range(24):
        reply = curl(path("t"), "-I", "-H", f"authorization: Bearer guess-{index}")
        statuses.append(reply.status)
        if reply.status == 429:
            assert int(reply.headers["retry-after"]) >= 1
            break
    assert statuses[:21] == [401] * 21 and statuses[-1] == 429
    with pytest.raises(Rejected, match="Too many logins failed"):
        rsocket(broker, bearer("guess"))
    eventually(lambda: sum('"logins slowed"' in line for line in broker.log), lambda count: count == 1)
    # An existing connection is not affected, and sees the figures.
    refused_logins = root.subscribe("$SYS.stats", n=3)
    seen = [json.loads(refused_logins.event().data) for _ in range(3)]
    assert seen[-1]["logins_refused"] >= 21 and seen[-1]["logins_slowed"] >= 2
    root.close()
    broker.stop()


# Without users


def test_without_users_only_this_machine_is_served(start, tmp_path):
    for option in ("--listen", "--http"):
        other = "--http" if option == "--listen" else "--listen"
        code, words = start.refusal(option, "0.0.0.0:0", other, "127.0.0.1:0")
        assert code == 2 and option in words and "--allow-anonymous" in words, words


def test_it_serves_others_if_it_is_told_to(start, tmp_path, hashed):
    for options in (("--allow-anonymous",), ("-c", str(write(tmp_path, users(hashed))))):
        # The broker listens on all addresses; the test connects on a loopback address.
        broker = start("--listen", "0.0.0.0:0", *options)
        broker.stop()


def test_what_anonymous_clients_may_do(start, tmp_path, hashed):
    settings = dict(users(hashed), anonymous={"subscribe": ["public.>"]})
    broker = start("-c", str(write(tmp_path, settings)))
    peer = rsocket(broker, None)
    rsocket(broker, bearer("root")).publish("public.a", b"x")
    assert isinstance(peer.subscribe("public.a?replay=1", n=1).event(), Message)
    assert refused(lambda: peer.subscribe("t.a").event()).startswith("0x202 forbidden: Anonymous clients may not")
    with pytest.raises(Rejected):
        rsocket(broker, bearer("stranger"))
    assert Curl(broker.http, VERSIONS["2"])(path("public.a"), "-I").status == 200
    peer.close()
    broker.stop()


def test_the_admin_listener_is_warned_of_where_others_can_read(start, tmp_path, hashed):
    broker = start("--admin", "0.0.0.0:0", "-c", str(write(tmp_path, users(hashed))))
    eventually(lambda: [line["address"] for line in map(json.loads, broker.log) if line["message"] == "no TLS"],
               lambda addresses: addresses == ["0.0.0.0:%d" % broker.admin[1]])
    broker.stop()


# Secrets


def test_secrets_are_told_nowhere(start, tmp_path, hashed):
    file = write(tmp_path, users(hashed))
    done = subprocess.run([start.executable(), "--print-config", "-c", str(file)], capture_output=True, text=True,
                          timeout=30)
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
        done = subprocess.run([forebay(), "topics", *words], env=commands.environment | environment,
                              capture_output=True, timeout=30)
        assert done.returncode == code, (words, done)
        assert PASSWORD.encode() not in done.stderr and encoded.encode() not in done.stderr
