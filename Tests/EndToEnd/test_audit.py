"""What an operator learns about users: the log of who did what, refused logins, lists for users without permissions,
and warnings about passwords in the clear."""

import datetime
import json
import os
import re
import signal

import jwt
import pytest

from access import *
from admin import Admin
from cli.commands import Commands
from common import DEADLINE, eventually
from curl import VERSIONS, Curl, path
from test_access import PASSWORD, hashed, users


@pytest.fixture(scope="module")
def guarded(start, tmp_path_factory, hashed):
    this = start("--admin", "127.0.0.1:0", "-c", str(write(tmp_path_factory.mktemp("audit"), users(hashed))))
    yield this
    this.stop()


def told(broker, message: str, **fields) -> list[dict]:
    """Matching lines of the log, at a level that is logged by default."""
    lines = [json.loads(line) for line in list(broker.log)]
    return [line for line in lines if line["message"] == message and line["level"] != "debug"
            and all(line.get(key) == value for key, value in fields.items())]


def once(broker, message: str, **fields) -> dict:
    lines = eventually(lambda: told(broker, message, **fields), lambda lines: lines)
    assert len(lines) == 1, lines
    return lines[0]


def as_user(broker, scheme: str, token: str | None) -> Commands:
    commands = Commands(broker.http if scheme == "http" else broker.address, scheme)
    if token:
        commands.environment["FOREBAY_TOKEN"] = token
    return commands


def subscribed(broker, topic: str):
    """A subscription of the user `blocker`, its peer, and its row."""
    peer = rsocket(broker, bearer("blocker"))
    subscription = peer.subscribe(topic)
    root = rsocket(broker, bearer("root"))
    rows = eventually(lambda: root.ledger(topic), lambda rows: rows)
    root.close()
    return peer, subscription, rows[0]


# Log of actions


@pytest.mark.parametrize("way", ["rsocket", "http", "admin"])
def test_the_log_tells_who_cut_off_whom(guarded, topic, way):
    topic = f"t.{topic}"
    peer, subscription, row = subscribed(guarded, topic)
    watcher = rsocket(guarded, bearer("root"))
    events = watcher.subscribe("$SYS.events?buffer=10000")
    watcher.barrier(topic)

    def close(kind, name):
        if way == "admin":
            answer = Admin(guarded)(f"api/v1/{kind}s/{name}", "DELETE", auth=("root", PASSWORD))
            assert answer.status_code == 200, answer.text
        else:
            as_user(guarded, way, "root").ok("close", kind, name)

    whom = dict(topic=topic, connection=row["connection"], peer=row["peer"], user="blocker")
    close("subscription", str(row["id"]))
    assert subscription.end().text == "closed-by-operator: An operator ended this subscription."
    line = once(guarded, "subscription cut off", subscription=row["id"])
    assert (line["level"], line["by"]) == ("info", "root") and line["by-peer"].startswith("127.0.0.1:")
    assert whom.items() <= line.items() and line["by-peer"] != line["peer"]
    reason = None
    while reason is None:
        event = json.loads(events.take(1)[0].data)
        if event["event"] == "unsubscribed" and event["subscription"] == row["id"]:
            reason = event["reason"]
    assert reason == "closed-by-operator: An operator ended this subscription."
    del whom["topic"]
    close("connection", row["connection"])
    line = once(guarded, "connection cut off", connection=row["connection"])
    assert line["by"] == "root" and whom.items() <= line.items()
    assert peer.frame(0).text == "closed-by-operator: An operator closed this connection."
    watcher.close()


@pytest.mark.parametrize("way", ["rsocket", "http"])
def test_the_log_tells_who_ended_a_topic(guarded, topic, way):
    commands = as_user(guarded, way, "root")
    for words, message in ((("complete",), "completed"), (("fail", "--message", "sensor gone"), "failed"),
                           (("delete",), "deleted")):
        name = f"t.{topic}.{words[0]}"
        commands.ok("pub", name, "x")
        commands.ok("topic", words[0], name, *words[1:])
        line = once(guarded, f"topic {message}", topic=name)
        assert line["by"] == "root" and line["by-peer"].startswith("127.0.0.1:") and int(line["epoch"]) > 0
        assert line.get("reason") == ("sensor gone" if message == "failed" else None)
    # A user without permission has done nothing.
    done = as_user(guarded, way, "nobody").run("topic", "delete", f"t.{topic}.complete")
    assert done.returncode == 1 and not told(guarded, "topic deleted", topic=f"t.{topic}.complete")


