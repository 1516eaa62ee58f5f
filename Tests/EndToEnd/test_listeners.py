"""The broker's two listeners: configured, turned off, and refused with a helpful message."""

import json
import socket

import pytest

import tls
from admin import Admin, until


def takes_connections(address) -> bool:
    try:
        socket.create_connection(address, timeout=10).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.parametrize("options, protocols", [
    ([], ["rsocket", "http"]), (["--http", "off"], ["rsocket"]), (["--listen", "off"], ["http"]),
], ids=["both", "http off", "rsocket off"])
def test_each_listener_is_told_once_and_takes_connections(start, options, protocols):
    broker = start(*options)
    told = [record for record in map(json.loads, broker.log) if record["message"] == "listening"]
    addresses = [address for address in (broker.address, broker.http) if address]
    assert [(record["protocol"], record["address"]) for record in told] == [
        (protocol, "%s:%d" % address) for protocol, address in zip(protocols, addresses, strict=True)]
    assert all(takes_connections(address) for address in addresses)
    broker.stop()
    assert not any(takes_connections(address) for address in addresses)


def test_rsocket_is_spoken_where_http_is_off(start, topic):
    broker = start("--http", "off")
    peer = broker.peer()
    sub = peer.subscribe(topic)
    peer.joined(topic, 1)
    peer.numbers(topic, 1, 1)
    assert sub.data(1) == [b"1"]
    peer.close()
    broker.stop()


@pytest.mark.parametrize("option, other, name", [("--listen", "--http", "RSocket"), ("--http", "--listen", "HTTP")])
def test_a_taken_port_is_named_with_its_option(start, broker, option, other, name):
    port = broker.address[1]
    assert start.refusal(option, f"127.0.0.1:{port}", other, "127.0.0.1:0") == (
        1, f"forebayd: port {port} for {name} is in use: stop the other process or set {option} 127.0.0.1:0")


def test_a_taken_port_of_the_file_is_named_by_its_key(start, broker, tmp_path):
    file, port = tmp_path / "b.yaml", broker.address[1]
    file.write_text(f"listen: 127.0.0.1:{port}\n")
    assert start.refusal("-c", str(file), "--http", "off", "--admin", "off") == (
        1, f"forebayd: port {port} for RSocket is in use: stop the other process or set listen: 127.0.0.1:0")


def test_nothing_to_listen_on_is_wrong_usage(start):
    code, words = start.refusal("--listen", "off", "--http", "off")
    assert code == 2 and "nothing to listen on" in words


def test_one_port_for_both_is_wrong_usage(start):
    code, words = start.refusal("--listen", "127.0.0.1:7000", "--http", "127.0.0.1:7000")
    assert code == 2 and "choose different ports" in words


def test_handshakes_that_come_to_no_end_are_counted(begin):
    """Handshakes are counted on either listener."""
    admin = Admin(begin(*tls.server().options, "--tls-except", "admin", "--admin", "127.0.0.1:0", "--setup-time", "1s"))
    with socket.create_connection(admin.broker.address) as one, socket.create_connection(admin.broker.http) as other:
        for line in (one, other):
            line.sendall(b"\x16\x03\x01")
        until(lambda: admin.metrics()['forebay_tls_handshakes_total{result="failed"}'] == 2, "both are given up")


def test_connections_of_http_are_told_apart(begin):
    """A connection that has sent nothing has no HTTP/2 session yet."""
    admin = Admin(begin("--admin", "127.0.0.1:0"))

    def told():
        metrics = admin.metrics()
        return [metrics[f'forebay_connections{{protocol="{name}"}}'] for name in ("http", "http1", "http2")]

    with socket.create_connection(admin.broker.http) as silent:
        until(lambda: told() == [1, 0, 0], "it is there")
        silent.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        until(lambda: told() == [0, 0, 1], "it speaks HTTP/2")
        with socket.create_connection(admin.broker.http) as other:
            other.sendall(b"GET / HTTP/1.1\r\n")
            until(lambda: told() == [0, 1, 1], "the other one speaks HTTP/1.1")
