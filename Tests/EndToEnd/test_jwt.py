"""Tokens made by PyJWT: with each algorithm, and every known attack on them."""

import base64
import hashlib
import hmac
import json
import time

import grpc
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

import raw
from access import *
from common import DEADLINE
from curl import VERSIONS, Curl, path

SECRET = b"0123456789abcdef0123456789abcdef"
PRIVATE = {"RS256": rsa.generate_private_key(65537, 2048), "ES256": ec.generate_private_key(ec.SECP256R1()),
           "EdDSA": ed25519.Ed25519PrivateKey.generate(), "HS256": SECRET}
ANOTHER = {"RS256": rsa.generate_private_key(65537, 2048), "ES256": ec.generate_private_key(ec.SECP256R1()),
           "EdDSA": ed25519.Ed25519PrivateKey.generate(), "HS256": b"x" * 32}


def public(algorithm: str) -> bytes:
    """The broker's half of a key."""
    key = PRIVATE[algorithm]
    if algorithm == "HS256":
        return key
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


@pytest.fixture(scope="module")
def broker(start, tmp_path_factory):
    folder = tmp_path_factory.mktemp("jwt")
    for algorithm in PRIVATE:
        (folder / algorithm).write_bytes(public(algorithm))
    keys = [dict(id=algorithm.lower(), algorithm=algorithm, file=algorithm) for algorithm in PRIVATE]
    this = start("-c", str(write(folder, {
        "jwt": dict(audience="forebay", issuer="login", keys=keys),
        "users": [dict(name="carol", publish=["carol.>"])],
    })))
    yield this
    this.stop()


def claims(**changed) -> dict:
    """The claims of a valid token; None leaves one out."""
    good = dict(sub="alice", aud="forebay", iss="login", exp=time.time() + 600, forebay=dict(publish=["t.>"]))
    return {name: value for name, value in (good | changed).items() if value is not None}


def signed(algorithm: str = "EdDSA", key=None, headers=None, **changed) -> str:
    key = key or PRIVATE[algorithm]
    named = {"kid": algorithm.lower()} | (headers or {})
    return jwt.encode(claims(**changed), key, algorithm=algorithm,
                      headers={name: value for name, value in named.items() if value is not None})


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def forged(header: dict, secret: bytes = b"", **changed) -> str:
    """A token that no library would make, signed with HMAC."""
    text = f"{base64url(json.dumps(header).encode())}.{base64url(json.dumps(claims(**changed)).encode())}"
    return text + "." + base64url(hmac.new(secret, text.encode(), hashlib.sha256).digest() if secret else b"")


def publish(broker, token: str, topic: str = "t.a") -> int:
    return Curl(broker.http, VERSIONS["1.1"]).publish(topic, b"x", "-H", f"authorization: Bearer {token}").status


@pytest.mark.parametrize("algorithm", PRIVATE)
def test_tokens_of_each_algorithm_over_each_protocol(broker, algorithm):
    for headers in ({}, {"kid": None}):
        token = signed(algorithm, headers=headers)
        assert publish(broker, token) == 200
        assert publish(broker, token, "other") == 403
    peer = rsocket(broker, bearer(token))
    assert refused(lambda: peer.offer("t.a", b"x").sequence()) is None
    assert refused(lambda: peer.subscribe("t.a").event()).startswith("0x202 forbidden: User 'alice' may not subscribe")
    peer.close()
    with Calls(broker, f"Bearer {token}") as calls:
        request = pb.PublishOneRequest(topic="t.a", message=pb.Message(payload=b"x"))
        assert calls.refusal(lambda how: calls.pubsub.PublishOne(request, **how)) is None


def test_a_token_without_permissions_has_those_of_its_user(broker):
    token = signed(sub="carol", forebay=None)
    assert (publish(broker, token, "carol.a"), publish(broker, token, "t.a")) == (200, 403)
    assert publish(broker, signed(sub="dave", forebay=None), "t.a") == 401