# Refused logins


def test_refused_logins_are_told_once_a_second_and_without_secrets(start, tmp_path, hashed):
    broker = start("--admin", "127.0.0.1:0", "-c", str(write(tmp_path, users(hashed))))
    with pytest.raises(Rejected):
        rsocket(broker, simple("hunter2", "hunter3"))
    admin, attempts = Admin(broker), 1
    # As fast as responses arrive, until one line covers several attempts.
    while not any(int(line["attempts"]) > 1 for line in told(broker, "login refused")):
        answer = admin("metrics", headers={"authorization": f"Bearer hunter{attempts}"})
        assert answer.status_code in (401, 429) and attempts < 10_000
        attempts += 1
    lines = eventually(lambda: told(broker, "login refused"),
                       lambda lines: sum(int(line["attempts"]) for line in lines) == attempts)
    times = [datetime.datetime.fromisoformat(line["time"]) for line in lines]
    assert all((later - earlier).total_seconds() > 0.7 for earlier, later in zip(times, times[1:])), times
    assert all(line["level"] == "warn" and line["address"] == "127.0.0.1" for line in lines)
    assert "credentials are wrong" in lines[0]["cause"]
    # The same over HTTP.
    curl = Curl(broker.http, VERSIONS["1.1"])
    assert curl(path("t"), "-I", "-H", "authorization: Bearer hunter4").status in (401, 429)
    eventually(lambda: sum(int(line["attempts"]) for line in told(broker, "login refused")),
               lambda count: count == attempts + 1)
    assert not [line for line in broker.log if "hunter" in line]
    slowed = told(broker, "logins slowed")
    assert all("user" not in line for line in slowed)
    broker.stop()


def counted(admin) -> dict[str, int]:
    """Logins, by result."""
    text = admin("metrics", auth=("root", PASSWORD)).text
    return {name: int(count) for name, count in re.findall(r'forebay_logins_total{result="(.*)"} (\d+)', text)}


def test_a_page_left_open_without_a_login_is_no_login_refused(start, tmp_path, hashed):
    broker = start("--admin", "127.0.0.1:0", "-c", str(write(tmp_path, dict(users(hashed), anonymous={}))))
    admin, http = Admin(broker), Curl(broker.http, VERSIONS["1.1"])
    for _ in range(3):
        assert admin("api/v1/overview").status_code == 401 and http(path("t"), "-I").status in (401, 403)
    eventually(lambda: counted(admin)["missing"], lambda count: count >= 3)
    assert counted(admin)["refused"] == 0 and not told(broker, "login refused")
    broker.stop()


def test_what_was_not_permitted_is_logged(start, tmp_path, hashed):
    """A fire-and-forget publish has no response: the sender does not learn of the refusal."""
    broker = start("-c", str(write(tmp_path, users(hashed) | {"anonymous": {}})))
    peer, anybody = rsocket(broker, bearer("only-subscribe")), rsocket(broker, None)
    peer.fire("t.a", b"x")
    line = once(broker, "permission denied")
    assert (line["level"], line["user"], line["permission"], line["topic"]) == (
        "warn", "only-subscribe", "publish", "t.a")
    assert line["peer"].startswith("127.0.0.1:")
    assert "may not subscribe" in anybody.subscribe("t.b").end().text
    line = once(broker, "permission denied", anonymous="yes")
    assert (line["permission"], line["topic"]) == ("subscribe", "t.b") and "user" not in line
    for one in (peer, anybody):
        one.close()
    broker.stop()


def test_logins_at_the_admin_listener_are_counted_and_logged(start, tmp_path, hashed):
    broker = start("--admin", "127.0.0.1:0", "-c", str(write(tmp_path, users(hashed))))
    admin = Admin(broker)
    # On one connection, whose login counts once.
    for _ in range(3):
        counted(admin)
    assert eventually(lambda: counted(admin)["accepted"], bool) == 1
    for name in ("root", "hunter2"):
        assert admin("metrics", auth=(name, "guess")).status_code == 401
    assert admin("metrics", headers={"authorization": "Bearer nobody"}).status_code == 403
    lines = eventually(lambda: told(broker, "login refused"),
                       lambda lines: sum(line["attempts"] for line in lines) == 2)
    assert (lines[0]["user"], lines[0]["protocol"]) == ("root", "admin") and "unknown-user" not in lines[0]
    assert lines[-1].get("unknown-user") == "yes" and "user" not in lines[-1]
    eventually(lambda: counted(admin)["refused"], lambda count: count == 2)
    assert "forebay_requests_denied_total 1" in admin("metrics", auth=("root", PASSWORD)).text
    assert not [line for line in broker.log if "hunter2" in line]
    broker.stop()


