"""The simulation itself is tested: bugs that are planted are found."""

import pytest

from tests.simulation.planted import BUGS, Plant
from tests.simulation.run import run_seed

SEEDS_MAX = 40


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found_within_a_few_seeds(plant: Plant, monkeypatch):
    plant(monkeypatch)

    assert any(run_seed(seed).violations for seed in range(SEEDS_MAX))
