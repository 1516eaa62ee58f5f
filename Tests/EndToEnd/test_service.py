"""The broker as a service: sockets opened by systemd, notifications to systemd, and its watchdog."""

import contextlib
import ctypes
import os
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from common import *

pytestmark = pytest.mark.rsocket


class Manager:
    """A stand-in for systemd: a socket for notifications."""

    def __init__(self, folder: Path):
        self.path = str(folder / "notify")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)

    def next(self, timeout=20) -> dict[str, str]:
        """The next notification, except watchdog keepalives."""
        while True:
            told = self.any(timeout)
            if told != {"WATCHDOG": "1"}:
                return told

    def any(self, timeout=20) -> dict[str, str]:
        self._socket.settimeout(timeout)
        return dict(line.split("=", 1) for line in self._socket.recv(4096).decode().splitlines())

    def signs(self, seconds: float) -> int:
        """The number of watchdog keepalives within `seconds`, including those that have already arrived."""
        count, end = 0, time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            with contextlib.suppress(TimeoutError):
                count += self.any(left).get("WATCHDOG") == "1"
        return count

    def skip(self):
        with contextlib.suppress(BlockingIOError):
            while True:
                self._socket.recv(4096, socket.MSG_DONTWAIT)

    def close(self):
        self._socket.close()


@pytest.fixture
def manager(tmp_path):
    this = Manager(tmp_path)
    yield this
    this.close()


# Moves its descriptors to 3 and up, and executes the broker.
LAUNCHER = """
import fcntl, os, sys
count = int(sys.argv[1])
high = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 200) for fd in sys.argv[2:2 + count]]
for place, fd in enumerate(high):
    os.dup2(fd, 3 + place, inheritable=True)
    os.close(fd)
if count:
    os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(count))
os.execv(sys.argv[2 + count], sys.argv[2 + count:])
"""


def passing(sockets, names, variables) -> tuple[list[str], dict]:
    """The beginning of a command line, and the arguments of Popen."""
    fds = [one.fileno() for one in sockets]
    environment = dict(os.environ, SWIFT_BACKTRACE="enable=no", **variables)
    if names is not None:
        environment["LISTEN_FDNAMES"] = names
    command = [sys.executable, "-c", LAUNCHER, str(len(fds)), *map(str, fds)]
    return command, {"pass_fds": fds, "env": environment}


@pytest.fixture
def serve(start):
    """Starts brokers with variables and sockets, which are passed as systemd passes them."""
    class Passing(start):
        def __init__(self, *options, sockets, names, variables):
            self._how = passing(sockets, names, variables)
            super().__init__(*options)

        def spawn(self, command, environment):
            launcher, how = self._how
            return subprocess.Popen(launcher + command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, **how)

    started = []

    def begin(*options, sockets=(), names=None, **variables):
        started.append(Passing(*options, sockets=sockets, names=names, variables=variables))
        return started[-1]

    yield begin
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait()


@pytest.fixture
def refused(start):
    """The last line of a broker that does not start with such sockets."""
    def words(sockets, names=None) -> str:
        launcher, how = passing(sockets, names, {})
        code, text = start.refusal(launcher=launcher, **how)
        assert code == 1
        return text

    return words


def listener(family=socket.AF_INET, host="127.0.0.1") -> socket.socket:
    this = socket.socket(family)
    this.bind((host, 0))
    this.listen(64)
    return this


# Sockets passed to the broker

def test_sockets_are_taken_by_their_names(serve, topic):
    one, two = listener(), listener()
    broker = serve(sockets=[one, two], names="http:rsocket")
    assert broker.http == one.getsockname() and broker.address == two.getsockname()
    peer = broker.peer()
    peer.numbers(topic, 1, 3)
    peer.close()
    broker.stop()


def test_a_socket_of_the_admin_listener_is_taken_even_where_that_is_off(serve):
    one = listener()
    broker = serve("--admin", "off", sockets=[one], names="admin")
    with urllib.request.urlopen("http://%s:%d/healthz" % one.getsockname(), timeout=20) as answer:
        assert answer.status == 200
    address = "%s:%d" % one.getsockname()
    eventually(lambda: broker.log, lambda log: any('"admin"' in line and address in line for line in log))
    broker.stop()


def test_several_sockets_may_have_one_name_and_the_rest_is_as_configured(serve, topic):
    one, two = listener(), listener(socket.AF_INET6, "::1")
    broker = serve(sockets=[one, two], names="rsocket:rsocket")
    addresses = [line for line in broker.log if '"rsocket"' in line]
    assert len(addresses) == 2 and broker.http[1] not in (0, one.getsockname()[1], two.getsockname()[1])
    for address in (one.getsockname(), two.getsockname()[:2]):
        socket.create_connection(address).close()
    broker.stop()


