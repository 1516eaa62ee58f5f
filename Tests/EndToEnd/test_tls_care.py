"""Operating TLS, and misusing it: new certificates, unusable files, listeners in the clear, and peers that speak
something else, or stop in the middle."""

import json
import signal
import socket
import ssl
import time

import pytest

import raw
import tls
from client import *
from http1 import GET
from tls import logged, s_client


@pytest.fixture(scope="module")
def broker(start):
    """A broker that speaks TLS on both listeners."""
    this = start(*tls.server().options, "--log-level", "debug")
    yield this
    this.stop()


# New certificates


def certificate(address) -> bytes:
    with socket.create_connection(address, timeout=DEADLINE) as plain:
        with tls.context(address).wrap_socket(plain, server_hostname="localhost") as line:
            return line.getpeercert(binary_form=True)


def test_a_new_certificate_is_for_new_connections(start, tmp_path, topic):
    old, new = tls.authority().issue(), tls.authority().issue()
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"

    def put(pair):
        cert.write_bytes(open(pair.cert, "rb").read())
        key.write_bytes(open(pair.key, "rb").read())

    def reload(word: str):
        before = len(logged_now(word))
        broker.process.send_signal(signal.SIGHUP)
        eventually(lambda: logged_now(word), lambda lines: len(lines) > before)

    def logged_now(word):
        return [line for line in list(broker.log) if json.loads(line)["message"] == word]

    put(old)
    broker = start("--tls-cert", str(cert), "--tls-key", str(key))
    first = certificate(broker.address)
    peer = broker.peer()
    sub = peer.subscribe(topic)
    put(new)
    reload("reloaded")
    second = certificate(broker.address)
    assert second != first and certificate(broker.http) == second
    key.write_text("no key")
    reload("reload refused")
    assert certificate(broker.address) == second
    peer.numbers(topic, 1, 5)
    assert sub.data(5) == numbers(1, 5)
    peer.close()
    broker.stop()


# Misuse


def answer_in_the_clear(address, sent: bytes) -> bytes:
    with socket.create_connection(address, timeout=DEADLINE) as line:
        line.sendall(sent)
        got = b""
        while more := line.recv(4096):
            got += more
        return got


@pytest.mark.rsocket
def test_who_does_not_speak_tls_is_told(broker, a):
    told = answer_in_the_clear(broker.address, raw.setup())
    frame = raw.parse(told[3:])
    assert (frame.stream, frame.kind, frame.code) == (0, raw.ERROR, raw.UNSUPPORTED_SETUP)
    assert "rsockets://" in frame.text
    told = answer_in_the_clear(broker.http, GET)
    assert told.startswith(b"HTTP/1.1 400 ") and b"https://" in told
    logged(broker, "TLS handshakes failed", "does not speak TLS")
    stats = a.subscribe("$SYS.stats")
    # The first report may precede the second failure.
    eventually(lambda: json.loads(stats.data(1)[0])["tls_handshake_failures"], lambda failures: failures >= 2)


def test_who_speaks_tls_to_a_port_that_does_not_is_refused_at_once(start):
    broker = start("--log-level", "debug")
    began = time.monotonic()
    assert "wrong version number" in s_client(broker.address)
    assert time.monotonic() - began < 4
    logged(broker, "does not speak TLS")
    broker.stop()


@pytest.mark.slow
@pytest.mark.parametrize("face", ["address", "http"])
def test_a_handshake_takes_5_seconds_at_most(broker, face):
    """Clients send nothing, the beginning of a record, or a byte now and then."""
    hello = bytes.fromhex("160301020001") + bytes(100)
    lines = [socket.create_connection(getattr(broker, face), timeout=12) for _ in range(3)]
    lines[1].sendall(hello[:50])
    began = time.monotonic()
    lines[2].settimeout(0.5)
    for byte in hello[:50]:
        lines[2].sendall(bytes([byte]))
        try:
            assert lines[2].recv(1) == b""
            break
        except TimeoutError:
            continue
    assert 4 < time.monotonic() - began < 9
    for line in lines[:2]:
        assert line.recv(1) == b""
        line.close()
    assert time.monotonic() - began < 9


