"""The admin listener: metrics, health, JSON, and an operator's actions; with promtool and a real Prometheus."""

import json
import re
import shutil
import signal
import socket
import subprocess
import urllib.parse
from pathlib import Path

import pytest
import requests

import access
import tls
from admin import Admin, until
from common import DEADLINE
from prometheus import Prometheus

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.rsocket


@pytest.fixture
def admin(begin):
    return Admin(begin("--admin", "127.0.0.1:0"))


def test_what_is_published_delivered_and_dropped_is_told(admin, topic):
    broker = admin.broker
    slow, fast, publisher = broker.peer(), broker.peer(), broker.peer()
    slow.subscribe(topic + "?buffer=3", n=2)
    fast.subscribe(topic, n=1000)
    publisher.joined(topic, 2)
    publisher.numbers(topic, 1, 10)
    until(lambda: admin.metrics().get(f'forebay_topic_delivered_total{{topic="{topic}"}}') == 12, "12 are delivered")
    told = admin.metrics("?subscriptions=1")
    of_topic = {name: told[f'forebay_topic_{name}{{topic="{topic}"}}'] for name in (
        "published_total", "subscriptions", "waiting_messages", "behind_subscriptions", "lag_messages",
        "credit_outstanding_messages", "retained_messages", "publishers_blocked")}
    assert told[f'forebay_topic_dropped_total{{topic="{topic}",policy="drop-oldest"}}'] == 5
    assert of_topic == {"published_total": 10, "subscriptions": 2, "waiting_messages": 3,
                        "behind_subscriptions": 1, "lag_messages": 3, "credit_outstanding_messages": 990,
                        "retained_messages": 10, "publishers_blocked": 0}
    assert told['forebay_messages_dropped_total{policy="drop-oldest"}'] == 5
    assert told['forebay_subscriptions_behind{waits_for="credit"}'] == 1
    assert told['forebay_connections{protocol="rsocket"}'] == 3
    assert told["forebay_behind_max_seconds"] > 0 and told["forebay_lag_max_messages"] == 3
    assert told["forebay_received_bytes_total"] > 0 and told["forebay_sent_bytes_total"] > 0
    assert told["forebay_memory_bytes"] >= told["forebay_memory_logs_bytes"] > 0
    assert told["forebay_loop_turn_seconds_count"] > 0 and told["process_open_fds"] > 5
    name = "forebay_subscription_waiting_messages"
    rows = {sample: value for sample, value in told.items() if sample.startswith(name)}
    assert sorted(rows.values()) == [0, 3] and all(f'topic="{topic}",policy="drop-oldest"' in row for row in rows)
    assert not any(sample.startswith("forebay_subscription_") for sample in admin.metrics())


def test_lists_say_the_same_over_every_way(admin, topic):
    """The API returns the same lists and figures as the protocol."""
    peer = admin.broker.peer()
    peer.subscribe(topic + "?buffer=7", n=5)
    peer.joined(topic, 1)
    for name in ("topics", "subscriptions", "connections"):
        there = [row for row in peer.listing("$SYS." + name) if not row.get("name", "").startswith("$SYS.")]
        here = [row for row in admin.json("api/v1/" + name)["items"] if not row.get("name", "").startswith("$SYS.")]
        changing = {"age_ms", "asked_ms", "bytes_in", "bytes_out", "streams", "output", "control", "copied"}
        assert [{k: v for k, v in row.items() if k not in changing} for row in here] == [
            {k: v for k, v in row.items() if k not in changing} for row in there]
    assert admin.json("api/v1/topics/" + topic) == peer.control("$SYS.topic.info", name=topic)
    stats = admin.json("api/v1/stats")
    assert stats["subscriptions"] == 1 and stats["connections"] == 1 and stats["shards_missing"] == []
    info = admin.json("api/v1/info")
    listeners = {one["protocol"]: one["address"] for one in info["listeners"]}
    assert listeners == {"rsocket": "%s:%d" % admin.broker.address, "http": "%s:%d" % admin.broker.http,
                         "admin": "%s:%d" % admin.broker.admin}
    assert info["http_origin"] == tls.trust(admin.broker.http)[0] + "://" + listeners["http"]


