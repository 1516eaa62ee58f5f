"""A client for Forebay over RSocket, with Python's standard library (3.11 or later).

    import asyncio
    from forebay_client import Client, RequestError

    async def main():
        async with Client("127.0.0.1", 7690) as client:
            async with await client.subscribe("weather.oslo", {"replay": 10}, window=64, on_gap=print) as messages:
                sequence = await client.publish("weather.oslo", b"4.1 C", content_type="text/plain")
                async for message in messages:  # Ends when the topic completes, raises RequestError when it fails.
                    print(message.sequence, message.data)
                    break

            client.fire("weather.oslo", b"4.0 C")
            channel = client.channel("weather.bergen", {"complete": "true"})
            for number in range(5000):
                await channel.send(b"%d" % number)  # Waits for the broker's credit.
            await channel.complete()                # Waits until every message is acknowledged.
            print(await client.control("$SYS.topic.info", name="weather.bergen"))
            print([topic["name"] async for topic in client.list("$SYS.topics")])

    asyncio.run(main())

The client reconnects by itself, with backoff. Subscriptions then continue where they were, by epoch and sequence, and
publishes that have no answer are repeated: they happen at least once. Errors are RequestError (of one request) and
ConnectionFailed (the client stops). Both have `word`, `code` and `retry`, the broker's advice; a program decides by
these, and shows `text` to people.
"""

import asyncio
import json
import logging
import random
import struct
from collections import deque

from forebay_wire import *

log = logging.getLogger("forebay")


class Resuming:
    """What continues on the next connection: subscriptions and channels."""

    def __init__(self, client: "Client"):
        self.client, self.connection, self.stream = client, None, None
        self.changed, self.ended, self.failure = asyncio.Event(), False, None
        if client.failure:
            return self.end(client.failure)
        client.resuming[self] = None
        if client.connection:
            self.start(client.connection)

    def lost(self):
        self.connection = self.stream = None

    def error(self, error: Exception):
        if isinstance(error, RequestError) and error.word == "draining":  # The stream waits for the next connection.
            self.client.avoid(self.connection)
            self.connection = self.stream = None
        else:
            self.end(error)

    def end(self, failure: Exception | None = None):
        self.ended, self.failure = True, failure
        self.client.resuming.pop(self, None)
        self.changed.set()

    def cancel(self):
        if self.connection and self.stream:
            self.connection.cancel(self.stream)
        if not self.ended:
            self.end(ConnectionLost("cancelled by this client"))

    async def until(self, condition):
        """Waits until `condition()`. Raises the failure if the stream ends before that."""
        while not condition():
            if self.ended:
                raise self.failure or StopAsyncIteration
            self.changed.clear()
            await self.changed.wait()


class Answer(Resuming):
    """A REQUEST_RESPONSE and the PAYLOAD that answers it. If the connection is lost before the answer, the request is
    repeated on the next one, or fails with ConnectionLost: it may have been carried out."""

    def __init__(self, client: "Client", metadata: bytes, data: bytes = b"", repeat: bool = True):
        self.request, self.repeat, self.data = (metadata, data), repeat, None
        super().__init__(client)

    def start(self, connection: Connection):
        self.connection = connection
        self.stream = connection.open(self, REQUEST_RESPONSE, *self.request)

    def payload(self, flags: int, found: list, data: bytes):
        self.data = data
        self.end()

    def lost(self):
        super().lost()
        if not self.repeat:
            self.end(ConnectionLost("the connection was lost before the answer"))

    async def wait(self) -> bytes:
        try:
            await self.until(lambda: self.data is not None)
        finally:
            self.cancel()
        return self.data


