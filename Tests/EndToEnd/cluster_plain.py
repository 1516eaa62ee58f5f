"""Publishers and subscribers with nats-py on streams of the NATS cluster of `clusters.py`, for comparison. They run on
an event loop in a thread, with one connection for each stream."""

import asyncio
import json
import threading
import time
import uuid

import nats
import nats.errors
from nats.js.api import ConsumerConfig, StreamConfig

from cluster_clients import Pauses

TIMEOUT = 2.0  # Seconds after which a request is repeated.
ERRORS = (nats.errors.Error, asyncio.TimeoutError, OSError)


class Pair:
    """A publisher and a subscriber of a stream. A message is repeated under its id until it is acknowledged; JetStream
    then stores it once."""

    def __init__(self, name: str):
        self.name, self.sent, self.received = name, 0, 0
        self.published, self.delivered = Pauses(), Pauses()

    async def begin(self, servers: list[str], replicas: int):
        self.client = await nats.connect(servers, max_reconnect_attempts=-1, reconnect_time_wait=0.1, ping_interval=1,
                                         max_outstanding_pings=2, error_cb=quietly)
        self.stream = self.client.jetstream(timeout=TIMEOUT)
        config = StreamConfig(self.name, subjects=[self.name], num_replicas=replicas)
        await persist(lambda: self.stream.add_stream(config))
        consumer = ConsumerConfig(durable_name=self.name, ack_wait=TIMEOUT, max_ack_pending=1)
        await persist(lambda: self.stream.add_consumer(self.name, consumer))
        self.published.last = self.delivered.last = time.monotonic()

    async def publish(self, rate: float, stopping: asyncio.Event):
        due = time.monotonic()
        while not stopping.is_set():
            self.sent += 1
            headers = {"Nats-Msg-Id": uuid.uuid4().hex}
            payload = b"%d" % self.sent
            await persist(lambda: self.stream.publish(self.name, payload, headers=headers, timeout=TIMEOUT))
            self.published.progress()
            due = max(due + 1 / rate, time.monotonic() - 1)
            await asyncio.sleep(max(0, due - time.monotonic()))

    async def subscribe(self, stopping: asyncio.Event):
        subscription = await persist(
            lambda: self.stream.pull_subscribe_bind(durable=self.name, stream=self.name))
        while not stopping.is_set() or self.received < self.sent:
            try:
                messages = await subscription.fetch(1, timeout=TIMEOUT)
            except ERRORS:
                continue
            for one in messages:
                number = int(one.data)
                assert number <= self.received + 1, f"{number} after {self.received}: lost"
                if number == self.received + 1:  # Otherwise it is repeated, because its acknowledgement was lost.
                    self.received = number
                    self.delivered.progress()
                await persist(one.ack)


async def quietly(error):
    """A failed attempt to connect is repeated."""


async def persist(call):
    while True:
        try:
            return await call()
        except ERRORS:
            await asyncio.sleep(0.1)  # Between attempts.


class Plain:
    """Pairs that publish `rate` messages a second, together."""

    def __init__(self, servers: list[str], pairs: int, rate: float, replicas: int):
        self.servers, self.rate, self.replicas = servers, rate / pairs, replicas
        self.pairs = [Pair(f"PLAIN{number}") for number in range(pairs)]
        self.failures: list[BaseException] = []
        self.stopping, self.loop = asyncio.Event(), asyncio.new_event_loop()
        started = threading.Event()
        self.thread = threading.Thread(target=self._thread, args=(started,), daemon=True)
        self.thread.start()
        # The cluster elects its first leader before it answers.
        if not started.wait(60) or self.failures:
            raise AssertionError("the NATS cluster does not start") from (self.failures or [None])[0]

    def _thread(self, started: threading.Event):
        self.task = self.loop.create_task(self._run(started))
        try:
            self.loop.run_until_complete(self.task)
        except BaseException as error:
            self.failures.append(error)
            started.set()

    async def _run(self, started: threading.Event):
        for pair in self.pairs:
            await pair.begin(self.servers, self.replicas)
        started.set()
        work = [one for pair in self.pairs for one in (pair.publish(self.rate, self.stopping),
                                                       pair.subscribe(self.stopping))]
        await asyncio.gather(*work)
        for pair in self.pairs:
            await pair.client.close()

    def _ask(self, subject: str, payload: dict) -> dict | None:
        """The answer of JetStream's API; None if there is none."""
        asking = self.pairs[0].client.request(subject, json.dumps(payload).encode(), timeout=TIMEOUT)
        try:
            return json.loads(asyncio.run_coroutine_threadsafe(asking, self.loop).result(2 * TIMEOUT).data)
        except (*ERRORS, TimeoutError):
            return None

    def streams(self) -> list[dict] | None:
        """The state of all streams, if all of them have a leader."""
        listed = self._ask("$JS.API.STREAM.LIST", {})
        return None if listed is None or "error" in listed or listed.get("missing") else listed["streams"]

    def settled(self) -> bool:
        """Whether all copies of all streams are current."""
        copies = [one.get("cluster", {}) for one in self.streams() or [{}]]
        return all(one.get("leader") and len(one.get("replicas", ())) == self.replicas - 1
                   and all(copy["current"] and not copy.get("offline") for copy in one["replicas"]) for one in copies)

    def last(self, subject: str) -> int:
        """The last sequence of the stream with a subject, which has all messages since the first."""
        found = self._ask("$JS.API.STREAM.NAMES", {"subject": subject})
        state = self._ask(f"$JS.API.STREAM.INFO.{found['streams'][0]}", {})["state"]
        assert (state["first_seq"], state["messages"]) == (1, state["last_seq"]), state
        return state["last_seq"]

    def close(self):
        """Ends everything at once."""
        if not self.task.done():
            self.loop.call_soon_threadsafe(self.task.cancel)
        self.thread.join(30)

    def stop(self):
        self.loop.call_soon_threadsafe(self.stopping.set)
        self.thread.join(30)
        assert not self.thread.is_alive(), "a plain subscriber lacks messages"
