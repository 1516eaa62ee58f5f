"""Resources that the broker gets from its machine run out, or are taken away, and come back: file descriptors, memory,
the log's reader, the time of day."""

import contextlib
import fcntl
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest
import requests

import raw
from client import Peer
from common import *
from faults import *

pytestmark = pytest.mark.rsocket
MIB = 1 << 20


def logged(broker, message: str) -> list[dict]:
    lines = [json.loads(line) for line in list(broker.log)]
    return [line for line in lines if line["message"] == message]


# File descriptors


def test_descriptors_run_out(begin):
    """Connected clients continue; new ones are refused in their protocol, and are accepted as soon as there are
    descriptors again."""
    broker = begin("--admin", "127.0.0.1:0")
    waiting, began = [], time.monotonic()
    with beside(broker, "rsocket", "grpc", growth=8 * MIB), requests.Session() as session:
        session.trust_env = False
        metrics = "http://%s:%d/metrics" % broker.admin
        assert session.get(metrics, timeout=DEADLINE).status_code == 200
        held = Before(broker, broker.peer()).watcher
        most = descriptors(broker.pid) + 20
        former = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (most, former[1]))
        for address in (broker.address, broker.http, broker.admin):
            for _ in range(40):
                waiting.append(socket.create_connection(address, timeout=DEADLINE))
        eventually(lambda: descriptors(broker.pid), lambda count: count >= most)
        sentence = "limit on open files"

        def is_refused() -> bool:
            """A connection that is accepted because another has just closed is kept."""
            waiting.append(socket.create_connection(broker.address, timeout=1))
            with contextlib.suppress(TimeoutError):
                return sentence in waiting[-1].recv(4096).decode(errors="replace")
            return False

        eventually(is_refused, bool)
        answer = requests.get("http://%s:%d/v1/topics/t/messages" % broker.http, timeout=DEADLINE)
        assert answer.status_code == 503 and sentence in answer.text
        eventually(lambda: logged(broker, "cannot accept connections"), bool)
        # The listener without a descriptor retries a few times per second, and costs nothing else.
        began_wait, spent = time.monotonic(), processor_time(broker.pid)
        held.numbers("t.short", 1, 20)
        assert session.get(metrics, timeout=DEADLINE).status_code == 200
        held.subscribe("$SYS.stats", n=3).take(3)
        used = (processor_time(broker.pid) - spent) / (time.monotonic() - began_wait)
        assert used < 0.9, "it busy-waits"
        told = logged(broker, "cannot accept connections")
        assert "ulimit -n" in told[0]["cause"] and len(told) <= time.monotonic() - began + 2, "logged too often"
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, former)
        last = Peer(broker.address)
        last.numbers("t.short", 21, 21)
        for one in [*waiting, last, held]:
            one.close()
        session.close()
    assert len(logged(broker, "cannot accept connections")) <= time.monotonic() - began + 2
    broker.stop()


BAD_REQUEST = b"GET / HTTP/9.9\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize("port, sent", [("address", b""), ("address", b"\0\0\7garbage"), ("http", b""),
                                        ("http", BAD_REQUEST), ("http", b"\x16garbage")])
def test_an_operator_is_served_in_a_flood_with_few_descriptors(start, port, sent):
    """The clients stay, read nothing, and reconnect as soon as they are disconnected."""
    broker = start("--admin", "127.0.0.1:0", launcher=["prlimit", "--nofile=300"])
    flood, served, most = [], [], 0
    try:
        end = time.monotonic() + 4
        while time.monotonic() < end:
            for _ in range(100):
                one = socket.create_connection(getattr(broker, port), timeout=DEADLINE)
                with contextlib.suppress(OSError):
                    one.sendall(sent)
                flood.append(one)
            for one in flood[:-600]:
                one.close()
            del flood[:-600]
            most = max(most, descriptors(broker.pid))
            asked = time.monotonic()
            answer = requests.get("http://%s:%d/api/v1/connections" % broker.admin, timeout=DEADLINE)
            assert answer.status_code == 200
            served.append(time.monotonic() - asked)
        assert max(served) < 1, served
        assert most > 60, "the flood was too small"
    finally:
        for one in flood:
            one.close()
        broker.stop()


@pytest.mark.parametrize("failures", [1, 20])
def test_the_machine_runs_out_of_descriptors(start, tmp_path, failures):
    """The limit is not the broker's own, and the advice differs. With one failure the connection gets a reserved
    descriptor; with more failures there is none."""
    library, left = tmp_path / "accept.so", tmp_path / "failures"
    source = Path(__file__).with_name("accept.c")
    command = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, source]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    left.write_bytes(bytes(8))
    broker = start(variables={"LD_PRELOAD": str(library), "ACCEPT_FAILURES": str(left)})
    with left.open("r+b", buffering=0) as file:
        file.write(failures.to_bytes(8, sys.byteorder, signed=True))
    with socket.create_connection(broker.address, timeout=DEADLINE) as one:
        (told, *_) = eventually(lambda: logged(broker, "cannot accept connections"), bool)
        if failures == 1:
            assert "limit on open files" in one.recv(4096).decode(errors="replace")
    assert told["cause"].startswith("Too many open files in system; ") and "fs.file-max" in told["cause"]
    assert "ulimit" not in told["cause"]
    eventually(lambda: left.read_bytes(), lambda count: count == bytes(8))
    peer = broker.peer()
    peer.numbers("t", 1, 3)
    peer.close()


