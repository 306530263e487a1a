"""The simulation itself is tested: bugs that are planted are found."""

import pytest

from tests.choices import EVERYTHING, some
from tests.simulation.planted import BUGS, RARE, Plant
from tests.simulation.run import run_seed
from tests.simulation.seeds import FOUND
from tests.simulation.test_seeds import SHORT_SEEDS

# What is found at its seed today may take more when the code around it has changed.
SEEDS_MAX = 150
PLANTS = [plant for plant in BUGS if EVERYTHING or plant not in RARE]
# That these find nothing by themselves is tested next door.
CLEAN = {*range(SHORT_SEEDS), *(seed for seed, _ in FOUND)}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("plant", some(PLANTS, part=3), ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Plant):
    seeds = range(BUGS[plant], BUGS[plant] + SEEDS_MAX)

    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        seed = next((seed for seed in seeds if run_seed(seed).violations), None)

    assert seed is not None
    assert seed in CLEAN or run_seed(seed).violations == [], "found something else"