ATTACKS = {
    "none": lambda: forged({"alg": "none"}),
    "None": lambda: forged({"alg": "None", "kid": "hs256"}),
    "no signature": lambda: signed("HS256").rsplit(".", 1)[0] + ".",
    "HS256 with the public key of RS256": lambda: forged({"alg": "HS256", "kid": "rs256"}, public("RS256")),
    "the same without a key's name": lambda: forged({"alg": "HS256"}, public("RS256")),
    "HMAC that calls itself RS256": lambda: forged({"alg": "RS256", "kid": "rs256"}, public("RS256")),
    "HS256 with the public key of EdDSA": lambda: forged({"alg": "HS256", "kid": "eddsa"}, public("EdDSA")),
    "RS256 under the name of the secret": lambda: signed("RS256", headers={"kid": "hs256"}),
    "an unknown key": lambda: signed(headers={"kid": "other"}),
    "an extension": lambda: signed(headers={"crit": ["x"], "x": 1}),
    "expired": lambda: signed(exp=time.time() - 1),
    "without an end": lambda: signed(exp=None),
    "not yet": lambda: signed(nbf=time.time() + 600),
    "for others": lambda: signed(aud="other"),
    "for nobody": lambda: signed(aud=None),
    "by others": lambda: signed(iss="other"),
    "without a name": lambda: signed(sub=None),
    "with a name that is none": lambda: signed(sub="a:b"),
    "with permissions that are none": lambda: signed(forebay=dict(publish=["a..b"])),
    "with a key of its own": lambda: signed(key=ANOTHER["EdDSA"], headers={"jwk": {"kty": "OKP"}, "jku": "http://x/"}),
    "another's signature": lambda: signed().rsplit(".", 1)[0] + "." + signed(sub="eve").rsplit(".", 1)[1],
    "too long": lambda: signed(sub="alice", filler="x" * 9000),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks(start, tmp_path, attack):
    # One broker each, because failures are slowed.
    for algorithm in PRIVATE:
        (tmp_path / algorithm).write_bytes(public(algorithm))
    keys = [dict(id=algorithm.lower(), algorithm=algorithm, file=algorithm) for algorithm in PRIVATE]
    broker = start("-c", str(write(tmp_path, {"jwt": dict(audience="forebay", issuer="login", keys=keys)})))
    token = ATTACKS[attack]()
    assert publish(broker, token) == 401
    with pytest.raises(Rejected):
        rsocket(broker, bearer(token))
    with Calls(broker, f"Bearer {token}") as calls:
        request = pb.PublishOneRequest(topic="t.a", message=pb.Message(payload=b"x"))
        code = calls.refusal(lambda how: calls.pubsub.PublishOne(request, **how))
        assert code == grpc.StatusCode.UNAUTHENTICATED
    assert publish(broker, signed()) == 200
    broker.stop()


@pytest.mark.parametrize("algorithm", PRIVATE)
def test_another_key_of_the_same_kind(start, tmp_path, algorithm):
    (tmp_path / "key").write_bytes(public(algorithm))
    broker = start("-c", str(write(tmp_path, {"jwt": {"keys": [dict(id="a", algorithm=algorithm, file="key")]}})))
    for key, status in ((ANOTHER[algorithm], 401), (PRIVATE[algorithm], 200)):
        assert publish(broker, signed(algorithm, key, headers={"kid": "a"}, aud=None)) == status
    # Without a configured audience, a token with an audience is meant for another service.
    assert publish(broker, signed(algorithm, headers={"kid": "a"})) == 401
    broker.stop()


def test_what_a_token_opened_ends_with_it(broker):
    # Long enough to open everything, however slow the machine is.
    token = signed(exp=time.time() + 8, forebay=dict(publish=["t.>"], subscribe=["t.>"]))
    peer = rsocket(broker, bearer(token))
    peer.subscribe("t.end")
    stream = Curl(broker.http, VERSIONS["2"]).stream(path("t.end"), "-H", f"authorization: Bearer {token}")
    with Calls(broker, f"Bearer {token}") as calls:
        opening = pb.SubscribeRequest(open=pb.Open(topic="t.end", request_n=1))
        with pytest.raises(grpc.RpcError) as error:
            for _ in calls.pubsub.Subscribe(endless(opening), metadata=calls.metadata, timeout=30):
                pass
        assert error.value.code() == grpc.StatusCode.UNAUTHENTICATED
        assert error.value.details().startswith("unauthenticated: The token has expired")
    end = peer.frame(0)
    assert (end.code, end.text) == (0x101, "unauthenticated: The token has expired; get a new one.")
    events = []
    while event := stream.event(DEADLINE):
        events.append(event)
    assert (events[-1].kind, "The token has expired" in events[-1].data) == ("failed", True)
    stream.kill()


def endless(*requests):
    yield from requests
    while True:
        time.sleep(0.05)
        yield pb.SubscribeRequest(request_n=1)


@pytest.mark.parametrize("algorithm, material, words", [
    ("RS256", "ES256", "RS256 takes an RSA key"), ("ES256", "EdDSA", "ES256 takes a key on the curve P-256"),
    ("EdDSA", "RS256", "EdDSA takes an Ed25519 key"), ("HS256", "RS256", "HS256 takes a secret"),
    ("RS256", "HS256", "the file contains no public key in PEM"),
])
def test_keys_that_do_not_fit_are_refused_at_the_start(start, tmp_path, algorithm, material, words):
    (tmp_path / "key").write_bytes(public(material))
    file = write(tmp_path, {"jwt": {"keys": [dict(id="a", algorithm=algorithm, file="key")]}})
    code, told = start.refusal("-t", "-c", str(file))
    assert code == 2 and words in told and SECRET.decode() not in told, told
