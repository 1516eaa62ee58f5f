"""The likeliest slip, a wrong port or scheme: what listens there says so at once, and the client passes it on."""

import time

import pytest

import tls
from commands import Commands

PORTS = {
    # The scheme, where it was sent to, and what is said of it.
    "rsocket to HTTP": ("rsocket", "http", "This port speaks HTTP"),
    "rsocket to admin": ("rsocket", "admin", "This is the admin port"),
    "http to RSocket": ("http", "rsocket", "This port speaks RSocket"),
    "http to admin": ("http", "admin", "speaks HTTP/1.1, not HTTP/2 with gRPC"),
    "rsockets to RSocket": ("rsockets", "rsocket", "does not speak TLS; connect with rsocket://"),
    "rsockets to HTTP": ("rsockets", "http", "does not speak TLS"),
    "https to RSocket": ("https", "rsocket", "does not speak TLS; connect with http://"),
    "https to HTTP": ("https", "http", "does not speak TLS; connect with http://"),
    "https to admin": ("https", "admin", "does not speak TLS"),
}
PORTS_OF_TLS = {
    "rsocket to RSocket": ("rsocket", "rsocket", "This port speaks TLS: connect with rsockets://"),
    "rsocket to HTTP": ("rsocket", "http", "This port speaks HTTP over TLS: connect with https://"),
    "http to HTTP": ("http", "http", "This port speaks TLS: connect with https://"),
    "http to RSocket": ("http", "rsocket", "speaks RSocket over TLS"),
    "rsockets to HTTP": ("rsockets", "http", "This port speaks HTTP"),
    "rsockets to admin": ("rsockets", "admin", "This port speaks HTTP"),
    "https to RSocket": ("https", "rsocket", "does not speak HTTP/2"),
    "https to admin": ("https", "admin", "does not speak HTTP/2"),
}


def port(broker, name: str):
    return {"rsocket": broker.address, "http": broker.http, "admin": broker.admin}[name]


def check(broker, scheme: str, name: str, told: str):
    began = time.monotonic()
    done = Commands(port(broker, name), scheme).run("pub", "cli.port", "x", "--ack", *(
        ["--insecure"] if scheme.endswith("s") else []))
    assert done.returncode == 3 and told.encode() in done.stderr and done.stderr.count(b"\n") == 1, done
    # Nobody waited for an answer that would not come.
    assert time.monotonic() - began < 4


@pytest.mark.parametrize("scheme, name, told", PORTS.values(), ids=PORTS)
def test_ports_without_tls(own, scheme, name, told):
    check(own, scheme, name, told)


@pytest.mark.parametrize("scheme, name, told", PORTS_OF_TLS.values(), ids=PORTS_OF_TLS)
def test_ports_of_tls(own_tls, scheme, name, told):
    check(own_tls, scheme, name, told)


@pytest.fixture(scope="module")
def own(start):
    this = start("--admin", "127.0.0.1:0")
    yield this
    this.stop()


@pytest.fixture(scope="module")
def own_tls(start):
    this = start(*tls.server().options, "--admin", "127.0.0.1:0")
    yield this
    this.stop()
