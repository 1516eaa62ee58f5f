"""The command line as a user runs it: processes, pipes, signals, exit codes."""

import json
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from commands import LIMIT, Commands, ended, executable, until


# Round trips

def test_one_message_acknowledged_and_replay(forebay, topic):
    assert forebay.ok("pub", topic, "one") == b""
    assert forebay.ok("pub", topic, "two", "--ack") == b"2\n"
    assert json.loads(forebay.ok("pub", topic, "", "--ack", "--json")) == {"acknowledged": 1, "sequence": 3}
    assert forebay.ok("sub", topic, "--replay", "all", "--count", "3") == b"one\ntwo\n\n"
    assert forebay.ok("sub", topic, "--replay", "2", "--count", "1") == b"two\n"
    assert forebay.ok("sub", topic, "--from", "3", "--count", "1", "--format", "json") == b'{"payload":""}\n'


def test_meta(forebay, topic):
    forebay.ok("pub", topic, "--stdin", stdin=b"a\nb\nc\n")
    info = json.loads(forebay.ok("topic", "info", topic, "--json"))
    done = forebay.run("sub", topic, "--replay", "2", "--count", "2", "--meta")
    assert re.fullmatch(rb"#2 \d\d:\d\d:\d\d\.\d{3} b\n#3 \d\d:\d\d:\d\d\.\d{3} c\n", done.stdout)
    assert done.stderr.decode() == f"forebay: epoch {info['epoch']}\n"
    words = ["--from", "3", "--epoch", info["epoch"], "--count", "1", "--meta", "--json"]
    row = json.loads(forebay.ok("sub", topic, *words))
    assert (row["sequence"], row["epoch"], row["dropped"], row["payload"]) == (3, info["epoch"], 0, "c")
    assert abs(row["timestamp_ns"] / 1e9 - time.time()) < 60


def test_headers_and_content_type(forebay, topic):
    headers = [word for header in ("b=2", "a=1", "b=3=4") for word in ("--header", header)]
    forebay.ok("pub", topic, "x", "--content-type", "text/plain", *headers)
    row = json.loads(forebay.ok("sub", topic, "--replay", "1", "--count", "1", "--meta", "--json"))
    assert (row["content_type"], row["headers"]) == ("text/plain", {"a": "1", "b": "3=4"})
    assert "metadata" not in row
    forebay.ok("pub", topic, "y")
    row = json.loads(forebay.ok("sub", topic, "--replay", "1", "--count", "1", "--meta", "--json"))
    assert not {"content_type", "headers"} & set(row)


def test_a_file_is_one_message(forebay, topic, tmp_path):
    content = os.urandom(300_000) + b"\n\0"
    (tmp_path / "file").write_bytes(content)
    forebay.ok("pub", topic, "--file", str(tmp_path / "file"))
    forebay.ok("pub", topic, "--file", "-", stdin=content[::-1])
    words = ["--replay", "2", "--format", "raw", "--count"]
    assert forebay.ok("sub", topic, *words, "1") == content
    assert forebay.ok("sub", topic, *words, "2") == content + content[::-1]


def test_one_message_that_the_broker_does_not_take(start, reach, topic):
    """`pub` exits with 0 only when the message is in the topic, whether or not the topic existed."""
    broker = start("--max-payload", "1K")
    forebay = reach(broker)
    for there in (False, True):
        done = forebay.run("pub", topic, "--file", "-", stdin=b"x" * 2000)
        assert done.returncode == 1 and b"1024" in done.stderr and b"no topic" not in done.stderr, there
        forebay.ok("pub", topic, "short")
    assert forebay.ok("sub", topic, "--replay", "all", "--count", "2") == b"short\nshort\n"
    broker.stop()


