"""What the tests of the command line start: forebay against the module's broker, and a server that is not ours."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from commands import Commands


@pytest.fixture
def forebay(broker):
    this = Commands(broker.address)
    yield this
    this.stop()


@pytest.fixture
def peer():
    """Starts the counterpart on rsocket-py and returns commands for it; `log()` is what it was asked."""
    servers = []

    def start(*words):
        script = Path(__file__).with_name("peer.py")
        server = subprocess.Popen([sys.executable, script, "0", *words], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL)
        this = Commands(("127.0.0.1", json.loads(server.stdout.readline())["port"]))
        servers.append((server, this))

        def log(event, last):
            """The lines of one kind until one line matches `last`."""
            lines = []
            while True:
                line = json.loads(server.stdout.readline())
                if line["event"] == event:
                    lines.append(line)
                if last(line):
                    return lines
        this.log = log
        return this

    yield start
    for server, commands in servers:
        commands.stop()
        server.kill()
        server.wait()
        server.stdout.close()
