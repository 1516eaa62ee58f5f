"""`sub --interactive`, at a pseudo-terminal."""

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
    screen.shows(r"Granted credit cannot be revoked: \d+ more")
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
