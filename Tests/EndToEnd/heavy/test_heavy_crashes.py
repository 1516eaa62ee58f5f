"""The kills of test_durable.py at full size: `make crashes N=1000 SEED=1`. Prints what was done and checked."""

import os
import random

import pytest

from crashes import Crashes

KILLS = int(os.environ.get("FOREBAY_KILLS", 0))
pytestmark = [pytest.mark.rsocket, pytest.mark.timeout(60 + 10 * KILLS),
              pytest.mark.skipif(not KILLS, reason="FOREBAY_KILLS=1000 runs it")]


def test_what_clients_know_outlives_many_kills(tmp_path):
    seed = int(os.environ.get("FOREBAY_SEED") or random.randrange(1 << 32))
    print(f"the seed is {seed}")
    crashes = Crashes(tmp_path, seed)
    try:
        crashes.run(KILLS)
    finally:
        print("\n".join(f"{count:>10,} {name}" for name, count in crashes.figures.items()))
