"""A broker with a store that is killed under load, again and again. `books.py` keeps what its clients have learned."""

import json
import random
import signal
import threading
import time
from collections import defaultdict

from books import TRIMMED, Book, Ends, Reader
from brokers import Broker
from client import *
from http1 import Line, post

CONFIGURATION = f"""
retain: 1000000
retain-bytes: 1G
durable: [d.>, e.>, t.>]
relaxed: [r.>]
store-interval: 20ms
drain-time: 1s
topics:
  - match: t.>
    retain: {TRIMMED}
"""
# Errors of clients whose broker is gone, besides broken connections.
GONE = ("Expecting value: line 1 column 1 (char 0)", "the connection ended within a head",
        "invalid literal for int() with base 16: b''")


class Run(Broker):
    """A broker to be killed."""

    def __init__(self, *options: str):
        super().__init__(*options)
        self.doomed = False
        # One for all threads: while one connects, `grpc_client` expects that no other does.
        self.shared = self.peer("grpc")


class Publisher:
    """Publishes to a topic over one protocol until the broker is gone."""

    def __init__(self, book: Book, protocol: str, name: str, seed: int):
        self.book, self.protocol, self.name = book, protocol, name
        self.dice, self.number = random.Random(seed), 0

    def payload(self) -> bytes:
        self.number += 1
        size = self.dice.choice((0, 10, 300, 3000)) if self.dice.random() < 0.995 else 100_000
        return self.book.offer(f"{self.name} {self.number} ".encode() + b"." * size)

    def rsocket(self, broker: Run):
        peer, waiting = broker.peer(), []
        while True:
            while len(waiting) < 16:
                payload = self.payload()
                waiting.append((peer.offer(self.book.name, payload), payload))
            offer, payload = waiting.pop(0)
            self.book.acknowledge(offer.sequence(30), payload)

    def channel(self, broker: Run):
        items, accepted = [self.payload()], 0
        channel = broker.peer().channel(self.book.name, items[0])
        while channel.ended is None:
            while channel.credit > 0 and len(items) - accepted < 64:
                items.append(self.payload())
                channel.force(items[-1])
            if channel.event(30) == "ack":
                sequence, count = channel.acks[-1]
                self.book.acknowledge(sequence, *items[accepted:count])
                accepted = count

    def grpc(self, broker: Run):
        while True:
            payload = self.payload()
            self.book.acknowledge(*broker.shared.publish(self.book.name, payload), payload)

    def http(self, broker: Run):
        line = Line(broker.http)
        while True:
            payload = self.payload()
            line.send(post(self.book.name, payload))
            status, body = line.answer()
            if status == 503:  # It drains.
                return
            assert status in (200, 201), (status, body)
            assert int(json.loads(body)["epoch"]) == self.book.epoch
            self.book.acknowledge(json.loads(body)["sequence"], payload)


