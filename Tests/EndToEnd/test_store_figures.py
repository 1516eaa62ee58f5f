"""What operators see of the store: metrics, health, the log, the admin page, and stored topics in lists."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from admin import Admin, until
from common import StreamError
from executables import executable
from page import Page

pytestmark = pytest.mark.rsocket

FOREBAY = os.environ.get("FOREBAY") or str(Path(executable()).with_name("forebay"))


@pytest.fixture(scope="module")
def failing(tmp_path_factory) -> str:
    """A library that lets the broker's calls fail as $DISK_FAIL says."""
    library = tmp_path_factory.mktemp("disk") / "disk.so"
    done = subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, Path(__file__).with_name("disk.c")],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return str(library)


@pytest.fixture
def stored(begin, tmp_path):
    def start(*options, **more) -> Admin:
        return Admin(begin("--admin", "127.0.0.1:0", "--store", str(tmp_path / "store"), "--durable", "d.>",
                           "--relaxed", "r.>", *options, **more))
    return start


def lines(admin, message: str) -> list[dict]:
    return [line for line in map(json.loads, list(admin.broker.log)) if line["message"] == message]


def test_commits_and_reads_are_counted(stored):
    admin = stored("--resident-bytes", "64K")
    peer = admin.broker.peer()
    peer.publish("d.a", *[bytes(20_000)] * 10)
    peer.fire("r.a", b"x")
    told = until(lambda: (told := admin.metrics())['forebay_store_topics{storage="relaxed"}'] and told, "it is stored")
    assert told['forebay_store_topics{storage="durable"}'] == 1
    assert told["forebay_store_commit_seconds_count"] == told["forebay_store_commit_bytes_count"] > 0
    assert told["forebay_store_commit_seconds_sum"] > 0
    assert told["forebay_store_written_bytes_total"] == told["forebay_store_commit_bytes_sum"] > 200_000
    assert told["forebay_store_batches_total"] >= 1
    assert 200_000 < told["forebay_store_bytes"] < told["forebay_store_limit_bytes"] == 10 << 30
    assert told["forebay_store_uncommitted_limit_bytes"] == 64 << 20
    assert told['forebay_topic_stored_bytes{topic="d.a"}'] > 200_000
    assert told['forebay_topic_log_bytes{topic="d.a"}'] < 200_000
    assert told["forebay_store_failed"] == told["forebay_store_reads_total"] == 0
    until(lambda: admin.metrics()["forebay_store_uncommitted_bytes"] == 0, "all is written")
    assert len(peer.subscribe("d.a?replay=all", n=10).data(10)) == 10
    told = admin.metrics()
    assert told["forebay_store_reads_total"] > 0 and told["forebay_store_read_messages_total"] > 0
    assert told["forebay_store_read_bytes_total"] > 20_000
    assert {value for sample, value in told.items() if sample.startswith("forebay_store_errors_total")} == {0}
    store = admin.json("api/v1/stats")["store"]
    assert not store["failed"] and not store["full"] and store["bytes"] == told["forebay_store_bytes"]


def test_without_a_store_there_are_no_samples_of_it(begin):
    admin = Admin(begin("--admin", "127.0.0.1:0"))
    admin.broker.peer().numbers("t", 1, 1)
    assert not [sample for sample in admin.metrics() if sample.startswith(("forebay_store", "forebay_topic_stored"))]
    assert "store" not in admin.json("api/v1/stats")
    info = admin.json("api/v1/topics/t")
    assert info["storage"] == "memory" and "uncommitted" not in info


def test_a_restart_keeps_the_size_of_topics(stored):
    admin = stored()
    peer = admin.broker.peer()
    peer.publish("d.a", *[b"x" * 1000] * 30)
    peer.publish("r.a", b"1")
    before = peer.info("d.a")
    assert before["storage"] == "durable" and before["bytes"] == before["resident_bytes"] > 30_000
    assert peer.info("r.a")["storage"] == "relaxed"
    assert lines(admin, "store opened")[0]["topics"] == 0
    admin.broker.stop()
    admin = stored()
    opened, = lines(admin, "store opened")
    assert (opened["topics"], opened["after"]) == (2, "clean shutdown")
    assert opened["bytes"] > 30_000 and opened["ms"] >= 0 and opened["limit"] == 10 << 30
    peer = admin.broker.peer()
    after = peer.info("d.a")
    assert after["bytes"] == before["bytes"] and after["resident_bytes"] == 0 and after["retained"] == 30
    assert (after["uncommitted"], after["uncommitted_bytes"]) == (0, 0)
    rows = {row["name"]: row for row in peer.listing("$SYS.topics")}
    assert rows["d.a"] == after == admin.json("api/v1/topics/d.a")
    picture = {row["name"]: row for row in admin.json("api/v1/overview?topics_sort=bytes")["topics"]}
    assert next(iter(picture)) == "d.a" and picture["d.a"]["bytes"] == before["bytes"]
    admin.broker.process.kill()
    admin.broker.process.wait()
    assert lines(stored(), "store opened")[0]["after"] == "unclean shutdown"


def test_grpc_describes_how_a_topic_is_stored(stored):
    import grpc_client

    admin = stored()
    admin.broker.peer().publish("d.a", b"x" * 1000)
    peer = grpc_client.Peer(admin.broker.http)
    try:
        topic = peer.admin.TopicInfo(grpc_client.pb.TopicInfoRequest(topic="d.a"))
        assert topic.storage == grpc_client.pb.TOPIC_STORAGE_DURABLE and topic.uncommitted_bytes == 0
        assert topic.bytes == json.loads(topic.json)["bytes"] > 1000
    finally:
        peer.close()


