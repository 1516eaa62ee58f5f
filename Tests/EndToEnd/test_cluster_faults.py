"""Shared topics on a cluster whose servers and nodes fail one after the other. The faults and the clients are in
`clusters.py`; heavy/test_heavy_cluster.py runs them at full size."""

import random

import pytest

from clusters import Cluster

pytestmark = [pytest.mark.rsocket, pytest.mark.slow]


@pytest.mark.timeout(240)
def test_nothing_is_lost_or_repeated_while_one_after_the_other_fails(tmp_path):
    seed = random.randrange(1 << 32)
    print(f"the seed is {seed}")
    cluster = Cluster(tmp_path, seed, subscribers=60, rate=50)
    try:
        cluster.run(25)
    finally:
        cluster.close()
        print(dict(cluster.figures))
    assert cluster.figures["delivered"] == 10 * cluster.figures["messages"]