def test_who_connected_before_the_broker_was_there_is_served(serve, topic):
    """A client that connects between two brokers is served as well: the socket outlives each broker."""
    one = listener()
    for _ in range(2):
        early = socket.create_connection(one.getsockname())
        early.sendall(b"GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        broker = serve(sockets=[one], names="http")
        early.settimeout(20)
        assert early.recv(12) == b"HTTP/1.1 404"
        early.close()
        broker.stop()


def test_sockets_of_another_process_are_left_alone(serve):
    one = listener()
    broker = serve(sockets=[], LISTEN_PID="1", LISTEN_FDS="1", LISTEN_FDNAMES="rsocket")
    assert broker.address != one.getsockname()
    broker.stop()


def test_what_cannot_be_taken_is_told(refused):
    tcp, udp, idle = listener(), socket.socket(type=socket.SOCK_DGRAM), socket.socket()
    local = socket.socketpair()[0]
    assert '"forebayd.socket"' in refused([tcp], "forebayd.socket")
    assert "rsocket, http, admin" in refused([tcp])
    for wrong in (udp, idle, local):
        assert "not a listening TCP socket" in refused([tcp, wrong], "rsocket:http")


# Notifications

def test_the_life_of_a_broker(serve, manager, topic):
    broker = serve(NOTIFY_SOCKET=manager.path)
    told = manager.next()
    assert told["READY"] == "1" and "%s:%d (rsocket)" % broker.address in told["STATUS"]
    before = time.monotonic_ns() // 1000
    broker.process.send_signal(signal.SIGHUP)
    told = manager.next()
    assert told["RELOADING"] == "1" and before <= int(told["MONOTONIC_USEC"]) <= time.monotonic_ns() // 1000
    assert manager.next()["READY"] == "1"
    peer = broker.peer()
    peer.numbers(topic, 1, 1)
    broker.process.send_signal(signal.SIGTERM)
    told = manager.next()
    # More than a drain may take.
    assert told["STOPPING"] == "1" and int(told["EXTEND_TIMEOUT_USEC"]) > 10_000_000
    assert told["STATUS"] == "Draining 1 connection"
    peer.close()
    assert broker.process.wait(15) == 0


def test_a_manager_that_is_not_there_is_no_hindrance(serve, tmp_path):
    for path in (str(tmp_path / "nobody"), "relative", "", "/" + 200 * "x"):
        broker = serve(NOTIFY_SOCKET=path)
        broker.process.send_signal(signal.SIGHUP)
        eventually(lambda: broker.log, lambda log: any('"reloaded"' in line for line in log))
        broker.stop()
        assert len([line for line in broker.log if "cannot notify the service manager" in line]) <= 1


def test_signs_of_life(serve, manager):
    broker = serve(NOTIFY_SOCKET=manager.path, WATCHDOG_USEC="400000")
    assert manager.signs(3) >= 5
    broker.stop()


def test_a_watchdog_of_another_process_gets_none(serve, manager):
    broker = serve(NOTIFY_SOCKET=manager.path, WATCHDOG_USEC="100000", WATCHDOG_PID="1")
    assert manager.next()["READY"] == "1"
    assert manager.signs(1) == 0
    broker.stop()


# From ptrace(2), which can stop one thread of a process; no signal can.
SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000


class Held:
    """A thread of the broker that is stopped until `free`. To be used by a single thread of the test."""

    def __init__(self, pid: int, name: str):
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self._libc.ptrace.restype = ctypes.c_long
        tasks = Path(f"/proc/{pid}/task")
        self._id = next(int(task.name) for task in tasks.iterdir() if (task / "comm").read_text().strip() == name)
        self._call(SEIZE)
        self._call(INTERRUPT)
        os.waitpid(self._id, WALL)

    def _call(self, request):
        if self._libc.ptrace(request, self._id, None, None) < 0:
            raise OSError(ctypes.get_errno(), f"ptrace {request:#x}")

    def free(self):
        self._call(DETACH)


@pytest.mark.parametrize("thread", ["forebay-0", "forebay-1", "forebay-accept", "forebay-admin"])
def test_a_thread_that_is_stuck_lets_the_watchdog_fire(serve, manager, thread):
    broker = serve("--admin", "127.0.0.1:0", NOTIFY_SOCKET=manager.path, WATCHDOG_USEC="400000")
    assert manager.signs(1) >= 1
    held = Held(broker.pid, thread)
    # One keepalive may have been in flight.
    manager.signs(0.5)
    assert manager.signs(1.5) == 0
    assert any("thread does not respond" in line for line in broker.log)
    held.free()
    assert manager.signs(3) >= 1
    broker.stop()


# The machine

@pytest.mark.skipif(os.geteuid() != 0, reason="only root may take /proc away")
def test_a_command_line_that_cannot_be_read_is_refused(start):
    """Without /proc the broker cannot see its options, and would listen on its default address."""
    launcher = ["unshare", "--mount", "sh", "-euc", 'umount --lazy /proc; exec "$@"', "sh"]
    assert start.refusal("--listen", "127.0.0.1:0", launcher=launcher) == (
        1, "forebayd: cannot read the command line: mount /proc")


def test_the_limit_on_open_files_is_raised_and_told(serve):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    try:
        broker = serve()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    limits = Path(f"/proc/{broker.pid}/limits").read_text()
    own = next(line for line in limits.splitlines() if line.startswith("Max open files")).split()[3]
    assert int(own) == hard
    assert any(f'"open-files":{hard}' in line for line in broker.log)
    broker.stop()
