"""Many wrong passwords at once, from many addresses: users with the right password still get in."""

import collections
import contextlib
import http.client
import socket
import statistics
import threading
import time

import pytest

import access
from common import *

pytestmark = [pytest.mark.rsocket, pytest.mark.timeout(240)]

ADDRESSES = [f"127.0.0.{number}" for number in range(2, 42)]
UNDER_WAY = 800  # Attempts that wait for a response: more than the broker queues.


@pytest.fixture
def guarded(start, tmp_path):
    hashed = access.password_hash(start.executable(), "secret")
    everything = dict.fromkeys(("publish", "subscribe", "control", "block"), [">", "$SYS.>"])
    names = ["alice", *(f"user{number}" for number in range(10))]
    this = start("-c", str(access.write(tmp_path, {
        "users": [{"name": name, "password": hashed, **everything} for name in names]})))
    yield this
    this.stop()


def log_in(broker, user: str, source: str) -> tuple[int, float]:
    """The status of a publish on a separate connection, and the time it took."""
    began = time.monotonic()
    line = http.client.HTTPConnection(*broker.http, timeout=60, source_address=(source, 0))
    with contextlib.closing(line):
        line.request("POST", "/v1/topics/t/messages", b"x", {"authorization": access.basic(user, "secret")})
        return line.getresponse().status, time.monotonic() - began


class Flood:
    """Wrong passwords at full speed, from changing addresses and for changing users."""

    def __init__(self, broker):
        self.broker, self.sent, self.stopped = broker, 0, threading.Event()
        self.refused, self.failed = 0, set()
        self.threads = [threading.Thread(target=self.run, args=(place,)) for place in range(2)]
        for one in self.threads:
            one.start()

    def run(self, place: int):
        lines = collections.deque()
        while not self.stopped.is_set():
            source = ADDRESSES[(2 * self.sent + place) % len(ADDRESSES)]
            line = socket.create_connection(self.broker.http, DEADLINE, (source, 0))
            who = access.basic(f"nobody{place}-{self.sent}", "wrong")
            line.sendall(f"POST /v1/topics/t/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"
                         f"Authorization: {who}\r\n\r\nx".encode())
            lines.append((source, line))
            self.sent += 1
            if len(lines) > UNDER_WAY // 2:
                source, oldest = lines.popleft()
                with contextlib.closing(oldest):
                    oldest.settimeout(60)
                    answer = oldest.recv(4096)
                    self.refused += b"\"unavailable: " in answer
                    if answer.startswith(b"HTTP/1.1 401"):
                        self.failed.add(source)
        for _, line in lines:
            line.close()

    def stop(self):
        self.stopped.set()
        for one in self.threads:
            one.join()


def test_right_passwords_pass_a_flood_of_wrong_ones(guarded):
    assert log_in(guarded, "alice", "127.0.0.1")[0] == 200
    flood = Flood(guarded)
    try:
        # More attempts arrive than may wait, and each address has had a failure, so that its next attempts give way to
        # others.
        eventually(lambda: (flood.refused > 0, len(flood.failed)), lambda seen: seen == (True, len(ADDRESSES)), 180)
        newcomers, known = [], []
        for number in range(10):
            # Each of these logs in for the first time, from a new address.
            newcomers.append(log_in(guarded, f"user{number}", f"127.0.1.{number + 1}"))
            # This user's password is cached, so the login does not wait for passwords that must be hashed.
            known += [log_in(guarded, "alice", "127.0.0.1") for _ in range(10)]
        assert all(status == 200 for status, _ in newcomers + known), newcomers + known
        median = lambda logins: statistics.median(took for _, took in logins)
        assert median(known) < median(newcomers), (sorted(known), sorted(newcomers))
    finally:
        flood.stop()
