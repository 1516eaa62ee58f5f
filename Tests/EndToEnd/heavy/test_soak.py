"""Everything at once, for a long time: nothing that the broker holds may grow, and every ledger must balance at the
end. Ten seconds here; `make soak SECONDS=1200` runs longer, and prints a table."""

import os
import statistics
import time

import pytest

import tls
from common import *
from faults import descriptors, warm
from soak import *

SECONDS = float(os.environ.get("FOREBAY_SOAK", 10))
GROWTH = 12 << 20  # Bytes of RSS by which the last fifth may exceed the first one after the warm-up.
LEFT = 2 << 20  # Bytes of logs and queues after all clients have gone.

FIGURES = ["connections", "subscriptions", "topics", "memory_bytes", "memory_logs_bytes", "messages_published_total",
           "messages_delivered_total", "messages_dropped_total", "connections_opened_total"]


@pytest.fixture
def broker(start, tmp_path):
    """RSocket and the admin listener in the clear, HTTP over TLS."""
    (tmp_path / "forebayd.yaml").write_text('{"topic-idle": "2s"}')
    this = start("-c", str(tmp_path / "forebayd.yaml"), "--admin", "127.0.0.1:0", "--tls-except", "rsocket",
                 "--tls-except", "admin", "--retain-bytes", "2M", *tls.server().options)
    this.file = tmp_path / "forebayd.yaml"
    yield this
    this.stop()


def cast(broker) -> dict[str, list[Role]]:
    """Subscribers come first, so that each sees all messages of its topic."""
    subscribers, publishers = [], []
    topics = {"s.acknowledged": lambda topic: Acknowledged(broker, topic, "rsocket"),
              "s.grpc": lambda topic: Acknowledged(broker, topic, "grpc", size=2000),
              "s.posted": lambda topic: Posted(broker, topic),
              "s.channel": lambda topic: Channelled(broker, topic, "rsocket"),
              "s.grpc-channel": lambda topic: Channelled(broker, topic, "grpc")}
    for index, topic in enumerate(topics):
        for place in range(3):
            policy = POLICIES[(index * 3 + place) % 5]
            transport = ("rsocket", "grpc")[place % 2]
            subscribers.append(Subscribed(broker, topic, transport, policy, buffer=(30, 300, 3000)[place]))
    subscribers += [Subscribed(broker, "s.channel", "rsocket", "block", 100),
                    Subscribed(broker, "s.grpc-channel", "grpc", "block", 500)]
    others = [Streamed(broker, "s.acknowledged"), Streamed(broker, "s.fired"), Deaf(broker, "s.grpc"),
              Endings(broker), Reloads(broker, broker.file), Scrapes(broker), Churn(broker, 1), Churn(broker, 2)]
    watcher = broker.peer()
    for topic in topics:
        watcher.joined(topic, sum(one.topic == topic for one in [*subscribers, *others] if hasattr(one, "topic")))
    watcher.close()
    publishers = [make(topic) for topic, make in topics.items()] + [Fired(broker, "s.fired")]
    return {"publishers": publishers, "subscribers": subscribers, "others": others}


class Sample:
    def __init__(self, broker, began: float):
        self.time, self.resident, self.descriptors = time.monotonic() - began, broker.status("VmRSS"), 0
        self.descriptors = descriptors(broker.pid)
        text = requests.get("http://%s:%d/metrics" % broker.admin, timeout=30, proxies={"http": ""}).text
        self.figures = dict.fromkeys(FIGURES, 0)
        for line in text.splitlines():
            name, _, value = line.rpartition(" ")
            name = name.partition("{")[0].removeprefix("forebay_")
            if name in self.figures:
                self.figures[name] += int(float(value))

    def row(self) -> str:
        figures = self.figures
        return (f"{self.time:7.0f} s {self.resident / 1048576:8.1f} {self.descriptors:5} {figures['connections']:5} "
                f"{figures['subscriptions']:5} {figures['topics']:5} {figures['memory_bytes'] / 1048576:8.2f} "
                f"{figures['memory_logs_bytes'] / 1048576:8.2f} {figures['messages_published_total']:10} "
                f"{figures['messages_delivered_total']:10} {figures['messages_dropped_total']:10} "
                f"{figures['connections_opened_total']:8}")


