"""forebay over TLS: which brokers it trusts, which certificate it presents, and its messages if the handshake fails."""

from contextlib import closing

import pytest

import tls
from access import token_hash, write
from commands import Commands


@pytest.fixture(scope="module")
def broker(start):
    """A broker that requires client certificates."""
    this = start(*tls.server().options, "--tls-client-ca", tls.authority().file)
    yield this
    this.stop()


@pytest.fixture(params=["rsockets", "https"])
def cli(request, broker):
    this = Commands(broker.address if request.param == "rsockets" else broker.http, request.param)
    yield this
    for process in this.started:
        process.kill()
        process.wait()


def known() -> list[str]:
    """The options of a client that trusts the broker and that the broker trusts."""
    pair = tls.authority().issue("/CN=reader", "")
    return ["--ca", tls.authority().file, "--cert", pair.cert, "--key", pair.key]


def refused(cli, *words) -> tuple[int, str]:
    done = cli.run(*words)
    assert done.stdout == b""
    return done.returncode, done.stderr.decode().strip().removeprefix("forebay: ")


def test_publishing_and_subscribing(cli):
    who, topic = known(), f"cli.tls.{cli.url.partition(':')[0]}"
    big = b"x" * 900_000
    assert cli.ok("pub", topic, "--ack", "--stdin", *who, stdin=big + b"\ntwo\n")
    assert cli.ok("sub", topic, "--replay", "all", "--count", "2", "--format", "raw", *who) == big + b"two"


def test_who_is_not_trusted(cli):
    pair = tls.authority().issue("/CN=reader", "")
    shown = ["--cert", pair.cert, "--key", pair.key]
    code, words = refused(cli, "ping", "--count", "1", *shown)
    assert code == 3 and words.startswith("The certificate of 127.0.0.1 is not trusted: ") and "--ca" in words
    code, words = refused(cli, "ping", "--count", "1", *shown, "--ca", tls.stranger().file)
    assert code == 3 and words.startswith("The certificate of 127.0.0.1 is not trusted: ")
    cli.ok("ping", "--count", "1", *shown, "--insecure")


def test_a_certificate_for_another_host(start):
    broker = start("--tls-cert", (pair := tls.authority().issue(names="DNS:example.org")).cert, "--tls-key", pair.key)
    code, words = refused(Commands(broker.address, "rsockets"), "ping", "--count", "1", "--ca", tls.authority().file)
    assert (code, words) == (
        3, "The certificate of %s:%d is for another host; connect by a name in the certificate." % broker.address)
    broker.stop()


def test_a_certificate_that_has_ended(start):
    """Trusting another authority would not help."""
    pair = tls.authority().issue(days=0)
    broker = start(*pair.options)
    code, words = refused(Commands(broker.address, "rsockets"), "ping", "--count", "1", "--ca", tls.authority().file)
    assert code == 3 and words.startswith("The certificate of 127.0.0.1 is not valid now: certificate has expired.")
    assert "Renew" in words and "--ca" not in words
    broker.stop()


@pytest.mark.parametrize("scheme", ["rsockets", "https"])
def test_a_broker_that_has_all_its_connections(start, scheme):
    """No error message can be sent before the handshake."""
    broker = start(*tls.server().options, "--max-connections", "1")
    with closing(broker.peer()):
        cli = Commands(broker.address if scheme == "rsockets" else broker.http, scheme)
        code, words = refused(cli, "ping", "--count", "1", "--ca", tls.authority().file)
    assert code == 3 and "connection limit" in words and words.endswith("Try again later.")
    broker.stop()


def test_who_shows_no_certificate_or_a_strangers(cli):
    pair = tls.stranger().issue("/CN=reader", "")
    told = refused(cli, "ping", "--count", "1", "--ca", tls.authority().file)
    assert told == (1, "The broker refused the connection: It requires a client certificate, and none was sent.")
    told = refused(cli, "ping", "--count", "1", "--ca", tls.authority().file, "--cert", pair.cert, "--key", pair.key)
    assert told == (1, "The broker refused the connection: It does not trust the client certificate.")


def test_the_wrong_scheme(broker):
    code, words = refused(Commands(broker.address, "rsocket"), "ping", "--count", "1")
    assert (code, words) == (3, "The server answered: unsupported: This port speaks TLS; connect with rsockets://.")
    code, words = refused(Commands(broker.address, "rsocket"), "ping", "--ca", "x")
    assert code == 2 and "--url rsockets://" in words


def test_files_that_cannot_be_used(cli):
    assert refused(cli, "ping", "--ca", "/nowhere.pem") == (
        2, "TLS: cannot read the certificate authorities in /nowhere.pem: No such file or directory.")
    assert refused(cli, "ping", "--key", "/nowhere.key") == (2, "--key needs its certificate; give --cert too.")


# Users by certificate


@pytest.fixture(scope="module")
def guarded(start, tmp_path_factory):
    """The reader has a certificate and the writer a token; client certificates are optional."""
    users = [dict(name="reader", certificate="reader", subscribe=["cli.>"]),
             dict(name="writer", token=token_hash("writer's"), publish=["cli.>"])]
    file = write(tmp_path_factory.mktemp("users"), {"users": users})
    this = start("-c", str(file), *tls.server().options, "--tls-client-ca", tls.authority().file, "--tls-verify-client",
                 "optional")
    yield this
    this.stop()


@pytest.mark.parametrize("scheme", ["rsockets", "https"])
def test_a_certificate_shows_who_a_user_is(guarded, scheme, tmp_path):
    topic, trusting = f"cli.users.{scheme}", ["--ca", tls.authority().file]
    (tmp_path / "token").write_text("writer's")
    cli = Commands(guarded.address if scheme == "rsockets" else guarded.http, scheme)
    cli.ok("pub", topic, "hello", "--ack", *trusting, "--token-file", str(tmp_path / "token"))
    assert cli.ok("sub", topic, "--replay", "1", "--count", "1", "--format", "raw", *known()) == b"hello"
    code, words = refused(cli, "pub", topic, "mine", "--ack", *known())
    assert code == 1 and "publish" in words
    # A fire-and-forget publish that was refused is not reported as accepted either.
    code, words = refused(cli, "pub", topic, "mine", *known())
    assert code == 1 and "may not publish to" in words
    # Without a certificate, and with one from the same authority but with another name.
    other = tls.authority().issue("/CN=writer", "")
    for shown in ([], ["--cert", other.cert, "--key", other.key]):
        code, words = refused(cli, "sub", topic, "--count", "1", *trusting, *shown)
        assert code == 1 and "credentials" in words.lower(), words
