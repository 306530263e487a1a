"""Which task reads what of lake and log."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headwater.engines.spark.read.splits import (
    TASK_ROWS_MIN,
    TASKS_WANTED,
    exact_rows,
    packed,
)
from headwater.lake.split import LakeFile, LakeSplit
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange
from headwater.read.offsets import Place
from headwater.read.split import Hybrid, LakeFiles, LogRange, Split, StateAt, rows_max_of

ROWS_MAX = 2_000_000


def file(rows: int, **traits) -> LakeFile:
    traits = {"stands_alone": True, **traits}
    return LakeFile(path="f", row_count=rows, byte_count=1, is_plain=True, **traits)


def lake(*files: LakeFile) -> LakeSplit:
    return LakeSplit(
        format="plain", snapshot_id=1, bucket=0, partition=(), files=files, payload=b""
    )


def log(start: int, end: int) -> LogRange:
    return LogRange.of(Place(None, 0), LakeBucket(None, 0), OffsetRange(start, end))


def split(bucket: int, *files: LakeFile, tail: LogRange | None = None) -> Split:
    held = lake(*files)
    if tail is not None:
        return Hybrid(files=held, tail=tail)
    return LakeFiles(partition=None, bucket=bucket, files=held)


splits = st.lists(st.integers(0, 3_000_000), max_size=40).map(
    lambda sizes: tuple(split(number, file(rows)) for number, rows in enumerate(sizes))
)


@given(splits)
def test_every_split_is_read_by_one_task_in_its_order(planned):
    shares = tuple(packed(planned, rows_max=ROWS_MAX))

    assert [each for share in shares for each in share] == list(planned)
    assert all(shares)


@given(splits)
def test_tasks_are_neither_many_nor_large_but_for_splits_that_are(planned):
    shares = tuple(packed(planned, rows_max=ROWS_MAX))

    wanted = max(sum(map(rows_max_of, planned)) // TASKS_WANTED, TASK_ROWS_MIN)
    assert all(len(share) == 1 or sum(map(rows_max_of, share)) <= wanted for share in shares)
    assert all(
        sum(map(rows_max_of, (*one, *two))) > min(wanted, ROWS_MAX) for one, two in pairwise(shares)
    )


def test_rows_max_of_files_and_of_offsets_are_counted_together():
    assert rows_max_of(split(0, file(5), file(7), tail=log(10, 13))) == 15
    assert rows_max_of(StateAt.of(Place(None, 0), LakeBucket(None, 0), 13)) == 13


def test_rows_max_of_a_log_table_are_known_without_reading_them():
    parts = [split(0, file(5)), log(5, 8)]

    assert exact_rows(parts, is_keyed=False) == 8


def test_how_many_rows_are_left_by_changes_or_deletes_is_not_known():
    assert exact_rows([split(0, file(5), tail=log(5, 8))], is_keyed=True) is None
    assert exact_rows([log(5, 8)], is_keyed=True) is None
    assert exact_rows([split(0, file(5, deletes=("d",)))], is_keyed=True) is None
    assert exact_rows([split(0, file(5, stands_alone=False))], is_keyed=True) is None
    assert exact_rows([split(0, file(5))], is_keyed=True) == 5
