"""`sub --interactive` on a pseudo-terminal."""

import os
import pty
import re
import select
import signal

import pytest

from commands import LIMIT, Screen, until


def test_interactive(forebay, topic):
    screen = Screen(forebay, "sub", topic, "--interactive", "--buffer", "20")
    screen.shows(r"credit +1 +granted 1\b")
    forebay.ok("pub", topic, "--stdin", stdin=b"".join(b"message %d\n" % n for n in range(1, 51)))
    screen.shows(r"waiting +20 of 20 ")
    screen.shows(r"dropped +29 ")
    screen.press(b"0")
    screen.shows(r"granted 11\b")
    screen.shows(r"#31 \S+ message 31")
    screen.shows(r"#40 \S+ message 40")
    screen.shows(r"delivered +11 ")
    screen.press(b"\x1b[A1")
    screen.shows(r"granted 12\b")
    screen.press(b"a")
    screen.shows(r"#50 \S+ message 50")
    screen.press(b"p")
    screen.shows(r"Granted credit cannot be revoked; \d+ more")
    screen.resize(40, 10)
    screen.process.send_signal(signal.SIGWINCH)
    screen.shows(r"(?m)^ 1 0=10 c=100 a p q\s*$")
    screen.press(b"q")
    screen.ends()
    until(lambda: not forebay.rows("subs", topic=topic), "the subscription is gone")


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 0), (signal.SIGTERM, 0), (signal.SIGSEGV, -signal.SIGSEGV)])
def test_interactive_gives_the_terminal_back(forebay, topic, number, code):
    screen = Screen(forebay, "sub", topic, "--interactive")
    screen.shows(r"granted 1\b")
    screen.process.send_signal(number)
    screen.ends(code)


def test_interactive_tells_the_end(forebay, topic):
    screen = Screen(forebay, "sub", topic, "-i")
    screen.shows(r"granted 1\b")
    forebay.ok("topic", "fail", topic, "--message", "gone")
    screen.shows(r"failed\s")
    screen.press(b"q")
    assert screen.process.wait(LIMIT) == 1


class Stderr:
    """A terminal only for stderr."""

    def __init__(self):
        self.master, self.slave = pty.openpty()
        self.seen = b""

    def reads(self, pattern):
        def look():
            while select.select([self.master], [], [], 0)[0]:
                self.seen += os.read(self.master, 65536)
            return re.search(pattern, self.seen)
        until(look, f"stderr has {pattern!r}: {self.seen!r}")

    def close(self):
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def stderr():
    terminal = Stderr()
    yield terminal
    terminal.close()


def test_sub_says_that_it_waits_for_a_topic(forebay, topic, stderr):
    process = forebay.subscriber(topic, stderr=stderr.slave)
    stderr.reads(rb"^forebay: There is no topic '%s' yet; waiting for its first message\." % topic.encode())
    forebay.ok("pub", topic, "x")
    assert process.stdout.readline() == b"x\n"
    second = forebay.subscriber(topic, stderr=stderr.slave)
    forebay.ok("pub", topic, "y")
    assert second.stdout.readline() == b"y\n"
    process.send_signal(signal.SIGINT), second.send_signal(signal.SIGINT)
    assert process.wait(LIMIT) == second.wait(LIMIT) == 0
    stderr.reads(rb"first message")
    assert stderr.seen.count(b"There is no topic") == 1


def test_progress_and_error_do_not_share_a_line(forebay, topic, stderr):
    read, write = os.pipe()
    process = forebay.start("pub", topic, "--stdin", stdin=read, stderr=stderr.slave)
    os.write(write, b"one\n")
    stderr.reads(rb"1 message \xc2\xb7 ")
    forebay.ok("topic", "complete", topic)
    os.write(write, b"two\n")
    assert process.wait(LIMIT) == 1
    stderr.reads(rb"forebay: [^\n]*\n")
    # A terminal shows what follows the last time the line was cleared.
    lines = [line.split(b"\x1b[K")[-1] for line in stderr.seen.split(b"\n")]
    assert any(line.startswith(b"forebay: ") for line in lines), lines
    assert not any(b"\xc2\xb7" in line for line in lines), lines
    os.close(read), os.close(write)
