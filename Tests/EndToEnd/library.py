"""rsocket-py as a client of the broker: connecting, collecting received items, supplying items to send.

`Library`, `Collector` and `Feed` are for coroutines. `Peer` has the interface of `common.py`: its coroutines run in a
separate thread.
"""

import asyncio
import json
import queue
import threading
from datetime import timedelta
from urllib.parse import quote

from reactivestreams.publisher import DefaultPublisher
from reactivestreams.subscriber import DefaultSubscriber
from reactivestreams.subscription import DefaultSubscription
from rsocket.extensions.helpers import composite, route
from rsocket.exceptions import RSocketProtocolError
from rsocket.extensions.mimetypes import WellKnownMimeTypes
from rsocket.helpers import single_transport_provider
from rsocket.payload import Payload
from rsocket.rsocket_client import RSocketClient
from rsocket.transports.tcp import TransportTCP

import client
import tls
from common import DEADLINE, UNBOUNDED, End, Message, Observer, Publishing, Stream, StreamError, application

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
    """Collects and counts what arrives, because the library does not enforce credit. The library swallows exceptions
    raised in callbacks, so failures are kept and raised in the waiting coroutine."""

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
    """A publisher that sends its items as the broker requests them, and then its end."""

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
    """Runs a test's coroutine with a timeout."""
    asyncio.run(asyncio.wait_for(scene, 60))


def two(broker, scene, **options):
    """Runs `scene(a, b)` with two clients."""

    async def both():
        async with Library(broker.address, **options) as a, Library(broker.address, **options) as b:
            await scene(a, b)

    run(both())


# The interface of `common.py`


def ending(error: Exception) -> End:
    """What the library makes of an ERROR: RuntimeError for APPLICATION_ERROR."""
    if isinstance(error, RSocketProtocolError):
        return End(client.KINDS.get(error.error_code), error.data, code=error.error_code)
    return End(application(str(error)), str(error))


class Inbox(DefaultSubscriber):
    """Collects what arrives, and at the end the End, for a thread that waits for it."""

    def __init__(self):
        super().__init__()
        self.events, self.subscription = queue.SimpleQueue(), None

    def on_subscribe(self, subscription):
        self.subscription = subscription

    def on_next(self, value, is_complete=False):
        self.events.put(value.data or b"")
        if is_complete:
            self.events.put(End())

    def on_complete(self):
        self.events.put(End())

    def on_error(self, exception):
        self.events.put(ending(exception))


class Incoming:
    """The receiving half of a stream that the broker sends: `inbox` is filled on the thread of `peer`."""

    def request(self, n: int):
        self.asked += n
        self.peer.soon(lambda: self.inbox.subscription.request(n))

    def cancel(self):
        self.peer.soon(lambda: self.inbox.subscription.cancel())

    def pending(self) -> int:
        return self.inbox.events.qsize()

    def next(self, timeout: float):
        assert self.ended is None, f"the stream has ended: {self.ended}"
        try:
            event = self.inbox.events.get(timeout=max(timeout, 0.001))
        except queue.Empty:
            raise TimeoutError("no sign of an event") from None
        if isinstance(event, End):
            self.ended = event
        return event


class Subscription(Incoming, Stream):
    def __init__(self, peer: "Peer", path: str, n: int):
        Stream.__init__(self, n)
        self.peer, self.inbox = peer, Inbox()
        peer.soon(lambda: peer.client.request_stream(to(path)).initial_request_n(n).subscribe(self.inbox))

    def event(self, timeout=DEADLINE) -> Message | End:
        event = self.next(timeout)
        if isinstance(event, End):
            return event
        self.count()
        return Message(event)


