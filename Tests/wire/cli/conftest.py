"""What the tests of the command line start: forebay against the module's broker, and servers that are not ours. What
forebay does it does over both of its protocols, so its tests run over each."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from commands import Commands


@pytest.fixture(params=["rsocket", "http"])
def scheme(request):
    return request.param


@pytest.fixture
def reach(scheme):
    """Commands for a broker, by the test's protocol."""
    made = []

    def commands(broker) -> Commands:
        made.append(Commands(broker.address if scheme == "rsocket" else broker.http, scheme))
        return made[-1]

    yield commands
    for this in made:
        this.stop()


@pytest.fixture
def forebay(broker, reach):
    return reach(broker)


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
