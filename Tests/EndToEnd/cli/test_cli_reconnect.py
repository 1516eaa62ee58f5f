"""What `sub`, `pub --stdin` and `top` do when the connection is lost, over both protocols, with a broker that restarts
on the same ports."""

import contextlib
import re
import signal
import subprocess
from pathlib import Path

import pytest

from access import token_hash, write
from admin import Admin
from commands import LIMIT, Commands, Screen, ended, until


class Restarted:
    """A broker that can be stopped and started again on the same ports."""

    def __init__(self, start, *options):
        self._start, self._options = start, options
        self.broker = start(*options)

    def end(self, hard=False):
        """Stops the broker, or kills it."""
        if hard:
            self.broker.process.kill()
            self.broker.process.wait()
        else:
            self.broker.stop()

    def begin(self):
        self.broker = self._start(
            "--listen", "%s:%d" % self.broker.address, "--http", "%s:%d" % self.broker.http, *self._options)


@pytest.fixture
def restarted(start):
    return Restarted(start)


def unread(address) -> int:
    """Bytes that clients have sent to a port and that the listening process has not read."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(int(row[4].split(":")[1], 16) for row in rows
               if row[1].endswith(":%04X" % address[1]) and row[3] == "01")


def stands_still(pid) -> bool:
    """SIGSTOP takes effect some time after it was sent."""
    states = [task.joinpath("stat").read_text().rsplit(")", 1)[1].split()[0]
              for task in Path(f"/proc/{pid}/task").iterdir()]
    return set(states) == {"T"}


def lines_until(stream, pattern) -> str:
    """A program's output up to the next line that matches."""
    text = ""
    while True:
        line = stream.readline().decode()
        assert line, f"it ended before it printed {pattern!r}"
        text += line
        if re.search(pattern, line):
            return text


def line_of(stream, pattern) -> str:
    """The next line of a program's output that matches."""
    return lines_until(stream, pattern).splitlines(True)[-1]


@pytest.mark.parametrize("hard", [False, True], ids=["drained", "killed"])
def test_a_subscriber_goes_on_behind_a_restart(restarted, reach, hard):
    forebay = reach(restarted.broker)
    reader = forebay.subscriber("t")
    forebay.ok("pub", "t", "--stdin", stdin=b"1\n2\n")
    assert reader.stdout.readline() + reader.stdout.readline() == b"1\n2\n"
    restarted.end(hard)
    line_of(reader.stderr, "Reconnecting")
    restarted.begin()
    line_of(reader.stderr, "Reconnected to")
    until(lambda: forebay.rows("subs", topic="t"), "it is subscribed")
    forebay.ok("pub", "t", "--stdin", stdin=b"3\n4\n")
    assert reader.stdout.readline() + reader.stdout.readline() == b"3\n4\n"
    line_of(reader.stderr, r"the topic restarted; this is its #1\b")
    reader.send_signal(signal.SIGINT)
    assert ended(reader) == (b"", "")


def test_a_subscriber_tells_what_it_missed(start, reach, tmp_path):
    """Only the connection is lost, and in the meantime more messages arrive than the topic retains."""
    broker = start("--retain", "3")
    forebay = reach(broker)
    reader = forebay.subscriber("t")
    forebay.ok("pub", "t", "--stdin", stdin=b"1\n2\n")
    assert reader.stdout.readline() + reader.stdout.readline() == b"1\n2\n"
    # The stopped subscriber cannot reconnect before it is resumed.
    reader.send_signal(signal.SIGSTOP)
    row = forebay.rows("subs", topic="t")[0]
    forebay.ok("close", "connection", row["connection"])
    forebay.ok("pub", "t", "--stdin", stdin=b"3\n4\n5\n6\n7\n8\n")
    until(lambda: not forebay.rows("subs", topic="t"), "its subscription is gone")
    reader.send_signal(signal.SIGCONT)
    line_of(reader.stderr, r"3 messages lost before #6\.")
    assert [reader.stdout.readline() for _ in range(3)] == [b"6\n", b"7\n", b"8\n"]


@pytest.mark.parametrize("words, rest", [(["--request", "4"], 6), (["--count", "6"], 4),
                                         (["--request", "6", "--once"], 4)])
def test_credit_and_count_go_on(restarted, reach, words, rest):
    forebay = reach(restarted.broker)
    reader = forebay.subscriber("t", *words)
    forebay.ok("pub", "t", "--stdin", stdin=b"1\n2\n")
    assert reader.stdout.readline() + reader.stdout.readline() == b"1\n2\n"
    restarted.end()
    restarted.begin()
    line_of(reader.stderr, "Reconnected")
    until(lambda: forebay.rows("subs", topic="t"), "it is subscribed")
    forebay.ok("pub", "t", "--stdin", stdin=b"".join(b"%d\n" % i for i in range(3, 3 + rest)))
    assert [reader.stdout.readline() for _ in range(rest)] == [b"%d\n" % i for i in range(3, 3 + rest)]
    if words[0] == "--count":
        assert ended(reader)[0] == b""


