"""The broker under test: started as a user would start it, watched through its log, and stopped by SIGTERM."""

import json
import os
import queue
import re
import signal
import subprocess
import threading
from pathlib import Path

import pytest

import raw
import tls
from client import Peer
from common import Observer
from executables import ROOT, executable

# What forebayd serves. Without "grpc" the suite runs over RSocket only; without "plain" there is no plain HTTP. Adding
# a transport runs each behavior test over it and collects the transport's own tests.
SERVED = {"rsocket", "grpc", "plain"}

TRANSPORTS = [transport for transport in ("rsocket", "grpc") if transport in SERVED]
OWN_TESTS = {
    "test_grpc.py": {"grpc"}, "test_grpc_wire.py": {"grpc"}, "test_grpc_mixed.py": {"grpc"},
    "test_http2_attacks.py": {"grpc"}, "test_http2_frames.py": {"grpc", "plain"},
    "test_http_requests.py": {"plain"}, "test_browser.py": {"plain"}, "test_http1.py": {"plain"},
    "test_http1_rules.py": {"plain"}, "test_http1_bodies.py": {"plain"},
    "test_access.py": {"grpc", "plain"}, "test_access_life.py": {"grpc", "plain"},
    "test_jwt.py": {"grpc", "plain"}, "test_audit.py": {"grpc", "plain"},
    "test_tls.py": {"grpc", "plain"}, "test_tls_care.py": {"grpc", "plain"},
}
collect_ignore = [name for name, needed in OWN_TESTS.items() if not needed <= SERVED]

# With $FOREBAY_TLS every broker and every client uses TLS, unless a test overrides it.
TLS = bool(os.environ.get("FOREBAY_TLS"))

CRASH = re.compile(r"Fatal error|Crash|\*\*\* Signal|Sanitizer|Precondition failed|Segmentation", re.IGNORECASE)


class Broker:
    """A forebayd process. `options` are added to those that every test needs, and `variables` to the process's
    environment. It has two threads, unless a test or $FOREBAY_THREADS says otherwise. RSocket clients connect to
    `address` and HTTP clients to `http`: host and port, or None for a listener that `options` turn off. `admin` is None
    unless the options turn it on."""

    executable = staticmethod(executable)
    begun: list[subprocess.Popen] = []

    def __init__(self, *options: str, threads: int = 0, variables: dict[str, str] | None = None, launcher=()):
        threads = threads or int(os.environ.get("FOREBAY_THREADS", 2))
        standard = {"--listen": "127.0.0.1:0", "--http": "127.0.0.1:0", "--admin": "off",
                    "--log-format": "json", "--threads": str(threads)}
        command = [*launcher, executable(), *options]
        for option, value in standard.items():
            if option not in options:
                command += [option, value]
        if TLS and not any(option.startswith("--tls-") for option in options):
            command += tls.server().options
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_")}
        environment |= {"SWIFT_BACKTRACE": "enable=no", **(variables or {})}
        self.process = self.spawn(command, environment)
        self.begun.append(self.process)
        self.pid = self.process.pid
        self.log, self._lines = [], queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        values = dict(zip(command, command[1:]))
        listeners = {"rsocket": "--listen", "http": "--http", "admin": "--admin"}
        addresses = self._listening({name for name, option in listeners.items() if values[option] != "off"})
        self.address, self.http = addresses.get("rsocket"), addresses.get("http")
        self.admin = addresses.get("admin")

    def spawn(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen:
        return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment)

    def _read(self):
        for line in self.process.stderr:
            self.log.append(line.decode(errors="replace").rstrip())
            self._lines.put(self.log[-1])
        self._lines.put(None)

    def _listening(self, protocols: set[str]) -> dict[str, tuple[str, int]]:
        """Waits until the broker listens for all of `protocols`, and returns the addresses by protocol."""
        addresses = {}
        while addresses.keys() != protocols:
            line = self._lines.get(timeout=15)
            assert line is not None, "the broker ended before it listened:\n" + "\n".join(self.log)
            record = json.loads(line)
            if record.get("message") == "listening":
                host, port = record["address"].rsplit(":", 1)
                addresses.setdefault(record["protocol"], (host, int(port)))
                # The port may have been used by another broker.
                (tls.secured.add if record.get("tls") == "on" else tls.secured.discard)(int(port))
        return addresses

    @staticmethod
    def refusal(*options: str, launcher=(), **how) -> tuple[int, str]:
        """The exit code of a broker that does not start, and the last line of its output."""
        how = {"env": dict(os.environ, SWIFT_BACKTRACE="enable=no")} | how
        done = subprocess.run([*launcher, executable(), *options], capture_output=True, timeout=30, text=True, **how)
        return done.returncode, done.stderr.splitlines()[-1]

    @staticmethod
    def run(*options: str, **variables: str) -> tuple[int, str, str]:
        """The exit code and output of a forebayd command that starts no broker, with only these environment
        variables."""
        done = subprocess.run([executable(), *options], capture_output=True, timeout=60, text=True,
                              env={"SWIFT_BACKTRACE": "enable=no", **variables})
        return done.returncode, done.stdout, done.stderr

    @property
    def http_port(self) -> int:
        return self.http[1]

    def peer(self, transport: str = "rsocket", **options) -> Observer:
        if transport == "rsocket":
            return Peer(self.address, **options)
        if transport == "rsocket-py":
            import library

            return library.Peer(self.address, **options)
        import grpc_client  # Imported only here, because it generates its stubs from the .proto.

        return grpc_client.Peer(self.http, **options)

    def status(self, field: str) -> int:
        """A field of /proc/PID/status in bytes: VmRSS, or VmHWM (its peak). The field is 0 under the address sanitizer,
        which delays frees: memory does not seem to grow."""
        if "ASAN_OPTIONS" in os.environ:
            return 0
        text = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(rf"^{field}:\s+(\d+) kB", text, re.MULTILINE)[1]) << 10

    def stop(self):
        """Stops the broker and checks the result: exit code 0, and a log of JSON lines without a crash."""
        alive = self.process.poll() is None
        if alive:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = f"killed: still running 15 s after SIGTERM ({self.process.wait()})"
        self._reader.join(5)
        listeners = (self.address, self.http, self.admin)
        tls.secured.difference_update(address[1] for address in listeners if address)
        tail = "\n".join(self.log[-30:])
        assert alive, f"the broker was gone before it was stopped, with exit code {code}:\n{tail}"
        assert code == 0, f"exit code {code}:\n{tail}"
        assert not CRASH.search("\n".join(self.log)), tail
        for line in self.log:
            json.loads(line)


