"""The cost to the broker of a message to one event stream over HTTP/1.1 while streams of other topics are open and
idle, only with FOREBAY_HEAVY=full. Idle streams must cost nothing, or one client could slow all others by opening
streams."""

import os
import resource
from pathlib import Path

import pytest

import tls
from http1 import Line, get, post

pytestmark = [pytest.mark.rsocket, pytest.mark.timeout(600),
              pytest.mark.skipif(os.environ.get("FOREBAY_HEAVY") != "full", reason="FOREBAY_HEAVY=full runs it")]
FEW, MANY, MANY_SECURED = 100, 15_000, 3000
WAITING = 10_000
MESSAGES = 1000


def spent(broker) -> int:
    """Nanoseconds of CPU time that the broker's threads have used."""
    tasks = Path(f"/proc/{broker.pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def cost(broker, number: int, rounds=3) -> float:
    """Microseconds of CPU time for a message: its POST, and its delivery to the only stream that receives it. The
    minimum of several rounds, because other processes use the machine too."""
    reader, writer = Line(broker.http), Line(broker.http)
    reader.send(get(f"active.{number}", "", b"Accept: application/x-ndjson\r\n"))
    assert reader.head()[0] == 200
    best = float("inf")
    for _ in range(rounds):
        before = spent(broker)
        for _ in range(MESSAGES):
            writer.send(post(f"active.{number}", b"hello"))
            assert writer.answer()[0] == 200
            reader.until(b"hello")
        best = min(best, (spent(broker) - before) / MESSAGES / 1000)
    reader.close()
    writer.close()
    return best


@pytest.mark.parametrize("secure", [False, True], ids=["clear", "tls"])
def test_idle_streams_cost_an_active_one_nothing(begin, secure):
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    many = MANY_SECURED if secure else MANY
    if files < many + 1000:
        pytest.skip(f"only {files} open files are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    pair = tls.server()
    broker = begin("--threads", "1", *(pair.options if secure else ()))
    idle, told = [], {}
    for count in (FEW, many):
        while len(idle) < count:
            idle.append(Line(broker.http))
            idle[-1].send(get("idle"))
            assert idle[-1].head()[0] == 200
        told[count] = cost(broker, count)
    rss = broker.status("VmRSS") >> 10
    print(f"\n{', '.join(f'{microseconds:.1f} µs with {count} idle' for count, microseconds in told.items())}; "
          f"RSS {rss} KiB")
    for line in idle:
        line.close()
    broker.stop()
    assert told[many] <= 1.5 * told[FEW], told


def test_publishes_that_wait_cost_others_little(begin):
    """Each publish waits, on its own connection, for room in a topic."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < WAITING + 1000:
        pytest.skip("too few open files are allowed here")
    broker = begin("--threads", "1")
    peer = broker.peer()
    peer.subscribe("full?overflow=block&buffer=1", n=1)
    peer.joined("full", 1)
    peer.numbers("full", 1, 2)
    told, waiting = {}, []
    for count in (0, WAITING):
        while len(waiting) < count:
            waiting.append(Line(broker.http))
            waiting[-1].send(post("full", b"x"))
        peer.parked("full", count)
        told[count] = cost(broker, count, rounds=1)
    print(f"\n{', '.join(f'{microseconds:.1f} µs with {count} waiting' for count, microseconds in told.items())}")
    for line in waiting:
        line.close()
    peer.close()
    broker.stop()
    assert told[WAITING] <= 1.5 * told[0], told
