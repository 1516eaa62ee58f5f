"""A cluster of NATS servers and nodes under load, of which one after the other is killed, stopped, shut down and cut
off. `cluster_clients.py` has the clients, and `cluster_plain.py` those of NATS itself, for comparison.

At most one process or connection is faulty at a time: JetStream always has a majority of its servers, with their disks.
"""

import random
import signal
import threading
import time
from collections import defaultdict
from functools import partial
from pathlib import Path

from brokers import Broker
from cluster_clients import SILENCE, Client, Ledger, Link, Publisher, Subscriber
from cluster_plain import Plain
from client import *
from nats_server import Server
from proxy import Proxy

COUNT = 3  # Servers, nodes, and copies of each message.
TOPICS = 6
BOUND = 30  # Seconds after the end of a fault until every client has made progress.
SETTLED = 60  # Seconds after that until all copies of all streams are current.
NOWHERE = ("127.0.0.1", 1)


class Member(Server):
    """A server of the cluster. `inward` are the proxies to it, of the other servers and of its clients, `outward` those
    from it to the other servers."""

    def __init__(self, folder: Path, number: int, inward: list[Proxy], outward: list[Proxy]):
        self.inward, self.outward = inward, outward
        urls = ", ".join('"nats://%s:%d"' % proxy.address for proxy in outward)
        # Other servers and clients learn of no address that leads around the proxies.
        super().__init__(folder, f'''server_name: n{number}
cluster {{ name: C, listen: "127.0.0.1:-1", advertise: "{NOWHERE[0]}:{NOWHERE[1]}", no_advertise: true,
routes: [{urls}] }}''')

    def start(self, port: int = -1) -> None:
        super().start(-1)  # Another process may have used the former port.
        for proxy in self.inward:
            proxy.to = ("127.0.0.1", int(self.cluster.rpartition(":")[2]) if proxy.is_route else self.port)

    def down(self, how: signal.Signals) -> None:
        for proxy in self.inward:  # Until the server is back, another process may listen on its ports.
            proxy.to = NOWHERE
        self.process.send_signal(how)
        self.process.wait(30)
        self.process.stdout.close()


class Node:
    """A Forebay node, on new ports after each start."""

    def __init__(self, upstream: list[Proxy]):
        self.upstream, self.links = upstream, []
        urls = ",".join("nats://%s:%d" % proxy.address for proxy in upstream)
        self.options = ("--upstream", urls, "--shared", "s.>", "--shared-replicas", str(COUNT), "--retain", "1000000",
                        "--retain-bytes", "64M", "--drain-time", "1s")
        self.start()

    def start(self):
        for link in self.links:
            link.close()
        self.broker = Broker(*self.options)
        self.address, self.http = self.broker.address, self.broker.http
        self.links, self.next = [Link(self.http) for _ in range(4)], 0

    def link(self) -> Link:
        self.next += 1
        return self.links[self.next % len(self.links)]

    def down(self, how: signal.Signals):
        if how == signal.SIGKILL:
            self.broker.process.kill()
            self.broker.process.wait()
        else:
            self.broker.stop()
        self.address = self.http = NOWHERE  # Until the node is back, another process may listen on its ports.


def proxy(is_route: bool) -> Proxy:
    one = Proxy(NOWHERE)
    one.is_route = is_route
    return one


