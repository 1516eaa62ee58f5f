"""Connections that are resumed, again and again: what they receive in the meantime, and the limits on waiting sessions.
test_cuts.py covers breaks at every byte."""

import secrets
import socket
import struct
import urllib.request

import pytest

import raw
import tls
from client import *
from resuming import Refused, Resuming

pytestmark = pytest.mark.rsocket


def test_sockets_that_break_again_and_again(broker, b, topic):
    """Two and a half thousand messages, each sent and received once, over about fifty sockets."""
    this = Resuming(broker.address)
    count, step = 2500, 50
    this.send(raw.request(raw.REQUEST_STREAM, 1, b"", raw.route(topic), n=raw.UNBOUNDED))
    this.send(raw.request(raw.REQUEST_CHANNEL, 3, b"1", raw.route(topic), n=raw.UNBOUNDED))
    this.until(lambda: this.count(1) == 1 and sum(one.n or 0 for one in this.frames.get(3, [])) > step, "credit")
    sent = 1
    while sent < count:
        credit = 1 + sum(one.n or 0 for one in this.frames[3])
        more = min(count - sent, step, credit - sent)
        if more > 0:
            this.send(*(raw.payload(3, b"%d" % n) for n in range(sent + 1, sent + more + 1)))
            sent += more
        this.resume()
    this.until(lambda: this.count(1) == count, "all messages")
    assert this.data(1) == numbers(1, count)
    assert b.info(topic)["next"] == count + 1
    this.end()