# Memory


def test_memory_is_reached_and_freed(begin):
    """Topics kept in memory by stalled subscribers use all of it; then these subscribers lose waiting messages, or
    publishes to their topics are refused. A topic within its share is not affected, and the memory is freed with the
    subscribers."""
    limit, turns = 160 * MIB, 60
    broker = begin("--memory", "160M", "--retain", "10", "--retain-bytes", "100M")
    with beside(broker, growth=64 * MIB) as (well,):
        stalled, publisher = broker.peer(), broker.peer()
        subscriptions = [stalled.subscribe(f"t.full{index}?buffer=1000000", n=1) for index in range(6)]
        for index in range(6):
            publisher.joined(f"t.full{index}", 1)
        body, refused = bytes(1_000_000), Counter()
        for _ in range(turns):
            for index in range(6):
                try:
                    publisher.publish(f"t.full{index}", body)
                except StreamError as error:
                    assert error.kind == Kind.REJECTED and "memory" in error.text, error
                    refused[index] += 1
        assert 0.8 * limit < broker.status("VmRSS") < limit + 64 * MIB
        well.moves(20)
        ledgers = [publisher.ledger(f"t.full{index}")[0] for index in range(6)]
        for index, row in enumerate(ledgers):
            published = publisher.info(f"t.full{index}")["published"]
            assert published + refused[index] == turns
            assert row["delivered"] + row["waiting"] + row["dropped"] == published, row
        assert sum(row["dropped"] for row in ledgers) + sum(refused.values()) > turns
        for subscription in subscriptions[:3]:
            subscription.cancel()
        assert eventually(lambda: published_of(publisher, "t.full5", body), bool), "there is no room"
        for subscription, row in list(zip(subscriptions, ledgers))[3:]:
            subscription.request(row["waiting"])
            assert len(subscription.take(row["delivered"] + row["waiting"])) == row["delivered"] + row["waiting"]
        for one in (stalled, publisher):
            one.close()
    broker.stop()


def test_what_waits_and_memory_is_too_little_for_is_told(begin):
    """The log says that a subscription lost its messages for lack of memory, not because of its own buffer."""
    broker = begin("--memory", "16M", "--retain-bytes", "1G")
    stalled, publisher = broker.peer(), broker.peer()
    stalled.subscribe("waits?buffer=1000000", n=1)
    publisher.joined("waits", 1)
    for _ in range(2500):
        publisher.publish("waits", bytes(10_000))
    line = eventually(lambda: logged(broker, "memory is full: waiting messages dropped"), bool)[0]
    assert line["level"] == "warn" and line["topic"] == "waits" and 0 < line["messages"] < 2500


def published_of(publisher, topic: str, body: bytes) -> bool:
    try:
        return bool(publisher.publish(topic, body))
    except StreamError:
        return False


# The log


class Unread:
    """A broker whose log goes to a pipe that only the test reads, when it wants to."""

    def spawn(self, command, environment):
        self.pipe, write = os.pipe()
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
        process = subprocess.Popen(command, stderr=write, stdout=subprocess.DEVNULL, env=environment)
        os.close(write)
        process.stderr = self._first_lines()
        return process

    def _first_lines(self):
        """The lines with the listeners' addresses, and those before them."""
        listeners = 0
        while listeners < 2:
            line = b""
            while not line.endswith(b"\n"):
                line += os.read(self.pipe, 1)
            listeners += b'"message":"listening"' in line
            yield line

    def read(self, until: bytes) -> list[dict]:
        """The lines up to one that contains `until`."""
        text = b""
        while until not in text or not text.endswith(b"\n"):
            text += os.read(self.pipe, 1 << 16)
        return [json.loads(line) for line in text.splitlines()]

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(DEADLINE)


class OnDisk:
    """A broker whose log goes to a file."""

    def spawn(self, command, environment):
        self.file = tempfile.TemporaryFile()
        # As from a shell, writing beyond a file size limit is an error and not a signal.
        process = subprocess.Popen(command, stderr=self.file, stdout=subprocess.DEVNULL, env=environment,
                                   restore_signals=False)
        process.stderr = self._first_lines()
        return process

    def _first_lines(self):
        yield from eventually(self.lines, lambda lines: sum(b'"listening"' in line for line in lines) == 3)

    def lines(self) -> list[bytes]:
        return os.pread(self.file.fileno(), 1 << 20, 0).splitlines()


