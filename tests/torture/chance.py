"""Chance that a failing run can be given again: HEADWATER_SEED=… repeats it."""

import os
import random
import sys
import time

SEED = "HEADWATER_SEED"


def chance(of: str = "") -> random.Random:
    """Return the chance of someone, with a seed that is printed; it is new only in long runs."""
    given = os.environ.get(SEED)
    drawn = time.time_ns() % 2**32 if "HEADWATER_RANDOM" in os.environ else 0
    seed = int(given) if given else drawn
    sys.stdout.write(f"{SEED}={seed}\n")
    return random.Random(f"{seed}{of}")


def work_goes_on(luck: random.Random, least_s: float, most_s: float) -> None:
    """Let everybody work for a time that is drawn, until something breaks next."""
    time.sleep(luck.uniform(least_s, most_s))