class Subscription(Resuming):
    """An asynchronous iterator of messages. At most `window` messages are requested or wait here. `position` is the
    epoch and sequence of the next message. Its first value comes from the opening, so nothing after that is lost."""

    def __init__(self, client: "Client", name: str, options: dict, window: int, on_gap=None, is_list=False):
        self.name, self.options, self.window, self.is_list = name, options, window, is_list
        self.on_gap = on_gap or (lambda gap: log.warning("%s: %s", name, gap))
        self.queue, self.outstanding = deque(), 0
        self.position = (int(options["epoch"]), int(options["from"])) if "epoch" in options else None
        self.opened = False
        super().__init__(client)

    def start(self, connection: Connection):
        options, self.connection = dict(self.options), connection
        if not self.is_list:
            options |= {"meta": "on", "opening": "on"}
        if self.position:
            options = {name: value for name, value in options.items() if name not in ("replay", "since")}
            options |= {"epoch": self.position[0], "from": self.position[1]}
        self.outstanding = self.window - len(self.queue)
        demand = self.outstanding + (0 if self.is_list else 1)  # The opening uses one.
        self.stream = connection.open(self, REQUEST_STREAM, route(self.name, options), demand=demand)

    def payload(self, flags: int, found: list, data: bytes):
        mime, about = found[0] if found else (None, b"")  # The broker's entry is the first; others are the publisher's.
        message = Message(data)
        if mime == OPENING:
            epoch, sequence = struct.unpack_from(">QQ", about)
            if self.position and epoch != self.position[0]:
                self.on_gap(Gap("epoch", epoch, sequence))
            elif self.position and sequence < self.position[1]:
                self.on_gap(Gap("ahead", epoch, sequence))
            # If messages are missing, the first message will count them; until then the position stays as it is.
            if not self.position or epoch != self.position[0] or sequence < self.position[1]:
                self.position = epoch, sequence
            self.opened = True
        elif mime == ABOUT_MESSAGE:
            message = Message(data, *struct.unpack_from(">QQqQ", about), found[1:])
            if message.dropped_before:
                self.on_gap(Gap("dropped", message.epoch, message.sequence, message.dropped_before))
            self.position = message.epoch, message.sequence + 1
        if flags & NEXT and mime != OPENING:
            self.outstanding -= 1
            self.queue.append(message)
        if flags & COMPLETE:
            self.end()
        self.changed.set()

    def lost(self):
        super().lost()
        if self.is_list:
            self.end(ConnectionLost("the connection was lost during a list"))

    async def __anext__(self) -> Message:
        await self.until(lambda: self.queue)
        message = self.queue.popleft()
        more = self.window - self.outstanding - len(self.queue)
        if 2 * more >= self.window and self.connection and not self.ended:
            self.outstanding += more
            self.connection.send(self.stream, REQUEST_N, 0, struct.pack(">I", more))
        return message

    def __aiter__(self):
        return self

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        self.cancel()


class Channel(Resuming):
    """Publishes messages in order, at the broker's pace. `accepted` counts the messages that are in the topic;
    `sequence` is that of the last one. After a lost connection, messages without an acknowledgement are sent again.
    After an error they may or may not have been published; what to do is up to the program."""

    def __init__(self, client: "Client", topic: str, options: dict):
        self.route, self.waiting, self.sent = route(topic, options), deque(), deque()
        self.completes = options.get("complete") == "true"
        self.offered = self.accepted = self.counted = self.grants = 0
        self.sequence, self.closing, self.closed = 0, False, False
        super().__init__(client)

    def start(self, connection: Connection):
        self.connection, self.stream, self.counted, self.grants, self.closed = connection, None, 0, 0, False
        self.waiting, self.sent = self.sent + self.waiting, deque()
        self._pump()

    def _pump(self):
        while self.connection and self.waiting and (self.grants or not self.stream):
            self.sent.append(self.waiting.popleft())
            metadata, data = self.sent[-1]
            self.closed = self.closing and not self.waiting
            flags = COMPLETE if self.closed else 0
            if self.stream:  # The first message is in the request and needs no credit.
                self.grants -= 1
                self.connection.writer.write(frames(self.stream, PAYLOAD, NEXT | flags, metadata or None, data))
            else:
                self.stream = self.connection.open(
                    self, REQUEST_CHANNEL, self.route + metadata, data, UNBOUNDED, flags)
        if self.connection and self.closing and not self.closed and not self.waiting:
            self.closed = True
            if self.stream:
                self.connection.send(self.stream, PAYLOAD, COMPLETE)
            else:  # Everything is acknowledged, and a channel cannot begin without a message.
                self.end(ConnectionLost("whether the topic is completed is unknown") if self.completes else None)
        self.changed.set()

    def credit(self, count: int):
        self.grants += count
        self._pump()

    def payload(self, flags: int, found: list, data: bytes):
        if found and found[0][0] == ACCEPTED:
            (count,) = struct.unpack_from(">Q", found[0][1])
            for _ in range(count - self.counted):
                self.sent.popleft()
            self.accepted += count - self.counted
            self.counted, self.sequence = count, int(data or b"0")
        if flags & COMPLETE:
            self.accepted += len(self.sent)
            self.sent.clear()
            self.end()
        self.changed.set()

    async def send(self, data: bytes, content_type: str | None = None, extra=()):
        """Returns when the message is sent, not yet acknowledged."""
        self.waiting.append((message_metadata(content_type, extra), data))
        self._pump()
        self.offered += 1
        mine = self.offered
        await self.until(lambda: self.accepted + len(self.sent) >= mine)
        if self.connection:
            await self.connection.flush()

    async def complete(self):
        """Waits until all messages are acknowledged. With `complete=true` this completes the topic."""
        self.closing = True
        self._pump()
        await self.until(lambda: self.ended and not self.failure)

    def fail(self, text: str):
        """Ends the channel. With `complete=true` this fails the topic."""
        if self.connection and self.stream:
            self.connection.forget(self.stream)
            self.connection.send(self.stream, ERROR, 0, struct.pack(">I", APPLICATION_ERROR) + text.encode())
        self.end(ConnectionLost("failed by this client"))


