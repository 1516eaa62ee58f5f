"""Fixtures of the command-line tests: forebay against the module's broker, and against independent servers. Everything
forebay does works over both protocols, so the tests run over each."""

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
    """Commands for a broker, over the test's protocol."""
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


def counterparts(script, scheme):
    """Starts independent servers and returns commands for each; `log()` returns the requests that the server
    received."""
    started = []

    def start(*words):
        server = subprocess.Popen([sys.executable, Path(__file__).with_name(script), *words], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL)
        this = Commands(("127.0.0.1", json.loads(server.stdout.readline())["port"]), scheme)
        this.server = server
        started.append(this)

        def log(event, last):
            """The records of one kind, up to one that matches `last`."""
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
    for commands in started:
        commands.stop()
        commands.server.kill()
        commands.server.wait()
        commands.server.stdout.close()


@pytest.fixture
def peer():
    """Starts counterparts on rsocket-py."""
    yield from counterparts("peer.py", "rsocket")


@pytest.fixture
def grpc_peer():
    """Starts counterparts on grpcio."""
    yield from counterparts("grpc_peer.py", "http")
