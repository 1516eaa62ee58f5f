"""`forebay bench`: its messages arrive, its figures add up, and it leaves nothing behind."""

import json
import re
import signal
import threading

import pytest

from commands import LIMIT, Commands, ended, until


@pytest.fixture
def bench(forebay):
    """Runs `bench --json` and returns the object it prints."""
    def run(*words, code=0):
        done = forebay.run("bench", "--json", *words)
        assert done.returncode == code, done
        return json.loads(done.stdout)
    return run


def own_topics(forebay):
    return [row["name"] for row in forebay.rows("topics") if row["name"].startswith("bench.")]


COUNTED = [
    [], ["--publishers", "3", "--subscribers", "4"], ["--request", "1"], ["--request", "7", "--buffer", "1"],
    ["--buffer", "1", "--publishers", "2"], ["--ack", "--publishers", "2", "--subscribers", "3"], ["--size", "0"],
    ["--size", "15"], ["--size", "16"], ["--rate", "5000", "--publishers", "2"], ["--rate", "5000", "--ack"],
]


@pytest.mark.parametrize("words", COUNTED, ids=" ".join)
def test_block_delivers_all(bench, forebay, words):
    row = bench("--count", "2001", *words)
    assert row["published"] == 2001
    assert row["delivered"] == 2001 * row["subscribers"]
    assert (row["lost"], row["misplaced"], row["foreign"], row["interrupted"]) == (0, 0, 0, False)
    assert row.get("acknowledged", 2001) == 2001 and ("acknowledged" in row) == ("--ack" in words)
    assert own_topics(forebay) == []


def test_large_messages(bench):
    row = bench("--count", "60", "--size", str(1 << 20), "--subscribers", "2")
    assert (row["delivered"], row["lost"]) == (120, 0)


def test_many_subscribers(bench, forebay):
    row = bench("--count", "100", "--subscribers", "500")
    assert (row["delivered"], row["lost"]) == (50_000, 0)
    until(lambda: len(forebay.rows("conns")) == 1, "all connections are closed")


def test_figures_add_up(bench):
    row = bench("--seconds", "0.3", "--size", "200", "--subscribers", "2")
    assert row["published"] > 0 and row["publish_seconds"] >= 0.3
    assert row["delivered"] == 2 * row["published"]
    assert row["published_per_second"] == pytest.approx(row["published"] / row["publish_seconds"], rel=0.001)
    assert row["delivered_per_second"] == pytest.approx(row["delivered"] / row["delivery_seconds"], rel=0.001)
    assert row["delivered_bytes_per_second"] == pytest.approx(200 * row["delivered_per_second"], rel=0.001)
    assert row["messages_per_read"] >= 1 and 0 <= row["credit_stalled_part"] <= 1
    assert "latency_ns" not in row and row["client_cpu"] > 0


def test_nobody_subscribes(bench):
    row = bench("--count", "1000", "--subscribers", "0")
    assert (row["published"], row["delivered"], row["lost"]) == (1000, 0, 0)


def test_a_rate_prints_quantiles(bench, forebay):
    row = bench("--rate", "1000", "--seconds", "0.5", "--subscribers", "3")
    assert row["published"] == 500
    for figures, count in ((row["latency_ns"], 1500), (row["sent_late_ns"], 500)):
        values = [figures[key] for key in ("p50", "p99", "p99_9", "p99_99", "max")]
        assert values == sorted(values) and figures["count"] <= count
    assert row["latency_ns"]["count"] == 1500 and row["latency_ns"]["p50"] > 0
    # No message is published before it is due: the last is due 499 ms after the first.
    assert row["publish_seconds"] >= 0.499
    text = forebay.ok("bench", "--rate", "1000", "--count", "100").decode()
    assert re.search(r"^milliseconds +p50 +p99 +p99\.9 +p99\.99 +max$", text, re.MULTILINE)
    assert re.search(r"^latency( +\d+\.\d{3}){5}  from the scheduled time", text, re.MULTILINE)


def test_latency_counts_from_when_a_message_was_due(bench):
    """A subscriber with one credit at a time and a `block` buffer of one makes messages wait at their publisher."""
    row = bench("--rate", "10000000", "--count", "3000", "--request", "1", "--buffer", "1")
    assert row["delivered"] == 3000 and row["latency_ns"]["count"] == 3000
    # All messages are due within 0.3 ms, so half of them wait for half of the run.
    assert row["latency_ns"]["p50"] > 0.25e9 * row["delivery_seconds"]
    assert row["credit_stalls"] > 0


def test_text(forebay):
    text = forebay.ok("bench", "--count", "1234", "--subscribers", "2").decode()
    assert re.match(r"bench\.[0-9a-f]{16} · 1 publisher · 2 subscribers · 128 bytes · block · demand unbounded\n", text)
    assert re.search(r"^published .* 1,234$", text, re.MULTILINE)
    assert re.search(r"^delivered .* 2,468  [\d.]+ messages per read$", text, re.MULTILINE)
    assert re.search(r"^lost +0$", text, re.MULTILINE)
    assert re.search(r"^The client used \d+ % of a CPU", text, re.MULTILINE)