HEAD = (f"\n{'':9} {'RSS/MiB':>8} {'files':>5} {'conns':>5} {'subs':>5} {'top.':>5} {'mem/MiB':>8} {'logs/MiB':>8} "
        f"{'published':>10} {'delivered':>10} {'dropped':>10} {'opened':>8}")


@pytest.mark.rsocket
@pytest.mark.timeout(SECONDS + 300)
def test_soak(broker):
    warm(broker)
    empty, began = Sample(broker, time.monotonic()), time.monotonic()
    cast_ = cast(broker)
    roles = [role for group in cast_.values() for role in group]
    try:
        for role in roles:
            role.start()
        samples = watch(broker, roles, began)
        finish(broker, cast_)
    finally:
        for role in roles:
            role.stopped.set()
        for role in roles:
            role.join(60)
            role.close()
    flat(samples)
    gone(broker, empty, began)


def watch(broker, roles: list[Role], began: float) -> list[Sample]:
    print(HEAD)
    samples, printed = [], 0
    while (now := time.monotonic() - began) < SECONDS or not all(role.steps for role in roles):
        time.sleep(max(0.1, min(1, SECONDS - now)))  # Between two samples.
        for role in roles:
            assert role.failure is None, f"{role.name}: {role.failure!r}"
        samples.append(Sample(broker, began))
        if samples[-1].time * 20 >= (printed + 1) * SECONDS:
            printed = int(samples[-1].time * 20 / SECONDS)
            print(samples[-1].row(), flush=True)
    return samples


def finish(broker, cast: dict[str, list[Role]]):
    """Lets every client finish what it is doing, and then checks each ledger."""
    for group in ("others", "publishers", "subscribers"):  # Clients that wait for a message still receive one.
        for role in cast[group]:
            role.stopped.set()
        for role in cast[group]:
            role.stop()
    counts = {role.topic: role.count for role in cast["publishers"]}
    watcher = broker.peer()
    for topic, count in counts.items():
        info = watcher.info(topic)
        dropped = info["fire_and_forget_dropped"] if topic == "s.fired" else 0
        assert info["published"] == count - dropped, (topic, count, info)
    watcher.close()
    for role in cast["subscribers"]:
        role.settle(counts[role.topic])
    renewed = sum(role.renewed for role in cast["subscribers"])
    received = sum(role.received for role in cast["subscribers"])
    print(f"{sum(counts.values())} published, {received} received by {len(cast['subscribers'])} whose ledgers balance, "
          f"{renewed} overflows; {sum(role.steps for role in cast['others'] if isinstance(role, Churn))} came and went")


def flat(samples: list[Sample]):
    """Checks that no more is held at the end than after the warm-up. Short runs are not checked."""
    if SECONDS < 120:
        return
    behind = [one for one in samples if one.time > max(30, SECONDS * 0.15)]
    fifth = max(1, len(behind) // 5)
    first, last = behind[:fifth], behind[-fifth:]
    for name, get, bound in [("RSS", lambda one: one.resident, GROWTH),
                             ("descriptors", lambda one: one.descriptors, 8),
                             ("connections", lambda one: one.figures["connections"], 8),
                             ("subscriptions", lambda one: one.figures["subscriptions"], 20),
                             ("topics", lambda one: one.figures["topics"], 20),
                             ("memory", lambda one: one.figures["memory_bytes"], 4 << 20)]:
        before, after = (statistics.median(get(one) for one in part) for part in (first, last))
        print(f"{name:14} {before:14.0f} -> {after:14.0f}")
        assert after - before <= bound, f"{name}: {before} at the beginning, {after} at the end"


def gone(broker, empty: Sample, began: float):
    """Checks that everything the clients created is gone: topics once they have been idle, and with them all memory."""
    def left() -> dict[str, int]:
        now = Sample(broker, began)
        listed = requests.get("http://%s:%d/api/v1/topics?limit=1000" % broker.admin, timeout=30, proxies={"http": ""})
        topics = [one["name"] for one in listed.json()["items"] if not one["name"].startswith("$SYS.")]
        return {"topics": len(topics)} | {
            name: now.figures[name] - empty.figures[name] for name in ("connections", "subscriptions")} | {
            "memory": max(0, now.figures["memory_bytes"] - empty.figures["memory_bytes"] - LEFT),
            "descriptors": now.descriptors - empty.descriptors}

    eventually(left, lambda seen: not any(count > 0 for count in seen.values()), timeout=60)
    print(HEAD, empty.row(), Sample(broker, began).row(), sep="\n")