def test_lists_come_in_pages(admin):
    peer = admin.broker.peer()
    names = {f"t{number}" for number in range(30)}
    for name in names:
        peer.publish(name, b"x")
    found, cursor, pages = [], None, 0
    while True:
        page = admin.json("api/v1/topics?limit=7" + (f"&cursor={cursor}" if cursor else ""))
        assert len(page["items"]) <= 7
        found += [row["name"] for row in page["items"]]
        pages += 1
        if "next" not in page:
            break
        cursor = page["next"]
    assert len(found) == len(set(found)) and names <= set(found) and pages >= 5


def test_topics_are_ended(admin, topic):
    peer = admin.broker.peer()
    for name in (topic, topic + "b", topic + "c"):
        peer.publish(name, b"x")
    assert admin.post(f"api/v1/topics/{topic}/complete").json()["state"] == "completed"
    failed = admin.post(f"api/v1/topics/{topic}b/fail?message=" + urllib.parse.quote("gone \"away\"")).json()
    assert failed["state"] == "failed" and failed["error"] == 'gone "away"'
    assert admin(f"api/v1/topics/{topic}c", "DELETE").json()["name"] == topic + "c"
    admin.problem(admin(f"api/v1/topics/{topic}c"), 404, "not-found")
    admin.problem(admin.post(f"api/v1/topics/{topic}/complete"), 409, "ended")


def test_a_subscription_and_a_connection_are_cut_off(admin, topic):
    peer, other = admin.broker.peer(), admin.broker.peer()
    subscription = peer.subscribe(topic)
    other.joined(topic, 1)
    row = next(row for row in admin.json("api/v1/subscriptions")["items"] if row["topic"] == topic)
    assert admin(f"api/v1/subscriptions/{row['id']}", "DELETE").json()["topic"] == topic
    assert "An operator ended this subscription" in subscription.end().text
    admin.problem(admin(f"api/v1/subscriptions/{row['id']}", "DELETE"), 404, "not-found")
    # The connection remains until it is closed too.
    assert peer.control("$SYS.topic.info", name=topic)["subscriptions"] == 0
    assert admin(f"api/v1/connections/{row['connection']}", "DELETE").json()["id"] == row["connection"]
    until(lambda: len(admin.json("api/v1/connections")["items"]) == 1, "the connection is gone")
    assert other.control("$SYS.info")["name"] == "forebay"
    assert admin.metrics()['forebay_requests_refused_total{reason="closed-by-operator"}'] == 2


def test_a_browser_is_told_what_pages_may_not(admin, topic):
    def of(host, **headers):
        return admin("api/v1/info", headers={"host": host, **headers})

    assert of("localhost:1").status_code == 200
    assert "--host-name evil.example" in admin.problem(of("evil.example:7692"), 421, "foreign-host")
    admin.problem(of("localhost", origin="http://evil.example"), 403, "foreign-origin")
    admin.problem(admin(f"api/v1/topics/{topic}/complete", "POST"), 400, "invalid")
    foreign = admin.post(f"api/v1/topics/{topic}/complete", **{"sec-fetch-site": "cross-site"})
    admin.problem(foreign, 403, "foreign-origin")
    admin.problem(admin("metrics", "POST"), 405, "method-not-allowed")
    for path in ("", "metrics", "nothing"):
        headers = admin(path).headers
        assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"
        assert not any(name.startswith("access-control-") for name in headers)
    assert "default-src 'none'" in admin("").headers["content-security-policy"]


