"""Whatever a seed makes happen: nothing is lost, nothing is twice, and reads agree."""

import os
from collections import Counter

import pytest

from tests.figures import note
from tests.simulation.run import run_seed
from tests.simulation.seeds import FOUND

SHORT_SEEDS = 24
SHORT_CHUNK = 4
LONG_FIRST = 100_000
LONG_SEEDS = int(os.environ.get("HEADWATER_SIMULATION_SEEDS", "500"))
LONG_CHUNK = 20


def failures(seeds: range) -> list[str]:
    """Run seeds, and return what went wrong, each with what shows it again."""
    found, faults, crashes = [], Counter(), 0
    for seed in seeds:
        outcome = run_seed(seed)
        faults += outcome.faults
        crashes += outcome.crashes
        again = f"python -m tests.simulation --seed {seed} --trace"
        found += [f"{violation} ({again})" for violation in outcome.violations]
    note("simulation", seeds=len(seeds), crashes=crashes, faults=faults.total())
    return found


@pytest.mark.parametrize("first", range(0, SHORT_SEEDS, SHORT_CHUNK))
def test_a_few_seeds_find_nothing(first):
    assert failures(range(first, first + SHORT_CHUNK)) == []


@pytest.mark.parametrize(("seed", "found"), FOUND)
def test_what_a_seed_found_once_is_not_found_again(seed, found):
    assert failures(range(seed, seed + 1)) == []


@pytest.mark.torture
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("first", range(LONG_FIRST, LONG_FIRST + LONG_SEEDS, LONG_CHUNK))
def test_many_seeds_find_nothing(first):
    assert failures(range(first, first + LONG_CHUNK)) == []