def test_guessing_is_slowed_whatever_else_succeeds(start, tmp_path, hashed):
    """The log names the user, because that user exists."""
    broker = start("-c", str(write(tmp_path, users(hashed))))
    refusals = []
    while not any("Too many logins failed" in text for text in refusals):
        with pytest.raises(Rejected) as refused:
            rsocket(broker, simple("root", "guess"))
        refusals.append(str(refused.value))
        rsocket(broker, bearer("nobody")).close()
        assert len(refusals) < 20, "a valid account makes guessing free"
    assert len(refusals) >= 7, refusals
    assert once(broker, "logins slowed")["user"] == "root"
    root = rsocket(broker, bearer("root"))
    # Each second's figures contain the latest report of each thread.
    least = dict(logins_slowed=1, logins_refused=6, logins_accepted=8)
    eventually(lambda: json.loads(root.subscribe("$SYS.stats", n=1).data(1)[0]),
               lambda figures: all(figures[name] >= count for name, count in least.items()))
    root.close()
    broker.stop()


# Lists without the permission


@pytest.mark.parametrize("scheme", ["rsocket", "http"])
@pytest.mark.parametrize("command, permission", [
    ("topics", "subscribe or publish to them"), ("subs", "to control their topics"),
    ("conns", "to control '$SYS.connections'"), ("top", "to control their topics"),
])
def test_an_empty_table_is_not_shown_for_want_of_a_permission(guarded, topic, scheme, command, permission):
    peer, _, _ = subscribed(guarded, f"t.{topic}")
    words = (command, "--once") if command == "top" else (command,)
    if command != "conns":
        for options in ((), ("--json",)) if command != "top" else ((),):
            done = as_user(guarded, scheme, "nobody").run(*words, *options)
            assert done.returncode == 1 and not done.stdout, done
            text = done.stderr.decode()
            assert "User 'nobody' may not see" in text and permission in text and "administrator" in text, text
    else:
        # A user always sees their own connection.
        done = as_user(guarded, scheme, "nobody").run(*words)
        assert done.returncode == 0 and done.stdout.count(b"\n") >= 2 and permission in done.stderr.decode(), done
    done = as_user(guarded, scheme, "root").run(*words)
    assert done.returncode == 0 and not done.stderr, done
    peer.close()


def test_what_is_ones_own_is_shown_as_that(guarded, topic):
    peer, _, row = subscribed(guarded, f"t.{topic}")
    done = as_user(guarded, "rsocket", "blocker").run("subs", "--json")
    assert done.returncode == 0 and row["id"] in [json.loads(line)["id"] for line in done.stdout.splitlines()]
    told = done.stderr.decode()
    assert "These are only the subscriptions of user 'blocker'" in told and "to control their topics" in told
    peer.close()


def test_without_credentials_one_sees_what_the_anonymous_may(begin, tmp_path, hashed):
    broker = begin("-c", str(write(tmp_path, dict(users(hashed), anonymous={"subscribe": ["public.>"]}))))
    commands = as_user(broker, "rsocket", None)
    assert commands.run("topics").returncode == 0
    done = commands.run("subs")
    assert done.returncode == 1 and b"Anonymous clients may not see the broker's subscriptions" in done.stderr


# Secrets that nobody may see


