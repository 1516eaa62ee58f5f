"""All four interactions with rsocket-py, an independent client."""

import asyncio

import pytest
from rsocket.exceptions import RSocketProtocolError
from rsocket.extensions.helpers import data_mime_type, metadata_item
from rsocket.extensions.mimetypes import WellKnownMimeTypes
from rsocket.payload import Payload

import client
from client import numbers
from library import Collector, Feed, barrier, joined, publish, subscribe, to, two

# The four interactions


def test_request_stream_with_an_initial_n_and_later_ones(broker, topic):
    async def scene(a, b):
        sub = subscribe(a, topic, n=3)
        await joined(a, topic, 1)
        await publish(b, topic, *numbers(1, 20))
        await sub.count(3)
        await barrier(a, topic)
        assert sub.data == numbers(1, 3)
        sub.request(5)
        await sub.count(8)
        await barrier(a, topic)
        sub.request(12)
        await sub.count(20)
        assert sub.data == numbers(1, 20)

    two(broker, scene)


def test_request_response(broker, topic):
    async def scene(a, b):
        assert await publish(a, topic, b"x", b"y") == [1, 2]
        assert await publish(b, topic, b"z") == [3]

    two(broker, scene)


def test_fire_and_forget(broker, topic):
    async def scene(a, b):
        sub = subscribe(a, topic)
        await joined(a, topic, 1)
        for item in numbers(1, 50):
            await b.fire_and_forget(to(topic, item))
        await sub.count(50)
        assert sub.data == numbers(1, 50)

    two(broker, scene)


@pytest.mark.parametrize("count", [1, 2, 300, 3000])
def test_request_channel_under_credits(broker, topic, count):
    async def scene(a, b):
        sub = subscribe(a, f"{topic}?buffer=10000")
        await joined(a, topic, 1)
        feed, acks = Feed(numbers(1, count)), Collector()
        b.request_channel(to(f"{topic}?complete=true", b"0"), feed).subscribe(acks)
        await sub.end()
        assert sub.data == numbers(0, count) and sub.completed
        await acks.end()
        assert acks.completed and int(acks.data[-1]) == count + 1

    two(broker, scene)


def test_request_channel_is_paced_by_a_block_subscription(broker, topic):
    async def scene(a, b):
        sub = subscribe(a, f"{topic}?overflow=block&buffer=5", n=1)
        await joined(a, topic, 1)
        feed, acks = Feed(numbers(1, 100)), Collector()
        b.request_channel(to(topic, b"0"), feed).subscribe(acks)
        await acks.until(lambda it: it.payloads and int(it.data[-1]) == 6)
        await barrier(b, topic)
        assert len(feed.items) == 95
        for i in range(1, 101):
            sub.request(1)
            await sub.count(i + 1)
        assert sub.data == numbers(0, 100)
        await acks.end()

    two(broker, scene)


def test_request_channel_without_a_publisher_is_one_message(broker, topic):
    async def scene(a, b):
        sub = subscribe(a, topic)
        await joined(a, topic, 1)
        acks = Collector()
        b.request_channel(to(topic, b"only")).subscribe(acks)
        await sub.count(1)
        assert sub.data == [b"only"]

    two(broker, scene)


def test_request_channel_that_fails_fails_its_topic(broker, topic):
    async def scene(a, b):
        sub = subscribe(a, topic)
        await joined(a, topic, 1)
        b.request_channel(to(f"{topic}?complete=true", b"0"), Feed([b"1"], RuntimeError("gone"))).subscribe(Collector())
        await sub.end()
        assert sub.data == numbers(0, 1) and str(sub.error) == "topic failed: gone"

    two(broker, scene)


def test_empty_items_of_a_channel_keep_their_place(broker, topic):
    """The library sends them with neither NEXT nor COMPLETE."""

    async def scene(a, b):
        sub = subscribe(a, topic)
        await joined(a, topic, 1)
        items = [b"", b"1", b"", b"2"]
        b.request_channel(to(f"{topic}?complete=true", b"0"), Feed(items)).subscribe(Collector())
        await sub.end()
        assert sub.data == [b"0", *items]

    two(broker, scene)


def test_acknowledgements_cost_the_librarys_credit(broker, topic):
    async def scene(a, b):
        acks = Collector(1)
        b.request_channel(to(topic, b"0"), Feed(numbers(1, 50))).initial_request_n(1).subscribe(acks)
        await acks.end()
        assert len(acks.payloads) <= 1 and acks.completed
        assert await publish(a, topic, b"x") == [52]

    two(broker, scene)


# Around the interactions