def test_the_plain_face_knows_its_names_too(begin):
    broker = begin("--admin", "127.0.0.1:0", "--host-name", "Broker.example")
    session, (scheme, _) = Admin(broker).session, tls.trust(broker.http)
    url = "%s://%s:%d/v1/topics/t/messages" % (scheme, *broker.http)
    for host, status in [("127.0.0.1:1", 200), ("broker.example:7", 200), ("evil.example", 421)]:
        assert session.post(url, data=b"x", headers={"host": host}, timeout=DEADLINE).status_code == status
    # The admin page may use the HTTP listener, and no other page may.
    page = "%s://%s:%d" % (scheme, *broker.admin)
    allowed = session.post(url, data=b"x", headers={"origin": page}, timeout=DEADLINE)
    assert allowed.status_code == 200 and allowed.headers["access-control-allow-origin"] == page
    refused = session.post(url, data=b"x", headers={"origin": "http://127.0.0.1:1"}, timeout=DEADLINE)
    assert refused.status_code == 403 and "access-control-allow-origin" not in refused.headers


def test_readiness_ends_with_a_drain_and_health_does_not(admin, topic):
    assert admin("healthz").text == admin("readyz").text == "ok\n"
    # A subscription with credit whose socket accepts nothing delays the drain.
    peer = admin.broker.peer(receive_buffer=4096)
    peer.subscribe(topic + "?buffer=2000")
    other = admin.broker.peer()
    other.joined(topic, 1)
    for _ in range(60):
        other.publish(topic, b"x" * 100_000)
    admin.broker.process.send_signal(signal.SIGTERM)
    assert until(lambda: admin("readyz").status_code == 503, "it is ready no more")
    assert admin("readyz").text == "draining\n" and admin("healthz").status_code == 200
    assert admin.metrics()["forebay_draining"] == 1
    peer.close()
    other.close()
    assert admin.broker.process.wait(15) == 0
    with pytest.raises(requests.ConnectionError):
        admin("healthz")


def test_a_silent_connection_does_not_keep_others_out(admin):
    held = [socket.create_connection(admin.broker.admin) for _ in range(100)]
    # Connections beyond the limit are closed at once; a new one is accepted as soon as others close.
    until(lambda: sum(ended(one) for one in held) >= 30, "30 are closed")
    for one in held:
        one.close()

    def answers():
        try:
            return admin("healthz").status_code == 200
        except requests.ConnectionError:  # The listener has not noticed yet that there is room.
            return False

    until(answers, "it answers again")


POST = b"POST /api/v1/topics/t/complete HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n"
UNFINISHED = {"a body that does not come": (POST % b"Content-Length: 100", False),
              "chunks that do not come": (POST % b"Transfer-Encoding: chunked", False),
              "an end in place of chunks": (POST % b"Transfer-Encoding: chunked", True),
              "answers that are not read": (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 500, False)}


@pytest.mark.parametrize("what", UNFINISHED)
def test_requests_that_come_to_no_end_do_not_keep_others_out(admin, what):
    """Requests are ended when they make no progress, long before 30 seconds of silence would end them."""
    request, half_closes = UNFINISHED[what]
    held = []

    def hold(count: int):
        for _ in range(count):
            one = socket.socket()
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 10)
            one.connect(admin.broker.admin)
            one.sendall(request)
            if half_closes:
                one.shutdown(socket.SHUT_WR)
            held.append(one)

    def answers():
        admin.session.close()
        try:
            return admin("healthz").status_code == 200
        except requests.ConnectionError:
            return False

    hold(64)
    for _ in range(8):  # The first attempt may come before all held connections were checked.
        until(answers, "it answers")
        hold(1)
    for one in held:
        one.close()
    until(answers, "it answers again")


