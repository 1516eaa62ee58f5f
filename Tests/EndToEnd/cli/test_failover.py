"""Clients that lose their node and continue at another one: several brokers over one nats-server, with the command line
and the Swift library as clients, over both protocols."""

import contextlib
import subprocess
from pathlib import Path

import pytest

import executables
from commands import LIMIT, Commands, ended
from proxy import Proxy

WRONG = ("127.0.0.1", 1)
LIBRARY = Path(executables.executable()).with_name("library-client")


@pytest.fixture
def node(begin, nats):
    """Starts nodes with the topics s.> in common."""
    def start(*options: str, upstream=None):
        return begin("--upstream", upstream or nats.url(), "--shared", "s.>", "--retain", "100000", *options)
    return start


@pytest.fixture
def at(scheme):
    """Commands for several nodes, or other addresses, in this order."""
    made = []

    def commands(*nodes) -> Commands:
        addresses = [one if isinstance(one, tuple) else one.address if scheme == "rsocket" else one.http
                     for one in nodes]
        made.append(Commands(addresses[0], scheme))
        made[-1].environment["FOREBAY_URL"] = ",".join("%s://%s:%d" % (scheme, *one) for one in addresses)
        return made[-1]

    yield commands
    for this in made:
        this.stop()


def lose(broker, how: str):
    if how == "stopped":
        broker.stop()
    else:
        broker.process.kill()
        broker.process.wait()


def again(node, broker, *options: str):
    """Starts a node again on the same ports."""
    return node("--listen", "%s:%d" % broker.address, "--http", "%s:%d" % broker.http, *options)


