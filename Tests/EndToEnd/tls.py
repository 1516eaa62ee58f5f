"""TLS in the tests: authorities and certificates that openssl makes for one run, and sockets that use it for brokers
that do."""

import atexit
import base64
import functools
import hashlib
import shutil
import socket
import ssl
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from common import eventually

# Ports of the brokers under test that use TLS. Clients look here, so that each test can run over TLS.
secured: set[int] = set()

CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


def openssl(*arguments: str, **how) -> subprocess.CompletedProcess:
    return subprocess.run(["openssl", *arguments], capture_output=True, timeout=30, **how)


@dataclass
class Pair:
    """A certificate and its key, as files."""

    cert: str
    key: str

    @property
    def options(self) -> tuple[str, ...]:
        """The broker's options for TLS with this pair."""
        return "--tls-cert", self.cert, "--tls-key", self.key

    def fingerprint(self) -> str:
        """SHA-256 of the public key, in the form that Chromium expects."""
        key = openssl("pkey", "-in", self.key, "-pubout", "-outform", "DER").stdout
        return base64.b64encode(hashlib.sha256(key).digest()).decode()


class Authority:
    """Signs certificates. Clients trust it if they are given its file."""

    def __init__(self, name="An authority of tests"):
        self.folder = Path(tempfile.mkdtemp(prefix="forebay-tls-"))
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self.file, self.number = str(self.folder / "ca.pem"), 0
        self.key = str(self.folder / "ca.key")
        done = openssl("req", "-x509", *CURVE, "-days", "2", "-subj", f"/CN={name}", "-keyout", self.key, "-out",
                       self.file, "-addext", "basicConstraints=critical,CA:TRUE")
        assert done.returncode == 0, done.stderr

    def issue(self, subject="/CN=localhost", names="DNS:localhost,IP:127.0.0.1", days=2) -> Pair:
        self.number += 1
        this = Pair(str(self.folder / f"{self.number}.pem"), str(self.folder / f"{self.number}.key"))
        request, extensions = self.folder / f"{self.number}.csr", self.folder / f"{self.number}.ext"
        extensions.write_text(f"subjectAltName={names}\n" if names else "basicConstraints=CA:FALSE\n")
        asked = openssl("req", *CURVE, "-subj", subject, "-keyout", this.key, "-out", str(request))
        assert asked.returncode == 0, asked.stderr
        signed = openssl("x509", "-req", "-in", str(request), "-CA", self.file, "-CAkey", self.key, "-CAcreateserial",
                         "-days", str(days), "-extfile", str(extensions), "-out", this.cert)
        assert signed.returncode == 0, signed.stderr
        return this


@functools.cache
def authority() -> Authority:
    """The authority that clients here trust."""
    return Authority()


@functools.cache
def stranger() -> Authority:
    """An authority that nobody trusts."""
    return Authority("A stranger")


@functools.cache
def server() -> Pair:
    """The certificate of every broker that has no other."""
    return authority().issue()


def context(address, *protocols: str, pair: Pair | None = None, trust: Authority | None = None):
    """The TLS context for the listener at the address; None in the clear."""
    if address[1] not in secured:
        return None
    this = ssl.create_default_context(cafile=(trust or authority()).file)
    if protocols:
        this.set_alpn_protocols(list(protocols))
    if pair:
        this.load_cert_chain(pair.cert, pair.key)
    return this


def wrap(plain: socket.socket, address, *protocols: str, **how) -> socket.socket:
    """The socket itself, or TLS over it."""
    this = context(address, *protocols, **how)
    return this.wrap_socket(plain, server_hostname=address[0]) if this else plain


def trust(address) -> tuple[str, str | bool]:
    """The scheme of a URL with this address, and the trusted certificates in the form that `requests` expects."""
    return ("https", authority().file) if address[1] in secured else ("http", True)


def curl(address, version: list[str]) -> tuple[str, list[str]]:
    """A broker's URL, and curl's options for it."""
    if address[1] not in secured:
        return "http://%s:%d" % address, version
    return "https://%s:%d" % address, ["--cacert", authority().file, version[0].replace("-prior-knowledge", "")]


def s_client(address, *options: str, stdin=b"Q\n", trust=None) -> str:
    done = openssl("s_client", "-connect", "%s:%d" % address, "-CAfile", trust or authority().file, *options,
                       input=stdin)
    return (done.stdout + done.stderr).decode(errors="replace")


def logged(broker, *words: str):
    """Waits for a line of the log with all of these words."""
    return eventually(lambda: [line for line in list(broker.log) if all(word in line for word in words)], bool)