def ended(one):
    one.setblocking(False)
    try:
        return one.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_large_requests_are_refused(admin):
    admin.problem(admin("x" * 9000), 414, "target-too-long")
    headers = {"content-type": "application/json"}
    assert admin("api/v1/topics/a/complete", "POST", data=b"x" * 1000, headers=headers).status_code == 404
    with pytest.raises(requests.ConnectionError):
        admin("api/v1/topics/a/complete", "POST", data=b"x" * (1 << 20), headers=headers)
    with tls.wrap(socket.create_connection(admin.broker.admin), admin.broker.admin) as one:
        one.sendall(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999999999999\r\n\r\n")
        assert one.recv(4096).startswith(b"HTTP/1.1 400 ")
    with tls.wrap(socket.create_connection(admin.broker.admin), admin.broker.admin) as one:
        one.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
                    b"content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n")
        assert one.recv(4096).startswith(b"HTTP/1.1 400 ")


def test_users_need_the_permission_to_control(begin, topic, tmp_path):
    file = tmp_path / "broker.yaml"
    file.write_text(f"""
users:
  - name: operator
    token: {access.token_hash("operator's")}
    control: [">", "$SYS.>"]
  - name: watcher
    token: {access.token_hash("watcher's")}
    control: ["$SYS.stats"]
""")
    admin = Admin(begin("-c", str(file), "--admin", "127.0.0.1:0"))

    def ask(path, token=None, method="GET"):
        headers = {"authorization": "Bearer " + token} if token else {}
        return admin(path, method, headers=headers)

    for path in ("healthz", "readyz", "", "script.js"):
        assert ask(path).status_code == 200, path
    for path in ("metrics", "api/v1/overview", "api/v1/topics"):
        assert ask(path).status_code == 401, path
        assert ask(path, "nobody's").status_code == 401, path
        assert ask(path, "operator's").status_code == 200, path
    # A browser asks for credentials only outside the page.
    challenge = ask("metrics").headers["www-authenticate"]
    assert "Basic" in challenge and "Bearer" in challenge
    own = admin("metrics", headers={"x-requested-with": "XMLHttpRequest"}).headers["www-authenticate"]
    assert "Basic" not in own and "Bearer" in own
    assert ask("metrics", "watcher's").status_code == 200
    assert ask("api/v1/connections", "watcher's").status_code == 403
    assert ask("api/v1/connections/0-0-1", "watcher's", "DELETE").status_code == 403
    assert ask("api/v1/connections/0-0-1", "operator's", "DELETE").status_code == 404


def test_what_clients_without_credentials_may_do_holds_here_too(begin, tmp_path):
    file = tmp_path / "broker.yaml"
    file.write_text('anonymous:\n  subscribe: ["public.>"]\n')
    admin = Admin(begin("-c", str(file), "--admin", "127.0.0.1:0"))
    assert admin("healthz").status_code == 200
    for path, method in (("metrics", "GET"), ("api/v1/topics", "GET"), ("api/v1/topics/a", "DELETE")):
        # There are no users, so credentials cannot help.
        for credentials in (None, ("somebody", "secret")):
            admin.problem(admin(path, method, auth=credentials), 403, "forbidden")


def test_it_tells_the_limits_in_force(begin, tmp_path):
    file = tmp_path / "broker.yaml"
    file.write_text("retain: 5\n")
    admin = Admin(begin("-c", str(file), "--admin", "127.0.0.1:0"))

    def limits():
        info = admin.json("api/v1/info")
        return info["retain"], info["payload_limit"]

    assert limits() == (5, 1 << 20)
    file.write_text("retain: 6\nmax-payload: 2K\n")
    admin.broker.process.send_signal(signal.SIGHUP)
    until(lambda: limits() == (6, 2048), "the limits of the reload")


def test_it_is_for_this_machine_where_there_are_no_users(start, begin):
    options = ("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--admin", "0.0.0.0:0")
    code, words = start.refusal(*options)
    assert code == 2 and words.startswith("forebayd: --admin 0.0.0.0:0: 0.0.0.0:") and "there are no users" in words
    broker = begin("--admin", "0.0.0.0:0", "--allow-anonymous")
    broker.admin = "127.0.0.1", broker.admin[1]
    assert Admin(broker)("healthz").text == "ok\n"


