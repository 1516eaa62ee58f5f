"""Certificates and the admin listener: the broker's own, with a warning before it expires, and those that identify
clients."""

import datetime
import json
import shutil
import signal
import socket
import ssl
import subprocess
import time
from pathlib import Path

import pytest
import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

import access
import tls
from admin import Admin, until
from common import DEADLINE
from prometheus import Prometheus
from test_admin_tls import GET, answer

pytestmark = pytest.mark.rsocket


def shown(address) -> bytes:
    with socket.create_connection(address, timeout=DEADLINE) as plain:
        with tls.context(address).wrap_socket(plain, server_hostname="localhost") as line:
            return line.getpeercert(binary_form=True)


def told(broker, message: str) -> list[dict]:
    return [one for one in map(json.loads, list(broker.log)) if one["message"] == message]


def ends(pair) -> int:
    with open(pair.cert) as file:
        text = subprocess.run(["openssl", "x509", "-noout", "-enddate"], stdin=file, capture_output=True, text=True)
    return int(ssl.cert_time_to_seconds(text.stdout.strip().removeprefix("notAfter=")))


def test_a_new_certificate_cuts_nobody_and_its_end_is_told(begin, tmp_path):
    old, new = (tls.authority().issue(f"/CN=localhost/O={word}", days=days) for word, days in (("old", 5), ("new", 90)))
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"

    def put(pair):
        shutil.copy(pair.cert, cert)
        shutil.copy(pair.key, key)

    put(old)
    broker = begin("--tls-cert", str(cert), "--tls-key", str(key), "--admin", "127.0.0.1:0")
    admin = Admin(broker)

    def expiry():
        return admin.metrics()["forebay_tls_certificate_expiry_timestamp_seconds"]

    def date(pair):
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ends(pair)))

    assert expiry() == ends(old)
    assert [(one["subject"], one["until"]) for one in told(broker, "TLS certificate")] == [
        ("O=old,CN=localhost", date(old))]
    warned = told(broker, "TLS certificate needs renewal")
    assert [(one["level"], one["subject"]) for one in warned] == [("warn", "O=old,CN=localhost")]
    assert warned[0]["cause"] in ("it expires in 4 days", "it expires in 5 days")  # Depending on the second.
    first = shown(broker.admin)
    line = tls.wrap(socket.create_connection(broker.admin, timeout=DEADLINE), broker.admin)
    line.sendall(GET)
    answer(line)
    put(new)
    broker.process.send_signal(signal.SIGHUP)
    until(lambda: told(broker, "reloaded"), "it is reloaded")
    assert shown(broker.admin) != first
    line.sendall(GET)
    assert answer(line).startswith(b"HTTP/1.1 200 ")
    line.close()
    assert expiry() == ends(new)
    assert [one["until"] for one in told(broker, "TLS certificate")] == [date(old), date(new)]
    assert len(told(broker, "TLS certificate needs renewal")) == 1
    key.write_text("no key")
    broker.process.send_signal(signal.SIGHUP)
    until(lambda: told(broker, "reload refused"), "it is refused")
    assert expiry() == ends(new) and len(told(broker, "TLS certificate")) == 2


def test_the_check_of_the_settings_refuses_a_certificate_that_has_ended(start, tmp_path):
    """A check of the configuration before a restart must report it."""
    pair = tls.authority().issue()
    ended, key = tmp_path / "ended.pem", serialization.load_pem_private_key(Path(pair.key).read_bytes(), None)
    name, now = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "old")]), datetime.datetime.now(datetime.UTC)
    certificate = x509.CertificateBuilder(name, name, key.public_key(), 1, now - datetime.timedelta(days=9),
                                          now - datetime.timedelta(minutes=1)).sign(key, hashes.SHA256())
    ended.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    command = [start.executable(), "-t", "--tls-cert", str(ended), "--tls-key", pair.key]
    done = subprocess.run(command, capture_output=True,
                          text=True, timeout=30)
    assert done.returncode == 2 and done.stderr.startswith("forebayd: the certificate of CN=old expired at ")
    assert done.stdout == ""


