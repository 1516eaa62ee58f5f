"""TLS: authentication with openssl's own client, and traffic of every kind of client."""

import base64
import errno
import json
import socket
import ssl
import subprocess

import pytest

import raw
import tls
from client import *
from curl import NDJSON, VERSIONS, Curl, path
from http1 import GET, Line, get
from library import joined, publish, subscribe, two
from tls import logged, s_client

VERIFY = ("--tls-client-ca", "--tls-verify-client")


@pytest.fixture(scope="module")
def broker(start):
    """A broker that speaks TLS on both listeners."""
    this = start(*tls.server().options, "--log-level", "debug")
    yield this
    this.stop()


def agreed(text: str) -> bool:
    return "Verify return code: 0 (ok)" in text and "Cipher is (NONE)" not in text and "alert" not in text


# Authentication


@pytest.mark.parametrize("face", ["address", "http"])
@pytest.mark.parametrize("options, good", [
    (["-tls1", "-cipher", "ALL:@SECLEVEL=0"], False), (["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], False),
    (["-tls1_2"], True), (["-tls1_3"], True),
    (["-tls1_2", "-cipher", "AES128-SHA"], False), (["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA256"], False),
    (["-tls1_2", "-cipher", "ECDHE-ECDSA-CHACHA20-POLY1305"], True),
], ids=["1.0", "1.1", "1.2", "1.3", "no forward secrecy", "CBC", "ChaCha"])
def test_versions_and_ciphers(broker, face, options, good):
    text = s_client(getattr(broker, face), *options)
    assert agreed(text) == good, text
    assert "Compression: NONE" in text


@pytest.mark.parametrize("offered, chosen", [("h2,http/1.1", "h2"), ("http/1.1,h2", "h2"), ("http/1.1", "http/1.1")])
def test_the_version_of_http_is_agreed_on(broker, offered, chosen):
    text = s_client(broker.http, "-alpn", offered)
    assert agreed(text) and f"ALPN protocol: {chosen}" in text


def test_no_protocol_in_common_is_told(broker):
    assert "no application protocol" in s_client(broker.http, "-alpn", "spdy/3")
    assert "No ALPN negotiated" in s_client(broker.http)
    assert agreed(s_client(broker.address, "-alpn", "anything"))


def test_there_is_no_second_handshake(broker):
    text = s_client(broker.address, "-tls1_2", stdin=b"R\nQ\n")
    assert "RENEGOTIATING" in text and "no renegotiation" in text
    logged(broker, "connection closed")


def test_sessions_are_taken_up_again_without_the_server_keeping_them(broker, tmp_path):
    session = str(tmp_path / "session")
    first = s_client(broker.address, "-tls1_2", "-sess_out", session)
    assert "New, TLSv1.2" in first
    assert "Reused, TLSv1.2" in s_client(broker.address, "-tls1_2", "-sess_in", session)


def shown(pair) -> list[str]:
    return ["-cert", pair.cert, "-key", pair.key] if pair else []


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
@pytest.mark.parametrize("mode, none, other", [
    ("off", True, True), ("optional", True, False), ("required", False, False)])
def test_certificates_of_clients(start, mode, none, other, version):
    """The outcome for a client without a certificate, or with one from another authority; a valid certificate is always
    accepted."""
    broker = start(*tls.server().options, *zip_options(VERIFY, (tls.authority().file, mode)), "--log-level", "debug")
    good = tls.authority().issue("/CN=reader", "")
    foreign = tls.stranger().issue("/CN=reader", "")

    def enters(pair) -> bool:
        """Returns whether RSocket's KEEPALIVE is answered, or the reason for which the handshake failed."""
        with socket.create_connection(broker.address, timeout=DEADLINE) as plain:
            context = tls.context(broker.address, pair=pair)
            limit = ssl.TLSVersion.TLSv1_2 if version == "-tls1_2" else ssl.TLSVersion.TLSv1_3
            context.minimum_version = context.maximum_version = limit
            try:
                with context.wrap_socket(plain, server_hostname="localhost") as line:
                    line.sendall(raw.setup() + raw.keepalive(b"x"))
                    return line.recv(1) != b""
            except (ssl.SSLError, ConnectionError):
                return False

    assert enters(good)
    assert (enters(None), enters(foreign)) == (none, other)
    broker.stop()


def zip_options(names, values) -> list[str]:
    return [word for pair in zip(names, values) for word in pair]


# Traffic


def test_rsocket_by_another_library(broker, topic):
    async def scene(a, b):
        sub = subscribe(a, topic)
        await joined(a, topic, 1)
        await publish(b, topic, *numbers(1, 300))
        await sub.count(300)
        assert sub.data == numbers(1, 300)

    two(broker, scene)


def test_many_equal_subscriptions_get_the_same_bytes(broker, connect, b, topic):
    """Messages of all sizes, so that records begin and end at any point."""
    messages = [bytes([i % 251]) * (i * i * 3 % 40_000) for i in range(150)] + [bytes(range(256)) * 4096]
    peers = [connect() for _ in range(5)]
    subs = [peer.subscribe(f"{topic}?buffer=1000") for peer in peers for _ in range(8)]
    b.joined(topic, len(subs))
    b.publish(topic, *messages)
    for sub in subs:
        assert sub.data(len(messages)) == messages


def test_the_kernel_encrypts_where_it_can(start, topic):
    """Otherwise OpenSSL encrypts; the log says which of the two does."""
    with socket.socket() as probe:
        try:
            probe.setsockopt(socket.IPPROTO_TCP, 31, b"tls")  # TCP_ULP
            offered = True
        except OSError as error:
            offered = error.errno == errno.ENOTCONN
    broker = start(*tls.server().options, "--tls-kernel", "--log-level", "debug")
    messages = [bytes([i % 251]) * (i * i * 3 % 40_000) for i in range(100)]
    peer = broker.peer()
    sub = peer.subscribe(f"{topic}?buffer=1000")
    peer.publish(topic, *messages)
    assert sub.data(len(messages)) == messages
    records = [json.loads(line) for line in list(broker.log)]
    assert [one["offered"] for one in records if one["message"] == "kernel TLS"] == [
        "yes" if offered else "no, using OpenSSL"]
    assert {one["kernel"] for one in records if "kernel" in one} == {str(offered).lower()}
    peer.close()
    broker.stop()


@pytest.mark.parametrize("version", ["1.1", "2"])
def test_curl(broker, topic, version):
    curl, big = Curl(broker.http, VERSIONS[version]), bytes(range(256)) * 4096
    try:
        live = curl.stream(path(topic))
        broker.peer().joined(topic, 1)
        reply = curl.publish(topic, big)
        assert (reply.status, reply.version) == (200, "HTTP/" + version)
        assert curl.publish(topic, b"two").status == 200
        first, second = live.messages(2)
        assert base64.b64decode(first.data) == big and second.data == "two"
        whole = curl(path(topic, "replay=all&request=1"), *NDJSON)
        assert whole.status == 200 and len(whole.body) > len(big)
    finally:
        curl.stop()


def test_a_connection_of_http1_is_used_again_and_ends_as_it_should(broker):
    line = Line(broker.http)
    for _ in range(20):
        line.send(GET)
        assert line.answer()[0] == 404
    line.send(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert line.answer()[0] == 404
    # The end is announced: otherwise there would be an ssl.SSLEOFError.
    line.socket.suppress_ragged_eofs = False
    assert line.socket.recv(1) == b""
    line.close()


def test_a_stream_behind_answers_that_are_not_read(broker, a, topic):
    """The stream begins while the client's socket accepts nothing and part of a record is waiting."""
    line = Line(broker.http, receive_buffer=4096)
    line.send(GET * 150 + get(topic))
    a.joined(topic, 1)
    a.numbers(topic, 1, 1)
    for _ in range(150):
        assert line.answer()[0] == 404
    assert line.head()[0] == 200
    line.until(b"data: 1\n")
    line.close()


def test_a_stream_of_http1_ends_as_it_should(broker, a, topic):
    line = Line(broker.http)
    line.send(get(topic))
    assert line.head()[0] == 200 and line.headers["connection"] == "close"
    a.joined(topic, 1)
    a.numbers(topic, 1, 1)
    a.control("$SYS.topic.complete", name=topic)
    assert b"event: complete\n" in b"".join(iter(line.chunk, b""))
    line.socket.suppress_ragged_eofs = False
    assert line.socket.recv(1) == b""
    line.close()


def test_a_client_of_http1_that_goes_ends_its_stream(broker, a, topic):
    line = Line(broker.http)
    line.send(get(topic))
    assert line.head()[0] == 200
    a.joined(topic, 1)
    line.socket.unwrap()
    a.joined(topic, 0)
    line.close()


def test_the_end_is_told_and_answered(broker):
    this = raw.Connection(broker.address)
    this.send(raw.setup())
    this.socket.suppress_ragged_eofs = False
    this.socket.unwrap()  # Raises unless the broker announces its end too.


@pytest.mark.rsocket
def test_a_connection_that_is_cut_off_is_lost(broker, b, topic):
    this = Peer(broker.address)
    this.channel(f"{topic}?complete=true", b"1")
    b.until(topic, lambda info: info["publishers"] == 1)
    under = socket.socket(fileno=this.socket.detach())
    under.settimeout(DEADLINE)
    under.shutdown(socket.SHUT_WR)
    b.until(topic, lambda info: info["publishers"] == 0)
    under.close()
    assert b.info(topic)["state"] == "live"
    logged(broker, "connection closed", "cut off")


def test_keys_may_change_on_the_way(broker, topic):
    """Key updates of both sides, by openssl's commands, with data after them."""
    command = ["openssl", "s_client", "-connect", "%s:%d" % broker.address, "-CAfile", tls.authority().file, "-tls1_3"]
    client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        for word in (b"K\n", b"k\n", b"K\n"):
            client.stdin.write(word)
            client.stdin.flush()
            assert any(b"KEYUPDATE" in line for line in iter(client.stdout.readline, b""))
        client.stdin.write(raw.setup() + raw.keepalive(b"a word to know") + b"\n")
        client.stdin.flush()
        seen = b""
        while b"a word to know" not in seen:
            more = client.stdout.read1(4096)
            assert more, seen
            seen += more
    finally:
        client.kill()
        client.wait()


@pytest.mark.rsocket
def test_who_reads_nothing_costs_little_and_nobody_else(broker, connect, b, topic):
    lazy = connect(receive_buffer=16 << 10)
    lazy.subscribe(topic)
    reader = connect()
    sub = reader.subscribe(f"{topic}?overflow=block&buffer=16")
    b.joined(topic, 2)
    body = bytes(64 << 10)
    b.publish(topic, body)  # The log and the buffers are allocated by now.
    sub.take(1)
    before = broker.status("VmRSS")
    for _ in range(600):  # 38 MiB
        b.publish(topic, body)
        assert sub.data(1) == [body]
    # The topic retains 16 MiB.
    assert broker.status("VmRSS") - before < 26 << 20
