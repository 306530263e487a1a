"""Batches that follow each other, and batches that do not."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from headwater.audit.logs import LogCheck
from headwater.audit.report import Check, Severity
from headwater.audit.writers import WriterTrail
from headwater.model.bucket import OffsetRange
from headwater.read.log import FetchedBatch
from headwater.rows.log_batch import build_batch, read_header
from tests.cases import cases


def batch(
    base: int, count: int, *, timestamp_ms: int = 1, writer: tuple[int, int] = (-1, -1)
) -> FetchedBatch:
    writer_id, sequence = writer
    data = build_batch(
        b"rows" * count,
        schema_id=1,
        record_count=count,
        writer_id=writer_id,
        sequence=sequence,
        base_offset=base,
        timestamp_ms=timestamp_ms,
    )
    return FetchedBatch(read_header(data), memoryview(data))


def damaged(whole: FetchedBatch) -> FetchedBatch:
    data = bytearray(whole.data)
    data[-1] ^= 1
    return replace(whole, data=memoryview(data))


def batches(counts: list[int], start: int = 0) -> list[FetchedBatch]:
    found = []
    for count in counts:
        found.append(batch(start, count))
        start = found[-1].header.end_offset
    return found


def runs_of(check: LogCheck, given: list[FetchedBatch]) -> list[list[int]]:
    return [[each.header.base_offset for each in run] for run in check.take(given)]


counts = st.lists(st.integers(0, 4), min_size=1, max_size=12)


@given(counts, st.integers(0, 5))
def test_batches_that_follow_are_one_run_without_faults(given_counts, start):
    check = LogCheck(start)

    runs = check.take(batches(given_counts, start))

    assert [len(run) for run in runs] == [len(given_counts)]
    assert check.faults == []
    assert (check.batch_count, check.row_count) == (len(given_counts), sum(given_counts))


@given(counts, st.data())
def test_a_batch_that_is_left_out_is_a_gap(given_counts, data):
    whole = batches([*given_counts, 1])
    lost = data.draw(st.integers(0, len(given_counts) - 1))
    check = LogCheck(0)

    check.take(whole[:lost] + whole[lost + 1 :])

    (fault,) = check.faults
    assert (fault.check, fault.offset) == (Check.OFFSETS, whole[lost].header.base_offset)


@given(counts, st.data())
def test_a_batch_that_comes_twice_is_noticed_and_does_not_count(given_counts, data):
    whole = batches(given_counts)
    at = data.draw(st.integers(0, len(given_counts) - 1))
    check = LogCheck(0)

    runs = check.take(whole[: at + 1] + whole[at:])

    (fault,) = check.faults
    assert (fault.check, fault.offset) == (Check.OFFSETS, whole[at].header.base_offset)
    assert sum(map(len, runs)) == len(whole)


def test_damage_ends_a_run_and_the_next_batch_begins_another():
    first, second, third = batches([2, 3, 1])
    check = LogCheck(0)

    runs = runs_of(check, [first, damaged(second), third])

    assert runs == [[0], [5]]
    assert [(each.check, each.offset) for each in check.faults] == [(Check.CHECKSUMS, 2)]


def test_a_log_may_begin_in_the_middle_of_a_batch_and_nowhere_else():
    check = LogCheck(2)

    runs = runs_of(check, batches([4, 1]))

    assert (runs, check.faults, check.row_count) == ([[0, 4]], [], 3)


def test_what_can_be_read_behind_damage_may_begin_in_the_middle_too():
    check = LogCheck(0)
    check.take(batches([2]))

    check.pass_over(OffsetRange(2, 7))
    runs = runs_of(check, batches([4], start=5))

    assert (runs, check.faults, check.offset) == ([[5]], [], 9)


@cases(("second_ms", "faults"), [(5, 0), (6, 0), (4, 1)])
def test_times_that_go_back_are_worth_a_look(second_ms, faults):
    check = LogCheck(0)

    check.take([batch(0, 1, timestamp_ms=5), batch(1, 1, timestamp_ms=second_ms)])

    assert [each.severity for each in check.faults] == [Severity.WARNING] * faults


@cases(
    ("sequences", "severities"),
    [
        ([0, 1, 2], []),
        ([7, 8], []),
        ([2**31 - 1, 0], []),
        ([0, 0], [Severity.ERROR]),
        ([0, 1, 0, 1], [Severity.WARNING]),
        ([0, 1, 2, 1], [Severity.ERROR]),
        ([0, 2], [Severity.WARNING]),
    ],
)
def test_batches_of_a_writer_come_once_and_in_their_order(sequences, severities):
    check = LogCheck(0)

    check.take([batch(at, 1, writer=(9, each)) for at, each in enumerate(sequences)])

    assert [each.severity for each in check.faults] == severities


def test_a_writer_that_begins_anew_is_told_in_the_words_that_the_files_have():
    check, trail = LogCheck(0), WriterTrail(None)
    sent = [batch(at, 1, writer=(9, each)) for at, each in enumerate([0, 1, 0])]

    check.take(sent)
    for each in sent:
        trail.take(each.header, each.header.crc)

    (fault,) = check.faults
    assert trail.restarts == [(fault.offset, fault.message)]
    assert trail.faults == []


@cases(("silent_ms", "severity"), [(1, "error"), (3_600_000, "warning")])
def test_the_first_batch_comes_twice_only_from_a_writer_that_was_forgotten(silent_ms, severity):
    check = LogCheck(0)

    check.take([batch(at, 1, writer=(9, 0), timestamp_ms=at * silent_ms + 1) for at in range(2)])

    assert [each.severity for each in check.faults] == [severity]


def test_writers_do_not_stand_in_for_each_other():
    check = LogCheck(0)

    check.take([batch(at, 1, writer=(at, 0)) for at in range(5)])

    assert check.faults == []