# Prometheus


def families(text):
    return {line.split()[2]: line.split()[3] for line in text.splitlines() if line.startswith("# TYPE ")}


def test_promtool_finds_nothing_to_say(admin, topic):
    peer = admin.broker.peer()
    peer.subscribe(topic, n=3)
    peer.joined(topic, 1)
    text = admin("metrics?subscriptions=1").text
    assert admin("metrics").headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    done = subprocess.run([shutil.which("promtool"), "check", "metrics"], input=text, capture_output=True, text=True,
                          timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_document_lists_every_metric(admin):
    document = (ROOT / "Protocol/admin.md").read_text()
    listed = dict(re.findall(r"^\| `((?:forebay|process)_[a-z_]+)` \| (\w+) \|", document, re.MULTILINE))
    assert listed == families(admin("metrics?subscriptions=1").text)


def test_the_dashboard_and_the_rules_name_metrics_that_there_are(admin, tmp_path):
    known = families(admin("metrics?subscriptions=1").text)
    samples = known | {name + end: "" for name, kind in known.items() if kind == "histogram"
                       for end in ("_bucket", "_sum", "_count")}
    dashboard = json.loads((ROOT / "Docker/grafana-dashboard.json").read_text())
    queries = re.findall(r'"expr": "(.*?)",?\n', (ROOT / "Docker/grafana-dashboard.json").read_text())
    rules = (ROOT / "Docker/alerts.yaml").read_text()
    named = set(re.findall(r"\b((?:forebay|process)_[a-z_]+)\b", "\n".join(queries) + rules))
    assert len(queries) >= 10 and dashboard["title"] and named and named <= samples.keys(), named - samples.keys()
    done = subprocess.run([shutil.which("promtool"), "check", "rules", ROOT / "Docker/alerts.yaml"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "SUCCESS" in done.stdout, done.stdout + done.stderr


def test_what_publishers_lose_is_told_everywhere(admin, topic):
    peer, watcher = admin.broker.peer(), admin.broker.peer()
    stats = watcher.subscribe("$SYS.stats")
    peer.subscribe(f"{topic}?overflow=block&buffer=1", n=1)
    peer.joined(topic, 1)
    before = admin.metrics()
    field = "fire_and_forget_dropped"
    for _ in range(20):
        peer.fire(topic, b"x")
    lost = peer.until(topic, lambda info: info["published"] + info[field] == 20)[field]
    assert lost > 0
    name = 'forebay_publishes_dropped_total{reason="room"}'
    assert admin.metrics()[name] - before[name] == lost
    told = admin.json("api/v1/stats")
    assert told["lost"]["room"] == lost == told["lost_total"] and told[field] >= lost
    until(lambda: json.loads(stats.event().data).get("lost") == lost, "$SYS.stats reports it")

    def lines():
        return [line for line in map(json.loads, list(admin.broker.log)) if line["message"] == "publishes lost"]

    until(lambda: sum(int(line["dropped"]) for line in lines()) == lost, "the log reports it")
    assert {(line["limit"], line["topic"]) for line in lines()} == {("room", topic)}


def test_a_real_prometheus_scrapes_the_broker(admin, topic, tmp_path):
    admin.broker.peer().numbers(topic, 1, 3)
    scheme, authority = tls.trust(admin.broker.admin)
    how = {"scheme": scheme, "tls_config": {"ca_file": authority}} if scheme == "https" else {}
    server = Prometheus(admin.broker.admin, tmp_path, **how)
    try:
        server.until('up{job="forebay"}', 1)
        server.until(f'forebay_topic_published_total{{topic="{topic}"}}', 3)
        server.until("sum(forebay_shard_responding)", 2)
        assert server.ask("histogram_quantile(0.99, sum by (le) (forebay_loop_turn_seconds_bucket)) > 0")
        assert server.ask('ALERTS{alertname="ForebayDown"}') == []
    finally:
        server.close()
