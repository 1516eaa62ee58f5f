"""Users of a broker under test: their configuration, and what they do over each protocol.

Each action returns None if it was allowed, or the reason for which it was refused.
"""

import base64
import hashlib
import json
import os
import subprocess

import grpc

import raw
from client import Peer
from common import End, StreamError
from grpc_client import pb, services

AUTHENTICATION = 0x7C


def simple(user: str, password: str) -> bytes:
    name = user.encode()
    return raw.entry(AUTHENTICATION, b"\x80" + len(name).to_bytes(2, "big") + name + password.encode())


def bearer(token: str) -> bytes:
    return raw.entry(AUTHENTICATION, b"\x81" + token.encode())


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def token_hash(token: str) -> str:
    return "sha256:" + hashlib.sha256(token.encode()).hexdigest()


def password_hash(forebayd: str, password: str) -> str:
    """The hash of a password, made by forebayd itself."""
    done = subprocess.run([forebayd, "--hash-password"], input=password.encode() + b"\n", timeout=30,
                          capture_output=True,
                          env=dict(os.environ, SWIFT_BACKTRACE="enable=no"))
    assert done.returncode == 0 and done.stdout.startswith(b"$y$"), done
    return done.stdout.decode().strip()


def write(folder, settings: dict):
    """Writes a configuration file as JSON, which is valid YAML."""
    path = folder / "forebayd.yaml"
    path.write_text(json.dumps(settings, indent=1))
    return path


class Rejected(Exception):
    """The broker refused a login."""


def rsocket(broker, entry: bytes | None, **options) -> Peer:
    """An RSocket connection whose login was accepted. Raises `Rejected` otherwise."""
    peer = Peer(broker.address, metadata=entry, **options)
    stream = peer.call("$SYS.info")
    try:
        peer.answer(stream)
    except raw.Closed:
        refusal = peer.frame(0)
        assert (refusal.kind, refusal.code) == (raw.ERROR, 0x003), refusal
        raise Rejected(refusal.text) from None
    return peer


class Calls:
    """The broker's gRPC services, with `authorization` metadata on every call."""

    def __init__(self, broker, authorization: str | None = None):
        self.channel = grpc.insecure_channel("%s:%d" % broker.http)
        self.pubsub, self.admin = services.PubSubStub(self.channel), services.AdminStub(self.channel)
        self.metadata = [("authorization", authorization)] if authorization else []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def refusal(self, call) -> grpc.StatusCode | None:
        """The status of `call(metadata)`: of the whole call, or of a stream up to its first response."""
        try:
            call(dict(metadata=self.metadata, timeout=20))
        except grpc.RpcError as error:
            return error.code()
        return None


def refused(action) -> str | None:
    """The reason for which an RSocket request was refused."""
    try:
        ended = action()
    except StreamError as error:
        return f"{error.code:#x} {error.text}"
    return f"{ended.code:#x} {ended.text}" if isinstance(ended, End) and ended.code else None


__all__ = [name for name in dir() if not name.startswith("_")]
