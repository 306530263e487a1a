"""The checker of logs finds each fault that is planted, and none where there is none."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import InvalidValueError
from headwater.testing.log_checker import LogHistory, ViolationKind, check_log
from tests.cases import cases
from tests.choices import examples
from tests.testing.log_faults import FAULTS
from tests.testing.log_world import FINAL, LIVELY, LogWorld, tapes


def kinds(history: LogHistory) -> set[ViolationKind]:
    return {violation.kind for violation in check_log(history, final_reader=FINAL)}


def history_of(values: list[str], *, start: int = 0) -> LogHistory:
    """Return the history of one writer that is in order."""
    history = LogHistory()
    for offset, value in enumerate(values, start=start):
        history.ack(history.send("w", value), bucket=0, offset=offset)
        history.read(FINAL, bucket=0, offset=offset, value=value)
    history.end(bucket=0, start=start, end=start + len(values))
    return history


@settings(max_examples=examples(100))
@given(tapes)
def test_a_log_that_keeps_its_promises_has_no_violation(tape):
    history = LogWorld().play(tape)

    assert check_log(history, final_reader=FINAL) == []


@pytest.mark.parametrize(
    ("fault", "kind"), FAULTS, ids=lambda value: getattr(value, "__name__", "")
)
@settings(max_examples=25)
@given(tape=tapes, choice=st.integers(0, 1000))
def test_a_planted_fault_is_found_by_its_name(fault, kind, tape, choice):
    events = LogWorld().play([*LIVELY, *tape]).journal.events

    planted = fault(events, choice)

    assert planted is not None
    assert kind in kinds(LogHistory.of_events(planted))


def test_what_retention_dropped_is_not_missed():
    history = history_of(["w/3", "w/4"], start=2)
    history.ack(history.send("w", "w/1"), bucket=0, offset=0)
    history.ack(history.send("w", "w/2"))

    assert check_log(history, final_reader=FINAL) == []


def test_answers_without_a_bucket_that_retention_dropped_do_not_contradict_each_other():
    history = history_of(["w/3", "w/4"], start=2)
    history.ack(history.send("w", "w/1"), offset=0)
    history.ack(history.send("v", "v/1"), offset=0)

    assert check_log(history, final_reader=FINAL) == []


def test_what_retention_cannot_have_dropped_is_missed():
    history = history_of(["w/3", "w/4"], start=2)
    history.ack(history.send("w", "w/5"), bucket=0, offset=4)

    (violation,) = check_log(history, final_reader=FINAL)

    assert violation.kind is ViolationKind.LOST
    assert violation.message == (
        "'w/5' was acknowledged at offset 4 of bucket 0 and is missing at the end."
    )
    assert (violation.bucket, violation.offset, violation.operations) == (0, 4, (2,))


def test_an_unknown_write_may_stand_behind_later_ones_but_an_acknowledged_one_not():
    history = LogHistory()
    late, next_one = history.send("w", "w/1"), history.send("w", "w/2")
    history.lose(late)
    history.ack(next_one, bucket=0, offset=0)
    history.read(FINAL, bucket=0, offset=0, value="w/2")
    history.read(FINAL, bucket=0, offset=1, value="w/1")

    assert kinds(history) == set()
    history.ack(late)
    assert kinds(history) == {ViolationKind.REORDERED}


@cases(("start", "end"), [(0, 3), (-1, 2), (1, 2), (0, 1)])
def test_the_last_reader_saw_no_more_and_no_less_than_there_is(start, end):
    history = history_of(["w/1", "w/2"])
    history.end(bucket=0, start=start, end=end)

    assert kinds(history) in ({ViolationKind.GAP}, {ViolationKind.CONFLICTING})


def test_a_bucket_that_nobody_read_at_the_end_is_a_gap():
    history = history_of(["w/1"])
    history.end(bucket=1, start=0, end=5)

    assert kinds(history) == {ViolationKind.GAP}


def test_a_value_that_was_sent_twice_cannot_be_judged():
    history = history_of(["w/1"])
    history.send("w", "w/1")

    with pytest.raises(InvalidValueError, match="sent twice"):
        check_log(history, final_reader=FINAL)


def test_a_fault_that_many_readers_see_is_told_once():
    history = history_of(["w/1", "w/2"])
    for reader in ("a", "b", "c"):
        history.read(reader, bucket=0, offset=0, value="w/2")

    found = check_log(history, final_reader=FINAL)

    assert sorted(violation.kind for violation in found) == [
        ViolationKind.CONFLICTING,
        ViolationKind.DUPLICATED,
    ]
