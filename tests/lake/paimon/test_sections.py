"""Files of a bucket are merged only where their keys overlap, and come in the order of keys."""

import math
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.lake.paimon.manifests import ADD, DataFile, Entry
from headwater.lake.paimon.plan import is_current, sections_of
from headwater.lake.paimon.types import EMPTY_ROW, to_binary_row
from headwater.model.predicate import Leaf, LeafFunction
from headwater.model.types import BigIntType, DoubleType, StringType, TimestampType

KEY = (pa.int64(), pa.string())
COLUMNS = {"id": BigIntType(nullable=False), "name": StringType()}


def entry(name: str, low: bytes, high: bytes, *, deletes: int = 0, sequence: int = 0) -> Entry:
    record = {
        "_FILE_NAME": name,
        "_ROW_COUNT": 10,
        "_MIN_KEY": low,
        "_MAX_KEY": high,
        "_DELETE_ROW_COUNT": deletes,
        "_MIN_SEQUENCE_NUMBER": sequence,
    }
    return Entry(ADD, b"", 0, 1, DataFile(record))


def names(sections: list[list[Entry]]) -> list[list[str]]:
    return [[each.file.name for each in section] for section in sections]


KEYS = st.tuples(st.integers(0, 20), st.sampled_from(["", "a", "b", "é"]))
RANGES = st.lists(st.tuples(KEYS, KEYS).map(sorted), max_size=8)


@given(RANGES)
def test_sections_are_apart_in_order_and_cannot_be_divided(ranges):
    rows = [(to_binary_row(KEY, low), to_binary_row(KEY, high)) for low, high in ranges]

    sections = sections_of([entry(str(at), *row) for at, row in enumerate(rows)], KEY)

    found = [[ranges[int(name)] for name in section] for section in names(sections)]
    assert sorted(each for section in found for each in section) == sorted(ranges)
    for left, right in pairwise(found):
        assert max(high for _, high in left) < min(low for low, _ in right)
    for section in found:
        ordered = sorted(section)
        reached = [max(high for _, high in ordered[: at + 1]) for at in range(len(ordered))]
        assert all(low <= end for (low, _), end in zip(ordered[1:], reached, strict=False))


def test_files_that_share_only_a_key_belong_together():
    low, mid, high = (to_binary_row([pa.int64()], [each]) for each in (1, 5, 9))

    sections = sections_of([entry("b", mid, high), entry("a", low, mid)], [pa.int64()])

    assert names(sections) == [["a", "b"]]


def test_a_file_that_does_not_tell_its_keys_belongs_to_all():
    low, high = (to_binary_row([pa.int64()], [each]) for each in (1, 5))
    known = [entry("b", low, low, sequence=2), entry("c", high, high, sequence=3)]

    sections = sections_of([*known, entry("a", EMPTY_ROW, EMPTY_ROW)], [pa.int64()])

    assert names(sections) == [["a", "b", "c"]]


def test_numbers_that_are_none_come_last():
    one, none = (to_binary_row([pa.float64()], [each]) for each in (1.0, math.nan))

    sections = sections_of([entry("nan", none, none), entry("one", one, one)], [pa.float64()])

    assert names(sections) == [["one"], ["nan"]]


def test_a_file_with_rows_that_delete_is_not_current():
    row = to_binary_row([pa.int64()], [1])

    assert is_current([entry("a", row, row)])
    assert not is_current([entry("a", row, row, deletes=1)])
    assert not is_current([entry("a", row, row), entry("b", row, row)])


@pytest.fixture
def table(tables):
    """Return a bucket of three sections: a lone file, two that overlap, and one that deletes."""
    table = tables.make(COLUMNS, key=("id",))
    table.tier([{"id": at, "name": "old"} for at in range(10, 20)])
    table.tier([{"id": at, "name": "lone"} for at in range(5)])
    table.tier([{"id": at, "name": "new"} for at in range(15, 25)])
    table.tier([{"id": at, "name": "end"} for at in range(30, 34)], deleted=[False, True] * 2)
    return table


def test_only_files_whose_keys_overlap_are_merged(table):
    (split,) = table.source.plan(table.head().snapshot_id)

    assert [file.stands_alone for file in split.files] == [True, False, False, False]
    assert [file.row_count for file in split.files] == [5, 10, 10, 4]
    ids = [*range(5), *range(10, 25), 30, 32]
    assert sorted(row["id"] for row in table.values()) == ids
    assert [row["name"] for row in table.values() if row["id"] == 15] == ["new"]


def test_sections_are_read_in_the_order_of_keys(table):
    source = table.source
    (split,) = source.plan(table.head().snapshot_id)

    backwards = replace(split, files=tuple(reversed(split.files)))

    batches = list(source.read(backwards, in_key_order=True))
    ids = [each for batch in batches for each in batch["id"].to_pylist()]
    assert ids == [*range(5), *range(10, 25), 30, 32]


def test_values_leave_out_only_files_that_stand_alone(table):
    source, answer = table.source.with_filters([Leaf(LeafFunction.EQUAL, 1, ("old",))])

    (split,) = source.plan(table.head().snapshot_id)

    assert [file.stands_alone for file in split.files] == [False, False, False]
    names = [row["name"] for batch in source.read(split) for row in batch.to_pylist()]
    assert sorted(set(names)) == ["end", "new", "old"]
    assert answer.remaining


def test_keys_leave_out_files_that_are_merged(table):
    source, _ = table.source.with_filters([Leaf(LeafFunction.EQUAL, 0, (17,))])

    (split,) = source.plan(table.head().snapshot_id)

    assert [file.row_count for file in split.files] == [10, 10]


def test_a_limit_does_not_leave_splits_out_that_filters_may_need(tables):
    table = tables.make(COLUMNS, key=("id",), bucket_count=2)
    table.tier([{"id": at, "name": f"n{at}"} for at in range(40)])
    source, _ = table.source.with_filters([Leaf(LeafFunction.GREATER_THAN, 0, (-1,))])

    assert len(source.with_limit(1).plan(table.head().snapshot_id)) == 2
    assert len(table.source.with_limit(1).plan(table.head().snapshot_id)) == 1


def test_nanoseconds_are_only_for_the_reader_of_the_format(tables):
    table = tables.make({"id": BigIntType(), "at": TimestampType(precision=9)})
    table.tier([{"id": 1, "at": 1_001}])

    ((file,),) = [split.files for split in table.source.plan(table.head().snapshot_id)]

    assert file.names is None
    assert not file.is_native
    assert [(each.lower, each.upper) for each in file.bounds if each.column_id == 1] == [
        (1_001, 1_001)
    ]


def test_floats_in_files_of_others_have_no_bounds(tables, foreign):
    table = tables.make({"id": BigIntType(), "score": DoubleType()})
    builder = foreign(table).new_batch_write_builder()
    writer, committer = builder.new_write(), builder.new_commit()
    writer.write_arrow(pa.table({"id": [1, 2], "score": [math.nan, 2.0]}))
    committer.commit(writer.prepare_commit())

    ((file,),) = [split.files for split in table.source.plan(table.head().snapshot_id)]

    known = {each.column_id: (each.lower, each.upper) for each in file.bounds}
    assert known.get(1, (None, None)) == (None, None)
    assert file.is_native
