"""Rows of Spark in the shape of a table: casts, deletes, and what is refused before it is sent."""

import pyarrow as pa
import pytest

from headwater.engines.spark.sink_columns import ORDER_COLUMN, TASK_COLUMN, sink_columns
from headwater.engines.spark.sink_rows import DELETES, SinkRows
from headwater.errors import InvalidValueError, RequestError
from tests.engines.spark.writing.tables import described, frame, options

KEYED = described(key=("id",))
ROWS = "id bigint, city string, amount bigint"


def sink_rows(columns: str, table=KEYED, *, task: int = 0, ignores_deletes: bool = False):
    matched = sink_columns(frame(columns), table, options())
    return SinkRows(matched, table, ignores_deletes=ignores_deletes, task=task)


def batch(**columns) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def changes(*texts) -> pa.RecordBatch:
    count = len(texts)
    ids = pa.array(range(count), pa.int64())
    return batch(_change_type=list(texts), id=ids, city=["x"] * count, amount=[1] * count)


def test_columns_come_in_the_order_and_types_of_the_table():
    given = batch(amount=[7], city=["Ulm"], id=[1])

    (rows,) = sink_rows(ROWS).shape([given])

    assert rows.schema.names == ["id", "city", "amount"]
    assert rows.schema.field("amount").type == pa.int32()
    assert rows.to_pylist() == [{"id": 1, "city": "Ulm", "amount": 7}]


def test_a_value_that_does_not_fit_is_refused():
    with pytest.raises(InvalidValueError, match="The column 'amount'"):
        list(sink_rows(ROWS).shape([batch(amount=[2**40], city=["Ulm"], id=[1])]))


def test_null_keys_are_refused_with_what_to_do():
    given = batch(amount=[1, 2], city=["a", "b"], id=pa.array([1, None], pa.int64()))

    with pytest.raises(InvalidValueError, match=r"key column 'id' of shop\.orders") as caught:
        list(sink_rows(ROWS).shape([given]))

    assert "isNotNull" in caught.value.hint


def test_changes_become_upserts_and_deletes():
    rows = sink_rows(f"_change_type string, {ROWS}")

    (shaped,) = rows.shape([changes("insert", "update_before", "update_after", "delete")])

    assert rows.deletes == DELETES
    assert shaped["id"].to_pylist() == [0, 2, 3]
    assert shaped[DELETES].to_pylist() == [False, False, True]


def test_deletes_are_skipped_when_told_to():
    rows = sink_rows(f"_change_type string, {ROWS}", ignores_deletes=True)

    (shaped,) = rows.shape([changes("insert", "delete", "insert")])

    assert rows.deletes is None
    assert shaped["id"].to_pylist() == [0, 2]


def test_batches_of_which_nothing_is_left_are_left_out():
    rows = sink_rows(f"_change_type string, {ROWS}")

    (shaped,) = rows.shape([changes("-U"), changes(), changes("+I")])

    assert shaped.num_rows == 1


def test_a_log_table_has_no_deletes():
    rows = sink_rows(f"_change_type string, {ROWS}", described())

    (shaped,) = rows.shape([changes("insert")])

    assert rows.deletes is None
    assert shaped.schema.names == ["id", "city", "amount"]


def test_rows_for_another_task_are_refused():
    given = batch(**{"id": [1], "city": ["x"], "amount": [1], TASK_COLUMN: [2]})
    columns = f"{ROWS}, {TASK_COLUMN} int"

    assert len(list(sink_rows(columns, task=2).shape([given]))) == 1
    with pytest.raises(RequestError, match="shuffled again after"):
        list(sink_rows(columns, task=1).shape([given]))


def test_rows_are_put_back_into_the_order_they_had_before_a_shuffle():
    rows = sink_rows(f"{ROWS}, {ORDER_COLUMN} bigint")
    later = batch(**{"id": [1, 2], "city": ["c", "b"], "amount": [1, 1], ORDER_COLUMN: [7, 5]})
    first = batch(**{"id": [1, 3], "city": ["a", "d"], "amount": [1, 1], ORDER_COLUMN: [3, 9]})

    shaped = pa.Table.from_batches(rows.shape([later, first]))

    assert shaped["city"].to_pylist() == ["a", "b", "c", "d"]
    assert shaped.schema.names == ["id", "city", "amount"]


def test_no_rows_need_no_order():
    assert list(sink_rows(f"{ROWS}, {ORDER_COLUMN} bigint").shape([])) == []