@pytest.mark.parametrize("policy", ["drop-oldest", "drop-newest", "replace-newest", "latest"])
def test_policies_that_lose_are_counted(bench, policy):
    row = bench("--count", "50000", "--overflow", policy, "--request", "1", "--buffer", "2", "--subscribers", "2")
    assert row["published"] == 50_000 and row["misplaced"] == 0
    assert row["delivered"] + row["lost"] == 100_000 and row["lost"] > 0


def test_fail_is_told(forebay, bench):
    row = bench("--count", "1000000", "--overflow", "fail", "--request", "1", "--buffer", "2", code=1)
    assert row["failed_subscriptions"] == 1 and row["delivered"] + row["lost"] == row["published"]
    done = forebay.run("bench", "--count", "100000", "--overflow", "fail", "--request", "1", "--buffer", "2")
    assert done.returncode == 1 and b"1 of 1 subscriptions failed: overflow:" in done.stderr
    assert own_topics(forebay) == []


# Topics

def test_a_named_topic_stays(forebay, bench, topic):
    row = bench(topic, "--count", "100")
    assert row["topic"] == topic and row["delivered"] == 100
    assert forebay.rows("topics", name=topic)[0]["published"] >= 100


def test_messages_of_others_are_not_counted(forebay, topic):
    process = forebay.start("bench", topic, "--rate", "100", "--seconds", "1", "--json")
    until(lambda: forebay.rows("topics", name=topic), "the topic is there")
    until(lambda: forebay.rows("topics", name=topic)[0]["published"] > 5, "messages are published")
    forebay.ok("pub", topic, "--size", "128", "--count", "10")
    row = json.loads(ended(process)[0])
    assert (row["delivered"], row["lost"], row["foreign"]) == (100, 0, 10)


def test_an_ended_topic_is_refused(forebay, topic):
    forebay.ok("pub", topic, "x", "--complete")
    done = forebay.run("bench", topic, "--count", "10")
    assert done.returncode == 1 and b"has completed" in done.stderr and done.stderr.count(b"\n") == 1


def test_a_topic_that_is_deleted_under_it(forebay):
    process = forebay.start("bench", "--seconds", "20")
    until(lambda: own_topics(forebay), "the topic is there")
    until(lambda: [row for row in forebay.rows("topics", name=own_topics(forebay)[0]) if row["published"] > 10],
          "messages are published")
    forebay.ok("topic", "delete", own_topics(forebay)[0])
    assert ended(process, 1)[1].count("\n") == 1


# Ends

@pytest.mark.parametrize("words", [[], ["--ack"], ["--rate", "500"], ["--count", "1000000000"],
                                   ["--request", "10", "--subscribers", "3"]], ids=" ".join)
def test_a_signal_ends_it_early(forebay, words):
    process = forebay.start("bench", "--json", *words, *([] if "--count" in words else ["--seconds", "1000"]))
    until(lambda: [row for name in own_topics(forebay) for row in forebay.rows("topics", name=name)
                   if row["published"] > 10], "messages are published")
    process.send_signal(signal.SIGINT)
    row = json.loads(ended(process)[0])
    assert row["interrupted"] is True and row["published"] > 0
    assert row["delivered"] == row["published"] * row["subscribers"] and row["lost"] == 0
    assert own_topics(forebay) == []


def test_a_broker_that_dies(start, reach):
    broker = start()
    commands = reach(broker)
    process = commands.start("bench", "--seconds", "1000", "--subscribers", "3")
    until(lambda: [row for row in commands.rows("topics") if row["name"].startswith("bench.")
                   and row["published"] > 10], "messages are published")
    broker.process.kill()
    out, error = ended(process, 3)
    assert out == b"" and error.startswith("forebay: ") and "connection" in error and error.count("\n") == 1
    broker.process.wait()


def test_a_broker_that_drains(start, reach):
    broker = start()
    commands = reach(broker)
    process = commands.start("bench", "--seconds", "1000", "--rate", "100")
    until(lambda: [row for row in commands.rows("topics") if row["name"].startswith("bench.")
                   and row["published"] > 3], "messages are published")
    stopping = threading.Thread(target=broker.stop)
    stopping.start()
    assert "shutting down" in ended(process, 3)[1]
    stopping.join(LIMIT)


def test_nobody_there(scheme):
    done = Commands(("127.0.0.1", 1), scheme).run("bench")
    assert done.returncode == 3 and b"Nothing is listening at 127.0.0.1:1" in done.stderr


USAGE = [
    (["--subscribers", "10001"], "--subscribers takes a number from 0 to 10000, not '10001'."),
    (["--publishers", "0"], "--publishers takes a number from 1 to 100, not '0'."),
    (["--size", "1048577"], "--size takes a number from 0 to 1048576"),
    (["--count", "5", "--seconds", "5"], "--count and --seconds are mutually exclusive"),
    (["--rate", "5", "--size", "8"], "--rate needs a --size of 16 or more"),
    (["--overflow", "drop"], "--overflow takes drop-oldest"), (["--seconds", "0"], "--seconds takes a number"),
    (["$SYS.stats"], "broker's own"), (["a", "b"], "takes no further operand 'b'"),
]


@pytest.mark.parametrize("words, text", USAGE, ids=[text for _, text in USAGE])
def test_usage(forebay, words, text):
    done = forebay.run("bench", *words)
    assert done.returncode == 2 and done.stdout == b""
    assert done.stderr.decode().startswith("forebay: ") and text in done.stderr.decode()
