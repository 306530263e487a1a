"""The simulation itself is tested: bugs that are planted are found."""

import pytest

from tests.simulation.planted import BUGS, Plant
from tests.simulation.run import run_seed

# What is found at its seed today may take more when the code around it has changed.
SEEDS_MAX = 150


@pytest.mark.timeout(600)
@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch):
    first = BUGS[plant]
    plant(monkeypatch)

    assert any(run_seed(seed).violations for seed in range(first, first + SEEDS_MAX))
