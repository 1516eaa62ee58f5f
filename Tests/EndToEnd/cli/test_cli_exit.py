"""Exit codes: a test for each row of the table in Docs/clients.md."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from commands import *

NOBODY = "rsocket://127.0.0.1:1"


def test_every_row_has_its_tests():
    text = (Path(__file__).resolve().parents[3] / "Docs/clients.md").read_text()
    section = text.partition("\n### Exit codes\n")[2].partition("\n## ")[0]
    tested = {name.split("_")[1] for name in globals() if re.match(r"test_\d+_", name)}
    assert set(re.findall(r"^\| (\d+)", section, re.MULTILINE)) == tested == {"0", "1", "2", "3", "128"}


def test_0_is_done(forebay, topic):
    forebay.ok("pub", topic, "x")
    assert forebay.ok("sub", topic, "--replay", "1", "--count", "1") == b"x\n"
    forebay.ok("topic", "complete", topic)
    assert forebay.ok("sub", topic, "--replay", "1") == b"x\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_0_is_sub_that_a_signal_ended(forebay, topic, number):
    process = forebay.subscriber(topic)
    process.send_signal(number)
    ended(process)


def test_1_is_a_failure_that_the_broker_tells(forebay, topic):
    forebay.ok("pub", topic, "x")
    forebay.ok("topic", "fail", topic, "--message", "gone")
    assert forebay.run("sub", topic).returncode == 1
    assert forebay.run("topic", "info", topic + "-absent").returncode == 1
    assert forebay.run("close", "connection", "9-9-9").returncode == 1


@pytest.mark.parametrize("words", [
    ["topics"], ["subs"], ["conns"], ["ping", "--count", "1"], ["pub", "{}", "x", "--ack"], ["-h"], ["manual"],
    ["topics", "--json"], ["topic", "info", "{}"], ["sub", "{}", "--replay", "1", "--count", "1"], ["top", "--once"],
    ["bench", "--count", "1", "--subscribers", "0"],
    ["pub", "{}", "x", "--count", "2", "--ack"],
], ids=" ".join)
def test_1_is_output_that_cannot_be_written(forebay, topic, words):
    forebay.ok("pub", topic, "x")
    with open("/dev/full", "wb") as full:
        process = forebay.start(*[word.format(topic) for word in words], stdout=full)
        assert "cannot be written: No space left on device." in ended(process, 1)[1]


BAD_NAMES = ["", "a b", "a..b", "a.", ".a", "a.*", ">", "ä", "x" * 256]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_2_is_a_bad_name_whether_there_is_a_broker_or_not(forebay, name):
    told = set()
    for url in (forebay.url, NOBODY):
        # Patterns can be subscribed to.
        subscribing = [] if set(name) & set("*>") else [["sub", name]]
        for words in (*subscribing, ["pub", name, "x"], ["pub", name, "x", "--ack"], ["pub", name, "--stdin"],
                      ["topic", "info", name], ["topic", "delete", name], ["topic", "complete", name],
                      ["topic", "fail", name]):
            done = forebay.run(*words, "--url", url)
            assert done.returncode == 2, (words, done)
            told.add(done.stderr)
    assert len(told) == 1 and b"The topic" in told.pop()


@pytest.mark.parametrize("words", [
    ["subb", "x"], ["sub"], ["sub", "x", "--nothing"], ["sub", "x", "--gap", "fail"], ["sub", "x", "--epoch", "1"],
    ["pub", "x", "--file", "/nowhere"], ["pub", "x", "y", "--no-reconnect", "--reconnect-time", "1"],
    ["pub", "x", "y", "--content-type", ""], ["pub", "x", "y", "--content-type", "text"],
    ["close", "connection", "x"], ["close", "connection", "1-2"], ["close", "subscription", "x"],
    ["ping", "--url", "what://x"], ["ping", "--ca", "/nowhere"], ["sub", "$SYS.absent"],
], ids=" ".join)
def test_2_is_a_command_line_that_is_wrong(forebay, words):
    done = forebay.run(*words)
    assert done.returncode == 2 and done.stderr.startswith(b"forebay: ") and done.stdout == b"", done


def test_3_is_no_connection(forebay, topic):
    for words in (["sub", topic], ["pub", topic, "x"], ["ping"], ["topics"], ["top", "--once"]):
        done = forebay.run(*words, "--url", NOBODY)
        assert done.returncode == 3 and b"Nothing is listening at 127.0.0.1:1" in done.stderr, done
    both = forebay.run("ping", "--url", NOBODY + ",rsocket://127.0.0.1:2")
    assert both.returncode == 3 and b"127.0.0.1:1;" in both.stderr and b"127.0.0.1:2;" in both.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("words", [[], ["--json"]])
def test_128_and_the_signal_is_pub_that_a_signal_ended(forebay, topic, number, words):
    read, write = os.pipe()
    process = forebay.start("pub", topic, "--stdin", *words, stdin=read)
    os.write(write, b"one\n")
    until(lambda: forebay.rows("topics", name=topic, published=1), "the message is published")
    process.send_signal(number)
    told = ended(process, 128 + number)[1]
    assert ('"acknowledged":1,"unknown":0' if words else "1 message is acknowledged.") in told
    os.close(read), os.close(write)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_128_and_the_signal_is_one_message_too(forebay, topic, number):
    forebay.subscriber(topic, "--overflow", "block", "--buffer", "1", "--request", "1", "--once")
    forebay.ok("pub", topic, "1", "--ack"), forebay.ok("pub", topic, "2", "--ack")
    process = forebay.start("pub", topic, "3", "--ack")
    until(lambda: json.loads(forebay.ok("topic", "info", topic, "--json"))["parked"], "it waits for room")
    process.send_signal(number)
    assert "may or may not have been published" in ended(process, 128 + number)[1]