class Channel(Incoming, Publishing):
    """Acts as a publisher for the library, and passes on the broker's credit and cancellation."""

    def __init__(self, peer: "Peer", path: str, first: bytes, acks: int, complete: bool):
        Publishing.__init__(self)
        self.peer, self.inbox, self.asked, self.half = peer, Inbox(), acks, Half(self)
        stream = lambda: peer.client.request_channel(to(path, first), None if complete else self.half)
        peer.soon(lambda: stream().initial_request_n(acks).subscribe(self.inbox))

    def force(self, data: bytes = b"", last=False):
        self.sent += 1
        self.peer.soon(lambda: self.half.subscriber.on_next(Payload(data), last))

    def complete(self):
        self.peer.soon(lambda: self.half.subscriber.on_complete())

    def fail(self, text: str):
        self.peer.soon(lambda: self.half.subscriber.on_error(RuntimeError(text)))

    def event(self, timeout=DEADLINE) -> str:
        event = self.next(timeout)
        if isinstance(event, End):
            return "end"
        if isinstance(event, int):
            self.granted += event
            return "grant"
        if event is None:
            return "cancel"
        self.acknowledge((int(event), None))
        return "ack"


class Half(DefaultPublisher, DefaultSubscription):
    """What the library requests on the broker's behalf. Credit is kept as a number, a cancel as None."""

    def __init__(self, channel: Channel):
        self.channel = channel

    def subscribe(self, subscriber):
        self.subscriber = subscriber
        subscriber.on_subscribe(self)

    def request(self, n: int):
        self.channel.inbox.events.put(n)

    def cancel(self):
        self.channel.inbox.events.put(None)


class Offer:
    """A REQUEST_RESPONSE that publishes one message."""

    def __init__(self, peer: "Peer", topic: str, data: bytes):
        self.peer = peer
        self.answer = peer.wait(self._send(to(topic, data)))

    async def _send(self, payload):
        return self.peer.client.request_response(payload)

    def answered(self) -> bool:
        return self.answer.done() and not self.answer.cancelled()

    def sequence(self, timeout=DEADLINE) -> int:
        return int(self.peer.result(self.answer, timeout))

    def cancel(self):
        self.peer.soon(self.answer.cancel)


class Peer(Observer):
    """A client on its own connection."""

    def __init__(self, address, **options):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.library = Library(address, **options)
        self.client = self.wait(self.library.__aenter__())

    def soon(self, call):
        self.loop.call_soon_threadsafe(call)

    def wait(self, coroutine, timeout=DEADLINE):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(timeout)

    def result(self, future, timeout=DEADLINE) -> bytes:
        """The payload of a response."""

        async def answer():
            return await asyncio.wait_for(asyncio.shield(future), timeout)

        try:
            return self.wait(answer(), timeout + 1).data or b""
        except (RSocketProtocolError, RuntimeError) as error:
            end = ending(error)
            raise StreamError(end.kind, end.text, end.code) from None

    def subscribe(self, path: str, n=UNBOUNDED) -> Subscription:
        return Subscription(self, path, n)

    def offer(self, topic: str, data: bytes) -> Offer:
        return Offer(self, topic, data)

    def fire(self, topic: str, data: bytes):
        self.wait(self._fire(to(topic, data)))

    async def _fire(self, payload):
        await self.client.fire_and_forget(payload)

    def channel(self, path: str, first: bytes, acks=UNBOUNDED, complete=False) -> Channel:
        """Opens a channel. With `complete`, item 0 is the only one."""
        return Channel(self, path, first, acks, complete)

    def control(self, path: str, **arguments: str) -> dict:
        query = "&".join(f"{key}={quote(value, safe='')}" for key, value in arguments.items())
        offer = self.offer(f"{path}?{query}" if query else path, b"")
        return json.loads(self.result(offer.answer) or b"null")

    def listing(self, path: str) -> list[dict]:
        return [json.loads(one.data) for one in self.subscribe(path).rest()]

    def close(self):
        if self.loop.is_running():
            self.wait(self.library.__aexit__())
            self.soon(self.loop.stop)
            self.thread.join()