def test_the_check_of_the_settings_warns_too(start):
    pair = tls.authority().issue(days=1)
    done = subprocess.run([start.executable(), "-t", *pair.options], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0
    words = "forebayd: the certificate of CN=localhost needs renewal: it expires in "
    assert done.stderr in (words + "less than a day\n", words + "1 day\n")


def test_a_certificate_says_who_asks(begin, tmp_path):
    path = access.write(tmp_path, {"users": [
        {"name": "operator", "certificate": "operator", "control": [">", "$SYS.>"]},
        {"name": "watcher", "certificate": "CN=watcher,O=Example", "control": ["$SYS.stats"]},
        {"name": "other", "token": access.token_hash("other's"), "control": ["$SYS.topics"]},
    ]})
    broker = begin("-c", str(path), *tls.server().options, "--admin", "127.0.0.1:0",
                   "--tls-client-ca", tls.authority().file, "--tls-verify-client", "optional")
    pairs = {name: tls.authority().issue(subject, "") for name, subject in [
        ("operator", "/CN=operator"), ("watcher", "/O=Example/CN=watcher"), ("nobody", "/CN=nobody")]}

    def ask(path, who=None, method="GET", **headers):
        pair = pairs.get(who)
        return Admin(broker)(path, method, headers=headers, cert=(pair.cert, pair.key) if pair else None).status_code

    asked = {(who, path): ask(path, who) for who in (None, *pairs) for path in ("healthz", "metrics", "api/v1/topics")}
    assert asked == {
        (None, "healthz"): 200, (None, "metrics"): 401, (None, "api/v1/topics"): 401,
        ("operator", "healthz"): 200, ("operator", "metrics"): 200, ("operator", "api/v1/topics"): 200,
        ("watcher", "healthz"): 200, ("watcher", "metrics"): 200, ("watcher", "api/v1/topics"): 403,
        ("nobody", "healthz"): 200, ("nobody", "metrics"): 401, ("nobody", "api/v1/topics"): 401}
    # An Authorization header takes precedence over the certificate, whether it is right or wrong.
    assert ask("metrics", "operator", authorization="Bearer other's") == 403
    assert ask("metrics", "operator", authorization="Bearer nobody's") == 401
    # A certificate from another authority is as bad as no TLS.
    foreign = tls.stranger().issue("/CN=operator", "")
    with pytest.raises(requests.ConnectionError):
        Admin(broker)("healthz", cert=(foreign.cert, foreign.key))
    # A revoked permission takes effect at once, also on open connections.
    session = Admin(broker)
    session.session.cert = (pairs["operator"].cert, pairs["operator"].key)
    assert session("metrics").status_code == 200
    access.write(tmp_path, {"users": [{"name": "operator", "certificate": "another", "control": [">", "$SYS.>"]}]})
    broker.process.send_signal(signal.SIGHUP)
    until(lambda: told(broker, "reloaded"), "it is reloaded")
    assert session("metrics").status_code == 401


def test_where_certificates_are_required_nobody_is_served_without(begin):
    broker = begin(*tls.server().options, "--admin", "127.0.0.1:0", "--tls-client-ca", tls.authority().file)
    with pytest.raises(requests.ConnectionError):
        Admin(broker)("healthz")
    pair = tls.authority().issue("/CN=anybody", "")
    assert Admin(broker)("healthz", cert=(pair.cert, pair.key)).text == "ok\n"


def test_a_real_prometheus_scrapes_over_tls_and_sees_the_certificate_end(begin, topic, tmp_path):
    broker = begin(*tls.server().options, "--admin", "127.0.0.1:0")
    broker.peer().numbers(topic, 1, 3)
    server = Prometheus(broker.admin, tmp_path, scheme="https", tls_config={"ca_file": tls.authority().file})
    try:
        server.until('up{job="forebay"}', 1)
        server.until(f'forebay_topic_published_total{{topic="{topic}"}}', 3)
        server.until("forebay_tls_certificate_expiry_timestamp_seconds", ends(tls.server()))
        server.until('count(ALERTS{alertname="ForebayCertificateEnding"})', 1)
    finally:
        server.close()
    other = tmp_path / "other"
    other.mkdir()
    server = Prometheus(broker.admin, other, scheme="https", tls_config={"ca_file": tls.stranger().file})
    try:
        server.until('up{job="forebay"}', 0)
    finally:
        server.close()