def test_the_command_line_shows_stored_topics(stored):
    admin = stored()
    peer = admin.broker.peer()
    peer.publish("d.a", b"x" * 5000)
    peer.publish("m.a", b"x")
    url = "rsocket://%s:%d" % admin.broker.address

    def run(*words) -> str:
        done = subprocess.run([FOREBAY, *words, "--url", url], capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr
        return done.stdout

    head, *rows = run("topics").splitlines()
    rows = {row.split()[0]: row.split() for row in rows}
    assert head.split()[2] == "STORAGE" and head.split()[-1] == "UNCOMMITTED"
    assert rows["d.a"][2] == "durable" and rows["d.a"][6:8] == ["4.9", "KiB"] and rows["d.a"][-1] == "0"
    assert rows["m.a"][2] == "memory" and rows["m.a"][-1] == "-"
    details = dict(line.split(maxsplit=1) for line in run("topic", "info", "d.a").splitlines())
    assert details["storage"] == "durable" and details["resident_bytes"] == details["bytes"] == "4.9 KiB"


def test_a_failed_store_is_reported_everywhere(stored, failing):
    admin = stored(variables={"LD_PRELOAD": failing, "DISK_FAIL": "fdatasync 20 5"})
    peer = admin.broker.peer()
    assert admin("readyz").text == "ok\n"
    with pytest.raises(StreamError):
        for number in range(100):
            peer.publish("d.a", b"%d" % number)
    until(lambda: admin("readyz").status_code == 503, "it is not ready")
    answer = admin("readyz")
    assert answer.text.startswith("the store has failed: ") and "Input/output error" in answer.text
    assert admin("healthz").text == "ok\n"
    told = admin.metrics()
    assert told["forebay_store_failed"] == 1 and told['forebay_store_errors_total{kind="failed"}'] >= 1
    assert told['forebay_publishes_refused_total{reason="store"}'] >= 1
    line, = lines(admin, "store failed")
    assert line["level"] == "error" and "Input/output error" in line["cause"]
    assert admin.json("api/v1/stats")["store"]["failed"]
    stats = peer.subscribe("$SYS.stats")
    until(lambda: json.loads(stats.event().data).get("store_failed"), "$SYS.stats reports it")
    page = Page("http://%s:%d/" % admin.broker.admin)
    try:
        page.until(lambda: "store has failed" in page.text("#health"), "the page reports it")
        assert page.complaints == []
    finally:
        page.close()


def test_a_full_store_is_reported(stored, failing):
    admin = stored(variables={"LD_PRELOAD": failing, "DISK_FAIL": "pwrite 40 28 3"})
    peer = admin.broker.peer()
    with pytest.raises(StreamError) as refused:
        for number in range(100):
            peer.publish("d.a", b"%d" % number)
    assert "store: full" in str(refused.value)
    told = admin.metrics()
    assert told['forebay_store_errors_total{kind="full"}'] >= 1 and told["forebay_store_failed"] == 0
    assert len(lines(admin, "store is full")) == 1 and lines(admin, "store is full")[0]["level"] == "warn"
    assert admin("readyz").text == "ok\n"


def test_unreadable_messages_are_reported(stored, tmp_path):
    admin = stored()
    admin.broker.peer().publish("d.a", *[b"%d" % number * 3000 for number in range(6)])
    admin.broker.stop()
    file = tmp_path / "store/forebay.store"
    content = bytearray(file.read_bytes())
    for number in range(6):  # Wherever there are payloads, also in pages that are free.
        start = -1
        while (start := content.find(b"%d" % number * 3000, start + 1)) >= 0:
            content[start] ^= 1
    file.write_bytes(content)
    admin = stored()
    admin.broker.peer().subscribe("d.a?replay=all", n=6)
    told = until(lambda: (told := admin.metrics())['forebay_store_errors_total{kind="unreadable"}'] and told,
                 "it is counted")
    assert told["forebay_store_failed"] == 0 and told["forebay_store_reads_total"] >= 1
    line = until(lambda: lines(admin, "stored messages are unreadable"), "it is logged")[0]
    assert line["level"] == "error" and line["from"] >= 1 and line["cause"]
    assert admin("readyz").text == "ok\n"


@pytest.mark.parametrize("width, dark", [(1440, False), (1440, True), (420, False)])
def test_the_page_shows_stored_topics(stored, tmp_path, width, dark):
    admin = stored("--resident-bytes", "64K", "--store-bytes", "64M")
    peer = admin.broker.peer()
    peer.publish("d.orders", *[bytes(60_000)] * 10)
    peer.publish("r.metrics", b"x" * 3000)
    peer.publish("memory.only", b"x" * 3000)
    page = Page("http://%s:%d/" % admin.broker.admin, width=width, dark=dark)
    try:
        def row(name):
            return next((row for row in page.rows("topics") if row[0].split()[0] == name), [])

        page.until(lambda: len(row("d.orders")) > 0, "the topic is shown")
        assert row("d.orders")[0].split() == ["d.orders", "durable"] and row("d.orders")[10].startswith("58")
        assert row("r.metrics")[0].split() == ["r.metrics", "relaxed"]
        assert row("memory.only")[0].split() == ["memory.only"]
        title = page.value("[...document.querySelectorAll('#topics tbody tr')]"
                           ".find((row) => row.innerText.includes('d.orders')).cells[10].title")
        assert "in memory, 0 messages" in title
        tile = page.until("[...document.querySelectorAll('.tile')].find((one) => one.innerText.startsWith('Store'))"
                          "?.innerText", "the tile is shown")
        assert "of 64 MiB" in tile
        page.screenshot(os.environ.get("FOREBAY_SCREENSHOTS", str(tmp_path)) + f"/store-{width}-{dark}.png")
        assert page.complaints == []
    finally:
        page.close()