def test_cancel(broker, topic):
    async def scene(a, b):
        sub, other = subscribe(a, topic), subscribe(a, topic)
        await joined(a, topic, 2)
        await publish(b, topic, b"1")
        await sub.count(1)
        sub.subscription.cancel()
        sub.subscription.cancel()
        sub.subscription.request(5)
        await joined(a, topic, 1)
        await publish(b, topic, b"2")
        await other.count(2)
        assert sub.data == [b"1"]

    two(broker, scene)


def test_errors_reach_the_caller(broker, topic):
    async def scene(a, b):
        sub = subscribe(a, f"{topic}?replya=1")
        await sub.end()
        assert isinstance(sub.error, RSocketProtocolError) and sub.error.error_code == client.raw.INVALID
        with pytest.raises(RSocketProtocolError) as refused:
            await publish(a, f"{topic}?nonsense=1", b"x")
        assert "nonsense" in refused.value.data
        failed = subscribe(a, topic)
        await joined(a, topic, 1)
        await b.request_response(to(f"$SYS.topic.fail?name={topic}&message=too%20hot"))
        await failed.end()
        assert str(failed.error) == "topic failed: too hot"

    two(broker, scene)


def test_request_of_0_which_the_library_forwards(broker, topic):
    async def scene(a, b):
        sub, other = subscribe(a, topic, n=1), subscribe(a, topic)
        await joined(a, topic, 2)
        sub.subscription.request(0)
        await sub.end()
        assert sub.error.error_code == client.raw.INVALID
        await publish(b, topic, b"1")
        await other.count(1)

    two(broker, scene)


def test_metadata_push(broker, topic):
    async def scene(a, b):
        await a.metadata_push(b"anything")
        assert await publish(a, topic, b"x") == [1]

    two(broker, scene)


def test_meta_and_the_publishers_metadata(broker, topic):
    async def scene(a, b):
        sub = subscribe(a, f"{topic}?meta=on")
        await joined(a, topic, 1)
        json_type = data_mime_type(WellKnownMimeTypes.APPLICATION_JSON)
        await b.request_response(to(topic, b"{}", json_type, metadata_item(b"mine", b"application/x.mine")))
        await sub.count(1)
        (mime, entry), *rest = client.raw.entries(sub.payloads[0].metadata)
        assert mime == client.MESSAGE_MIME and len(entry) == 32
        assert rest == [(0x7A, b"\x85"), (b"application/x.mine", b"mine")]

    two(broker, scene)


@pytest.mark.parametrize("size", [64, 1000])
def test_fragments_by_the_library(broker, topic, size):
    """The library sends fragments of `size` bytes, and accepts the broker's of 64 KiB. (Its COMPLETE may overtake its
    own fragments.)"""

    async def scene(a, b):
        sub, body = subscribe(a, topic), bytes(range(256)) * 400
        await joined(a, topic, 1)
        assert await publish(b, topic, body, b"small") == [1, 2]
        await b.fire_and_forget(to(topic, body))
        b.request_channel(to(topic, body), Feed([body], ends=False)).subscribe(Collector())
        await sub.count(5)
        assert sub.data == [body, b"small", body, body, body]

    two(broker, scene, fragment=size)


def test_keepalives_keep_the_library_connected(broker, topic):
    """To the library the server is alive while keepalives return."""

    async def scene(a, b):
        before = a._last_server_keepalive
        for _ in range(400):
            await publish(b, topic, b"x")
            if a._last_server_keepalive > before:
                break
            await asyncio.sleep(0.01)  # Until its own keepalive, sent once a second, has returned.
        assert a._last_server_keepalive > before and a.is_server_alive()

    two(broker, scene)


def test_plain_routes(broker, topic):
    async def scene(a, b):
        assert (await a.request_response(Payload(b"x", topic.encode()))).data == b"1"
        sub = Collector()
        b.request_stream(Payload(b"", f"{topic}?replay=all".encode())).subscribe(sub)
        await sub.count(1)
        assert sub.data == [b"x"]

    two(broker, scene, mime=WellKnownMimeTypes.TEXT_PLAIN)


def test_control_and_lists(broker, topic):
    async def scene(a, b):
        await publish(a, topic, b"x")
        told = await a.request_response(to(f"$SYS.topic.info?name={topic}"))
        assert client.json.loads(told.data)["next"] == 2
        listing = subscribe(b, "$SYS.topics", n=1)
        while not listing.over:
            before = len(listing.payloads)
            await listing.until(lambda it: len(it.payloads) > before or it.over)
            if not listing.over:
                listing.request(1)
        assert listing.completed and topic in [client.json.loads(item)["name"] for item in listing.data]

    two(broker, scene)
