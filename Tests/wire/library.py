"""rsocket-py as a client of the broker: connecting, collecting what comes, feeding what goes."""

import asyncio
from datetime import timedelta

from reactivestreams.publisher import DefaultPublisher
from reactivestreams.subscriber import DefaultSubscriber
from reactivestreams.subscription import DefaultSubscription
from rsocket.extensions.helpers import composite, route
from rsocket.extensions.mimetypes import WellKnownMimeTypes
from rsocket.helpers import single_transport_provider
from rsocket.payload import Payload
from rsocket.rsocket_client import RSocketClient
from rsocket.transports.tcp import TransportTCP

import client
import tls

COMPOSITE = WellKnownMimeTypes.MESSAGE_RSOCKET_COMPOSITE_METADATA


class Library:
    """A connected RSocketClient; use it in `async with`."""

    def __init__(self, address, mime=COMPOSITE, fragment=None):
        self.address, self.options = address, dict(metadata_encoding=mime, fragment_size_bytes=fragment)

    async def __aenter__(self) -> RSocketClient:
        transport = TransportTCP(*await asyncio.open_connection(
            *self.address, ssl=tls.context(self.address)))
        self.client = RSocketClient(single_transport_provider(transport), keep_alive_period=timedelta(seconds=1),
                                    max_lifetime_period=timedelta(seconds=60), **self.options)
        await self.client.connect()
        return self.client

    async def __aexit__(self, *_):
        await self.client.close()


class Collector(DefaultSubscriber):
    """Gathers what comes, and counts: the library does not police credits. It swallows what callbacks raise, so that
    faults are kept, and raised by whoever waits."""

    def __init__(self, n=0x7FFFFFFF):
        super().__init__()
        self.asked, self.payloads, self.error, self.completed = n, [], None, False
        self.faults, self.changed = [], asyncio.Condition()
        self.subscription = None

    def on_subscribe(self, subscription):
        self.subscription = subscription

    def on_next(self, value, is_complete=False):
        self.check(not self.over, "an item after the end")
        self.payloads.append(value)
        self.check(len(self.payloads) <= self.asked, "more than requested")
        self.completed |= is_complete
        self.wake()

    def on_complete(self):
        self.check(not self.over, "two ends")
        self.completed = True
        self.wake()

    def on_error(self, exception):
        self.check(not self.over, "two ends")
        self.error = exception
        self.wake()

    def check(self, holds: bool, fault: str):
        if not holds:
            self.faults.append(fault)

    def wake(self):
        async def notify():
            async with self.changed:
                self.changed.notify_all()

        self.task = asyncio.ensure_future(notify())

    @property
    def over(self) -> bool:
        return self.completed or self.error is not None

    @property
    def data(self) -> list[bytes]:
        return [payload.data or b"" for payload in self.payloads]

    def request(self, n: int):
        self.asked += n
        self.subscription.request(n)

    async def until(self, condition):
        async with self.changed:
            await asyncio.wait_for(self.changed.wait_for(lambda: self.faults or condition(self)), client.DEADLINE)
        assert not self.faults, self.faults

    async def count(self, count: int):
        await self.until(lambda _: len(self.payloads) >= count or self.over)
        assert len(self.payloads) == count

    async def end(self):
        await self.until(lambda _: self.over)


class Feed(DefaultPublisher, DefaultSubscription):
    """A publisher that sends its items as the broker asks for them, and then its end."""

    def __init__(self, items, error=None, ends=True):
        self.items, self.error, self.ends = list(items), error, ends

    def subscribe(self, subscriber):
        self.subscriber = subscriber
        subscriber.on_subscribe(self)

    def request(self, n: int):
        for _ in range(min(n, len(self.items))):
            self.subscriber.on_next(Payload(self.items.pop(0)))
        if not self.items and self.ends:
            self.ends = False
            self.subscriber.on_error(self.error) if self.error else self.subscriber.on_complete()


def to(path: str, data: bytes = b"", *items) -> Payload:
    return Payload(data, composite(route(path), *items))


async def publish(library, topic, *items: bytes) -> list[int]:
    return [int((await library.request_response(to(topic, item))).data) for item in items]


def subscribe(library, path: str, n=0x7FFFFFFF) -> Collector:
    collector = Collector(n)
    library.request_stream(to(path)).initial_request_n(n).subscribe(collector)
    return collector


async def joined(library, topic, count: int):
    """Waits until the topic has `count` subscriptions."""
    for _ in range(2000):
        told = await library.request_response(to(f"$SYS.topic.info?name={topic}"))
        if client.json.loads(told.data)["subscriptions"] == count:
            return
    raise TimeoutError(told.data)


async def barrier(library, topic):
    for _ in range(2):
        await library.request_response(to("$SYS.info"))
        await library.request_response(to(f"$SYS.topic.info?name={topic}"))


def run(scene):
    """Runs a test's coroutine, within a time."""
    asyncio.run(asyncio.wait_for(scene, 60))


def two(broker, scene, **options):
    """Runs `scene(a, b)` with two clients."""

    async def both():
        async with Library(broker.address, **options) as a, Library(broker.address, **options) as b:
            await scene(a, b)

    run(both())