@pytest.mark.parametrize("hard", [False, True], ids=["drained", "killed"])
def test_a_publisher_repeats_what_was_not_acknowledged(restarted, reach, hard):
    """A broker that is killed is stopped first, so that it acknowledges nothing more."""
    forebay = reach(restarted.broker)
    writer = forebay.start("pub", "t", "--stdin", "--ack", stdin=subprocess.PIPE)
    writer.stdin.write(b"1\n2\n3\n")
    writer.stdin.flush()
    until(lambda: forebay.rows("topics", name="t", published=3), "the first are taken")
    if hard:
        restarted.broker.process.send_signal(signal.SIGSTOP)
        until(lambda: stands_still(restarted.broker.process.pid), "all its threads stand still")
    writer.stdin.write(b"4\n5\n6\n7\n8\n")
    writer.stdin.flush()
    if hard:
        address = restarted.broker.address if forebay.url.startswith("rsocket") else restarted.broker.http
        until(lambda: unread(address) >= 5 * 10, "they are sent")
    restarted.end(hard)
    line_of(writer.stderr, "Reconnecting")
    restarted.begin()
    line_of(writer.stderr, "Reconnected")
    again = int(re.match(r"forebay: (\d+) message", line_of(writer.stderr, "sent again")).group(1)) if hard else 0
    writer.stdin.close()
    assert writer.wait(LIMIT) == 0
    assert re.match(rb"8 messages acknowledged, last sequence \d+", writer.stdout.read())
    first = sum(row["published"] for row in forebay.rows("topics", name="t"))
    assert first == again if hard else first <= 5
    assert 5 <= again <= 8 or not hard
    if first == 0:
        return
    out = forebay.ok("sub", "t", "--replay", "all", "--count", str(first))
    assert out.split() == [b"%d" % i for i in range(9 - first, 9)]


def test_what_never_was_a_connection_is_not_tried_again(restarted, reach):
    forebay = reach(restarted.broker)
    restarted.end()
    done = forebay.run("sub", "t")
    assert done.returncode == 3 and b"again" not in done.stderr


@pytest.mark.parametrize("words", [
    ["sub", "t", "--replay", "all", "--format", "raw"], ["pub", "t", "--stdin"]], ids=["sub", "pub"])
