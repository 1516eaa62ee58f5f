"""The broker's client of NATS, with a real nats-server, and with nats-py on the other side."""

import asyncio
import signal

import nats
import nkeys
import pytest
from nats.js.api import RePublish, StreamConfig

import tls
from nats_server import Exerciser, Server, credentials, key, token


@pytest.fixture
def serve(tmp_path):
    """Starts servers, which are stopped after the test."""
    servers = []

    def one(configuration: str = "", **more) -> Server:
        servers.append(Server(tmp_path / f"server-{len(servers)}", configuration, **more))
        return servers[-1]

    yield one
    for server in servers:
        server.stop()


@pytest.fixture
def connect():
    """Starts connections of ours, which are closed after the test."""
    clients = []

    def one(url: str, *options: str) -> Exerciser:
        clients.append(Exerciser(url, *options))
        return clients[-1]

    yield one
    for client in clients:
        client.close()


def use(url: str, body, **options):
    """Runs `body` with a connection of nats-py."""

    async def main():
        client = await nats.connect(url, allow_reconnect=False, **options)
        try:
            return await asyncio.wait_for(body(client), 30)
        finally:
            await client.close()

    return asyncio.run(main())


def works(client: Exerciser, tls: bool = False) -> None:
    """A message goes to the server and back."""
    assert client.until("ready")[2] == str(tls).lower()
    client.command("sub", "round.trip", "-", 1)
    client.command("pub", "round.trip", "-", "-", "01ff")
    assert client.message() == ("round.trip", "1", "-", {}, b"\x01\xff")


def test_the_server_is_described(serve, connect):
    client = connect(serve().url())
    assert client.until("info") == ["info", "0", "true", "true", "false"]
    assert client.until("ready")[1:] == ["2.15.1", "false"]
    assert connect(serve(jetstream=False).url()).until("info")[3] == "false"


def test_messages_go_both_ways(serve, connect):
    server = serve()
    client = connect(server.url())
    works(client)

    async def body(other):
        received = await other.subscribe("to.other")
        await other.flush()
        client.command("sub", "to.*", "-", 7)
        client.command("sub", "to.us", "workers", 8)
        client.flush()
        client.command("pub", "to.other", "answer.here", "A=1,B=two,A=3", "00" * 100_000)
        first = await received.next_msg(10)
        assert (first.subject, first.reply, first.data) == ("to.other", "answer.here", bytes(100_000))
        # nats-py keeps one value of each name.
        assert first.headers["B"] == "two" and first.headers["A"] in ("1", "3")
        assert client.message()[3] == {"": [""], "A": ["1", "3"], "B": ["two"]}

        await other.publish("to.us", b"\r\nMSG x 1 0\r\n", "back", headers={"Name": " value "})
        await other.flush()
        seen = sorted(client.message() for _ in range(2))
        assert [message[1] for message in seen] == ["7", "8"]
        assert seen[0][2:] == ("back", {"": [""], "Name": ["value"]}, b"\r\nMSG x 1 0\r\n")

        client.command("unsub", 8, "-")
        client.command("unsub", 7, 5)
        client.flush()
        for number in range(10):
            await other.publish("to.us", str(number).encode())
        await other.flush()
        seen = [client.message()[4] for _ in range(3)]
        assert seen == [b"0", b"1", b"2"]
        client.flush()
        assert client.lines.empty()

    use(server.url(), body)


def test_requests_without_an_answer_are_noticed(serve, connect):
    client = connect(serve().url())
    client.until("ready")
    client.command("sub", "inbox", "-", 1)
    client.command("pub", "nobody", "inbox", "-", "-")
    subject, _, _, headers, payload = client.message()
    assert (subject, headers[""], payload) == ("inbox", ["503"], b"")


def test_stored_messages_are_read(serve, connect):
    server = serve()

    async def body(other):
        stream = other.jetstream()
        await stream.add_stream(StreamConfig(
            name="S", subjects=["p.*"], allow_direct=True, republish=RePublish(src="p.*", dest="live.{{wildcard(1)}}")))
        client = connect(server.url())
        client.until("ready")
        client.command("sub", "live.>", "-", 1)
        client.command("sub", "inbox", "-", 2)
        client.flush()
        for number in range(3):
            client.command("pub", "p.a", "-", f"Nats-Msg-Id={number}", f"{number:02x}")
        for number in range(3):
            subject, _, _, headers, payload = client.message()
            assert (subject, payload) == ("live.a", bytes([number]))
            assert headers["Nats-Sequence"] == [str(number + 1)] and headers["Nats-Msg-Id"] == [str(number)]

        # A batch of direct gets ends with a message of status 204.
        request = b'{"seq":1,"batch":10,"next_by_subj":"p.a"}'.hex()
        client.command("pub", "$JS.API.DIRECT.GET.S", "inbox", "-", request)
        for number in range(3):
            _, _, _, headers, payload = client.message()
            assert payload == bytes([number]) and headers["Nats-Sequence"] == [str(number + 1)]
        assert client.message()[3][""][0].startswith("204")
        client.command("pub", "$JS.API.DIRECT.GET.S", "inbox", "-", b'{"seq":9}'.hex())
        assert client.message()[3][""][0].startswith("404")
        assert (await stream.stream_info("S")).state.messages == 3

    use(server.url(), body)


# Authentication


def rejected(client: Exerciser) -> None:
    assert client.until("failed")[1] == "unauthenticated:"


def test_passwords_and_tokens(serve, connect):
    server = serve('authorization { user: "al:ice", password: "s@cret" }')
    works(connect(server.url("al%3Aice:s%40cret")))
    rejected(connect(server.url("al%3Aice:wrong")))
    rejected(connect(server.url()))
    server = serve('authorization { token: "T0ken" }')
    works(connect(server.url("T0ken")))
    rejected(connect(server.url("other")))