def library(commands: Commands, *words: str) -> subprocess.Popen:
    """A process with the Swift library, which uses the same addresses."""
    action, *rest = words
    process = subprocess.Popen([LIBRARY, action, commands.environment["FOREBAY_URL"], *rest], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    commands.started.append(process)
    return process


def follow(commands: Commands, client: str, topic: str):
    """A subscriber to everything in a topic; the function returns the numbers that it has printed by the end."""
    if client == "library":
        process = library(commands, "subscribe", topic)
    else:
        process = commands.start("sub", topic, "--replay", "all", "--meta", text=True)
    seen = []

    def read(count=None) -> list[int]:
        while count is None or len(seen) < count:
            line = process.stdout.readline()
            if not line:
                break
            words = line.split()
            assert words[0] != "gap", line
            seen.append(int(words[-1][:20]))
        return seen

    return process, read


def publish(commands: Commands, count: int, rate=500, *options: str) -> subprocess.Popen:
    """Publishes the numbers 1 to `count`, completes the topic, and ends."""
    return commands.start("pub", "s.a", "--size", "20", "--count", str(count), "--rate", str(rate), "--ack", *options)


@pytest.mark.parametrize("how", ["killed", "stopped"])
@pytest.mark.parametrize("client", ["cli", "library"])
def test_a_subscriber_loses_its_node(node, at, client, how):
    """Again and again, under load: it prints every message once, without a gap."""
    nodes, other = [node(), node()], node()
    count = 1500
    process, read = follow(at(nodes[0], WRONG, nodes[1]), client, "s.a")
    publisher = publish(at(other), count, 500, "--complete")
    for turn in range(4):
        assert len(read(250 + 250 * turn)) >= 250 + 250 * turn, process.stderr.read()
        lost = nodes[turn % 2]
        lose(lost, how)
        # The client is at the other one, or on its way there.
        assert len(read(350 + 250 * turn)) >= 350 + 250 * turn, process.stderr.read()
        nodes[turn % 2] = again(node, lost)
    assert ended(publisher)[0] == b"1500 messages acknowledged, last sequence 1500\n"
    assert read() == list(range(1, count + 1))
    process.wait(LIMIT)
    errors = process.stderr.read()
    assert process.returncode == 0 and "lost before" not in errors and "may have been lost" not in errors, errors


class Publisher:
    """Publishes the numbers 1, 2, … to s.a, as far as the test has written them to its stdin."""

    def __init__(self, commands: Commands, client: str, *identity: str):
        self.client, self.count = client, 0
        if client == "library":
            self.process = library(commands, "publish", "s.a", *identity)
        else:
            options = ["--publisher", *identity] if identity else []
            self.process = commands.start("pub", "s.a", "--stdin", "--ack", *options, stdin=subprocess.PIPE, text=True)

    def publish(self, count: int):
        """Without waiting: the pipe holds them."""
        for number in range(self.count + 1, self.count + count + 1):
            self.process.stdin.write("%d\n" % number)
        self.process.stdin.flush()
        self.count += count

    def end(self) -> str:
        """Waits until all are published, and returns what it has printed on stderr."""
        out, errors = self.process.communicate(timeout=4 * LIMIT)
        assert self.process.returncode == 0, errors
        assert out.startswith("%d\n" % self.count if self.client == "library" else
                              "%d messages acknowledged" % self.count), (out, errors)
        return errors


@pytest.mark.timeout(180)
@pytest.mark.parametrize("how", ["killed", "stopped"])
@pytest.mark.parametrize("client", ["cli", "library"])
def test_a_publisher_loses_its_node(node, at, client, how):
    """Numbered messages are published once, whatever was in doubt."""
    nodes, other = [node(), node()], node()
    _, read = follow(at(other), "cli", "s.a")
    publisher = Publisher(at(nodes[0], WRONG, nodes[1]), client, "p")
    for turn in range(3):
        publisher.publish(500)
        read(500 * turn + 50)
        lost = nodes[turn % 2]
        lose(lost, how)
        # The other node goes on with them.
        read(500 * turn + 500)
        nodes[turn % 2] = again(node, lost)
    publisher.end()
    at(other).ok("topic", "complete", "s.a")
    assert read() == list(range(1, publisher.count + 1))


@pytest.mark.parametrize("client", ["cli", "library"])
def test_what_is_in_doubt_is_published_again(node, at, client):
    """Without numbers, no message is lost; those in doubt may appear twice."""
    nodes, other = [node(), node()], node()
    _, read = follow(at(other), "cli", "s.a")
    publisher = Publisher(at(*nodes), client)
    publisher.publish(6000)
    read(300)
    lose(nodes[0], "killed")
    errors = publisher.end()
    at(other).ok("topic", "complete", "s.a")
    seen = read()
    assert sorted(set(seen)) == list(range(1, publisher.count + 1))
    if len(seen) > publisher.count and client == "cli":
        assert "subscribers may receive them twice" in errors


@pytest.mark.parametrize("client", ["cli", "library"])
def test_all_nodes_are_down_and_one_returns(node, at, client):
    nodes, other = [node(), node()], node()
    commands = at(*nodes)
    process, read = follow(commands, client, "s.a")
    at(other).ok("pub", "s.a", "1", "--ack")
    assert read(1) == [1]
    for each in nodes:
        lose(each, "killed")
    addresses = [one.split("//")[1] for one in commands.environment["FOREBAY_URL"].split(",")]
    # The report of a round in which both failed.
    for line in process.stderr:
        if all(f"Nothing is listening at {address}" in line for address in addresses):
            break
    at(other).ok("pub", "s.a", "2", "--ack")
    again(node, nodes[1])
    assert read(2) == [1, 2]
    at(other).ok("topic", "complete", "s.a")
    assert read() == [1, 2] and process.wait(LIMIT) == 0
    if client == "cli":
        assert f"Reconnected to {addresses[1]}." in process.stderr.read()


@pytest.mark.parametrize("client", ["cli", "library"])
def test_a_node_that_is_cut_off_from_nats_is_left(node, at, nats, client):
    """It ends the subscription with `unavailable`, which is not the end of the topic."""
    with contextlib.closing(Proxy(("127.0.0.1", nats.port))) as proxy:
        cut, other = node("--upstream-time", "1s", upstream="nats://127.0.0.1:%d" % proxy.address[1]), node()
        commands = at(cut, other)
        process, read = follow(commands, client, "s.a")
        assert commands.ok("pub", "s.a", "1", "--ack") == b"1\n"
        assert read(1) == [1]
        proxy.hold()
        proxy.cut()
        at(other).ok("pub", "s.a", "2", "--ack")
        assert read(2) == [1, 2]
        # Commands with one request ask the next node as well: the first one has done nothing.
        assert commands.ok("pub", "s.a", "3", "--ack") == b"3\n"
        assert b"s.a" in commands.ok("topic", "info", "s.a")
        commands.ok("topic", "complete", "s.a")
        assert read() == [1, 2, 3] and process.wait(LIMIT) == 0
        alone = at(cut).run("pub", "s.a", "4")
        assert alone.returncode == 3 and b"unavailable: " in alone.stderr, alone


def test_a_node_that_is_full_is_left(node, at, scheme):
    """At the start, too. The error names each address."""
    full, other = node("--max-connections", "1"), node()
    holder = full.peer()
    holder.publish("held", b"x")
    commands = at(full, other)
    if scheme == "rsocket":
        # Over HTTP/2, the full node answers before it ends the connection.
        assert commands.ok("ping", "--count", "1").startswith(b"%s:%d answered" % (b"127.0.0.1", other.address[1]))
    assert commands.ok("pub", "s.a", "1", "--ack") == b"1\n"
    for words in (("sub", "s.a", "--replay", "all", "--count", "1"),
                  ("sub", "s.a", "--replay", "all", "--count", "1", "--json")):
        out, errors = ended(commands.start(*words))
        assert b"1" in out, errors
    done = commands.run("pub", "s.a", "--stdin", stdin=b"2\n3\n")
    assert done.returncode == 0, done
    failed = at(full, WRONG).run("sub", "s.a", "--count", "1")
    assert failed.returncode == 3, failed
    assert b"limit: " in failed.stderr and b"127.0.0.1:1;" in failed.stderr, failed
    holder.publish("held", b"y")


def test_a_wrong_address_does_not_matter(node, at, scheme):
    good = node()
    name = ("name.invalid", 1)
    commands = at(WRONG, name, good)
    assert commands.ok("pub", "s.a", "1", "--ack") == b"1\n"
    assert commands.ok("sub", "s.a", "--replay", "all", "--count", "1") == b"1\n"
    publisher = Publisher(at(name, WRONG, good), "library")
    publisher.publish(5)
    publisher.end()
    failed = at(WRONG, name).run("topics")
    assert failed.returncode == 3
    assert b"127.0.0.1:1;" in failed.stderr and b"'name.invalid' could not be resolved" in failed.stderr, failed