def test_the_log_goes_on_when_its_disk_was_full(start):
    """Lines lost in the meantime are counted, and the count is logged before the next line."""
    broker = type("BrokerOnDisk", (OnDisk, start), {})("--log-level", "debug", "--admin", "127.0.0.1:0")

    def lost():
        text = requests.get("http://%s:%d/metrics" % broker.admin, timeout=DEADLINE).text
        return int(re.search(r"^forebay_log_lines_lost_total (\d+)$", text, re.MULTILINE)[1])

    try:
        full = os.fstat(broker.file.fileno()).st_size + 20  # Not a complete line.
        former = resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (full, resource.RLIM_INFINITY))
        before = lost()
        for count in range(before + 1, before + 4):
            socket.create_connection(broker.address, timeout=DEADLINE).close()
            eventually(lost, lambda lines: lines >= count)
        assert os.fstat(broker.file.fileno()).st_size == full
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, former)
        socket.create_connection(broker.address, timeout=DEADLINE).close()
        lines = eventually(broker.lines, lambda lines: any(b"log lines dropped" in line for line in lines[:-1]))
        torn = next(number for number, line in enumerate(lines) if not line.endswith(b"}"))
        told = json.loads(lines[torn + 1])
        assert told["message"] == "log lines dropped" and int(told["count"]) == lost() >= 3
        assert told["reason"] == "the log could not be written: File too large"
        assert "connection" in json.loads(lines[torn + 2])["message"]
    finally:
        broker.process.kill()
        broker.process.wait()
        broker.file.close()


@pytest.fixture
def unread(start):
    """A broker that logs every connection it refuses, so that clients can cause any number of lines."""
    this = type("UnreadBroker", (Unread, start), {})("--log-level", "debug", "--max-connections-per-address", "8")
    yield this
    this.process.kill()
    this.process.wait()
    with contextlib.suppress(OSError):
        os.close(this.pipe)


def be_refused(broker, count: int):
    """Connects from an address that already has all the connections it may have. Each refusal is a line in the log."""
    for _ in range(count):
        with socket.create_connection(broker.address, timeout=DEADLINE, source_address=("127.0.0.2", 0)) as line:
            answer = b""
            while piece := line.recv(1024):
                answer += piece
            assert b"Your address has 8 connections" in answer


def test_a_log_that_nobody_reads(unread):
    """The broker continues; lines that do not fit are dropped, counted, and reported to the eventual reader."""
    count = 5000  # About 700 KB; half a megabyte waits at most.
    with beside(unread, growth=16 * MIB) as (well,):
        full = [socket.create_connection(unread.address, source_address=("127.0.0.2", 0)) for _ in range(8)]
        for one in full:
            one.sendall(raw.setup())
        with contextlib.closing(unread.peer()) as watcher:
            eventually(lambda: [row["peer"] for row in watcher.listing("$SYS.connections")],
                       lambda peers: sum(peer.startswith("127.0.0.2:") for peer in peers) == 8)
        be_refused(unread, count)
        well.moves()
        told = unread.read(b"log lines dropped")
        refused = sum(line["message"] == "connection refused" for line in told)
        (lost,) = [line for line in told if line["message"] == "log lines dropped"]
        # Once a second a line reports the number of refusals; it may be lost as well.
        assert int(lost["count"]) > 0 and count <= refused + int(lost["count"]) <= count + 60, lost
        # With its reader gone permanently there is no log, and everything else continues.
        os.close(unread.pipe)
        be_refused(unread, 20)
        well.moves()
        for one in full:
            one.close()
    assert unread.end() == 0


@pytest.mark.parametrize("closed", ["2", "0 1 2"])
def test_standard_streams_that_are_closed(start, closed):
    """No socket takes the place of a closed stream, or a client would receive the log."""
    ports = []
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            ports.append(stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1])
    closing = " ".join(f"{number}>&-" for number in closed.split())
    command = f"exec {start.executable()} --listen 127.0.0.1:{ports[0]} --http 127.0.0.1:{ports[1]} --admin off " \
              f"--log-level debug {closing}"
    process = subprocess.Popen(["sh", "-c", command], env=dict(os.environ, SWIFT_BACKTRACE="enable=no"))
    try:
        peers = []
        eventually(lambda: peers or connect_to(("127.0.0.1", ports[0]), peers), bool)
        peers += [Peer(("127.0.0.1", ports[0])) for _ in range(20)]
        for number in closed.split():
            assert not os.path.exists(f"/proc/{process.pid}/fd/{number}") or (
                os.readlink(f"/proc/{process.pid}/fd/{number}") == "/dev/null"), number
        for index, peer in enumerate(peers):
            assert peer.publish("t", b"x") == [index + 1]
            peer.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE) == 0
    finally:
        process.kill()
        process.wait()


def connect_to(address, peers: list) -> bool:
    with contextlib.suppress(ConnectionRefusedError):
        peers.append(Peer(address))
    return bool(peers)