def test_credentials_that_are_not_right_any_more_end_it(start, reach, tmp_path, words):
    """Repeated attempts would count as guessing and lock out others at the same address."""
    def configure(token):
        return write(tmp_path, {"users": [dict(name="a", token=token_hash(token), publish=["t"], subscribe=["t"])]})

    (tmp_path / "token").write_text("first")
    restarted, shown = Restarted(start, "-c", str(configure("first"))), ["--token-file", str(tmp_path / "token")]
    forebay = reach(restarted.broker)
    process = forebay.start(*words, *shown, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if words[0] == "pub":
        process.stdin.write(b"x\n")
        process.stdin.flush()
    else:
        forebay.ok("pub", "t", "x", *shown)
        assert process.stdout.read(1) == b"x"
    # By then the subscription is active.
    forebay.ok("sub", "t", "--replay", "all", "--count", "1", *shown)
    restarted.end(hard=True)
    configure("second")
    restarted.begin()
    # The publisher's input has not ended. Over HTTP the login is refused with the call.
    line_of(process.stderr, "Reconnecting")
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(b"y\n")
        process.stdin.flush()
    assert process.wait(LIMIT) == 1
    assert b"credentials" in process.stderr.read()


@pytest.mark.parametrize("words", [["sub", "t"], ["pub", "t", "--stdin"]], ids=["sub", "pub"])
def test_it_can_be_limited(restarted, reach, words):
    forebay = reach(restarted.broker)
    for limit in (["--no-reconnect"], ["--reconnect-time", "0.3"]):
        process = forebay.start(*words, *limit, stdin=subprocess.PIPE)
        if words[0] == "sub":
            until(lambda: forebay.rows("subs", topic="t"), "it is subscribed")
        else:
            process.stdin.write(b"x\n")
            process.stdin.flush()
            until(lambda: any(row["published"] for row in forebay.rows("topics", name="t")), "it has published")
        restarted.end(hard=True)
        assert process.wait(LIMIT) == 3
        told = process.stderr.read().decode()
        assert ("Reconnecting" in told) == (limit[0] == "--reconnect-time")
        restarted.begin()
    done = forebay.run(*words, "--no-reconnect", "--reconnect-time", "1")
    assert done.returncode == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_the_wait(restarted, reach, number):
    forebay = reach(restarted.broker)
    reader = forebay.subscriber("t")
    writer = forebay.start("pub", "t", "--stdin", stdin=subprocess.PIPE)
    writer.stdin.write(b"x\n")
    writer.stdin.flush()
    assert reader.stdout.readline() == b"x\n"
    restarted.end()
    for process in (reader, writer):
        line_of(process.stderr, "Reconnecting")
        process.send_signal(number)
    assert reader.wait(LIMIT) == 0 and writer.wait(LIMIT) == 128 + number
    assert b"Interrupted: 1 message is acknowledged." in writer.stderr.read()


@pytest.mark.parametrize("hard", [False, True], ids=["drained", "killed"])
def test_credit_by_key_goes_on_behind_a_restart(restarted, reach, hard):
    forebay = reach(restarted.broker)
    screen = Screen(forebay, "sub", "t", "-i", columns=160)
    screen.shows(r"waiting +0 of")
    screen.press(b"1")
    screen.shows(r"granted 2\b")
    forebay.ok("pub", "t", "before")
    screen.shows(r"#1 \S+ before")
    restarted.end(hard)
    screen.shows(r"no connection(.|\n)*(Reconnecting|Trying again)\.")
    screen.press(b"1")
    restarted.begin()
    screen.shows(r"Reconnected to \S+\.")
    # Credit that was requested and not used is requested again. A key pressed in between granted nothing.
    screen.shows(r"credit +1 +granted 2\b")
    forebay.ok("pub", "t", "after")
    screen.shows(r"#1 \S+ after(.|\n)*the topic restarted; this is its #1\b")
    # Without remaining credit, the new subscription begins with 1.
    restarted.end(hard)
    restarted.begin()
    screen.shows(r"credit +1 +granted 3\b")
    screen.press(b"q")
    screen.ends()


@pytest.mark.parametrize("hard", [False, True], ids=["drained", "killed"])
def test_top_goes_on_behind_a_restart(restarted, reach, hard):
    forebay = reach(restarted.broker)
    forebay.ok("pub", "before", "x")
    screen = Screen(forebay, "top", columns=160)
    screen.shows(r"(?m)^ before +")
    restarted.end(hard)
    screen.shows(r"(Reconnecting|Trying again)\.")
    restarted.begin()
    screen.shows(r"Reconnected to \S+\.")
    forebay.ok("pub", "after", "x")
    screen.shows(r"(?m)^ after +")
    assert not re.search(r"(?m)^ before ", screen.picture())
    restarted.end(hard)
    screen.shows(r"(Reconnecting|Trying again)\.")
    screen.press(b"q")
    screen.ends()


@pytest.mark.parametrize("words", [["sub", "t", "-i"], ["top"]], ids=["sub", "top"])
@pytest.mark.parametrize("limit", [["--no-reconnect"], ["--reconnect-time", "0.3"]], ids=["off", "limited"])
def test_a_picture_without_a_connection_can_be_limited(restarted, reach, words, limit):
    screen = Screen(reach(restarted.broker), *words, *limit)
    screen.shows(r"waiting +0 of|no topics yet")
    restarted.end(hard=True)
    screen.ends(3)


def test_another_broker_is_as_good(start, scheme):
    """With several addresses, all are tried before the next pause."""
    one, other = start(), start()
    addresses = [broker.address if scheme == "rsocket" else broker.http for broker in (one, other)]
    both = Commands(addresses[0], scheme)
    both.environment["FOREBAY_URL"] = ",".join(
        "%s://%s:%d" % (scheme, *address) for address in (addresses[0], ("127.0.0.1", 1), addresses[1]))
    second = Commands(addresses[1], scheme)
    reader = both.subscriber("t")
    both.ok("pub", "t", "w")
    assert reader.stdout.readline() == b"w\n"
    one.stop()
    assert "Trying again" not in lines_until(reader.stderr, "Reconnected to %s:%d" % addresses[1])
    until(lambda: second.rows("subs", topic="t"), "it is subscribed there")
    second.ok("pub", "t", "x")
    assert reader.stdout.readline() == b"x\n"
    # And starting with the first.
    assert both.ok("ping", "--count", "1").startswith(b"%s:%d" % (addresses[1][0].encode(), addresses[1][1]))
    mixed = both.run("ping", "--url", "rsocket://127.0.0.1:1,http://127.0.0.1:2")
    assert mixed.returncode == 2 and b"the same scheme" in mixed.stderr
    for commands in (both, second):
        commands.stop()


def test_a_broker_that_answers_and_refuses_is_not_reported(restarted, start, reach):
    """NATS, which its shared topics need, cannot be reached."""
    refusing = start(
        "--upstream", "nats://127.0.0.1:1", "--shared", ">", "--upstream-time", "1s", "--admin", "127.0.0.1:0")
    assert b"unavailable" in reach(refusing).run("sub", "t", "--no-reconnect").stderr
    forebay, admin = reach(restarted.broker), Admin(refusing)

    def refusals():
        return admin.metrics()['forebay_requests_refused_total{reason="unavailable"}']

    before = refusals()
    forebay.environment["FOREBAY_URL"] += "," + reach(refusing).url
    reader = forebay.subscriber("t")
    restarted.end(hard=True)
    until(lambda: refusals() >= before + 4, "it has tried again and again")
    restarted.begin()
    report = line_of(reader.stderr, "Reconnected to")
    assert report == f"forebay: Reconnected to {forebay.url.split('//')[1]}.\n"
