"""A network that is slow, lossy, stalled, and cut: simulated by a proxy everywhere, and by the kernel if a test may
have its own network."""

import contextlib
import ctypes
import os
import random
import subprocess
import threading
import time

import pytest

from common import *
from faults import *
from live import AHEAD
from proxy import Proxy

MIB = 1 << 20
WINDOW = 200


class Reader:
    """Reads a topic over the current connection, and continues where it left off."""

    def __init__(self, topic: str):
        self.topic, self.epoch, self.got = topic, None, []

    def read(self, peer: Observer, count: int, timeout=DEADLINE, until=lambda: True) -> bool:
        """Takes `count` messages, and more until the condition holds, a few at a time; False if the connection is
        lost before that."""
        token = f"from={len(self.got) + 1}&epoch={self.epoch}&gap=fail" if self.got else "replay=all"
        try:
            subscription = peer.subscribe(f"{self.topic}?{token}", n=WINDOW, meta=True)
            end = len(self.got) + count
            while len(self.got) < end or not until():
                event = subscription.event(timeout)
                if isinstance(event, End):
                    assert event.kind not in (None, Kind.INVALID, Kind.OVERFLOW, Kind.FAILED), event
                    return False
                self.take(event)
                if subscription.asked - subscription.received <= WINDOW // 2:
                    subscription.request(WINDOW // 2)
        except OSError:
            return False
        return True

    def take(self, message: Message):
        self.epoch = self.epoch or message.epoch
        assert (message.epoch, message.sequence, message.dropped) == (self.epoch, len(self.got) + 1, 0), message
        self.got.append(int(message.data))


class Source:
    """Publishes numbers until it is stopped, ahead of a reader by fewer messages than are retained."""

    def __init__(self, peer: Observer, reader: Reader):
        self.peer, self.reader, self.count, self.failure = peer, reader, 0, None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            while not self._stopped.wait(0.001):
                if self.count - len(self.reader.got) < AHEAD:
                    more = numbers(self.count + 1, self.count + 20)
                    self.count = self.peer.publish(self.reader.topic, *more)[-1]
        except Exception as failure:
            self.failure = failure

    def stop(self) -> int:
        self._stopped.set()
        self._thread.join(DEADLINE)
        assert self.failure is None, self.failure
        return self.count


@contextlib.contextmanager
def cutting(proxy: Proxy, after: float):
    """Cuts after `after` seconds, and repeatedly until the block has ended: a connection that is being opened during
    a cut succeeds."""
    over = threading.Event()

    def cut():
        over.wait(after)
        while not over.is_set():
            proxy.cut()
            over.wait(0.1)

    thread = threading.Thread(target=cut)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def connected(proxy: Proxy, transport: str) -> Observer:
    if transport == "rsocket":
        from client import Peer
    else:
        from grpc_client import Peer
    return Peer(proxy.address)


def address_of(broker, transport: str):
    return broker.address if transport == "rsocket" else broker.http


def test_cuts_lose_and_double_nothing(begin, transport):
    """The connection is reset again and again, at any point; the reader continues by epoch and sequence."""
    broker, dice = begin(), random.Random(11)
    with beside(broker, transport, growth=16 * MIB) as (well,), contextlib.ExitStack() as stack:
        proxy = Proxy(address_of(broker, transport), delay=0.001, jitter=0.002)
        stack.callback(proxy.close)
        reader, publisher = Reader("t.cut"), broker.peer(transport)
        source, cuts = Source(publisher, reader), 0
        for _ in range(12):
            peer = connected(proxy, transport)
            with cutting(proxy, dice.random() * 0.15):
                cuts += not reader.read(peer, 1_000_000)
            peer.close()
        well.moves()
        peer, count = connected(proxy, transport), source.stop()
        assert reader.read(peer, count - len(reader.got))
        assert reader.got == list(range(1, count + 1)) and cuts == 12 and count > 100
        for one in (peer, publisher):
            one.close()
    broker.stop()


def test_delay_and_loss(begin, transport):
    """A round trip of a tenth of a second, and every twentieth piece delayed by a retransmission: everything arrives,
    including credit."""
    broker = begin()
    with beside(broker, transport, growth=16 * MIB, slowest=20), contextlib.ExitStack() as stack:
        proxy = Proxy(address_of(broker, transport), delay=0.03, jitter=0.02, loss=20)
        stack.callback(proxy.close)
        near, far, reader = broker.peer(transport), connected(proxy, transport), Reader("t.far")
        publisher = broker.peer(transport)
        source = Source(publisher, reader)
        # The number of pieces depends on the machine's load.
        assert reader.read(far, 400, until=lambda: proxy.lost["in"] > 0)
        # The other direction: publishing from the remote side.
        channel, count, lost = far.channel("t.from-afar", b"0"), 1, proxy.lost["out"]
        while count < 300 or proxy.lost["out"] == lost:
            for number in range(count, count + 20):
                channel.send(b"%d" % number)
            count += 20
            near.until("t.from-afar", lambda info: info["published"] == count)
        channel.complete()
        assert channel.end() == End() and near.info("t.from-afar")["published"] == count
        source.stop()
        for one in (near, far, publisher):
            one.close()
    broker.stop()


def test_a_network_that_stands_still(begin, transport):
    """Nothing arrives and neither side is notified. A reader cut off in this way costs nothing, and continues when the
    network is back."""
    broker = begin()
    with beside(broker, transport, growth=16 * MIB) as (well,), contextlib.ExitStack() as stack:
        proxy = Proxy(address_of(broker, transport))
        stack.callback(proxy.close)
        near, far, reader = broker.peer(transport), connected(proxy, transport), Reader("t.still")
        subscription = far.subscribe("t.still?buffer=10", n=1000, meta=True)
        near.joined("t.still", 1)
        near.numbers("t.still", 1, 5)
        for message in subscription.take(5):
            reader.take(message)
        proxy.hold()
        body, lost = bytes(500_000), 0
        while not near.ledger("t.still")[0]["dropped"]:
            near.publish("t.still", *([body] * 4))
        well.moves()
        proxy.release()
        last = near.publish("t.still", b"last")[-1]
        sequence = 5
        while sequence < last:
            (message,) = subscription.take(1)
            assert message.sequence == sequence + 1 + message.dropped
            sequence, lost = message.sequence, lost + message.dropped
        assert lost == near.ledger("t.still")[0]["dropped"] > 0
        for one in (near, far):
            one.close()
    broker.stop()


# Simulated by the kernel


class Network:
    """A separate network with only a loopback interface, kept alive by a process."""

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "-n", "sh", "-c", "ip link set lo up && echo ready && exec cat"],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.is_there = self.holder.stdout.readline() == b"ready\n"
        self.enter = ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net"]

    def run(self, command: str) -> subprocess.CompletedProcess:
        return subprocess.run([*self.enter, "sh", "-c", command], capture_output=True, text=True, timeout=DEADLINE)

    @contextlib.contextmanager
    def inside(self):
        """Sockets that this thread creates in the block are in that network."""
        with open(f"/proc/{self.holder.pid}/ns/net") as there, open("/proc/thread-self/ns/net") as here:
            assert LIBC.setns(there.fileno(), 0) == 0, os.strerror(ctypes.get_errno())
            try:
                yield
            finally:
                assert LIBC.setns(here.fileno(), 0) == 0

    def sent_again(self) -> int:
        """The number of segments that TCP has retransmitted."""
        names, values = [line.split() for line in self.run("grep Tcp: /proc/net/snmp").stdout.splitlines()]
        return int(values[names.index("RetransSegs")])

    def close(self):
        self.holder.kill()
        self.holder.communicate()