def figures(broker) -> dict[str, float]:
    """The metrics of a broker that has an admin listener in the clear."""
    with urllib.request.urlopen("http://%s:%d/metrics" % broker.admin, timeout=DEADLINE) as answer:
        lines = [line for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


# A session without a socket


def test_credit_and_policy_stay_in_force(broker, a, b, topic):
    """Messages published in the meantime wait as the subscription's buffer and policy allow, and are counted."""
    this = Resuming(broker.address)
    this.send(raw.request(raw.REQUEST_STREAM, 1, b"", raw.route(f"{topic}?buffer=2&overflow=drop-oldest&meta=on"), n=3))
    b.joined(topic, 1)
    this.close()
    detached(b, this)
    b.numbers(topic, 1, 8)
    (row,) = b.ledger(topic)
    assert (row["delivered"], row["waiting"], row["dropped"]) == (3, 2, 3)
    this.resume()
    this.send(raw.request_n(1, 10))
    this.until(lambda: this.count(1) == 5)
    assert this.data(1) == numbers(1, 3) + numbers(7, 8)
    assert struct.unpack_from(">QQqQ", raw.entries(this.frames[1][3].metadata)[0][1])[3] == 3
    this.end()


def test_a_session_goes_over_from_a_socket_that_lives(broker, b, topic):
    """The broker need not have noticed the end of the old socket."""
    this = Resuming(broker.address)
    this.send(raw.request(raw.REQUEST_STREAM, 1, b"", raw.route(topic), n=9))
    b.joined(topic, 1)
    old, this.socket = this.socket, socket.socket()
    this.resume()
    old.settimeout(DEADLINE)
    while old.recv(1 << 16):
        pass
    b.numbers(topic, 1, 2)
    this.until(lambda: this.count(1) == 2)
    assert len([one for one in b.listing("$SYS.connections") if one["peer"] == this.peer]) == 1
    this.end()


def test_an_error_on_stream_0_ends_the_session(broker, b, topic):
    this = Resuming(broker.address)
    this.send(raw.request(raw.REQUEST_STREAM, 1, b"", raw.route(topic), n=9))
    b.joined(topic, 1)
    this.end()
    b.joined(topic, 0)
    refused(this, "session does not exist")


# Refusals, which change nothing


def refused(this: Resuming, text: str, **how):
    with pytest.raises(Refused) as error:
        this.resume(**how)
    assert error.value.code == raw.REJECTED_RESUME and text in error.value.text.lower(), error.value
    with pytest.raises(raw.Closed):
        this.until(lambda: False)


def detached(b, this: Resuming):
    eventually(lambda: [one["state"] for one in b.listing("$SYS.connections") if one["peer"] == this.peer],
               lambda states: states == ["detached"])


def test_what_cannot_be_resumed_is_refused(broker, b, topic):
    this = Resuming(broker.address)
    request = raw.request(raw.REQUEST_STREAM, 1, b"", raw.route(topic), n=9)
    this.send(request)
    b.joined(topic, 1)
    b.numbers(topic, 1, 2)
    this.until(lambda: this.count(1) == 2)
    assert this.received == 14
    this.close()
    refused(this, "session does not exist", token=secrets.token_bytes(16))
    refused(this, "session does not exist", token=this.token + b"x")
    refused(this, "cannot continue from position 8, which is not the beginning of a frame", server=8)
    refused(this, "cannot continue from position 21, which is ahead of the 14 bytes that were sent", server=21)
    refused(this, f"from position {len(request) - 3} on", client=len(request) - 2)
    # None of that harmed the session; and rsocket-js sends version 0.1.
    this.resume(version=(0, 1))
    b.numbers(topic, 3, 3)
    this.until(lambda: this.count(1) == 3)
    # The client cannot receive again what it has acknowledged.
    this.greet()
    refused(this, "cannot continue from position 7, because the data from there on is no longer kept", server=7)
    this.resume()
    this.end()


@pytest.mark.parametrize("length", [0, 15, 129, 5000])
def test_a_token_has_16_to_128_bytes(broker, length):
    line = raw.Connection(broker.address)
    line.send(raw.setup(flags=raw.R, token=bytes(length)))
    error = line.frame(0)
    assert (error.kind, error.code) == (raw.ERROR, raw.REJECTED_SETUP) and "16 to 128" in error.text
    line.end()


def test_a_token_is_one_connections(broker):
    this = Resuming(broker.address)
    this.greet()
    other = Resuming(broker.address, token=this.token)
    with pytest.raises(Refused) as error:
        other.until(lambda: False)
    assert error.value.code == raw.REJECTED_SETUP
    this.resume()
    this.end()


# Limits


def test_a_peer_that_acknowledges_nothing_is_sent_so_much(begin, topic):
    """The peer is treated as if its socket were full; others receive everything, and it continues once it
    acknowledges."""
    broker = begin("--resume-buffer", "16KiB")
    b, other = broker.peer(), broker.peer()
    this = Resuming(broker.address)
    this.lives = False
    this.send(raw.request(raw.REQUEST_STREAM, 1, b"", raw.route(topic), n=raw.UNBOUNDED))
    sub = other.subscribe(topic, n=raw.UNBOUNDED)
    b.joined(topic, 2)
    b.publish(topic, *(bytes(1000) for _ in range(100)))
    assert len(sub.data(100)) == 100
    most = (16 << 10) // 1009 + 1  # The last message exceeds the resume buffer.
    this.until(lambda: this.count(1) == most)
    this.until(lambda: this.asked == 1, "the question what it has")
    row = next(one for one in b.listing("$SYS.connections") if one["peer"] == this.peer)
    assert row["unacknowledged"] == most * 1009 and row["output"] == 0
    assert next(one for one in b.ledger(topic) if one["peer"] == this.peer)["waiting"] == 100 - most
    this.lives = True
    this.keepalive()
    this.until(lambda: this.count(1) == 100)
    this.end()


def test_so_many_can_be_resumed(begin):
    broker = begin("--max-sessions", "2", "--max-sessions-per-user", "5")
    b = broker.peer()
    sessions = [Resuming(broker.address) for _ in range(2)]
    for this in sessions:
        this.greet()
        this.close()
        detached(b, this)
    with pytest.raises(Refused) as error:
        Resuming(broker.address).until(lambda: False)
    assert error.value.code == raw.REJECTED_SETUP and "2 resumable connections" in error.value.text
    sessions[0].resume()
    sessions[0].end()
    eventually(lambda: len(b.listing("$SYS.connections")), lambda count: count == 2)
    this = Resuming(broker.address)
    this.greet()


def test_nobody_comes_back_in_time(begin, topic):
    broker = begin("--resume-time", "1s", "--admin", "127.0.0.1:0")
    b = broker.peer()
    this = Resuming(broker.address)
    this.send(raw.request(raw.REQUEST_STREAM, 1, b"", raw.route(topic), n=9))
    b.joined(topic, 1)
    this.close()
    eventually(lambda: figures(broker)["forebay_sessions_detached"], lambda count: count == 1)
    b.joined(topic, 0)
    refused(this, "session does not exist")
    assert figures(broker)["forebay_sessions_detached"] == 0
    assert figures(broker)['forebay_resumptions_total{result="refused"}'] == 1
    assert figures(broker)['forebay_limit_reached_total{limit="resume-time"}'] == 1
    again = Resuming(broker.address)
    again.greet()
    again.resume()
    assert figures(broker)['forebay_resumptions_total{result="accepted"}'] == 1


def test_a_broker_that_shuts_down_waits_for_nobody_who_is_away(start, topic):
    broker = start("--drain-time", "1m")
    b, this = broker.peer(), Resuming(broker.address)
    this.send(raw.request(raw.REQUEST_STREAM, 1, b"", raw.route(topic), n=2))
    b.joined(topic, 1)
    this.close()
    detached(b, this)
    b.numbers(topic, 1, 5)
    b.close()
    broker.stop()  # Fails if the broker takes longer than 15 seconds.


def test_resuming_can_be_turned_off(begin):
    broker = begin("--resume-time", "off")
    with pytest.raises(Refused) as error:
        Resuming(broker.address).until(lambda: False)
    assert error.value.code == raw.REJECTED_SETUP and "not enabled" in error.value.text


# TLS


def test_over_tls_the_certificate_must_be_the_same(begin, topic):
    mine, other = tls.authority().issue("/CN=me"), tls.authority().issue("/CN=somebody else")
    options = "--tls-client-ca", tls.authority().file, "--tls-verify-client", "required"
    broker = begin(*tls.server().options, *options)
    this = Resuming(broker.address, pair=mine)
    this.send(raw.request(raw.REQUEST_RESPONSE, 1, b"a", raw.route(topic)))
    this.until(lambda: this.count(1) == 1)
    this.pair = other
    refused(this, "session does not exist")
    this.pair = mine
    # Over a socket on either thread.
    for stream in (3, 5, 7):
        this.resume()
        this.send(raw.request(raw.REQUEST_RESPONSE, stream, b"a", raw.route(topic)))
        this.until(lambda: this.count(stream) == 1)
    assert [this.data(stream) for stream in (3, 5, 7)] == [[b"2"], [b"3"], [b"4"]]
    this.end()