class Generation:
    """Topics with their publishers and subscribers, for a number of crashes."""

    TOPICS = {"d.a": ("rsocket", "channel"), "d.b": ("grpc", "http"), "r.a": ("channel", "http"),
              "r.b": ("rsocket",), "t.a": ("rsocket",)}
    READERS = {"d.a": ("rsocket", "grpc"), "d.b": ("http",), "r.a": ("rsocket", "http"), "r.b": ("grpc",),
               "t.a": ("rsocket",)}

    def __init__(self, number: int, dice: random.Random):
        self.number, self.dice, self.runs = number, dice, 0
        self.books = [Book(f"{name}.{number}") for name in self.TOPICS]
        self.readers = [Reader(book, protocol) for book, protocols in zip(self.books, self.READERS.values())
                        for protocol in protocols]
        self.ends = Ends(f"e.{number}")
        self.failures: list[BaseException] = []

    def begin(self, broker: Run):
        """Creates the topics."""
        peer = broker.peer()
        for book in self.books:
            payload = book.offer(b"first 1 ")
            peer.publish(book.name, payload)
            book.epoch = int(peer.info(book.name)["epoch"])
        peer.close()

    def check(self, broker: Run):
        peer = broker.peer()
        for book in self.books:
            book.check(peer)
        self.ends.check(peer)
        peer.close()

    def load(self, broker: Run) -> list[threading.Thread]:
        """Starts the publishers and subscribers, which end with the broker."""
        self.runs += 1
        work = [(reader, reader.protocol) for reader in self.readers] + [(self.ends, "run")]
        for book, protocols in zip(self.books, self.TOPICS.values()):
            for protocol in protocols:
                name = f"{self.runs}.{protocol}"
                work.append((Publisher(book, protocol, name, self.dice.randrange(1 << 32)), protocol))
        threads = [threading.Thread(target=self._run, args=(getattr(who, method), broker)) for who, method in work]
        for thread in threads:
            thread.start()
        return threads

    def _run(self, work, broker: Run):
        try:
            work(broker)
        except (ConnectionError, StreamError, TimeoutError, AssertionError, ValueError) as error:
            broken = not isinstance(error, (AssertionError, ValueError)) or not str(error)
            broken = broken or str(error).startswith(GONE)
            if not broken or not broker.doomed:
                self.failures.append(error)
        except BaseException as error:
            self.failures.append(error)

    def end(self, broker: Run):
        peer = broker.peer()
        for row in peer.listing("$SYS.topics"):
            if not row["name"].startswith("$"):
                peer.control("$SYS.topic.delete", name=row["name"])
        peer.close()


class Crashes:
    """Runs, kills and checks. `figures` counts what was done."""

    def __init__(self, folder, seed: int, *options: str):
        self.folder, self.dice = folder, random.Random(seed)
        configuration = folder / "forebay.yaml"
        configuration.write_text(CONFIGURATION)
        self.options = ("--config", str(configuration), "--store", str(folder / "store"), *options)
        self.figures = defaultdict(int)

    def start(self) -> Run:
        return Run(*self.options)

    def run(self, kills: int, each: int = 10, longest: float = 0.4):
        """Kills the broker `kills` times, with new topics after every `each`."""
        done, number, broker = 0, 0, self.start()
        while done < kills:
            number += 1
            generation = Generation(number, self.dice)
            generation.begin(broker)
            for _ in range(min(each, kills - done)):
                threads = generation.load(broker)
                self.kill(broker, self.dice.uniform(0.02, longest))
                for thread in threads:
                    thread.join(60)
                    assert not thread.is_alive(), "a client has not noticed that the broker is gone"
                broker.shared.close()
                if generation.failures:
                    raise generation.failures[0]
                done += 1
                broker = self.start()
                generation.check(broker)
            self.count(generation)
            generation.end(broker)
        broker.stop()
        self.figures["kills"] += done

    def kill(self, broker: Broker, after: float):
        """Ends the broker: mostly at once, sometimes while it stops, sometimes in order; then, sometimes, a start."""
        time.sleep(after)  # The random moment, not a wait for anything.
        assert broker.process.poll() is None, "\n".join(broker.log)
        broker.doomed = True
        how = self.dice.random()
        if how < 0.25:
            broker.process.send_signal(signal.SIGTERM)
            if how < 0.15:
                time.sleep(self.dice.uniform(0, 0.3))
            else:
                broker.process.wait(30)
        broker.process.kill()
        code = broker.process.wait()
        self.figures["clean stops" if code == 0 else "killed"] += 1
        assert code in (0, -9), (code, broker.log[-5:])
        if self.dice.random() < 0.2:
            starting = Broker.spawn(broker, [Broker.executable(), *self.options, "--listen", "127.0.0.1:0", "--http",
                                             "127.0.0.1:0", "--admin", "off"], {})
            time.sleep(self.dice.uniform(0, 0.08))
            starting.kill()
            starting.wait()
            starting.stderr.close()
            self.figures["killed while starting"] += 1

    def count(self, generation: Generation):
        for book in generation.books:
            self.figures["published"] += len(book.sent)
            self.figures["identities"] += len(book.told)
            self.figures["messages checked after restarts"] += book.checked
        for reader in generation.readers:
            self.figures["received"] += reader.received
            self.figures["resumed"] += reader.resumed
        self.figures["topics ended or deleted"] += generation.ends.count
