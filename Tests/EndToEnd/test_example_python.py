"""Examples/python: the client that was written from Protocol/ alone. With a broker, it does what the documents say."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

import tls
from access import password_hash, write
from common import DEADLINE
from proxy import Proxy

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "Examples" / "python"))

import forebay_wire  # noqa: E402
from forebay_client import Client, ConnectionFailed, ConnectionLost, Gap, RequestError  # noqa: E402

pytestmark = pytest.mark.rsocket
VECTORS = json.loads((ROOT / "Protocol" / "vectors" / "fragments.json").read_text())["vectors"]


def client(address, **how) -> Client:
    return Client(*address, ssl=tls.context(address), **how)


def run(body):
    """Runs a test's coroutine, which must not hang."""
    asyncio.run(asyncio.wait_for(body, 4 * DEADLINE))


async def until(condition):
    """Observes until the condition holds."""
    async with asyncio.timeout(DEADLINE):
        while not condition():
            await asyncio.sleep(0.005)  # Between observations.


async def take(subscription, count: int) -> list:
    async with asyncio.timeout(DEADLINE):
        return [await anext(subscription) for _ in range(count)]


async def datas(subscription, count: int) -> list[bytes]:
    return [one.data for one in await take(subscription, count)]


@pytest.fixture
def proxy(broker):
    this = Proxy(broker.address)
    yield this
    this.close()


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_messages_are_cut_like_the_vectors(vector):
    metadata = None if vector["metadata"] is None else bytes.fromhex(vector["metadata"])
    kind = getattr(forebay_wire, vector["type"])
    flags = (forebay_wire.NEXT if kind == forebay_wire.PAYLOAD else 0) | (
        forebay_wire.COMPLETE if vector["complete"] else 0)
    written = forebay_wire.frames(1, kind, flags, metadata, bytes.fromhex(vector["data"]), vector["n"],
                                  vector["fragment"])
    assert written == b"".join(
        (len(one) // 2).to_bytes(3, "big") + bytes.fromhex(one) for one in vector["frames"])


def test_messages_arrive_with_their_metadata(broker, topic):
    async def body():
        async with client(broker.address) as this:
            async with await this.subscribe(topic) as messages:
                extra = [("application/x-trace", b"\1\2")]
                assert await this.publish(topic, b"4.1 C", content_type="text/plain", extra=extra) == 1
                this.fire(topic, b"")
                first, second = await take(messages, 2)
                assert (first.data, first.sequence, first.content_type) == (b"4.1 C", 1, "text/plain")
                assert first.entries[1:] == extra and first.epoch and first.timestamp_ns
                assert (second.data, second.sequence, second.epoch, second.entries) == (b"", 2, first.epoch, [])
            async with await this.subscribe(topic, {"replay": 1}) as messages:
                assert await datas(messages, 1) == [b""]

    run(body())


def test_entries_of_publishers_are_not_taken_for_the_brokers(broker, topic):
    async def body():
        async with client(broker.address) as this:
            messages = await this.subscribe(topic, on_gap=lambda gap: pytest.fail(str(gap)))
            extra = [(forebay_wire.ABOUT_MESSAGE, b"\1" * 32), (forebay_wire.OPENING, b"\1" * 16)]
            await this.publish(topic, b"1", extra=extra)
            (one,) = await take(messages, 1)
            assert (one.sequence, one.dropped_before, one.entries) == (1, 0, extra)

    run(body())


def test_stream_ids_begin_again(broker, topic):
    async def body():
        async with client(broker.address) as this:
            messages = await this.subscribe(topic)  # This stream has the first id.
            this.connection.next_stream = forebay_wire.UNBOUNDED - 2
            for number in range(4):
                assert await this.publish(topic, b"%d" % number) == number + 1
            assert await datas(messages, 4) == [b"0", b"1", b"2", b"3"]

    run(body())


def test_demand_is_never_exceeded(broker, topic):
    """The subscriber takes one message after the other, after all of them were published at once."""
    async def body():
        async with client(broker.address) as this, client(broker.address) as other:
            messages = await this.subscribe(topic, {"buffer": 1000}, window=8)
            numbers = [b"%d" % number for number in range(200)]
            await asyncio.gather(*(other.publish(topic, number) for number in numbers))
            received = []
            for _ in numbers:
                received += await datas(messages, 1)
                assert len(messages.queue) <= 8 and 0 <= messages.outstanding <= 8 - len(messages.queue)
            assert sorted(received) == sorted(numbers)
            (told,) = [one async for one in other.list("$SYS.subscriptions") if one["topic"] == topic]
            assert told["requested"] == told["delivered"] + told["outstanding"] + 1  # One was for the opening.
            assert told["outstanding"] <= 8 and told["dropped"] == 0

    run(body())


def test_long_messages_come_in_fragments(broker, topic):
    long = bytes(range(256)) * 800  # 200 KiB

    async def body():
        async with client(broker.address) as this:
            messages = await this.subscribe(topic, window=1)
            await this.publish(topic, long)
            channel = this.channel(topic)
            await channel.send(long[::-1])
            await channel.complete()
            assert await datas(messages, 2) == [long, long[::-1]]

    run(body())


def test_a_channel_publishes_at_the_pace_of_a_subscriber(broker, topic):
    count = 5_000

    async def body():
        async with client(broker.address) as this, client(broker.address) as other:
            messages = await other.subscribe(topic, {"overflow": "block", "buffer": 64}, window=32)
            channel = this.channel(topic, {"complete": "true"})

            async def publish():
                for number in range(count):
                    await channel.send(b"%d" % number)
                await channel.complete()

            publishing = asyncio.create_task(publish())
            await until(lambda: channel.accepted)
            assert channel.accepted <= 64 + 32 + 1
            assert [int(one.data) async for one in messages] == list(range(count))
            await publishing
            assert channel.accepted == channel.sequence == count

    run(body())


def test_the_end_of_a_topic_and_refusals_have_words(broker, topic):
    async def body():
        async with client(broker.address) as this:
            completed, failed = topic + ".c", topic + ".f"
            for name, end, options in ((completed, "complete", {}), (failed, "fail", {"message": "no more: data"})):
                await this.publish(name, b"1")
                await this.control(f"$SYS.topic.{end}", name=name, **options)
            assert [one.data async for one in await this.subscribe(completed, {"replay": "all"})] == [b"1"]
            messages = await this.subscribe(failed, {"replay": "all"})
            assert await datas(messages, 1) == [b"1"]
            for awaited, word, code, retry in (
                    (anext(messages), "topic failed", 0x201, "no"),
                    (this.publish(completed, b"2"), "ended", 0x202, "no"),
                    (this.subscribe(completed, {"reply": 1}), "invalid", 0x204, "no"),
                    (this.subscribe(completed, {"from": 1, "epoch": 1, "gap": "fail"}), "gap", 0x202,
                     "from another position"),
                    (this.control("$SYS.topic.info", name=topic), "not-found", 0x202, "no")):
                with pytest.raises(RequestError) as refused:
                    await awaited
                assert (refused.value.word, refused.value.code, refused.value.retry) == (word, code, retry)
            channel = this.channel(completed)
            with pytest.raises(RequestError) as refused:
                await channel.send(b"2")
                await channel.complete()
            assert refused.value.word == "ended"

    run(body())


def test_dropped_messages_are_reported(broker, topic):
    async def body():
        async with client(broker.address) as this:
            gaps = []
            messages = await this.subscribe(topic, {"buffer": 3}, window=1, on_gap=gaps.append)
            for number in range(1, 10):
                await this.publish(topic, b"%d" % number)
            received = await take(messages, 4)
            assert [one.sequence for one in received] == [1, 7, 8, 9]
            assert gaps == [Gap("dropped", received[0].epoch, 7, 5)]

    run(body())


def test_credentials(start, tmp_path):
    user = {"name": "alice", "password": password_hash(start.executable(), "secret"), "subscribe": [">"]}
    broker = start("-c", str(write(tmp_path, {"users": [user]})))

    async def body():
        async with client(broker.address, credentials=("alice", "secret")) as this:
            assert (await this.control("$SYS.info"))["user"] == "alice"
            with pytest.raises(RequestError) as refused:
                await this.publish("t", b"1")
            assert refused.value.word == "forbidden"
        with pytest.raises(ConnectionFailed) as refused:
            async with client(broker.address, credentials=("alice", "wrong")):
                pass
        assert (refused.value.word, refused.value.retry) == ("unauthenticated", "with other credentials")

    run(body())
    broker.stop()


def test_a_broker_that_is_killed_and_started_again(begin, topic):
    """The subscription reports the new epoch. What is published in the meantime waits, and is published again."""
    async def body():
        broker = begin()
        proxy = Proxy(broker.address)
        async with client(proxy.address) as this:
            gaps = []
            messages = await this.subscribe(topic, on_gap=gaps.append)
            await this.publish(topic, b"old")
            (old,) = await take(messages, 1)
            channel = this.channel(topic + ".channel")
            await channel.send(b"old")
            await until(lambda: channel.accepted == 1)
            broker.process.kill()
            broker.process.wait()
            await until(lambda: not this.connection)
            publishing = asyncio.create_task(this.publish(topic, b"new"))
            sending = asyncio.create_task(channel.send(b"new"))
            proxy.to = begin().address
            assert await publishing == 1
            (new,) = await take(messages, 1)
            assert (new.data, new.sequence) == (b"new", 1) and new.epoch != old.epoch
            assert gaps == [Gap("epoch", new.epoch, 1)]
            await sending
            await channel.complete()
            assert (channel.accepted, channel.sequence) == (2, 1)
        proxy.close()

    run(body())


def test_a_broker_that_shuts_down(begin, topic):
    """The client's subscriptions continue on the next broker, and so do those begun in the meantime."""
    stopped = asyncio.Event()

    async def publish_until_stopped(this):
        while not stopped.is_set():
            await this.publish(topic + ".other", b"1")

    async def body():
        broker = begin()
        proxy = Proxy(broker.address)
        async with client(proxy.address) as this:
            messages = await this.subscribe(topic, on_gap=lambda gap: None)
            publishing = asyncio.create_task(publish_until_stopped(this))
            await asyncio.to_thread(broker.stop)
            await until(lambda: not this.connection)  # One of the publishes waits.
            proxy.to = begin().address
            stopped.set()
            await publishing
            await this.publish(topic, b"new")
            assert await datas(messages, 1) == [b"new"]
        proxy.close()

    run(body())


def test_what_is_no_longer_retained_is_reported_once(small, topic):
    proxy = Proxy(small.address)

    async def body():
        async with client(proxy.address) as this, client(small.address) as other:
            gaps = []
            messages = await this.subscribe(topic, on_gap=gaps.append)
            proxy.hold()
            for number in range(1, 21):
                await other.publish(topic, b"%d" % number)
            proxy.cut()
            proxy.release()
            received = await take(messages, 8)
            assert [one.sequence for one in received] == list(range(13, 21))
            assert gaps == [Gap("dropped", received[0].epoch, 13, 12)]

    run(body())
    proxy.close()


def test_cut_before_the_first_message(broker, proxy, topic):
    """The opening is the position from which the subscription continues."""
    async def body():
        async with client(proxy.address) as this, client(broker.address) as other:
            await other.publish(topic, b"earlier")
            messages = await this.subscribe(topic, on_gap=lambda gap: pytest.fail(str(gap)))
            assert messages.position[1] == 2
            proxy.hold()  # From now on no messages arrive.
            for number in range(3):
                await other.publish(topic, b"%d" % number)
            proxy.cut()
            proxy.release()
            assert await datas(messages, 3) == [b"0", b"1", b"2"] and proxy.connections == 2

    run(body())


def test_nothing_is_lost_or_repeated_when_the_connection_is_cut_again_and_again(broker, proxy, topic):
    count, cuts = 2_000, 6

    async def body():
        async with client(proxy.address) as this, client(broker.address) as other:
            messages = await this.subscribe(
                topic, {"buffer": 4 * count}, window=16, on_gap=lambda gap: pytest.fail(str(gap)))
            channel = this.channel(topic + ".back")
            back = await other.subscribe(topic + ".back", {"buffer": 4 * count})
            received, sequences = [], []
            for number in range(count):
                await other.publish(topic, b"%d" % number)
                if number % (count // cuts) == count // cuts - 1:
                    proxy.cut()
                if number >= 200:  # So that some messages wait for credit.
                    (one,) = await take(messages, 1)
                    assert messages.outstanding + len(messages.queue) <= 16
                    received.append(int(one.data))
                    sequences.append(one.sequence)
                    await channel.send(one.data)
            received += [int(one) for one in await datas(messages, 200)]
            assert received == list(range(count)) and sequences == list(range(1, count - 199))
            await channel.complete()
            assert proxy.connections == cuts + 1
            info = await other.control("$SYS.topic.info", name=topic + ".back")
            repeated = [int(one) for one in await datas(back, info["next"] - 1)]
            # At least once: each connection repeats, in order, what was not acknowledged on the last one.
            assert list(dict.fromkeys(repeated)) == list(range(count - 200)) and channel.accepted == count - 200

    run(body())


def test_a_silent_broker_is_considered_dead(proxy, topic):
    async def body():
        async with client(proxy.address, lifetime=0.6) as this:
            messages, first = await this.subscribe(topic), this.connection
            proxy.hold()
            await until(lambda: this.connection is not first)
            proxy.cut()
            proxy.release()
            assert await this.publish(topic, b"1") == 1
            assert await datas(messages, 1) == [b"1"] and this.connection is not first

    run(body())


def test_a_client_that_is_closed_ends_what_waits(broker, topic):
    async def body():
        async with client(broker.address) as this:
            waiting = asyncio.create_task(anext(await this.subscribe(topic)))
            await asyncio.sleep(0)  # The task begins to wait.
        with pytest.raises(ConnectionLost):
            await waiting

    run(body())
