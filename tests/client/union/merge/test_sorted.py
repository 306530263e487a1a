"""Rows of a lake and changes become one stream that ascends by key."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptFileError
from headwater.lake.keys import in_key_order
from headwater.model.types import BigIntType, DoubleType
from headwater.read.merge.stream import merged_in_order
from tests.cases import cases
from tests.client.union.merge.folds import LIMITS, PLENTY, folded_of
from tests.client.union.merge.histories import History, histories, table_of, values_of


def order_in(history: History, rows: pa.Table) -> list[int]:
    names = history.table.descriptor.physical_primary_key
    return in_key_order([rows.column(name) for name in names]).tolist()


def lake_in_order(history: History, size: int) -> list[pa.RecordBatch]:
    rows = history.rows(list(history.lake.values()))
    rows = rows.take(pa.array(order_in(history, pa.Table.from_batches([rows])), pa.int64()))
    return [rows.slice(at, size) for at in range(0, rows.num_rows, size)]


@given(histories(), st.integers(1, 50), LIMITS)
def test_all_rows_come_once_and_in_order(history: History, size: int, limit: int) -> None:
    folded = folded_of(history, limit=limit)

    found = list(merged_in_order(iter(lake_in_order(history, size)), folded))

    assert history.seen(found) == values_of(history.state)
    if found:
        order = order_in(history, pa.Table.from_batches(found))
        assert order == list(range(len(order)))


@cases("limit", [PLENTY, 50])
def test_keys_that_are_neither_before_nor_after_each_other_are_told_apart(limit: int) -> None:
    history = History(table_of([DoubleType()]))
    for key in (-1.0, 0.0, -0.0, 1.0):
        history.put((key,), 1, is_wal=False)
    history.lake = dict(history.state)
    history.changes.clear()
    history.put((-0.0,), None, is_wal=False)
    history.put((0.0,), 2, is_wal=False)

    folded = folded_of(history, limit=limit)
    found = list(merged_in_order(iter(lake_in_order(history, 2)), folded))

    assert folded.is_spilled == (limit != PLENTY)
    assert history.seen(found) == values_of(history.state)


@cases("limit", [PLENTY, 20_000])
def test_many_rows_come_in_order(limit: int) -> None:
    history = History(table_of([BigIntType()]))
    for key in range(0, 6_000, 2):
        history.put((key,), 1, is_wal=True)
    history.lake, history.changes = dict(history.state), []
    for key in range(0, 6_000, 3):
        history.put((key,), None if key % 5 == 0 else 2, is_wal=True)

    folded = folded_of(history, size=500, limit=limit)
    found = list(merged_in_order(iter(lake_in_order(history, 700)), folded, columns=["k0"]))

    keys = [key for rows in found for key in rows.column("k0").to_pylist()]
    assert keys == sorted(key for (key,) in history.state)
    assert found[0].schema.names == ["k0"]


def test_rows_of_a_lake_that_are_in_no_order_are_refused() -> None:
    history = History(table_of([BigIntType()]))
    rows = [history.rows([((2,), 0), ((3,), 0)]), history.rows([((1,), 0)])]

    with pytest.raises(CorruptFileError, match="not sorted by key"):
        list(merged_in_order(iter(rows), folded_of(history)))