def test_keys(serve, connect, tmp_path):
    user, other = key(nkeys.PREFIX_BYTE_USER), key(nkeys.PREFIX_BYTE_USER)
    server = serve(f"authorization {{ users: [{{ nkey: {user.public_key.decode()} }}] }}")
    for number, (pair, isKnown) in enumerate([(user, True), (other, False)]):
        file = tmp_path / f"{number}.nk"
        file.write_bytes(pair.seed + b"\n")
        client = connect(server.url(), "seed", str(file))
        works(client) if isKnown else rejected(client)


def test_credentials_files(serve, connect, tmp_path):
    operator, account = key(nkeys.PREFIX_BYTE_OPERATOR), key(nkeys.PREFIX_BYTE_ACCOUNT)
    unlimited = {"subs": -1, "data": -1, "payload": -1, "conn": -1, "leaf": -1, "imports": -1, "exports": -1}
    accounts = token(operator, account, "account", limits=unlimited | {"wildcards": True})
    server = serve(
        f"operator: {token(operator, operator, 'operator')}\nresolver: MEMORY\n"
        f"resolver_preload: {{ {account.public_key.decode()}: {accounts} }}", jetstream=False)
    users = [key(nkeys.PREFIX_BYTE_USER) for _ in range(2)]
    jwt = token(account, users[0], "user", subs=-1, data=-1, payload=-1)
    for number, user in enumerate(users):
        file = tmp_path / f"{number}.creds"
        file.write_text(credentials(jwt, user.seed.decode()))
        client = connect(server.url(), "creds", str(file))
        works(client) if number == 0 else rejected(client)
    # nats-py accepts the same file.
    use(server.url(), lambda other: other.flush(), user_credentials=str(tmp_path / "0.creds"))


def refusal(client: Exerciser) -> str:
    return " ".join(client.until("refused")[1:])


def test_missing_permissions_do_not_end_the_connection(serve, connect):
    permissions = '{ publish: "a.>", subscribe: "a.>" }'
    server = serve(f"authorization {{ users: [{{ user: u, password: p, permissions: {permissions} }}] }}")
    client = connect(server.url("u:p"))
    client.until("ready")
    client.command("pub", "b.c", "-", "-", "-")
    assert refusal(client) == 'publishDenied(subject: "b.c")'
    client.command("sub", "b.>", "-", 1)
    assert refusal(client) == 'subscribeDenied(subject: "b.>")'
    client.command("sub", "b.*", "group", 2)
    assert refusal(client) == 'subscribeDenied(subject: "b.*")'
    client.command("sub", "a.b", "-", 3)
    client.command("pub", "a.b", "-", "-", "01")
    assert client.message()[1] == "3"


# TLS


def encrypted(more: str = "") -> str:
    pair = tls.authority().issue()
    return f'tls {{ cert_file: "{pair.cert}", key_file: "{pair.key}"\n {more} }}'


@pytest.mark.parametrize("more, options", [
    ("", ()), ("", ("tls", "ifOffered")), ("handshake_first: true", ("tls", "first")),
])
def test_tls(serve, connect, more, options):
    server = serve(encrypted(more) + '\nauthorization { token: "T" }')
    for host in ("127.0.0.1", "localhost"):
        works(connect(server.url("T", "tls", host), "ca", tls.authority().file, *options), tls=True)


def test_tls_is_required_and_certificates_are_verified(serve, connect):
    server = serve(encrypted())
    assert connect(server.url()).until("failed")[1] == "unsupported:"
    assert connect(server.url(scheme="tls"), "ca", tls.stranger().file).until("failed")[1] == "tls:"
    plain = serve()
    assert connect(plain.url(scheme="tls"), "ca", tls.authority().file).until("failed")[1] == "unsupported:"


# Life of a connection


def test_keepalive(serve, connect):
    server = serve("ping_interval: 1s\nping_max: 2")
    client = connect(server.url(), "ping", "100")
    client.until("ready")
    numbers = [int(client.until("flushed")[1]) for _ in range(30)]
    assert numbers == list(range(2, 32))
    server.process.send_signal(signal.SIGSTOP)
    try:
        assert client.until("failed")[1] == "timeout:"
    finally:
        server.process.send_signal(signal.SIGCONT)


def test_too_large_messages_are_not_sent(serve, connect):
    client = connect(serve("max_payload: 1000").url())
    client.until("ready")
    client.command("sub", "a", "-", 1)
    client.command("pub", "a", "-", "-", "00" * 1001)
    assert client.until("rejected")[1] == "too-large:"
    client.command("pub", "a", "-", "A=" + "x" * 500, "00" * 600)
    assert client.until("rejected")[1] == "too-large:"
    client.command("pub", "a", "-", "-", "00" * 1000)
    assert len(client.message()[4]) == 1000


def test_other_servers_and_their_shutdown_are_reported(serve, connect):
    cluster = 'server_name: {}\ncluster {{ name: C, listen: "127.0.0.1:-1"\n {} }}\n'
    first = serve(cluster.format("one", "") + "lame_duck_duration: 30s\nlame_duck_grace_period: 1s", jetstream=False)
    client = connect(first.url())
    alone = int(client.until("info")[1])
    client.until("ready")
    second = serve(cluster.format("two", f'routes: ["nats://{first.cluster}"]'), jetstream=False)
    while (both := int(client.until("info")[1])) <= alone:
        pass
    second.stop()
    while int(client.until("info")[1]) >= both:
        pass
    first.process.send_signal(signal.SIGUSR2)
    while client.until("info")[4] != "true":
        pass
