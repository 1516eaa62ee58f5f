"""What operators see of shared topics and of the connection to NATS: health, metrics, events, the log, the page,
`forebay top`, `forebay topics` and `forebayd -t`."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import requests

from admin import Admin, until
from client import *
from executables import executable
from nats_server import Server
from page import Page

pytestmark = pytest.mark.rsocket

FOREBAY = os.environ.get("FOREBAY") or str(Path(executable()).with_name("forebay"))


@pytest.fixture
def node(begin, nats):
    def start(*options: str, upstream=None) -> Admin:
        return Admin(begin("--upstream", upstream or nats.url(), "--shared", "s.>", "--admin", "127.0.0.1:0", *options))
    return start


def connected(admin, timeout=DEADLINE) -> dict:
    """The metrics, once the node is connected."""
    return until(lambda: (told := admin.metrics()).get("forebay_upstream_connected") == 1 and told, "it is connected",
                 timeout)


def run(admin, *words: str) -> str:
    done = subprocess.run([FOREBAY, *words, "--url", "rsocket://%s:%d" % admin.broker.address], capture_output=True,
                          text=True, timeout=30, env=os.environ | {"COLUMNS": "160"})
    assert done.returncode == 0, done.stderr
    return done.stdout


def state(told, name: str) -> float:
    return told[f'forebay_upstream_topics{{state="{name}"}}']


def test_a_server_without_jetstream_is_not_enough(node, tmp_path):
    server = Server(tmp_path / "plain", jetstream=False)
    try:
        admin = node("--upstream-time", "1s", upstream=server.url())
        until(lambda: "JetStream is enabled" in admin("readyz").text, "the cause is known")
        assert admin("readyz").status_code == 503 and admin("healthz").status_code == 200
        told = admin.metrics()
        assert told["forebay_upstream_connected"] == 0 and told["forebay_upstream_connections_total"] == 1
        assert any("JetStream is not available" in line and "is enabled" in line for line in admin.broker.log)
        tried = subprocess.run([executable(), "-t", "--upstream", server.url()], capture_output=True, text=True,
                               timeout=60)
        assert tried.returncode == 0 and "JetStream is enabled" in tried.stderr, tried
    finally:
        server.stop()


def test_a_missing_permission_is_named(node, tmp_path):
    server = Server(tmp_path / "strict", '''authorization { users: [ { user: f, password: f, permissions: {
publish: ["fb.>"], subscribe: [ "fb.>", "_INBOX.>" ] } } ] }''')
    try:
        admin = node(upstream=server.url("f:f"))
        text = "does not permit this node to publish to $JS.API.INFO; give its user the permission."
        until(lambda: text in admin("readyz").text, "the cause is known")
    finally:
        server.stop()


def test_a_cluster_without_a_majority_is_unreachable(node, tmp_path):
    """Its servers can be connected to, but JetStream does not work."""
    servers = []
    for name in ("n0", "n1", "n2"):
        # Each has two routes, as in a cluster of three; servers learn of the others, too.
        routes = [one.cluster for one in servers] + ["127.0.0.1:1", "127.0.0.1:2"]
        routes = ", ".join(f"'nats://{route}'" for route in routes[:2])
        cluster = f"cluster {{ name: C, listen: '127.0.0.1:-1', routes: [{routes}] }}"
        servers.append(Server(tmp_path / name, f"server_name: {name}\n{cluster}"))
    try:
        admin = node("--shared-replicas", "3", "--upstream-time", "2s", upstream=servers[0].url())
        connected(admin, 60)
        peer = admin.broker.peer()
        def published() -> bool:
            try:
                return peer.offer("s.a", b"1").sequence() == 1
            except StreamError:  # Not all servers take part yet.
                return False

        until(published, "it is published", 60)
        subscription = peer.subscribe("s.a", "replay=all")
        assert subscription.event().data == b"1"
        for server in servers[1:]:
            server.stop()
        # A leader without followers goes on for 10 s.
        end = subscription.event(timeout=60)
        assert end.text.startswith("unavailable: ") and admin.metrics()["forebay_upstream_connected"] == 0, end
        assert admin("readyz").status_code == 503
        for server in servers[1:]:
            server.restart()
        connected(admin, 60)
        assert admin("readyz").status_code == 200
    finally:
        for server in servers:
            server.stop()


def test_stalled_subscribers_stay_within_their_node(node, tmp_path):
    """To JetStream and to the other node, a thousand of them look like none."""
    server = Server(tmp_path / "watched", "http: '127.0.0.1:-1'")

    def seen() -> tuple:
        varz, jsz = (requests.get(f"{server.monitoring}/{page}", timeout=10).json() for page in ("varz", "jsz"))
        return varz["connections"], varz["subscriptions"], varz["slow_consumers"], jsz["consumers"], jsz["streams"]

    try:
        crowded, other = node(upstream=server.url()), node(upstream=server.url())
        publisher, healthy = other.broker.peer(), other.broker.peer().subscribe("s.a", n=10_000)
        for admin in (crowded, other):
            connected(admin)
        assert publisher.offer("s.a", b"0").sequence() == 1
        crowd = [crowded.broker.peer() for _ in range(20)]
        stalled = [peer.subscribe("s.a", "replay=all", n=1) for peer in crowd for _ in range(50)]
        for one in stalled:
            assert one.event().data == b"0"
        before = seen()
        payload = b"x" * 1024
        for _ in range(500):
            publisher.fire("s.a", payload)
        messages = [healthy.event() for _ in range(501)]
        assert messages[0].data == b"0" and all(one.data == payload for one in messages[1:])
        until(lambda: crowded.json("api/v1/stats")["upstream"]["unread"] == 0, "the crowded node has read them, too")
        assert before[0] == 2 and before[3] == 0 and seen() == before
        assert not any(one.pending() for one in stalled)
    finally:
        server.stop()


def test_readyz_fails_without_nats_and_recovers(node, nats):
    admin = node("--upstream-time", "1s")
    connected(admin)
    assert admin("readyz").text == "ok\n"
    nats.stop()
    until(lambda: admin("readyz").status_code == 503, "it is not ready")
    answer = admin("readyz").text
    assert answer.startswith("NATS has been unreachable for ") and answer.count(": ") >= 1, answer
    assert admin("healthz").text == "ok\n"
    told = admin.metrics()
    assert told["forebay_upstream_connected"] == 0 and told["forebay_upstream_disconnected_seconds"] >= 1
    nats.restart()
    until(lambda: admin("readyz").status_code == 200, "it is ready again")
    told = admin.metrics()
    assert told["forebay_upstream_connections_total"] == 2 and told["forebay_upstream_disconnected_seconds"] == 0


def test_a_short_interruption_leaves_the_node_ready(node, nats):
    admin = node()
    connected(admin)
    nats.stop()
    until(lambda: admin.metrics()["forebay_upstream_connected"] == 0, "the loss is noticed")
    assert admin("readyz").text == "ok\n"
    stats = admin.json("api/v1/stats")["upstream"]
    assert not stats["connected"] and not stats["unavailable"] and stats["cause"] and "server" not in stats


def test_without_an_upstream_there_is_nothing_of_it(begin):
    admin = Admin(begin("--admin", "127.0.0.1:0"))
    assert admin("readyz").text == "ok\n"
    assert not [sample for sample in admin.metrics() if sample.startswith("forebay_upstream")]
    assert "upstream" not in admin.json("api/v1/stats")
    assert "NATS" not in run(admin, "top", "--once")


def test_metrics_follow_topics_and_messages(node, nats):
    first, second = node("--max-shared-topics", "2"), node()
    told = connected(first)
    server, = [sample for sample in told if sample.startswith("forebay_upstream_info")]
    assert f'server="{nats.url()}"' in server and 'version="2.' in server
    peer = first.broker.peer()
    subscriptions = [peer.subscribe("s.a?replay=all", n=100) for _ in range(3)]
    until(lambda: state(first.metrics(), "absent") == 1, "it waits for the topic")
    assert peer.info("s.a")["subscriptions"] == 3
    second.broker.peer().publish("s.a", *[b"%d" % number for number in range(20)])
    for subscription in subscriptions:
        subscription.take(20)
    told = until(lambda: state(told := first.metrics(), "current") == 1 and told, "it follows the topic")
    assert state(told, "absent") == state(told, "joining") == 0 and told["forebay_upstream_topics_limit"] == 2
    told = until(lambda: (told := first.metrics())["forebay_upstream_read_messages_total"] == 20 and told, "it is read")
    assert told["forebay_upstream_published_messages_total"] == 0
    assert told["forebay_upstream_unread_messages"] == told["forebay_upstream_lost_messages_total"] == 0
    told = until(lambda: (told := second.metrics())["forebay_upstream_published_messages_total"] == 20 and told,
                 "the other node has published")
    assert told["forebay_upstream_publishes_waiting"] == told["forebay_upstream_publish_wait_seconds"] == 0
    assert peer.info("s.a")["subscriptions"] == 3
    peer.publish("s.b", b"x")
    assert refusal(peer.subscribe("s.c")).text.startswith("limit: This node uses 2 shared topics")
    assert first.metrics()['forebay_limit_reached_total{limit="shared-topics"}'] == 1


def test_publishes_that_wait_are_shown(node, nats):
    admin = node("--upstream-time", "4s")
    peer = admin.broker.peer()
    peer.publish("s.a", b"one")
    nats.stop()
    offers = [peer.offer("s.a", b"two") for _ in range(3)]
    told = until(lambda: (told := admin.metrics())["forebay_upstream_publishes_waiting"] == 3
                 and told["forebay_upstream_publish_wait_seconds"] > 0.1 and told, "they wait")
    info = admin.json("api/v1/topics/s.a")
    assert info["storage"] == "shared" and info["uncommitted"] == 3 and info["uncommitted_bytes"] > 0
    assert info["resident_bytes"] == info["bytes"] > 0
    for offer in offers:
        with pytest.raises(StreamError, match="unavailable: "):
            offer.sequence()
    told = until(lambda: (told := admin.metrics())["forebay_upstream_publishes_waiting"] == 0 and told, "they failed")
    assert told["forebay_upstream_refused_publishes_total"] == 3


def test_a_lost_and_a_restored_connection_are_events(node, nats):
    admin = node()
    peer = admin.broker.peer()
    events = peer.subscribe("$SYS.events?replay=all", n=1000)
    stats = peer.subscribe("$SYS.stats", n=1000)

    def event(name: str) -> dict:
        while (found := json.loads(events.event().data))["event"] != name:
            pass
        return found

    assert event("upstream-connected")["server"] == nats.url()
    until(lambda: json.loads(stats.event().data)["upstream"]["connected"], "the statistics have it")
    nats.stop()
    lost = event("upstream-lost")
    assert lost["server"] == nats.url() and lost["reason"] and lost["time_ns"] > 0
    until(lambda: not json.loads(stats.event().data)["upstream"]["connected"], "the statistics have it")
    nats.restart()
    assert event("upstream-connected")["server"] == nats.url()


def test_the_command_line_shows_shared_topics(node, nats):
    admin = node("--upstream-time", "1s")
    peer = admin.broker.peer()
    peer.publish("s.a", b"x" * 3000)
    peer.subscribe("s.absent", n=1)
    peer.publish("m.a", b"x")
    until(lambda: state(admin.metrics(), "absent") == 1, "it waits for the topic")
    head, *rows = run(admin, "topics").splitlines()
    found = {row.split()[0]: row.split() for row in rows}
    assert head.split()[2] == "STORAGE" and head.split()[-1] == "UNCOMMITTED"
    assert found["s.a"][2] == found["s.absent"][2] == "shared" and found["m.a"][2] == "memory"
    assert found["s.a"][-1] == "0" and found["m.a"][-1] == "-"
    assert found["s.absent"][head.split().index("SUBS") + 1] == "1", "SIZE has two words"
    until(lambda: f"NATS: connected to {nats.url()} for " in run(admin, "top", "--once"), "top shows the connection")
    top = run(admin, "top", "--once")
    assert "2 topics, 1 absent" in top, top
    assert any(line.split()[0] == "s.a" and line.split()[-1] == "shared" for line in top.splitlines() if line.strip())
    picture = json.loads(run(admin, "top", "--once", "--json"))
    assert picture["stats"]["upstream"]["server"] == nats.url()
    assert {topic["name"]: topic["storage"] for topic in picture["topics"]}["s.absent"] == "shared"
    nats.stop()
    until(lambda: "shared topics are unavailable" in run(admin, "top", "--once"), "top shows that it is unreachable")


def test_the_check_of_the_settings_tries_the_connection(nats):
    def check(url: str):
        return subprocess.run([executable(), "-t", "--upstream", url, "--shared", "s.>"], capture_output=True,
                              text=True, timeout=30)

    done = check(nats.url())
    assert (done.returncode, done.stderr) == (0, ""), done
    nats.stop()
    done = check(nats.url())
    assert done.returncode == 0 and "valid" in done.stdout, done
    assert done.stderr.startswith("forebayd: cannot reach NATS (upstream): "), done
    assert "refused" in done.stderr and done.stderr.count("\n") == 1, done


@pytest.mark.parametrize("width, dark", [(1440, False), (1440, True), (420, False)])
def test_the_page_shows_shared_topics(node, nats, tmp_path, width, dark):
    admin = node("--upstream-time", "1s")
    peer = admin.broker.peer()
    peer.publish("s.orders", *[b"x" * 3000] * 10)
    peer.subscribe("s.absent", n=1)
    peer.publish("memory.only", b"x" * 3000)
    folder = os.environ.get("FOREBAY_SCREENSHOTS", str(tmp_path))
    page = Page("http://%s:%d/" % admin.broker.admin, width=width, dark=dark)
    try:
        def row(name):
            return next((row for row in page.rows("topics") if row[0].split()[0] == name), [])

        page.until(lambda: len(row("s.absent")) > 0, "the topic is shown")
        assert row("s.orders")[0].split() == ["s.orders", "shared"]
        assert row("s.absent")[0].split() == ["s.absent", "shared"] and row("s.absent")[4] == "1"
        assert row("memory.only")[0].split() == ["memory.only"]
        title = page.value("[...document.querySelectorAll('#topics tbody tr')]"
                           ".find((row) => row.innerText.includes('s.orders')).cells[10].title")
        assert title.endswith("0 messages (0 B) not acknowledged by NATS yet"), title

        def tile() -> str:
            return page.value("[...document.querySelectorAll('.tile')].find((one) => one.innerText.startsWith('NATS'))"
                              "?.innerText ?? ''")

        page.until(lambda: "\nup\n" in tile() and f"127.0.0.1:{nats.port}, for" in tile() and "2 topics" in tile(),
                   "the tile is shown")
        page.screenshot(f"{folder}/shared-{width}-{dark}.png")
        nats.stop()
        page.until(lambda: "not connected to NATS for " in page.text("#health"), "the page reports it")
        page.until(lambda: "\ndown\n" in tile(), "the tile reports it")
        page.until("document.querySelector('#health').className.includes('bad')", "it is serious")
        page.screenshot(f"{folder}/shared-lost-{width}-{dark}.png")
        nats.restart()
        page.until(lambda: page.text("#health") == "healthy", "the page recovers")
        assert page.complaints == []
    finally:
        page.close()