def test_what_to_do_about_a_gap_is_said(forebay, topic):
    """Without --meta the subscription is refused, because the user would not learn of the gap."""
    forebay.ok("pub", topic, "x")
    gap = ["sub", topic, "--from", "1", "--epoch", "12345", "--count", "1"]
    for more, told in (([], True), (["--gap", "fail"], False), (["--meta", "--gap", "fail"], False)):
        done = forebay.run(*gap, *more)
        assert done.returncode == 1 and done.stderr.startswith(b"forebay: gap: ")
        advice = b" With --meta, the gap is reported and the messages are delivered.\n"
        assert done.stderr.endswith(advice) == told, more
    assert forebay.ok(*gap, "--meta").endswith(b" x\n")


@pytest.mark.parametrize("message", [b"a\n", b""])
def test_a_topic_that_began_anew(forebay, topic, message):
    """The gap is reported with a message or, without one, with the end."""
    reader = forebay.subscriber(topic, "--from", "3", "--epoch", "12345", "--meta", "--json")
    epoch = json.loads(forebay.ok("topic", "info", topic, "--json"))["epoch"]
    forebay.ok("pub", topic, "--stdin", "--ack", stdin=message)
    forebay.ok("topic", "complete", topic)
    out, told = reader.communicate(timeout=LIMIT)
    assert reader.returncode == 0 and out.count(b"\n") == message.count(b"\n")
    assert json.loads(told) == {"note": f"epoch {epoch}: the topic restarted, and requested messages may be lost."}


@pytest.mark.parametrize("scheme", ["rsocket"])
def test_a_topic_that_never_came_so_far(forebay, topic):
    """Over gRPC the error also reports the topic's last sequence."""
    forebay.ok("pub", topic, "--stdin", "--complete", stdin=b"a\nb\n")
    done = forebay.run("sub", topic, "--from", "5", "--meta")
    assert (done.returncode, done.stderr) == (0, b"forebay: The topic ended with #2; #5 was never published.\n")


@pytest.mark.parametrize("words, stdin", [
    (["--file", "/"], None), (["--stdin"], "/"), (["--stdin", "--complete"], "/"), (["--file", "-"], "/"),
], ids=["a folder", "a folder as input", "a folder as input, complete", "a folder as file -"])
def test_what_cannot_be_read_is_not_published(forebay, topic, words, stdin):
    forebay.ok("pub", topic, "before", "--ack")
    source = os.open(stdin or "/dev/null", os.O_RDONLY)
    process = forebay.start("pub", topic, *words, "--ack", stdin=source)
    os.close(source)
    assert "cannot be read" in ended(process, 2)[1]
    # There was no message in between, and the topic is still usable.
    assert forebay.ok("pub", topic, "after", "--ack") == b"2\n"


def test_lines_as_they_are(forebay, topic):
    lines = [b"first", b"", b"\xff\xfe not utf-8 \x00", b"x" * (1 << 20), b"cr\r", b"last without its end"]
    assert forebay.ok("pub", topic, "--stdin", "--ack", stdin=b"\n".join(lines)).startswith(b"6 messages acknowledged")
    assert forebay.ok("sub", topic, "--replay", "all", "--count", "6") == b"\n".join(lines) + b"\n"
    assert forebay.ok("sub", topic, "--replay", "3", "--count", "1", "--format", "raw") == lines[3]


def test_lines_go_out_as_they_come(forebay, topic):
    reader = forebay.subscriber(topic)
    writer = forebay.start("pub", topic, "--stdin", stdin=subprocess.PIPE)
    for number in range(5):
        writer.stdin.write(b"line %d\n" % number)
        writer.stdin.flush()
        assert reader.stdout.readline() == b"line %d\n" % number
    writer.stdin.close()
    writer.stdin = None
    ended(writer)


@pytest.mark.parametrize("request_n", [[], ["--request", "7"], ["--request", "1"]])
def test_a_channel_delivers_all_in_order(forebay, topic, request_n, tmp_path):
    count = 20_000
    with open(tmp_path / "out", "wb") as file:
        reader = forebay.subscriber(topic, "--overflow", "block", "--count", str(count), *request_n, stdout=file)
    text = b"".join(b"%d\n" % number for number in range(count))
    writer = forebay.start("pub", topic, "--stdin", "--ack", stdin=subprocess.PIPE)
    out, _ = writer.communicate(text, timeout=LIMIT)
    assert out == b"%d messages acknowledged, last sequence %d\n" % (count, count)
    ended(reader)
    assert (tmp_path / "out").read_bytes() == text


