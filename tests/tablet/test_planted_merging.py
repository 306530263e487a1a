"""The machines that compare buckets with naive ones are tested: bugs in buckets are found.

That they find nothing where there is no bug is what the tests of the machines show.
"""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.tablet.planted import BUGS, Plant
from tests.tablet.test_keyed_machine import KeyedMachine
from tests.tablet.test_merging_machine import MergingMachine

MACHINES = {"merging": MergingMachine, "keyed": KeyedMachine}

# None is made smaller: that there is one is enough. Which ones are tried depends on the modules
# that are loaded, so there are many more than it mostly takes.
SETTINGS = settings(
    max_examples=400,
    stateful_step_count=20,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_in_merging_is_found(plant: Plant, monkeypatch):
    plant(monkeypatch)

    with pytest.raises((AssertionError, LookupError)):
        run_state_machine_as_test(MACHINES[BUGS[plant]], settings=SETTINGS)
