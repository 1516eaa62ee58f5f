"""Runs forebay: as processes with pipes, and at a pseudo-terminal."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LIMIT = 30


def executable() -> str:
    """$FOREBAY, or the release build, or the debug build."""
    named = os.environ.get("FOREBAY")
    for path in [Path(named)] if named else [ROOT / ".build" / kind / "forebay" for kind in ("release", "debug")]:
        if path.exists():
            return str(path)
    pytest.exit("There is no forebay to test: run `make build`, or set FOREBAY to its path.", 2)


class Commands:
    """Runs forebay against one broker, over RSocket or, with the scheme `http`, over gRPC."""

    def __init__(self, address, scheme="rsocket"):
        self.url = "%s://%s:%d" % (scheme, *address)
        self.environment = dict(os.environ, FOREBAY_URL=self.url, SWIFT_BACKTRACE="enable=no")
        self.started = []

    def run(self, *words, stdin=b""):
        return subprocess.run([executable(), *words], input=stdin, capture_output=True, env=self.environment,
                              timeout=LIMIT)

    def ok(self, *words, stdin=b"") -> bytes:
        done = self.run(*words, stdin=stdin)
        assert done.returncode == 0, done
        return done.stdout

    def start(self, *words, **options):
        options = dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) | options
        process = subprocess.Popen([executable(), *words], env=self.environment, **options)
        self.started.append(process)
        return process

    def rows(self, command, **fields):
        rows = [json.loads(line) for line in self.ok(command, "--json").splitlines()]
        return [row for row in rows if all(row.get(key) == value for key, value in fields.items())]

    def subscriber(self, topic, *words, **options):
        """A process whose subscription the broker has accepted."""
        before = len(self.rows("subs", topic=topic))
        process = self.start("sub", topic, *words, **options)
        until(lambda: len(self.rows("subs", topic=topic)) > before, f"the subscription to {topic} appears")
        return process

    def stop(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()


def until(condition, what, limit=LIMIT):
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, f"not within {limit} s: {what}"
        time.sleep(0.02)


def ended(process, code=0):
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == code, (process.returncode, out[-300:], err)
    return out, err.decode()


class Screen:
    """A pseudo-terminal, and what the program drew last."""

    def __init__(self, commands, *words, columns=80, rows=24):
        self.master, slave = pty.openpty()
        self.resize(columns, rows)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        commands.environment["TERM"] = "xterm"
        self.process = commands.start(*words, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
        self.seen = b""

    def resize(self, columns, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys):
        os.write(self.master, keys)

    def picture(self):
        """The last complete picture, without styles."""
        pictures = self.seen.split(b"\x1b[H")
        whole = [p for p in pictures[1:] if b"\x1b[J" in p]
        return re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", whole[-1]).decode() if whole else ""

    def shows(self, pattern):
        def look():
            while select.select([self.master], [], [], 0)[0]:
                try:
                    self.seen += os.read(self.master, 65536)
                except OSError:
                    return True
            return re.search(pattern, self.picture())
        until(look, f"the screen shows {pattern!r}:\n{self.picture()}")
        assert re.search(pattern, self.picture()), self.picture()

    def ends(self, code=0):
        assert self.process.wait(LIMIT) == code
        while select.select([self.master], [], [], 0)[0]:
            self.seen += os.read(self.master, 65536)
        assert b"\x1b[?1049h" in self.seen and self.seen.rstrip().endswith(b"\x1b[?1049l") or code
        assert termios.tcgetattr(self.slave) == self.before
        os.close(self.master)
        os.close(self.slave)
