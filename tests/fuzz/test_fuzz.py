"""Whatever comes in is taken or refused by name: no crash, no hang, no memory without end."""

import os
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.figures import note, times
from tests.fuzz import targets_logins
from tests.fuzz.driving import run_child, run_guided
from tests.fuzz.edits import edit_lists
from tests.fuzz.every import TARGETS
from tests.fuzz.keeping import kept, told

SHORT_INPUTS = 60
LONG_INPUTS = times(800)
GUIDED_SECONDS = times(5)
SLOWER = {"requests": 5}
"""Targets that need this many times as long, for what they go through."""

every_target = pytest.mark.parametrize("name", TARGETS)


@every_target
def test_valid_inputs_are_taken(name):
    target = TARGETS[name]

    assert [seed for seed in target.seeds() if not target.takes(seed)] == []


@every_target
def test_inputs_beyond_a_limit_are_refused_and_take_no_memory(name):
    target = TARGETS[name]

    assert [data[:100] for data in target.refused() if target.takes(data)] == []


@every_target
@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(choice=st.integers(0, 1000), edits=edit_lists)
def test_inputs_that_are_nearly_valid_are_taken_or_refused_by_name(name, choice, edits):
    target = TARGETS[name]
    seeds = target.seeds()

    target.takes(target.changed(seeds[choice % len(seeds)], edits))


@cases(("name", "path"), kept())
def test_an_input_that_broke_something_once_does_no_more(name, path):
    TARGETS[name].takes(path.read_bytes())


def test_no_input_ends_a_process_that_has_little_memory_and_time(tmp_path):
    failure = run_child(list(TARGETS), tmp_path, seed=1, count=SHORT_INPUTS, within_s=110)

    assert failure is None, told(failure.target, failure.data, failure.why)


@pytest.mark.torture
@pytest.mark.timeout(900)
@every_target
def test_many_inputs_end_no_process(name, tmp_path):
    seed = int.from_bytes(os.urandom(4)) if "HEADWATER_RANDOM" in os.environ else 2

    failure = run_child([name], tmp_path, seed=seed, count=LONG_INPUTS, within_s=600)

    assert failure is None, told(failure.target, failure.data, failure.why)
    note("fuzz", inputs=LONG_INPUTS)


@pytest.mark.torture
@pytest.mark.timeout(900)
@pytest.mark.skipif(find_spec("atheris") is None, reason="atheris has no wheel for this Python")
@every_target
def test_inputs_that_are_led_by_the_lines_they_reach_end_no_process(name, tmp_path):
    seconds = GUIDED_SECONDS * SLOWER.get(name, 1)

    inputs, failure = run_guided(name, tmp_path, seconds=seconds)

    assert failure is None, told(failure.target, failure.data, failure.why)
    note("fuzz", inputs=inputs)


@pytest.mark.torture
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", [target.name for target in targets_logins.TARGETS])
def test_a_million_handshakes_end_no_process(name, tmp_path):
    count = times(1_000_000 // len(targets_logins.TARGETS) + 1)

    failure = run_child([name], tmp_path, seed=3, count=count, within_s=1500)

    assert failure is None, told(failure.target, failure.data, failure.why)
    note("fuzz", handshakes=count)
