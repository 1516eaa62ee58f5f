"""The broker under test, and how tests are run over each protocol."""

import re

import pytest

import raw
from brokers import Broker
from common import Observer
from nats_server import Server

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
def nats(tmp_path):
    """A NATS server with JetStream."""
    server = Server(tmp_path / "nats")
    yield server
    server.stop()


@pytest.fixture
def begin():
    """Like `start`, but brokers that are still running after the test are stopped then."""
    begun = []

    def one(*options: str, **more) -> Broker:
        begun.append(Broker(*options, **more))
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
