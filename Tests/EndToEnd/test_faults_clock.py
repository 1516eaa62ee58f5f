"""The machine's clock is set forwards or back by an hour: simulated for the broker only, by `clock.c`. The monotonic
clock is not affected."""

import json
import time

import jwt
import pytest

import access
from client import *
from clock import Clock
from faults import *

SECRET = b"0123456789abcdef0123456789abcdef"
HOUR = 3600


@pytest.fixture
def clock(tmp_path):
    return Clock(tmp_path)


@pytest.fixture
def broker(start, tmp_path, clock):
    """Messages are retained for five seconds; a client with a token has all permissions while the token is valid."""
    (tmp_path / "secret").write_bytes(SECRET)
    everything = dict.fromkeys(("publish", "subscribe", "control"), [">", "$SYS.>"])
    file = access.write(tmp_path, {
        "jwt": dict(audience="forebay", keys=[dict(id="main", algorithm="HS256", file="secret")]),
        "users": [dict(name="alice", **everything)], "anonymous": everything, "retain-age": "5s",
    })
    this = start("-c", str(file), variables=clock.variables)
    yield this
    this.stop()


def token(expires: float) -> bytes:
    return access.bearer(jwt.encode(dict(sub="alice", aud="forebay", exp=expires), SECRET, algorithm="HS256"))


def retained(peer: Peer, topic: str) -> list[Message]:
    """The messages available for replay."""
    info = peer.info(topic)
    subscription = peer.subscribe(f"{topic}?replay=all", meta=True)
    peer.barrier(topic)
    count = subscription.pending()
    assert count <= info["retained"]
    got = subscription.take(count)
    subscription.cancel()
    return got


@pytest.mark.rsocket
@pytest.mark.parametrize("step", [-HOUR, HOUR], ids=["back", "ahead"])
def test_the_clock_is_set(broker, clock, step):
    topic = "t.aged"
    with beside(broker, "rsocket", "grpc", growth=8 << 20) as wells:
        peer = broker.peer()
        alice = access.rsocket(broker, token(clock.now() + 600))
        hers, events = alice.subscribe("t.hers"), peer.subscribe("$SYS.stats")
        peer.joined("t.hers", 1)
        peer.publish(topic, b"before")
        clock.step(step)
        peer.publish(topic, b"behind")
        while events.pending():
            events.take(1)
        events.take(1)  # By then the broker has looked for expired messages.
        got = retained(peer, topic)
        assert [one.data for one in got] == [b"before", b"behind"], "messages expired early or late"
        assert abs(got[0].timestamp / 1e9 - (clock.now() - step)) < 60
        # Within a topic, timestamps do not decrease.
        assert abs(got[1].timestamp / 1e9 - (clock.now() - min(step, 0))) < 60
        assert got[1].timestamp >= got[0].timestamp
        if step > 0:
            # The client's token has expired: the clock was set ahead by an hour.
            told = alice.frame(0)
            assert told.kind == ERROR and "expired" in told.text and not hers.pending(), told
            alice.end()
            with pytest.raises(access.Rejected, match="expired"):
                access.rsocket(broker, token(time.time() + 600))
            fresh = access.rsocket(broker, token(clock.now() + 600))
            fresh.numbers("t.hers", 1, 1)
            fresh.close()
        else:
            peer.numbers("t.hers", 1, 1)
            assert hers.data(1) == [b"1"]
        # Retained messages expire on time, and so do those published after the step.
        eventually(lambda: peer.info(topic)["retained"], lambda count: count == 0, timeout=30)
        for well in wells:
            well.moves()
        events.take(4)
        jumps = eventually(
            lambda: [json.loads(line) for line in list(broker.log) if "system clock changed" in line], bool)
        assert len(jumps) == 1 and abs(jumps[0]["by-ms"] - 1000 * step) < 1000, jumps
        for line in (json.loads(line) for line in list(broker.log)):
            assert line["message"] not in ("shard stalled", "thread does not respond"), line
        clock.step(0)
        peer.numbers(topic, 1, 1)
        assert [one.data for one in retained(peer, topic)] == [b"1"]
        for one in (alice, peer):
            one.close()