def test_generated_load(forebay, topic):
    assert json.loads(forebay.ok("pub", topic, "--size", "100", "--count", "5000", "--ack", "--json")) == {
        "acknowledged": 5000, "sequence": 5000}
    lines = forebay.ok("sub", topic, "--replay", "2", "--count", "2").splitlines()
    assert [int(line[:20]) for line in lines] == [4999, 5000] and all(len(line) == 100 for line in lines)


def test_rate(forebay, topic):
    began = time.monotonic()
    forebay.ok("pub", topic, "tick", "--rate", "100", "--count", "51")
    assert 0.45 < time.monotonic() - began < 5


def test_nothing_to_publish(forebay, topic):
    assert forebay.ok("pub", topic, "--stdin", "--ack") == b"0 messages acknowledged\n"


# Ends

def test_completion_ends_with_zero(forebay, topic):
    reader = forebay.subscriber(topic)
    forebay.ok("pub", topic, "--stdin", "--complete", stdin=b"a\nb\n")
    assert ended(reader) == (b"a\nb\n", "")
    done = forebay.run("pub", topic, "late")
    assert done.returncode == 1 and re.match(f"forebay: ended: The topic '{topic}' has completed", done.stderr.decode())
    assert forebay.run("pub", topic, "late", "--ack").returncode == 1


def test_one_message_can_complete(forebay, topic):
    reader = forebay.subscriber(topic)
    forebay.ok("pub", topic, "only", "--complete")
    assert ended(reader)[0] == b"only\n"


@pytest.mark.parametrize("how, text", [(["fail", "--message", "sensor & gone"], "topic failed: sensor & gone"),
                                       (["fail", "--message", "ä" * 500], "topic failed: " + "ä" * 500),
                                       (["delete"], "topic failed: deleted")])
