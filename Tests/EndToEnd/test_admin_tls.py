"""The admin listener over TLS: authentication, requests and responses, and attacks."""

import json
import os
import socket
import ssl
import subprocess
import time

import pytest
import requests

import tls
from admin import Admin, until
from common import DEADLINE, eventually
from test_tls import agreed
from tls import logged, s_client

pytestmark = pytest.mark.rsocket
GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def broker(start):
    this = start(*tls.server().options, "--admin", "127.0.0.1:0", "--log-level", "debug")
    yield this
    this.stop()


@pytest.fixture
def admin(broker):
    return Admin(broker)


# Authentication


@pytest.mark.parametrize("options, good", [
    (["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], False), (["-tls1_2"], True), (["-tls1_3"], True),
    (["-tls1_2", "-cipher", "AES128-SHA"], False), (["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA256"], False),
    (["-tls1_2", "-cipher", "ECDHE-ECDSA-CHACHA20-POLY1305"], True),
], ids=["1.1", "1.2", "1.3", "no forward secrecy", "CBC", "ChaCha"])
def test_versions_and_ciphers(broker, options, good):
    text = s_client(broker.admin, *options)
    assert agreed(text) == good, text


def test_it_speaks_http1_alone(broker):
    assert "ALPN protocol: http/1.1" in s_client(broker.admin, "-alpn", "h2,http/1.1")
    assert "no application protocol" in s_client(broker.admin, "-alpn", "h2")
    assert "No ALPN negotiated" in s_client(broker.admin)


def curl(broker, path, *options, scheme="https"):
    command = ["curl", "-sS", "-m", "10", *options, "%s://%s:%d/%s" % (scheme, *broker.admin, path)]
    done = subprocess.run(command, capture_output=True, timeout=30, text=True)
    return done.returncode, done.stdout, done.stderr


def test_curl_trusts_the_authority_and_no_other(broker):
    trust = ["--cacert", tls.authority().file]
    assert curl(broker, "healthz", *trust) == (0, "ok\n", "")
    assert "forebay_build_info" in curl(broker, "metrics", *trust)[1]
    info = json.loads(curl(broker, "api/v1/info", *trust)[1])
    assert {one["protocol"]: one["tls"] for one in info["listeners"]} == dict(rsocket=True, http=True, admin=True)
    assert info["http_origin"] == "https://%s:%d" % broker.http
    # By the certificate's name too, with that name as Host.
    named = json.loads(curl(broker, "api/v1/info", *trust, "-H", "Host: localhost:%d" % broker.admin[1])[1])
    assert named["http_origin"] == "https://localhost:%d" % broker.http[1]
    code, _, words = curl(broker, "healthz", "--cacert", tls.stranger().file)
    assert code == 60 and "certificate" in words
    code, text, _ = curl(broker, "healthz", scheme="http")
    assert code == 0 and text == "unsupported: This port speaks TLS; connect with https://.\n"


def test_a_listener_may_stay_in_the_clear(begin):
    broker = begin(*tls.server().options, "--admin", "127.0.0.1:0", "--tls-except", "admin")
    assert broker.admin[1] not in tls.secured and broker.http[1] in tls.secured
    assert requests.get("http://%s:%d/healthz" % broker.admin, timeout=DEADLINE).text == "ok\n"
    assert "wrong version number" in s_client(broker.admin)


def test_its_page_may_use_http_and_nobody_elses(broker, admin):
    url = "https://%s:%d/v1/topics/t/messages" % broker.http

    def publish(origin):
        return requests.post(url, data=b"x", headers={"origin": origin}, timeout=DEADLINE,
                             verify=tls.authority().file)

    for host in ("127.0.0.1", "localhost"):
        page = "https://%s:%d" % (host, broker.admin[1])
        allowed = publish(page)
        assert allowed.status_code == 200 and allowed.headers["access-control-allow-origin"] == page
        assert admin("api/v1/info", headers={"host": "%s:%d" % (host, broker.admin[1]),
                                             "origin": page}).status_code == 200
    # Without TLS there is no page of ours.
    assert publish("http://127.0.0.1:%d" % broker.admin[1]).status_code == 403
    admin.problem(admin("api/v1/info", headers={"origin": "https://evil.example"}), 403, "foreign-origin")
    answer = admin("")
    assert f"connect-src 'self' https://127.0.0.1:{broker.http[1]};" in answer.headers["content-security-policy"]
    assert answer.headers["forebay-http"] == "https://%s:%d" % broker.http
    # HSTS would apply to every other service with the same name, on any port.
    assert "strict-transport-security" not in answer.headers


# Requests and responses


def test_a_connection_is_used_again_and_ends_as_it_should(broker):
    line = tls.wrap(socket.create_connection(broker.admin, timeout=DEADLINE), broker.admin)
    line.suppress_ragged_eofs = False
    for _ in range(20):
        line.sendall(GET)
        answer(line)
    line.sendall(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    assert answer(line).endswith(b"ok\n")
    # The end is announced: otherwise there would be an ssl.SSLEOFError.
    assert line.recv(1) == b""
    line.close()


def answer(line) -> bytes:
    got = b""
    while not got.endswith(b"ok\n"):
        more = line.recv(4096)
        assert more, got
        got += more
    return got


def test_large_answers_come_whole_through_small_buffers(broker):
    peer = broker.peer()
    for number in range(300):
        peer.publish(f"large.{number}", b"x")
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.settimeout(DEADLINE)
    plain.connect(broker.admin)
    line = tls.wrap(plain, broker.admin)
    line.sendall(b"GET /metrics?topics=1000 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    got = b""
    while more := line.recv(3000):
        got += more
    head, _, body = got.partition(b"\r\n\r\n")
    assert b"content-length: %d" % len(body) in head.lower() and len(body) > 200_000
    assert body.count(b"forebay_topic_published_total{topic=\"large.") == 300
    line.close()
    peer.close()


def test_a_head_that_can_be_read_in_two_ways_ends_the_connection(broker):
    line = tls.wrap(socket.create_connection(broker.admin, timeout=DEADLINE), broker.admin)
    line.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\n"
                 b"transfer-encoding: chunked\r\n\r\n" + bytes(5000))
    got = b""
    while more := line.recv(4096):
        got += more
    assert got.startswith(b"HTTP/1.1 400 ")
    line.close()


# Attacks


def test_a_handshake_has_its_time(begin):
    """Clients send nothing, the beginning of a record, or a byte now and then."""
    broker = begin(*tls.server().options, "--admin", "127.0.0.1:0", "--setup-time", "700ms")
    hello = bytes.fromhex("160301020001") + bytes(100)
    began = time.monotonic()
    lines = [socket.create_connection(broker.admin, timeout=DEADLINE) for _ in range(3)]
    lines[1].sendall(hello[:50])
    lines[2].settimeout(0.1)
    for byte in hello:
        try:
            lines[2].sendall(bytes([byte]))
            if lines[2].recv(1) == b"":
                break
        except TimeoutError:
            continue
        except ConnectionError:
            break
    else:
        pytest.fail("it continued")
    for line in lines[:2]:
        assert line.recv(1) == b""
    assert time.monotonic() - began > 0.6
    logged(broker, "TLS handshakes failed", "the handshake timed out")
    admin = Admin(broker)
    # A connection whose handshake is complete has the full time limit of a request.
    line = tls.wrap(socket.create_connection(broker.admin, timeout=DEADLINE), broker.admin)
    lines[0].close()
    before = admin.metrics()
    assert before['forebay_tls_handshakes_total{result="failed"}'] == 3
    time.sleep(1)
    line.sendall(GET)
    answer(line)
    assert admin.metrics()['forebay_tls_handshakes_total{result="done"}'] >= 2


@pytest.mark.parametrize("spoilt", [
    b"\x16\x03\x01\x00\x05hello", b"\x16\x03\x01\xff\xff" + bytes(100), bytes([22] * 600), GET, bytes(3), b"\x80\x01"])
def test_rubbish_for_a_handshake(broker, admin, spoilt):
    with socket.create_connection(broker.admin, timeout=DEADLINE) as line:
        line.sendall(spoilt)
        line.shutdown(socket.SHUT_WR)
        while line.recv(4096):
            pass
    assert admin("healthz").text == "ok\n"


def test_rubbish_behind_a_handshake(broker, admin):
    line = tls.wrap(socket.create_connection(broker.admin, timeout=DEADLINE), broker.admin)
    line.sendall(GET)
    answer(line)
    under = socket.socket(fileno=line.detach())
    under.settimeout(DEADLINE)
    under.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
    try:
        while under.recv(4096):
            pass
    except ConnectionResetError:
        pass
    under.close()
    assert admin("healthz").text == "ok\n"


def ended(line) -> bool:
    try:
        line.setblocking(False)
        return line.recv(1) == b""
    except (BlockingIOError, ssl.SSLWantReadError):
        return False
    except OSError:
        return True


@pytest.mark.parametrize("shake", [False, True], ids=["in their handshake", "behind it"])
def test_silent_connections_are_bounded_and_keep_nobody_out_for_ever(begin, shake):
    broker = begin(*tls.server().options, "--admin", "127.0.0.1:0", "--setup-time", "1m")
    admin = Admin(broker)
    assert admin("healthz").text == "ok\n"  # The broker's threads have allocated all they need.
    admin.session.close()
    before = open_files(broker)
    held = []
    for _ in range(100):
        plain = socket.create_connection(broker.admin, timeout=DEADLINE)
        try:
            held.append(tls.wrap(plain, broker.admin) if shake else plain)
        except OSError:
            held.append(plain)
    until(lambda: sum(map(ended, held)) >= 36, "64 are kept, and the others closed")
    assert sum(map(ended, held)) <= 37  # Including the first, whose end nobody had noticed.
    for one in held:
        one.close()

    def answers():
        try:
            return admin("healthz").status_code == 200
        except requests.ConnectionError:  # The listener has not noticed yet that there is room.
            return False

    until(answers, "it answers again")
    admin.session.close()
    eventually(lambda: open_files(broker) - before, lambda more: not more)


def open_files(broker) -> set[tuple[str, str]]:
    """Descriptors and their names."""
    folder = f"/proc/{broker.pid}/fd"
    found = set()
    for number in os.listdir(folder):
        try:
            found.add((number, os.readlink(f"{folder}/{number}")))
        except FileNotFoundError:  # Just closed.
            continue
    return found


def test_who_is_cut_off_and_who_reads_nothing_cost_nobody(broker, admin):
    lines = []
    for number in range(20):
        line = tls.wrap(socket.create_connection(broker.admin, timeout=DEADLINE), broker.admin)
        line.sendall(b"GET /script.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50)
        lines.append(line)
    assert admin("healthz").text == "ok\n"
    for number, line in enumerate(lines):
        if number % 2:  # With a reset.
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        line.close()
    for _ in range(10):
        assert admin("healthz").text == "ok\n"