def test_secrets_are_in_no_log_page_or_list(start, tmp_path, hashed):
    """With everything logged, every way of logging in, right and wrong, and a reload that changes users."""
    key = "a secret of thirty-two bytes or so"
    (tmp_path / "jwt.key").write_text(key)
    settings = dict(users(hashed), jwt={"keys": [{"id": "main", "algorithm": "HS256", "file": "jwt.key"}]})
    file = write(tmp_path, settings)
    broker = start("--admin", "127.0.0.1:0", "--log-level", "debug", "-c", str(file))
    signed = jwt.encode({"sub": "carol", "exp": 4102444800, "forebay": {"control": [">", "$SYS.>"]}}, key, "HS256",
                        headers={"kid": "main"})
    wrong = "wr0ng-password"
    for entry in (simple("root", PASSWORD), bearer("root"), bearer(signed)):
        rsocket(broker, entry).close()
    for entry in (simple("root", wrong), simple(wrong, wrong), bearer(wrong), bearer(signed[:-5] + "AAAAA")):
        with pytest.raises(Rejected):
            rsocket(broker, entry)
    root = rsocket(broker, simple("root", PASSWORD))
    root.subscribe("t.a")
    root.barrier("t.a")
    curl = Curl(broker.http, VERSIONS["1.1"])
    assert curl(path("t.a"), "-I", "-H", f"authorization: {basic('root', wrong)}").status == 401

    answers = [Admin(broker)(target, auth=("root", PASSWORD)) for target in (
        "", "metrics?subscriptions=1", "api/v1/info", "api/v1/overview", "api/v1/topics", "api/v1/subscriptions",
        "api/v1/connections")]
    assert [answer.status_code for answer in answers] == [200] * len(answers)
    shown = [answer.text for answer in answers]
    shown += [json.dumps(root.listing(name)) for name in ("$SYS.topics", "$SYS.subscriptions", "$SYS.connections")]
    shown += [json.dumps(root.control("$SYS.info"))]
    shown += [one.data.decode() for one in root.subscribe("$SYS.events?replay=all", n=5).take(5)]
    settings["users"][-1]["token"] = token_hash("another")
    settings["users"].append(dict(name="dave", password=hashed))
    write(tmp_path, settings)
    os.kill(broker.pid, signal.SIGHUP)
    eventually(lambda: told(broker, "setting changed", key="users"), lambda lines: lines)
    shown += broker.run("--print-config", "-c", str(file))[1:]
    assert "carol" not in shown[-2] and "dave" in shown[-2]
    root.close()
    broker.stop()
    everything = "\n".join([*shown, *broker.log])
    secrets = [PASSWORD, hashed, wrong, key, signed.split(".")[2], token_hash("root")[7:], token_hash("another")[7:],
               basic("root", PASSWORD)[6:]]
    assert [secret for secret in secrets if secret in everything] == []


# Changes by a reload


def test_a_reload_tells_who_may_do_what_from_now_on(start, tmp_path, hashed):
    settings = users(hashed)
    broker = start("-c", str(write(tmp_path, settings)))
    peer, subscription, _ = subscribed(broker, "t.reload")
    before = {user["name"]: user for user in settings["users"]}
    before["blocker"]["subscribe"] = ["other"]
    before["nobody"].update(publish=[">"], control=[">", "$SYS.>"])
    settings["users"].append(dict(name="dave", password=hashed, subscribe=["a", "b.*"]))
    write(tmp_path, settings)
    os.kill(broker.pid, signal.SIGHUP)
    assert once(broker, "user added")["user"] == "dave"
    assert once(broker, "user added")["subscribe-added"] == "a,b.*"
    everything = once(broker, "user changed", user="nobody")
    assert (everything["publish-added"], everything["control-added"]) == (">", "$SYS.>,>")
    assert once(broker, "user changed", user="blocker")["subscribe-added"] == "other"
    assert "may not subscribe" in subscription.end().text
    ended = once(broker, "permissions in force")
    assert (ended["streams-ended"], ended["connections-ended"]) == (1, 0)
    settings["users"] = [user for user in settings["users"] if user["name"] not in ("blocker", "dave")]
    write(tmp_path, settings)
    os.kill(broker.pid, signal.SIGHUP)
    assert eventually(lambda: told(broker, "permissions in force"), lambda lines: len(lines) == 2)[1][
        "connections-ended"] == 1
    assert {line["user"] for line in told(broker, "user removed")} == {"blocker", "dave"}
    peer.end()
    broker.stop()


# Passwords in the clear


def test_a_reload_warns_of_passwords_in_the_clear(start, tmp_path, hashed):
    file = write(tmp_path, {})
    broker = start("--listen", "0.0.0.0:0", "--admin", "0.0.0.0:0", "--allow-anonymous", "-c", str(file))
    assert not told(broker, "no TLS")
    write(tmp_path, users(hashed))
    os.kill(broker.pid, signal.SIGHUP)
    eventually(lambda: told(broker, "reloaded"), lambda lines: lines)
    clear = set() if os.environ.get("FOREBAY_TLS") else {broker.admin[1], broker.address[1]}
    eventually(lambda: {int(line["address"].rpartition(":")[2]) for line in told(broker, "no TLS")},
               lambda ports: ports == clear)
    broker.stop()