def test_failure_ends_with_one(forebay, topic, how, text):
    reader = forebay.subscriber(topic)
    forebay.ok("topic", how[0], topic, *how[1:])
    assert text in ended(reader, 1)[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_cancel(forebay, topic, number):
    reader = forebay.subscriber(topic)
    reader.send_signal(number)
    assert ended(reader) == (b"", "")
    until(lambda: not forebay.rows("subs", topic=topic), "the subscription is gone")


def test_interrupted_publisher_ends_its_channel_alone(forebay, topic):
    writer = forebay.start("pub", topic, "--stdin", "--complete", stdin=subprocess.PIPE)
    writer.stdin.write(b"one\n")
    writer.stdin.flush()
    until(lambda: forebay.rows("topics", name=topic, published=1), "the message is there")
    writer.send_signal(signal.SIGINT)
    told = ended(writer, 130)[1]
    assert "The topic stays live" in told and re.search(r"Interrupted: [01] messages? (is|are) acknowledged", told)
    assert forebay.rows("topics", name=topic)[0]["state"] == "live"


def test_a_reader_that_leaves_ends_it_quietly(forebay, topic):
    reader = forebay.subscriber(topic)
    # Nothing is being written, so only the closed pipe can be noticed.
    reader.stdout.close()
    assert reader.wait(LIMIT) == 0
    assert reader.stderr.read() == b""


def test_once_says_that_the_credit_is_used_up(forebay, topic):
    forebay.ok("pub", topic, "--stdin", stdin=b"a\nb\nc\nd\n")
    reader = forebay.start("sub", topic, "--replay", "all", "--request", "3", "--once")
    assert b"The credit of 3 is used up" in reader.stderr.readline()
    assert forebay.rows("subs", topic=topic)[0]["outstanding"] == 0
    reader.send_signal(signal.SIGINT)
    assert ended(reader)[0] == b"a\nb\nc\n"


def test_a_broker_that_dies_is_a_lost_connection(start, reach):
    broker = start()
    reader = reach(broker).subscriber("t", "--no-reconnect")
    broker.process.kill()
    assert "connection" in ended(reader, 3)[1]
    broker.process.wait()


def test_a_draining_broker_says_so_once(start, reach):
    broker = start()
    commands = reach(broker)
    reader = commands.subscriber("t", "--no-reconnect")
    writer = commands.start("pub", "t", "--stdin", "--no-reconnect", stdin=subprocess.PIPE)
    writer.stdin.write(b"one\n")
    writer.stdin.flush()
    assert reader.stdout.readline() == b"one\n"
    broker.stop()
    assert ended(reader, 3)[1].count("shutting down") == 1
    error = ended(writer, 3)[1]
    assert error.count("shutting down") == 1 and "1 message was sent" in error


# Pressure

def test_credit_is_asked_for_when_printed(forebay, topic):
    reader = forebay.subscriber(topic, "--request", "10", "--buffer", "100")
    # The pipe holds 64 KiB: six and a half of these messages.
    forebay.ok("pub", topic, "--size", "10000", "--count", "1000")
    until(lambda: forebay.rows("subs", topic=topic)[0]["waiting"] == 100, "messages wait")
    row = forebay.rows("subs", topic=topic)[0]
    assert row["delivered"] == row["requested"] <= 20 and row["dropped"] == 900 - row["delivered"]
    numbers = [int(reader.stdout.readline()[:20]) for _ in range(100 + row["delivered"])]
    assert numbers == sorted(set(numbers)) and numbers[-1] == 1000


def test_a_slow_reader_costs_no_memory_and_no_connection(forebay, topic):
    reader = forebay.subscriber(topic)
    forebay.ok("pub", topic, "--size", "100000", "--count", "1000")
    status = Path(f"/proc/{reader.pid}/status").read_text()
    assert int(re.search(r"VmHWM:\s+(\d+)", status)[1]) < 40_000
    assert reader.poll() is None and len(forebay.rows("subs", topic=topic)) == 1
    # Reading resumes: the last message arrives, and all are in order.
    last = 0
    while last < 1000:
        line = reader.stdout.readline()
        assert len(line) == 100_001 and int(line[:20]) > last
        last = int(line[:20])


# Errors

USAGE = [
    ([], "The command is missing"), (["sbu", "t"], "did you mean 'sub'?"),
    (["subscribe", "t"], "did you mean 'sub'?"), (["publish", "t", "x"], "did you mean 'pub'?"),
    (["pub", "t", "-5"], "Write -- before an operand that begins with a dash."), (["sub"], "needs TOPIC"),
    (["sub", "t", "--buffer", "x"], "--buffer takes a number from 1 to 2147483647, not 'x'."),
    (["sub", "t", "--interactive"], "needs a terminal"), (["pub", "t"], "There is nothing to publish"),
    (["sub", "t", "--url", "wss://127.0.0.1:7691"], "does not support wss://"),
    (["sub", "t", "--url", "ws://h"], "does not support ws://"),
    (["sub", b"\xff"], "not valid UTF-8"),
]


@pytest.mark.parametrize("words, text", USAGE, ids=[text for _, text in USAGE])
def test_usage(forebay, words, text):
    done = forebay.run(*words)
    assert done.returncode == 2 and done.stdout == b""
    assert done.stderr.decode().startswith("forebay: ") and text in done.stderr.decode()


def test_a_line_too_long(forebay, topic):
    done = forebay.run("pub", topic, "--stdin", stdin=b"fine\n" + b"x" * ((1 << 20) + 1) + b"\nmore\n")
    assert done.returncode == 2 and b"Line 2 is longer than 1.0 MiB" in done.stderr
    assert forebay.rows("topics", name=topic)[0]["published"] == 1


BAD = [(["topic", "info", "no.such.topic"], 1), (["close", "subscription", "999999"], 1), (["sub", "$SYS.nothing"], 2)]


@pytest.mark.parametrize("words,code", BAD)
def test_refused_by_the_broker(forebay, words, code):
    done = forebay.run(*words)
    assert done.returncode == code and done.stderr.startswith(b"forebay: ") and done.stderr.count(b"\n") == 1, done


def test_nobody_there(scheme):
    done = Commands(("127.0.0.1", 1), scheme).run("topics")
    assert done.returncode == 3 and b"Nothing is listening at 127.0.0.1:1" in done.stderr


def test_a_web_server_is_no_broker(scheme):
    with socket.create_server(("127.0.0.1", 0)) as server:
        process = Commands(server.getsockname(), scheme).start("topics")
        line, _ = server.accept()
        line.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        assert "speaks HTTP" in ended(process, 3)[1]
        line.close()


def test_closed_descriptors(forebay, topic):
    """A program started without standard output must not mistake its connection for it."""
    forebay.ok("pub", topic, "--stdin", stdin=b"a\nb\n")
    words = [executable(), "sub", topic, "--replay", "all", "--count", "2"]
    shell = subprocess.run(["sh", "-c", 'exec "$@" >&- <&-', "sh", *words], env=forebay.environment, timeout=LIMIT)
    assert shell.returncode == 0


def test_a_publisher_without_a_reader_waits_idly(forebay, topic):
    writer = forebay.start("pub", topic, "--stdin", "--ack", stdin=subprocess.PIPE)
    writer.stdin.write(b"one\n")
    writer.stdin.flush()
    until(lambda: forebay.rows("topics", name=topic, published=1), "the message is there")
    writer.stdout.close()
    ticks = lambda: sum(map(int, Path(f"/proc/{writer.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))
    before, began = ticks(), time.monotonic()
    until(lambda: time.monotonic() - began > 0.5, "half a second passes")
    assert ticks() - before < 10
    writer.stdin.close()
    assert writer.wait(LIMIT) == 0


def test_help_and_version(forebay):
    assert forebay.ok("-V").startswith(b"forebay ")
    assert b"Examples" in forebay.ok("-h") and b"--overflow" in forebay.ok("help", "sub")


def test_connections_are_shown_with_the_topics_that_they_publish_to(forebay, topic):
    writer = forebay.start("pub", topic, "--stdin", stdin=subprocess.PIPE)
    writer.stdin.write(b"x\n")
    writer.stdin.flush()
    until(lambda: re.search(rf"  {re.escape(topic)}$", forebay.ok("conns").decode(), re.MULTILINE), "it is shown")
    writer.stdin.close()
    assert writer.wait(LIMIT) == 0


def test_tables(forebay, topic):
    reader = forebay.subscriber(topic, "--request", "5", "--once", "--buffer", "7")
    line = forebay.ok("subs").decode().splitlines()
    assert line[0].split()[:4] == ["ID", "TOPIC", "PEER", "POLICY"]
    assert any(topic in row and "drop-oldest" in row for row in line[1:])
    assert any(topic in row and "live" in row for row in forebay.ok("topics").decode().splitlines())
    assert len(forebay.rows("conns")) >= 2
    assert forebay.ok("conns").split()[:4] == [b"ID", b"PEER", b"PROTOCOL", b"AGE"]
    assert b"SHARD" not in forebay.ok("conns") and b"SHARD" in forebay.ok("conns", "--wide")
    assert forebay.ok("conns").splitlines()[0].endswith(b"  PUBLISHES TO")
    assert re.search(r"^next +1$", forebay.ok("topic", "info", topic).decode(), re.MULTILINE)
    assert reader.poll() is None


def test_ping(forebay):
    out = forebay.ok("ping", "--count", "3", "--interval", "0").decode()
    assert out.count("answered in") == 3 and "3 round trips" in out
    assert b"\n1 round trip: " in forebay.ok("ping", "-n", "1")
    assert json.loads(forebay.ok("ping", "-n", "2", "--interval", "0", "--json").splitlines()[-1])["count"] == 2
