"""`forebay top`, and closing by id: over both protocols, and in a real terminal, tmux."""

import json
import os
import re
import shutil
import subprocess
import tempfile

import pytest

from commands import Screen, executable, until
from crowd import Crowd


@pytest.fixture(scope="module")
def crowded(start):
    broker = start()
    crowd = Crowd(broker.address)
    yield broker, crowd
    crowd.close()


def refused(forebay, *words, code=1):
    """The command's message on standard error."""
    done = forebay.run(*words)
    assert done.returncode == code, done
    return done.stderr


def rows(picture):
    """The state, the topic and the remaining columns of each line about a subscription."""
    return re.findall(r"(?m)^ (no credit|not reading|keeping up) +(\S+) +(.*?) *$", picture)


def test_it_shows_who_is_slow(crowded, reach):
    broker, crowd = crowded
    forebay = reach(broker)
    slow = until_rows(forebay, 5)
    words = {"credit": "no credit", "socket": "not reading"}
    assert sorted((topic, state) for state, topic, _ in slow) == sorted(
        (topic, words[what]) for topic, what in crowd.stalled)
    screen = Screen(forebay, "top", columns=120, rows=30)
    screen.shows(r"5 of 200 slow")
    screen.shows(r"(?m)^ orders\.eu +[1-9]")
    screen.shows(r"BEHIND▼(.|\n)*?\n no(t reading|  ?credit| credit)")
    assert [state for state, *_ in rows(screen.picture())][:5].count("keeping up") == 0
    screen.press(b"d")
    screen.shows(r"DROPPED▼")
    screen.press(b"r")
    screen.shows(r"DROPPED▲(.|\n)*?\n keeping up")
    screen.press(b"\x1b[A ")
    screen.shows(r"paused")
    screen.resize(60, 12)
    screen.process.send_signal(28)
    screen.shows(r"(?m)^ b w d c t sort")
    assert all(len(line) <= 60 for line in screen.picture().splitlines())
    screen.press(b"q")
    screen.ends()


@pytest.mark.parametrize("home, end", [
    (b"\x1b[H", b"\x1b[F"), (b"\x1bOH", b"\x1bOF"), (b"\x1b[1~", b"\x1b[4~"), (b"\x1b[7~", b"\x1b[8~")])
def test_home_and_end(crowded, reach, home, end):
    """The keys as terminals send them."""
    broker, _ = crowded
    screen = Screen(reach(broker), "top", columns=120, rows=30)
    screen.shows(r"subscriptions 1 to \d+ of 200")
    for keys in (end, b"\x1b[A" + end):
        screen.press(keys)
        screen.shows(r"subscriptions 1\d\d to 200 of 200")
    screen.press(home)
    screen.shows(r"subscriptions 1 to \d+ of 200")
    screen.press(b"q")
    screen.ends()


def until_rows(forebay, count):
    found = []

    def look():
        found[:] = [row for row in rows(forebay.ok("top", "--once").decode()) if row[0] != "keeping up"]
        return len(found) == count

    until(look, f"{count} are slow", 60)
    return found


def test_in_tmux(crowded):
    """`top` in a real terminal, as a user runs it."""
    broker, _ = crowded
    tmux = shutil.which("tmux")
    assert tmux, "There is no tmux: run `make deps`, or install Debian's package of that name."
    with tempfile.TemporaryDirectory() as directory:
        def run(*words):
            return subprocess.run([tmux, "-S", directory + "/s", "-f", "/dev/null", *words], capture_output=True,
                                  text=True, timeout=30, env=dict(os.environ, LC_ALL="C.UTF-8", TERM="xterm"))

        url = "rsocket://%s:%d" % broker.address
        done = run("new-session", "-d", "-x", "110", "-y", "26", f"{executable()} top --url {url}; echo over; cat")
        assert done.returncode == 0, done.stderr
        try:
            until(lambda: "5 of 200 slow" in run("capture-pane", "-p").stdout, "tmux shows who is slow", 60)
            picture = run("capture-pane", "-p").stdout
            assert [row[0] for row in rows(picture)][:5].count("keeping up") == 0
            assert re.search(r"(?m)^ published [\d,.]+/s +delivered", picture) and "q quit" in picture
            run("send-keys", "t")
            until(lambda: "TOPIC▼" in run("capture-pane", "-p").stdout, "it is sorted by topic")
            run("resize-window", "-x", "70", "-y", "15")
            until(lambda: len(run("capture-pane", "-p").stdout.rstrip("\n").splitlines()) <= 15
                  and "b w d c t sort" in run("capture-pane", "-p").stdout, "it has the window's size")
            run("send-keys", "q")
            until(lambda: "over" in run("capture-pane", "-p").stdout, "the terminal is given back")
        finally:
            run("kill-server")


def test_a_pipe_gets_one_picture(forebay, topic):
    forebay.subscriber(topic, "--request", "1", "--once")
    forebay.environment["COLUMNS"] = "160"
    out = forebay.ok("top", "--once", "--sort", "topic").decode()
    # A long name is shortened in the middle.
    assert re.search(rf"(?m)^ keeping up +{re.escape(topic[:8])}\S*{re.escape(topic[-8:])} ", out)
    assert all(line == line.rstrip() for line in out.splitlines())
    # Two topics are the broker's.
    shown = re.search(r"(?m)^ published .*  topics (\d+) .*", out)
    assert int(shown[1]) == sum(not row["name"].startswith("$SYS.") for row in forebay.rows("topics"))
    assert refused(forebay, "top", code=2)


def test_a_picture_is_as_wide_as_it_is_asked_for(forebay, topic):
    forebay.subscriber(topic, "--request", "1", "--once")
    for columns, widest in (("60", 60), ("", 160), ("7", 160), ("x", 160)):
        forebay.environment["COLUMNS"] = columns
        lines = forebay.ok("top", "--once").decode().splitlines()
        assert widest - 20 < max(map(len, lines)) <= widest, columns


def test_a_picture_for_a_program(forebay, topic):
    forebay.subscriber(topic, "--request", "1", "--once")
    (mine,) = [row for row in json.loads(forebay.ok("top", "--once", "--json"))["subscriptions"]
               if row["topic"] == topic]
    assert mine["id"] in [row["id"] for row in forebay.rows("subs")]


def test_what_is_slow_is_closed(forebay, topic):
    process = forebay.subscriber(topic)
    row = forebay.rows("subs", topic=topic)[0]
    assert forebay.ok("close", "subscription", str(row["id"])).decode() == f"{row['id']} is ended\n"
    out, err = process.communicate(timeout=20)
    assert process.returncode == 1 and b"An operator ended this subscription." in err
    assert b"There is no subscription" in refused(forebay, "close", "subscription", str(row["id"]))
    process = forebay.subscriber(topic, "--no-reconnect")
    row = forebay.rows("subs", topic=topic)[0]
    assert forebay.ok("close", "connection", row["connection"]).decode() == f"{row['connection']} is closed\n"
    out, err = process.communicate(timeout=20)
    assert process.returncode in (1, 3) and b"An operator closed this connection." in err
    assert b"is not a connection id" in refused(forebay, "close", "connection", "x", code=2)
    assert refused(forebay, "close", "subscription", "x", code=2)


def test_a_subscription_waits_for_a_topic_that_is_not_known(start, reach):
    forebay = reach(start("--upstream", "nats://127.0.0.1:1", "--shared", ">"))
    forebay.subscriber("t")
    assert forebay.rows("subs", topic="t")[0]["waits_for"] == "topic"
    assert re.search(r"(?m)^ waits for topic +t ", forebay.ok("top", "--once").decode())
