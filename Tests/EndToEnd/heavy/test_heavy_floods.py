"""The floods of test_faults_floods.py at full size, only with FOREBAY_HEAVY=full: ten thousand connections at once, and
garbage at 200 MB per second to every port, one at a time and all together."""

import concurrent.futures
import os
import resource

import pytest

import garbage
import tls
from faults import beside, processor_time
from floods import crowd

pytestmark = [pytest.mark.rsocket, pytest.mark.timeout(600),
              pytest.mark.skipif(os.environ.get("FOREBAY_HEAVY") != "full", reason="FOREBAY_HEAVY=full runs it")]
MIB = 1 << 20
CONNECTIONS = 10_000


def test_ten_thousand_connections_at_once(begin):
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if files < CONNECTIONS + 1000:
        pytest.skip(f"only {files} open files are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    broker = begin()
    with beside(broker, "rsocket", "grpc", growth=64 * MIB) as wells:
        for turn in range(3):
            crowd(broker, CONNECTIONS, wells, f"t.crowd.{turn}")
            tell(broker, wells)
    tell(broker, wells)
    broker.stop()


def tell(broker, wells):
    print(f"RSS {broker.status('VmRSS') >> 20} MiB, at most {broker.status('VmHWM') >> 20}; the slowest of "
          f"{[well.count for well in wells]} took {[round(well.slowest, 3) for well in wells]} s")


@pytest.mark.parametrize("secure", [False, True], ids=["clear", "tls"])
def test_garbage_at_200_mb_a_second(begin, secure):
    """Garbage goes to each port alone for ten seconds, and to all three for twenty."""
    pair = tls.server()
    broker = begin("--admin", "127.0.0.1:0", *(pair.options if secure else ()))
    ports = {"rsocket": broker.address, "http": broker.http, "admin": broker.admin}
    with beside(broker, "rsocket", "grpc", growth=24 * MIB, slowest=10) as wells:
        def throw(port: str, seconds: float) -> dict:
            spent = processor_time(broker.pid)
            told = garbage.throw(ports[port], port + "s" * secure, seconds)
            used = (processor_time(broker.pid) - spent) / seconds
            print(f"\n{port}: {told['offered']:.0f} MB/s offered, {told['taken']:.0f} taken, on "
                  f"{told['connections']} connections; the broker used {used:.2f} processors")
            return told

        for port in ports:
            told = throw(port, 10)
            tell(broker, wells)
            # The admin listener refuses all of the garbage and closes the connection while most of it is still in the
            # kernel.
            assert told["offered"] >= 180 and told["taken"] >= (10 if port == "admin" else 180), told
        with concurrent.futures.ThreadPoolExecutor() as pool:
            for one in [pool.submit(throw, port, 20) for port in ports]:
                one.result()
        tell(broker, wells)
    tell(broker, wells)
    broker.stop()