def pytest_generate_tests(metafunc):
    """A test of the broker's behavior runs over each transport, or over each of its module's CLIENTS. A test of
    RSocket's frames is marked `rsocket`."""
    if "transport" in metafunc.fixturenames:
        known = getattr(metafunc.module, "CLIENTS", TRANSPORTS)
        own = [mark for mark in ("rsocket", "grpc") if metafunc.definition.get_closest_marker(mark)]
        metafunc.parametrize("transport", [one for one in known if one.partition("-")[0] in own] or own or known)


@pytest.fixture(scope="session", autouse=True)
def none_is_left():
    """Brokers that no test has stopped are stopped at the end of the session."""
    yield
    for process in Broker.begun:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def start():
    """Starts brokers with custom options; the caller stops them."""
    return Broker


@pytest.fixture
def begin():
    """Like `start`, but brokers that are still running after the test are stopped then."""
    begun = []

    def one(*options: str) -> Broker:
        begun.append(Broker(*options))
        return begun[-1]

    yield one
    for this in begun:
        this.process.kill()
        this.process.wait()


@pytest.fixture(scope="module")
def broker():
    """The module's broker: its tests use separate topics."""
    this = Broker()
    yield this
    this.stop()


@pytest.fixture(scope="module")
def small():
    """A broker whose topics retain 8 messages."""
    this = Broker("--retain", "8")
    yield this
    this.stop()


@pytest.fixture
def connect(request, transport):
    """Opens connections to the module's broker (or another) over the test's transport, and closes them after the
    test."""
    opened = []

    def open_peer(to=None, over=transport, **options) -> Observer:
        opened.append((to or request.getfixturevalue("broker")).peer(over, **options))
        return opened[-1]

    yield open_peer
    for one in opened:
        one.close()


@pytest.fixture
def line(broker):
    """Opens plain connections on which nothing has been sent yet."""
    opened = []

    def open_line() -> raw.Connection:
        opened.append(raw.Connection(broker.address))
        return opened[-1]

    yield open_line
    for one in opened:
        one.close()


@pytest.fixture
def wire(broker):
    """Opens connections for arbitrary HTTP/2 frames."""
    from http2 import Wire

    opened = []

    def open_wire(*initial, to=broker, **how) -> Wire:
        opened.append(Wire(to.http, *initial, **how))
        return opened[-1]

    yield open_wire
    for one in opened:
        one.close()


@pytest.fixture
def http1(broker):
    """Opens connections for arbitrary HTTP/1.1 text."""
    from http1 import Line

    opened = []

    def open_line(to=broker, **how) -> Line:
        opened.append(Line(to.http, **how))
        return opened[-1]

    yield open_line
    for one in opened:
        one.close()


@pytest.fixture(params=["1.1", "2"] if "plain" in SERVED else ["2"])
def http_version(request) -> str:
    """The versions of HTTP that a plain client may speak."""
    return request.param


@pytest.fixture
def curl(broker, http_version):
    """`curl(path, …)` waits for a response; `curl.stream(path, …)` reads one as it arrives. The test runs over each
    version of HTTP."""
    from curl import VERSIONS, Curl

    this = Curl(broker.http, VERSIONS[http_version])
    yield this
    this.stop()


@pytest.fixture
def witness(connect, topic):
    """A subscriber and a publisher on separate connections; checks at the end that nothing happened to them."""
    reader, writer, name = connect(), connect(), f"{topic[:80]}.w"
    sub = reader.subscribe(name)
    reader.joined(name, 1)
    writer.numbers(name, 1, 1)
    assert sub.data(1) == [b"1"]
    yield writer
    writer.numbers(name, 2, 2)
    assert sub.data(1) == [b"2"]


@pytest.fixture
def a(connect) -> Observer:
    """A connection, mostly for subscribing."""
    return connect()


@pytest.fixture
def b(connect) -> Observer:
    """A connection, mostly for publishing. Connections are assigned to shards in turn, so `a` and `b` are on different
    shards."""
    return connect()


@pytest.fixture
def topic(request) -> str:
    """A topic name that neither another test nor a rerun of this one uses, because the broker may be the same."""
    name = "t." + re.sub(r"[^A-Za-z0-9_-]+", "-", request.node.nodeid.split("::", 1)[1])[-180:]
    attempt = getattr(request.node, "execution_count", 1)
    return name if attempt == 1 else f"{name}.{attempt}"
