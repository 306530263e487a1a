"""The union read gives what the oracle gives, whatever happens to a table."""

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.figures import note, times
from tests.union.machine import UnionMachine
from tests.union.telling import TRIED

LONG = times(30)


def machine_on(storage, kind=None):
    return type("Machine", (UnionMachine,), {"storage": storage, "kind": kind})


@pytest.mark.parametrize("kind", TRIED, ids=str)
def test_a_table_is_what_was_written_whatever_happens_to_it(storage, kind):
    # Making a failure smaller takes longer than a test may; the long one does.
    short = settings(
        max_examples=3, stateful_step_count=20, phases=[Phase.explicit, Phase.generate]
    )
    run_state_machine_as_test(machine_on(storage, kind), settings=short)


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_a_table_is_what_was_written_whatever_happens_to_it_for_long(storage):
    run_state_machine_as_test(
        machine_on(storage), settings=settings(max_examples=LONG, stateful_step_count=50)
    )
    note("union", stories=LONG)