class Cluster:
    """Servers, nodes, clients and faults. `failures` has what a client found wrong."""

    def __init__(self, folder: Path, seed: int, subscribers: int, rate: float):
        """`rate` messages a second, over all topics."""
        self.folder, self.dice, self.rate = folder, random.Random(seed), rate
        self.figures, self.table, self.failures, self.threads = defaultdict(int), [], [], []
        self.servers, self.nodes, self.plain = [], [], None
        routes = {(a, b): proxy(True) for a in range(COUNT) for b in range(COUNT) if a != b}
        # Of each node, and of the plain clients.
        self.upstream = [[proxy(False) for _ in range(COUNT)] for _ in range(COUNT + 1)]
        self.proxies = [*routes.values(), *sum(self.upstream, [])]
        self.inward = [[route for (_, b), route in routes.items() if b == one] + [each[one] for each in self.upstream]
                       for one in range(COUNT)]
        self.outward = [[route for (a, _), route in routes.items() if a == one] for one in range(COUNT)]
        self.ledgers = [Ledger(f"s.{topic}") for topic in range(TOPICS)]
        # Each publisher has two topics, over different protocols.
        kinds = ("rsocket", "channel", "http")
        self.publishers = [Publisher(self.nodes, self.ledgers[(number + second) % TOPICS],
                                     kinds[(number + 2 * second) % 3], number, 2 * TOPICS / rate)
                           for number in range(TOPICS) for second in range(2)]
        kinds = ("rsocket", "grpc", "sse")
        self.subscribers = [Subscriber(self.nodes, self.ledgers[number % TOPICS], kinds[number // TOPICS % 3],
                                       number // TOPICS // 3) for number in range(subscribers)]

    def start(self):
        for one in range(COUNT):
            self.servers.append(Member(self.folder / f"n{one}", one, self.inward[one], self.outward[one]))
        self.plain = Plain(["nats://%s:%d" % one.address for one in self.upstream[-1]], TOPICS, self.rate, COUNT)
        self.nodes.extend(Node(proxies) for proxies in self.upstream[:COUNT])

    # Clients

    def begin(self):
        """Creates the topics and starts the clients."""
        for ledger in self.ledgers:
            peer = self.nodes[0].broker.peer()
            ledger.sent.add(b"begin 1 0")
            until(lambda: self.created(peer, ledger), BOUND, f"{ledger.topic} is not created")
            ledger.epoch = int(peer.info(ledger.topic)["epoch"])
            ledger.acknowledged["begin"] = 1
            peer.close()
        for client in (*self.publishers, *self.subscribers):
            self.spawn(client)
        self.live()

    @staticmethod
    def created(peer: Peer, ledger: Ledger) -> bool:
        call = peer.call(f"{ledger.topic}?publisher=begin&number=1", b"begin 1 0")
        try:
            return peer.answer(call, BOUND) is not None
        except StreamError as error:
            assert error.text.startswith("unavailable:"), error
            return False

    def spawn(self, client: Client):
        thread = threading.Thread(target=self.run_client, args=(client,), daemon=True)
        self.threads.append(thread)
        thread.start()

    def run_client(self, client: Client):
        try:
            client.run()
        except BaseException as error:
            self.failures.append(error)

    def check(self):
        if failures := self.failures or self.plain.failures:
            raise failures[0]
        for node in self.nodes:
            assert node.broker.process.poll() is None, "\n".join(node.broker.log[-20:])

    def until(self, condition, seconds: float, what: str) -> float:
        return until(lambda: self.check() or condition(), seconds, what)

    def live(self) -> float:
        """Waits until every client has progressed beyond what happened before. Returns how long that took."""
        tops = {ledger.topic: ledger.top for ledger in self.ledgers}
        pauses = [one.pauses for one in self.publishers]
        pauses += [one for pair in self.plain.pairs for one in (pair.published, pair.delivered)]
        marks = [(one, one.count) for one in pauses]

        def moved() -> bool:
            self.late = [one for one in self.subscribers if one.next <= tops[one.ledger.topic] + 1]
            return not self.late and all(pauses.count > before for pauses, before in marks)

        try:
            return self.until(moved, BOUND, "not all clients are live again")
        except TimeoutError as error:
            stuck = [f"{one.protocol} {one.ledger.topic} {one.next} {dict(one.left)}" for one in self.late[:5]]
            stuck += [f"{one.name} {one.ledger.topic} {one.protocol} {one.acknowledged} {dict(one.left)}"
                      for one, (pauses, before) in zip(self.publishers, marks) if pauses.count == before]
            raise AssertionError(f"{error}: {len(self.late)} subscribers: {stuck}") from None

    # Faults

    def faults(self) -> list[tuple]:
        """Each kind of fault of each server or node: (what, begin, end)."""
        found = []
        for server in self.servers:
            routes = server.outward + [one for one in server.inward if one.is_route]
            found += [("server killed", partial(server.down, signal.SIGKILL), server.start),
                      ("server shut down", partial(server.down, signal.SIGTERM), server.start),
                      ("server stopped", *signals(server.process)),
                      ("server isolated", *self.partition(server.inward + server.outward)),
                      ("server without routes", *self.partition(routes))]
        for node in self.nodes:
            found += [("node killed", partial(node.down, signal.SIGKILL), node.start),
                      ("node shut down", partial(node.down, signal.SIGTERM), node.start),
                      ("node stopped", *signals(node.broker.process)),
                      ("node isolated", *self.partition(node.upstream)),
                      ("node disconnected", partial(cut, node.upstream), lambda: None)]
        return found

    def partition(self, proxies: list[Proxy]):
        """Lets nothing through; what was sent arrives late, or never."""
        def begin():
            for one in proxies:
                one.hold()

        def end():
            if self.dice.random() < 0.5:
                cut(proxies)
            for one in proxies:
                one.release()

        return begin, end

    def run(self, seconds: float):
        """Faults for that long, but at least one. Then checks everything."""
        self.start()
        self.begin()
        self.pauses()
        print(HEAD)
        end, kinds = time.monotonic() + seconds, []
        while not self.table or time.monotonic() < end:
            if not kinds:
                kinds = sorted({one for one, _, _ in self.faults()})
                self.dice.shuffle(kinds)
            what = kinds.pop()
            self.fault(*self.dice.choice([one for one in self.faults() if one[0] == what]))
        self.finish()

    def fault(self, what: str, begin, end):
        self.check()
        began = time.monotonic()
        begin()
        time.sleep(self.dice.uniform(0.1, 6))  # The random length of the fault, not a wait for anything.
        end()
        length = time.monotonic() - began
        live = self.live()
        self.table.append((what, length, live, *self.pauses()))
        print(ROW % self.table[-1], flush=True)
        self.until(self.plain.settled, SETTLED, "not all copies are current")

    def pauses(self) -> tuple[float, ...]:
        """The longest pauses since the last call, of deliveries and publishes: ours and those of NATS."""
        groups = ([one.pauses for one in self.subscribers], [one.delivered for one in self.plain.pairs],
                  [one.pauses for one in self.publishers], [one.published for one in self.plain.pairs])
        return tuple(max(one.take() for one in group) for group in groups)

    def finish(self):
        """Stops publishing, waits until every subscriber has everything, and compares all nodes with the ledgers."""
        for one in self.publishers:
            one.stopping.set()
        self.until(lambda: all(one.over for one in self.publishers), BOUND, "not everything is acknowledged")
        for ledger in self.ledgers:
            ledger.last = self.plain.last(f"fb.p.-.{ledger.topic}")
        self.until(lambda: all(one.over for one in self.subscribers), BOUND, "not everything is delivered")
        for thread in self.threads:
            thread.join(2 * SILENCE)
            assert not thread.is_alive()
        self.check()
        for node in self.nodes:
            peer = node.broker.peer()
            for ledger in self.ledgers:
                subscription = peer.subscribe(f"{ledger.topic}?replay=all", "buffer=1000000", meta=True)
                ledger.check(subscription.take(ledger.last))
                subscription.cancel()
            peer.close()
        self.plain.stop()
        self.count()
        for node in self.nodes:
            node.down(signal.SIGTERM)

    def count(self):
        self.figures["faults"] = len(self.table)
        self.figures["messages"] = sum(ledger.last for ledger in self.ledgers)
        self.figures["acknowledged"] = sum(one.pauses.count for one in self.publishers)
        self.figures["delivered"] = sum(one.next - 1 for one in self.subscribers)
        self.figures["reported as dropped"] = sum(one.dropped for one in self.subscribers)
        for one in (*self.publishers, *self.subscribers):
            for what, count in one.left.items():
                self.figures[f"left a node: {what[:60]}"] += count

    def close(self):
        """Ends all processes and clients."""
        for one in (*self.publishers, *self.subscribers):
            one.stopping.set()
        for ledger in self.ledgers:
            ledger.last = 0
        if self.plain:
            self.plain.close()
        for process in [one.broker.process for one in self.nodes] + [one.process for one in self.servers]:
            process.kill()
            process.wait()
        for one in self.proxies:
            one.close()


def cut(proxies: list[Proxy]):
    for one in proxies:
        one.cut()


def signals(process):
    """A process that is stopped and continued."""
    return lambda: process.send_signal(signal.SIGSTOP), lambda: process.send_signal(signal.SIGCONT)


def until(condition, seconds: float, what: str) -> float:
    """Waits until the condition holds, and returns how long that took."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() > began + seconds:
            raise TimeoutError(f"{what} after {seconds} s")
        time.sleep(0.02)  # Between observations, so as not to starve what is observed.
    return time.monotonic() - began


HEAD = ("%-24s" + " %9s" * 6) % ("seconds", "lasted", "live", "delivery", "plain", "publish", "plain")
ROW = "%-24s" + " %9.1f" * 6
