"""The memory bound at full size, only with FOREBAY_HEAVY=full: five thousand clients that do not read, over each
protocol, with and without TLS, for messages of each size."""

import os
import resource

import pytest

import tls
from unread import *

pytestmark = [pytest.mark.rsocket, pytest.mark.timeout(900),
              pytest.mark.skipif(os.environ.get("FOREBAY_HEAVY") != "full", reason="FOREBAY_HEAVY=full runs it")]
CONNECTIONS = int(os.environ.get("FOREBAY_CONNECTIONS", 5000))


@pytest.fixture(autouse=True)
def files():
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most < CONNECTIONS + 1000:
        pytest.skip(f"only {most} open files are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size >> 10}k")
@pytest.mark.parametrize("secure", [False, True], ids=["clear", "tls"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_five_thousand_clients_that_do_not_read(begin, protocol, secure, size):
    broker = begin(*OPTIONS, *(tls.server().options if secure else ()))
    attack(broker, protocol, CONNECTIONS, {size: max(SIZES[size], 24)}, readers=20)
    broker.stop()