@pytest.mark.rsocket
def test_a_flood_of_handshakes_holds_nobody_up(broker, connect, witness, topic):
    """Hundreds of handshakes are begun and abandoned, while others are served."""
    a, b = connect(), connect()
    sub = a.subscribe(topic)
    b.joined(topic, 1)
    hello = ssl_hello()
    lines = []
    for turn in range(300):
        line = socket.create_connection(broker.address, timeout=DEADLINE)
        line.sendall(hello)
        lines.append(line)
        if turn % 30 == 0:
            b.publish(topic, b"%d" % turn)
            assert sub.data(1) == [b"%d" % turn]
    for line in lines:
        line.close()


def ssl_hello() -> bytes:
    """The first bytes of a client."""
    sent = ssl.MemoryBIO()
    this = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        this.do_handshake()
    return sent.read()


@pytest.mark.parametrize("spoilt", [
    b"\x16\x03\x01\x00\x05hello", b"\x16\x03\x01\xff\xff" + bytes(100), bytes([22] * 600)])
@pytest.mark.rsocket
def test_rubbish_for_a_handshake(broker, witness, spoilt):
    line = socket.create_connection(broker.address, timeout=DEADLINE)
    line.sendall(spoilt)
    line.shutdown(socket.SHUT_WR)
    while line.recv(4096):
        pass
    line.close()


@pytest.mark.rsocket
def test_rubbish_behind_a_handshake(broker, witness):
    this = raw.Connection(broker.address)
    this.send(raw.setup())
    under = socket.socket(fileno=this.socket.detach())
    under.settimeout(DEADLINE)
    under.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
    try:
        while under.recv(4096):
            pass
    except ConnectionResetError:
        pass
    under.close()
    logged(broker, "connection closed", "bad record mac")


# Options


def test_files_that_cannot_be_used(start, tmp_path):
    pair, other, missing = tls.server(), tls.stranger().issue(), str(tmp_path / "none.pem")
    rubbish, phrase = tmp_path / "rubbish.pem", str(tmp_path / "phrase.key")
    rubbish.write_text("nothing")
    tls.openssl("pkey", "-in", pair.key, "-aes256", "-passout", "pass:secret", "-out", phrase)

    def refused(cert, key, *more):
        code, words = start.refusal("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--tls-cert", cert,
                                    "--tls-key", key, *more)
        assert code == 2
        return words.removeprefix("forebayd: ")

    # A long path is abbreviated.
    for option, words in (("cert", refused(missing, pair.key)), ("key", refused(pair.cert, missing))):
        assert words.startswith(f"--tls-{option} /") and words.endswith(" cannot be read: No such file or directory")
    words = refused(pair.cert, str(tmp_path))
    assert words.startswith("--tls-key /") and words.endswith(" is a folder: name a file")
    assert refused(str(rubbish), pair.key) == f"{rubbish} has no usable certificate: it has none in PEM"
    assert refused(pair.cert, str(rubbish)) == f"{rubbish} has no usable private key: it has none in PEM"
    assert refused(pair.cert, other.key) == (
        f"the key in {other.key} does not match the certificate in {pair.cert}")
    assert refused(pair.cert, phrase) == (
        f"{phrase} has no usable private key: it is encrypted; use one without a passphrase")
    assert refused(pair.cert, pair.key, "--tls-client-ca", str(rubbish)) == (
        f"{rubbish} has no usable certificate: it has none in PEM")


def test_a_listener_may_stay_in_the_clear(start, topic):
    broker = start(*tls.server().options, "--tls-except", "http")
    assert broker.address[1] in tls.secured and broker.http[1] not in tls.secured
    for transport in ("rsocket", "grpc"):
        peer = broker.peer(transport)
        peer.publish(topic, b"1")
        peer.close()
    broker.stop()
