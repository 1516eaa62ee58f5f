"""The faults of test_cluster_faults.py at full size: `make cluster SECONDS=600 SEED=1`. Prints the longest pauses of
each fault, and what was checked."""

import os
import random

import pytest

from clusters import Cluster

SECONDS = int(os.environ.get("FOREBAY_CLUSTER") or 0)
SUBSCRIBERS = int(os.environ.get("FOREBAY_SUBSCRIBERS") or 300)
LONGER = 6  # Seconds that a pause may be longer than the longest one of plain NATS clients.
pytestmark = [pytest.mark.rsocket, pytest.mark.timeout(300 + 3 * SECONDS),
              pytest.mark.skipif(not SECONDS, reason="FOREBAY_CLUSTER=600 runs it")]


def test_nothing_is_lost_or_repeated_while_one_after_the_other_fails(tmp_path):
    seed = int(os.environ.get("FOREBAY_SEED") or random.randrange(1 << 32))
    print(f"the seed is {seed}")
    cluster = Cluster(tmp_path, seed, SUBSCRIBERS, rate=50)
    try:
        cluster.run(SECONDS)
    finally:
        cluster.close()
        print("\n".join(f"{count:>10,} {name}" for name, count in cluster.figures.items()))
    delivery, plain_delivery, publish, plain_publish = (max(column) for column in list(zip(*cluster.table))[3:])
    print(f"longest pauses: delivery {delivery:.1f} s, plain {plain_delivery:.1f} s; "
          f"publishing {publish:.1f} s, plain {plain_publish:.1f} s")
    assert delivery <= plain_delivery + LONGER and publish <= plain_publish + LONGER
