"""Changes that are too many for memory lie in files, which do not stay."""

import gc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headwater.errors import StorageError
from headwater.model.arrow import arrow_schema
from headwater.model.bucket import TableBucket
from headwater.model.table import TableInfo
from headwater.model.types import BigIntType, StringType
from headwater.read.merge.fold import Folded, TailFold
from headwater.read.merge.parts import SpillPlace
from headwater.read.merge.stream import merged_in_order
from headwater.read.offsets import LogBatch
from headwater.rows.log_batch import ChangeType
from tests.client.union.merge.folds import fold_of, folded_of
from tests.client.union.merge.histories import History, table_of, values_of

LIMIT = 2_000
MEGABYTE = 1024 * 1024
ROWS = 250_000
KEYED = table_of([BigIntType()])
TEXTS = table_of([StringType()])


def written(count: int = 500) -> History:
    """Return a history whose changes do not fit into the limit."""
    history = History(table_of([BigIntType()]))
    for key in range(0, 2 * count, 2):
        history.put((key,), 1, is_wal=True)
    history.lake, history.changes, history.changed = dict(history.state), [], {}
    for key in range(count):
        history.put((key,), None if key % 5 == 0 else 2, is_wal=False)
    return history


def batch_of(numbers: np.ndarray, change: ChangeType, table=KEYED) -> LogBatch:
    kind = arrow_schema(table.schema).field("k0").type
    rows = pa.record_batch(
        [pa.array(numbers).cast(kind), pa.array(numbers.astype(np.int32))],
        schema=arrow_schema(table.schema),
    )
    changes = np.full(len(numbers), change, np.uint8)
    return LogBatch(rows, changes, np.arange(len(numbers)), 0, TableBucket(1, 0), None)


def test_rows_are_the_same_from_files(tmp_path: Path) -> None:
    history = written()

    folded = folded_of(history, limit=LIMIT, place=tmp_path)
    kept = list(folded.without_changed(iter(history.lake_batches(100))))

    assert folded.is_spilled
    assert history.seen([*kept, *folded.live()]) == values_of(history.state)
    assert folded.key_count == len(history.changed)
    assert folded.byte_count > LIMIT


def test_the_files_go_with_those_who_read_them(tmp_path: Path) -> None:
    fold = fold_of(written(), limit=LIMIT, place=tmp_path)
    for batch in written().batches(50):
        fold.add(batch)
    folded = fold.folded()

    del fold
    there = len(list(tmp_path.iterdir()))
    del folded
    gc.collect()

    assert there == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("in_order", [True, False])
def test_the_files_of_a_reader_that_stops_halfway_are_removed(
    tmp_path: Path, in_order: bool
) -> None:
    history = written()
    folded = folded_of(history, limit=LIMIT, place=tmp_path)
    lake = iter(history.lake_batches(100))

    reader = merged_in_order(lake, folded) if in_order else folded.without_changed(lake)
    next(reader)
    during = len(list(tmp_path.iterdir()))
    reader.close()

    assert (during, len(list(tmp_path.iterdir()))) == (2, 1)


@pytest.mark.parametrize("in_order", [True, False])
def test_the_files_of_a_reader_that_fails_are_removed(tmp_path: Path, in_order: bool) -> None:
    history = written()
    folded = folded_of(history, limit=LIMIT, place=tmp_path)

    def failing():
        yield history.lake_batches(100)[0]
        raise LookupError

    reader = merged_in_order(failing(), folded) if in_order else folded.without_changed(failing())
    with pytest.raises(LookupError):
        list(reader)

    assert len(list(tmp_path.iterdir())) == 1


def test_what_was_given_before_stays_when_the_fold_goes_to_files(tmp_path: Path) -> None:
    history = written()
    batches = history.batches(10)
    fold = fold_of(history, limit=LIMIT, place=tmp_path)
    fold.add(batches[0])
    small = fold.folded()
    for batch in batches[1:60]:
        fold.add(batch)
    large = fold.folded()
    first = history.seen(list(large.live()))

    for batch in batches[60:]:
        fold.add(batch)

    assert (small.is_spilled, large.is_spilled) == (False, True)
    assert small.key_count <= 10
    assert history.seen(list(large.live())) == first
    kept = fold.folded().without_changed(iter(history.lake_batches(100)))
    assert history.seen([*kept, *fold.folded().live()]) == values_of(history.state)


def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be spilled to files"):
        folded_of(written(), limit=LIMIT, place=tmp_path / "missing")


@pytest.mark.parametrize("table", [KEYED, TEXTS], ids=["numbers", "texts"])
@pytest.mark.parametrize("reading", ["live", "without_changed", "in_order"])
def test_memory_stays_within_about_the_limit(tmp_path: Path, table, reading: str) -> None:
    before, peak, count = pa.total_allocated_bytes(), 0, 0
    fold = TailFold(
        table, arrow_schema(table.schema), memory_bytes_max=MEGABYTE, spill=SpillPlace(tmp_path)
    )
    for numbers in np.random.default_rng(1).integers(0, ROWS, (80, 5_000)):
        fold.add(batch_of(numbers, ChangeType.UPDATE_AFTER, table))
        peak = max(peak, pa.total_allocated_bytes() - before)

    folded = fold.folded()
    for rows in read(folded, reading, lake_of(table)):
        count += rows.num_rows
        peak = max(peak, pa.total_allocated_bytes() - before)

    changed = folded.key_count
    assert folded.byte_count > 4 * MEGABYTE
    assert peak < MEGABYTE
    assert count == {"live": changed, "without_changed": ROWS - changed, "in_order": ROWS}[reading]


def lake_of(table: TableInfo) -> Iterator[pa.RecordBatch]:
    """Yield all rows in the order of their keys."""
    numbers = list(range(ROWS))
    ordered = np.array(sorted(numbers, key=str) if table is TEXTS else numbers)
    for at in range(0, ROWS, 5_000):
        yield batch_of(ordered[at : at + 5_000], ChangeType.INSERT, table).rows


def read(folded: Folded, reading: str, lake: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    match reading:
        case "live":
            return folded.live()
        case "without_changed":
            return folded.without_changed(lake)
        case _:
            return merged_in_order(lake, folded)