class Client:
    """A connection that is replaced whenever it is lost, until a replacement is of no use: then everything raises the
    broker's ConnectionFailed. `credentials` are (user, password), a token, or a function that returns one of these for
    each attempt. A broker that sends no byte for `lifetime` seconds is considered dead."""

    def __init__(self, host: str = "127.0.0.1", port: int = 7690, *, credentials=None, ssl=None, lifetime: float = 30):
        self.host, self.port, self.credentials, self.ssl, self.lifetime = host, port, credentials, ssl, lifetime
        self.connection, self.failure, self.failures = None, None, 0
        self.resuming: dict[Resuming, None] = {}  # In the order in which they began.
        self.changed = asyncio.Event()

    async def __aenter__(self):
        self.task = asyncio.create_task(self._run())
        try:
            await self.connected()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_):
        await self.close()

    async def close(self):
        connection, self.connection = self.connection, None
        if connection:
            await connection.flush()
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        self._stop(ConnectionLost("the client was closed"))

    async def connected(self) -> Connection:
        while not self.connection:
            if self.failure:
                raise self.failure
            self.changed.clear()
            await self.changed.wait()
        return self.connection

    async def _run(self):
        while True:
            try:
                where = asyncio.open_connection(self.host, self.port, ssl=self.ssl)
                connection = Connection(*await asyncio.wait_for(where, FIRST_FRAME), self.lifetime, self._accepted)
                await connection.run(self.credentials() if callable(self.credentials) else self.credentials)
            except (OSError, ConnectionLost, ConnectionFailed, struct.error) as error:
                log.warning("connection lost: %s", error)
                self.connection = None
                if isinstance(error, ConnectionFailed) and self._is_final(error):
                    return self._stop(error)
            longest = min(0.1 * 2 ** min(self.failures, 20), 10)
            self.failures += 1
            await asyncio.sleep(longest * random.uniform(0.5, 1))

    def _is_final(self, error: ConnectionFailed) -> bool:
        if error.word == "unauthenticated":
            return not callable(self.credentials)
        return error.code in (INVALID_SETUP, UNSUPPORTED_SETUP) and error.word != "timeout"

    def _accepted(self, connection: Connection):
        self.connection, self.failures = connection, 0
        self.changed.set()
        for one in list(self.resuming):
            one.start(connection)

    def avoid(self, connection: Connection | None):
        """The broker is shutting down: what begins now waits for the next connection."""
        if self.connection is connection:
            self.connection = None

    def _stop(self, error: Exception):
        self.failure = self.failure or error
        self.changed.set()
        for one in list(self.resuming):
            one.end(self.failure)

    async def subscribe(self, topic: str, options: dict | None = None, *, window: int = 64, on_gap=None):
        """A Subscription that the broker has accepted: it receives everything that is published from now on."""
        subscription = Subscription(self, topic, options or {}, window, on_gap)
        try:
            await subscription.until(lambda: subscription.opened)
        except BaseException:
            subscription.cancel()
            raise
        return subscription

    async def publish(self, topic: str, data: bytes, *, content_type: str | None = None, extra=()) -> int:
        """Returns the message's sequence. `extra` are entries of metadata: (mime's name or id, content)."""
        answer = Answer(self, route(topic, {}) + message_metadata(content_type, extra), data)
        return int(await answer.wait())

    def fire(self, topic: str, data: bytes, *, content_type: str | None = None, extra=()):
        """Publishes at most once and without an answer. It is dropped while there is no connection."""
        if self.connection:
            metadata = route(topic, {}) + message_metadata(content_type, extra)
            self.connection.open(None, REQUEST_FNF, metadata, data)

    def channel(self, topic: str, options: dict | None = None) -> Channel:
        return Channel(self, topic, options or {})

    async def control(self, name: str, /, **options) -> dict:
        repeat = name in ("$SYS.info", "$SYS.topic.info")  # The other calls change something.
        return json.loads(await Answer(self, route(name, options), repeat=repeat).wait())

    async def list(self, name: str):
        """Yields the objects of $SYS.topics, $SYS.subscriptions or $SYS.connections."""
        async with Subscription(self, name, {}, 64, is_list=True) as objects:
            async for one in objects:
                yield json.loads(one.data)
