"""The case kinds of the old public RSocket test kit, as a broker of topics knows them, by rsocket-py."""

import pytest
from rsocket.exceptions import RSocketProtocolError

from client import numbers
from library import Library, barrier, joined, publish, subscribe, to, two


async def topic_of(b, topic, *items: bytes, error: str | None = None):
    """A topic with these messages, which has ended."""
    sub = subscribe(b, topic, n=1)  # It is created even where it stays empty.
    await joined(b, topic, 1)
    if items:
        await publish(b, topic, *items)
    verb = f"fail?message={error}&name={topic}" if error else f"complete?name={topic}"
    await b.request_response(to(f"$SYS.topic.{verb}"))
    sub.subscription.cancel()


def test_stream_empty(broker, topic):
    async def scene(a, b):
        await topic_of(b, topic)
        sub = subscribe(a, f"{topic}?replay=all")
        await sub.end()
        assert sub.completed and sub.data == []

    two(broker, scene)


def test_stream_single(broker, topic):
    async def scene(a, b):
        await topic_of(b, topic, b"one")
        sub = subscribe(a, f"{topic}?replay=all")
        await sub.end()
        assert sub.completed and sub.data == [b"one"]

    two(broker, scene)


def test_stream_many(broker, topic):
    async def scene(a, b):
        await topic_of(b, topic, *numbers(1, 500))
        sub = subscribe(a, f"{topic}?replay=all")
        await sub.end()
        assert sub.completed and sub.data == numbers(1, 500)

    two(broker, scene)


def test_stream_without_end(broker, topic):
    async def scene(a, b):
        sub = subscribe(a, topic, n=10)
        await joined(a, topic, 1)
        for turn in range(5):
            await publish(b, topic, *numbers(turn * 10, turn * 10 + 9))
            await sub.count(turn * 10 + 10)
            sub.request(10)
        assert not sub.over

    two(broker, scene)


def test_stream_error(broker, topic):
    async def scene(a, b):
        await topic_of(b, topic, error="broken")
        sub = subscribe(a, f"{topic}?replay=all")
        await sub.end()
        assert sub.data == [] and str(sub.error) == "topic failed: broken"

    two(broker, scene)


def test_stream_value_then_error(broker, topic):
    async def scene(a, b):
        await topic_of(b, topic, b"value", error="broken")
        sub = subscribe(a, f"{topic}?replay=all")
        await sub.end()
        assert sub.data == [b"value"] and str(sub.error) == "topic failed: broken"

    two(broker, scene)


def test_stream_flow_control(broker, topic):
    async def scene(a, b):
        await topic_of(b, topic, *numbers(1, 10))
        sub = subscribe(a, f"{topic}?replay=all", n=1)
        for count in range(1, 10):
            await sub.count(count)
            await barrier(a, topic)
            assert len(sub.payloads) == count and not sub.over
            sub.request(1)
        await sub.end()
        assert sub.completed and sub.data == numbers(1, 10)

    two(broker, scene)


def test_stream_cancelled_at_once(broker, topic):
    async def scene(a, b):
        sub = subscribe(a, topic, n=5)
        sub.subscription.cancel()
        await publish(b, topic, b"x")
        await joined(a, topic, 0)
        assert sub.data == [] and not sub.over

    two(broker, scene)


def test_stream_repeated_cancel(broker, topic):
    async def scene(a, b):
        await publish(b, topic, *numbers(1, 5))
        sub = subscribe(a, f"{topic}?replay=all", n=2)
        await sub.count(2)
        for _ in range(3):
            sub.subscription.cancel()
        await joined(a, topic, 0)
        assert sub.data == numbers(1, 2) and not sub.over

    two(broker, scene)


def test_streams_interleaved(broker, topic):
    async def scene(a, b):
        await publish(b, topic, *numbers(1, 10))
        one, other = (subscribe(a, f"{topic}?replay=all", n=1) for _ in range(2))
        for count in range(1, 11):
            for sub in (one, other):
                await sub.count(count)
                sub.request(1)
        assert one.data == other.data == numbers(1, 10)

    two(broker, scene)


def test_streams_in_succession(broker, topic):
    async def scene(a, b):
        await topic_of(b, topic, *numbers(1, 10))
        for _ in range(10):
            sub = subscribe(a, f"{topic}?replay=all")
            await sub.end()
            assert sub.data == numbers(1, 10)

    two(broker, scene)


def test_stream_after_cancel(broker, topic):
    async def scene(a, b):
        await publish(b, topic, *numbers(1, 10))
        first = subscribe(a, f"{topic}?replay=all", n=3)
        await first.count(3)
        first.subscription.cancel()
        second = subscribe(a, f"{topic}?replay=all", n=10)
        await second.count(10)
        assert first.data == numbers(1, 3) and second.data == numbers(1, 10)

    two(broker, scene)


def test_request_response_cases(broker, topic):
    """A value, an error, one after another, interleaved, and one after a cancel."""

    async def scene(a, b):
        assert await publish(a, topic, b"value") == [1]
        with pytest.raises(RSocketProtocolError):
            await publish(a, "not a name", b"x")
        assert await publish(a, topic, b"after", b"another") == [2, 3]
        futures = [a.request_response(to(topic, item)) for item in numbers(4, 9)]
        assert [int((await future).data) for future in reversed(futures)] == list(range(9, 3, -1))
        cancelled = a.request_response(to(topic, b"x"))
        cancelled.cancel()
        assert (await publish(a, topic, b"x"))[0] in (10, 11)

    two(broker, scene)


def test_several_clients(broker, topic):
    async def scene(a, b):
        async with Library(broker.address) as c, Library(broker.address) as d:
            clients = [a, b, c, d]
            subs = [subscribe(one, topic, n=100) for one in clients]
            await joined(a, topic, 4)
            for turn in range(10):
                for one in clients:
                    await publish(one, topic, b"%d" % turn)
            for sub in subs:
                await sub.count(40)
                assert sub.data == subs[0].data

    two(broker, scene)


def test_a_client_that_leaves_harms_no_other(broker, topic):
    async def scene(a, b):
        sub = subscribe(a, topic)
        async with Library(broker.address) as c:
            subscribe(c, topic)
            await joined(a, topic, 2)
        await joined(a, topic, 1)
        await publish(b, topic, b"x")
        await sub.count(1)

    two(broker, scene)