LIBC = ctypes.CDLL(None, use_errno=True)
# Without netem in the kernel, a queue that is too short also loses packets and delays them.
IMPAIRMENTS = ["tc qdisc add dev lo root netem delay 20ms 10ms loss 3%",
               "tc qdisc add dev lo root tbf rate 4mbit burst 5kb limit 9kb"]


@pytest.fixture
def network():
    this = Network()
    if not this.is_there:
        this.close()
        pytest.skip("network namespaces are not available on this machine")
    yield this
    this.close()


@pytest.mark.rsocket
def test_a_network_of_the_kernels(start, network):
    """Segments are lost and retransmitted; then there is no network for a while. Everything arrives, on one
    connection."""
    class Inside(start):
        def spawn(self, command, environment):
            return super().spawn([*network.enter, *command], environment)

    broker = Inside()
    with network.inside():
        near, far = broker.peer(), broker.peer()
    network.run("ip link set lo mtu 1500")
    impaired = next((one for one in IMPAIRMENTS if network.run(one).returncode == 0), None)
    assert impaired, "neither netem nor tbf"
    subscription = far.subscribe("t.impaired?overflow=block&buffer=1000", n=UNBOUNDED)
    near.joined("t.impaired", 1)
    bodies = [b"%d " % number + bytes(1000) for number in range(300)]
    offers = [near.offer("t.impaired", body) for body in bodies[:200]]
    assert [one.data for one in subscription.take(200, timeout=40)] == bodies[:200]
    assert [offer.sequence(timeout=40) for offer in offers] == list(range(1, 201))
    before = network.sent_again()
    assert before > 0, impaired
    network.run("ip link set lo down")
    offers = [near.offer("t.impaired", body) for body in bodies[200:]]
    time.sleep(1)  # The fault.
    assert not subscription.pending() and not offers[0].answered()
    network.run("ip link set lo up")
    assert [one.data for one in subscription.take(100, timeout=40)] == bodies[200:]
    assert [offer.sequence(timeout=40) for offer in offers] == list(range(201, 301))
    assert network.sent_again() > before
    (row,) = near.ledger("t.impaired")
    assert (row["delivered"], row["dropped"], row["waiting"]) == (300, 0, 0)
    for one in (near, far):
        one.close()
    broker.stop()
