"""The floods of test_faults_floods.py at full size, only with FOREBAY_HEAVY=full: ten thousand connections at once, and
half a minute of garbage on every port together."""

import concurrent.futures
import os
import resource

import pytest

from faults import beside
from floods import crowd, garbage

pytestmark = [pytest.mark.rsocket, pytest.mark.timeout(600),
              pytest.mark.skipif(os.environ.get("FOREBAY_HEAVY") != "full", reason="FOREBAY_HEAVY=full runs it")]
MIB = 1 << 20
CONNECTIONS = 10_000


def test_ten_thousand_connections_at_once(begin):
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if files < CONNECTIONS + 1000:
        pytest.skip(f"{files} open files are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    broker = begin()
    # What the allocator keeps of it, most of it of HTTP/1.1's: no more of it with each turn.
    with beside(broker, "rsocket", "grpc", growth=192 * MIB) as wells:
        for turn in range(3):
            crowd(broker, CONNECTIONS, wells, f"t.crowd.{turn}")
            print(f"\nRSS {broker.status('VmRSS') >> 20} MiB, at most {broker.status('VmHWM') >> 20}, the slowest of "
                  f"{[well.count for well in wells]} took {[round(well.slowest, 2) for well in wells]} s")
    broker.stop()


def test_garbage_on_every_port(begin):
    broker = begin("--admin", "127.0.0.1:0")
    ports = {"rsocket": broker.address, "http": broker.http, "admin": broker.admin}
    with beside(broker, "rsocket", "grpc", growth=64 * MIB) as wells:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            thrown = [pool.submit(garbage, address, port, 30) for port, address in ports.items()]
            for port, one in zip(ports, thrown):
                told = one.result()
                rate = told["bytes"] / told["seconds"] / 1e6
                print(f"\n{port}: {rate:.0f} MB/s on {told['connections']} connections")
                assert told["bytes"] > 100 * MIB
        print(f"the slowest of {[well.count for well in wells]} took {[round(well.slowest, 2) for well in wells]} s")
    broker.stop()
