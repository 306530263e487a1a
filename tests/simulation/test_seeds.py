"""Whatever a seed makes happen: nothing is lost, nothing is twice, and reads agree."""

from collections import Counter

import pytest

from tests.cases import cases
from tests.choices import EVERYTHING
from tests.figures import note, times
from tests.simulation.run import run_seed
from tests.simulation.seeds import FOUND

SHORT_SEEDS = 20 if EVERYTHING else 10
SHORT_CHUNK = 10  # fewer may see no tierer contested
LONG_FIRST = 100_000
LONG_SEEDS = times(240)
LONG_CHUNK = 20


# What must have been done in spite of all: a run in which nothing happens proves nothing.
DONE = ("tiered", "lookups", "audits", "cuts", "contested")


def run(seeds: range) -> tuple[list[str], Counter[str]]:
    """Run seeds; return what went wrong, each with what shows it again, and what was done."""
    found, done = [], Counter()
    for seed in seeds:
        outcome = run_seed(seed)
        done += outcome.figures
        done["faults"] += outcome.faults.total()
        done["crashes"] += outcome.crashes
        # Moved, fenced, or refused by compare-and-swap.
        done["contested"] += outcome.contests.total()
        again = f"python -m tests.simulation --seed {seed} --trace"
        found += [f"{violation} ({again})" for violation in outcome.violations]
    note("simulation", seeds=len(seeds), **done)
    return found, done


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(0, SHORT_SEEDS, SHORT_CHUNK))
def test_a_few_seeds_find_nothing(first):
    found, done = run(range(first, first + SHORT_CHUNK))

    assert found == []
    assert set(DONE) <= set(+done), f"without effect: {done}"


@cases(("seed", "found"), FOUND)
def test_what_a_seed_found_once_is_not_found_again(seed, found):
    assert run(range(seed, seed + 1))[0] == []


@pytest.mark.torture
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("first", range(LONG_FIRST, LONG_FIRST + LONG_SEEDS, LONG_CHUNK))
def test_many_seeds_find_nothing(first):
    found, done = run(range(first, first + LONG_CHUNK))

    assert found == []
    assert set(DONE) <= set(+done), f"without effect: {done}"
