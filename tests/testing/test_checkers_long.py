"""The test of the tester at length: histories that were never tried before."""

from collections.abc import Callable
from itertools import chain

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.testing.key_checker import check_keys, first_failure
from headwater.testing.key_history import KeyHistory, Verb
from headwater.testing.log_checker import LogHistory, check_log
from tests.figures import note, times
from tests.testing import key_world, log_world
from tests.testing.key_world import small_histories, some_order_explains
from tests.testing.log_faults import FAULTS
from tests.testing.log_world import FINAL, LIVELY
from tests.torture.chance import chance

HISTORIES = times(2000)

pytestmark = [pytest.mark.torture, pytest.mark.timeout(900)]
many = settings(max_examples=HISTORIES, suppress_health_check=list(HealthCheck))


def counted(judge: Callable[[], None]) -> None:
    judge()
    note("histories", histories=HISTORIES)


def test_correct_logs_have_no_violation_and_faulty_ones_have():
    @many
    @given(tape=log_world.tapes, choice=st.integers(0, 1000))
    def judge(tape, choice):
        events = log_world.LogWorld().play([*LIVELY, *tape]).journal.events
        fault, kind = FAULTS[choice % len(FAULTS)]
        planted = fault(events, choice)

        assert check_log(LogHistory.of_events(events), final_reader=FINAL) == []
        found = check_log(LogHistory.of_events(planted or []), final_reader=FINAL)
        assert planted is None or kind in {violation.kind for violation in found}

    counted(judge)


def test_correct_registers_have_no_violation():
    @many
    @given(tape=key_world.tapes)
    def judge(tape):
        assert check_keys(key_world.KeyWorld().play(tape)) == []

    counted(judge)


def test_a_register_that_many_use_at_once_has_no_violation():
    luck = chance()
    for _ in range(HISTORIES):
        choices = luck.choices((0, 1, 2, 3, 4, 6), (6, 6, 2, 6, 1, 1), k=160)
        tape = [(luck.randrange(6), choice, 0) for choice in choices]

        assert check_keys(key_world.KeyWorld().play(tape)) == [], tape

    note("histories", histories=HISTORIES)


def test_registers_with_one_other_answer_are_judged_as_by_a_search_of_every_order():
    @many
    @given(tape=key_world.tapes.map(lambda tape: tape[:24]), choice=st.integers(0, 1000))
    def judge(tape, choice):
        history = with_other_answer(key_world.KeyWorld().play(tape), choice)
        operations = [each for each in history.operations() if each.key == "k0"]
        judged = [each for each in operations if each.outcome != "failed"]
        judged = [each for each in judged if each.verb is not Verb.GET or each.end is not None]

        assert (first_failure(judged) is None) == some_order_explains(judged)

    counted(judge)


def with_other_answer(history: KeyHistory, choice: int) -> KeyHistory:
    """Let one get have seen something else."""
    events = history.journal.events
    answers = [
        n for n, event in enumerate(events) if event["event"] == "done" and is_get(history, event)
    ]
    values = [None, *(event["value"] for event in events if event["event"] == "put")]
    if not answers:
        return history
    place = answers[choice % len(answers)]
    changed = {**events[place], "value": values[choice // 7 % len(values)]}
    return KeyHistory.of_events(chain(events[:place], [changed], events[place + 1 :]))


def is_get(history: KeyHistory, event: dict) -> bool:
    return history.operations()[event["operation"]].verb is Verb.GET


def test_small_histories_are_judged_as_by_a_search_of_every_order():
    @many
    @given(small_histories())
    def judge(operations):
        assert (first_failure(operations) is None) == some_order_explains(operations)

    counted(judge)
