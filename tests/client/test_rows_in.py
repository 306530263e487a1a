from array import array
from collections import deque
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InvalidTargetColumnError, InvalidValueError
from headwater.model.arrow import arrow_schema
from headwater.write.rows_in import record_batches
from tests.cases import cases
from tests.rows.strategies import record_batches as drawn_batches
from tests.rows.strategies import schemas

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("amount", pa.decimal128(10, 2)),
        pa.field("tags", pa.list_(pa.string())),
    ]
)
ROWS = [
    {"id": 1, "name": "a", "amount": Decimal("1.50"), "tags": ["x"]},
    {"id": 2, "name": None, "amount": None, "tags": None},
]
BATCH = pa.RecordBatch.from_pylist(ROWS, SCHEMA)


class Named(NamedTuple):
    name: str
    id: int


class Exported:
    """Offer a stream the way Polars and DuckDB do, and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


class ExportedArray:
    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def __arrow_c_array__(self, requested_schema=None):
        return self._batch.__arrow_c_array__(requested_schema)


def taken(rows, schema=SCHEMA, **options) -> list[dict]:
    batches = list(record_batches(rows, schema, **options))
    for batch in batches:
        batch.validate(full=True)
    return [row for batch in batches for row in batch.to_pylist()]


@cases(
    "rows",
    [
        BATCH,
        pa.table(BATCH),
        pa.RecordBatchReader.from_batches(SCHEMA, [BATCH]),
        Exported(pa.table(BATCH)),
        ExportedArray(BATCH),
        BATCH.to_struct_array(),
        ROWS,
        tuple(ROWS),
        iter(ROWS),
        [tuple(row.values()) for row in ROWS],
        [ROWS[0], tuple(ROWS[1].values())],
        [ROWS[:1], BATCH.slice(1)],
        (each for each in (BATCH.slice(0, 1), pa.table(BATCH.slice(1)))),
        {name: [row[name] for row in ROWS] for name in SCHEMA.names},
        pd.DataFrame(ROWS),
        pd.DataFrame(ROWS).set_index("id"),
        [pd.DataFrame(ROWS[:1]), ROWS[1]],
    ],
)
def test_rows_are_taken_however_they_come(rows):
    assert taken(rows) == ROWS


def test_a_batch_in_the_schema_goes_through_untouched():
    (found,) = record_batches(BATCH, SCHEMA)

    assert found.column("name").buffers()[2].address == BATCH.column("name").buffers()[2].address


def test_a_mapping_of_scalars_is_one_row():
    assert taken(ROWS[0]) == ROWS[:1]


def test_a_mapping_with_lists_for_arrays_only_is_one_row():
    schema = pa.schema([("tags", pa.list_(pa.string()))])

    assert taken({"tags": ["x", "y"]}, schema) == [{"tags": ["x", "y"]}]


def test_columns_may_be_arrays_of_all_kinds():
    columns = {
        "id": np.array([1, 2], np.int16),
        "name": pa.chunked_array([["a"], ["b"]]),
        "amount": pd.Series([1, 2]),
        "tags": (["x"], None),
    }

    assert taken(columns) == [
        {"id": 1, "name": "a", "amount": Decimal("1.00"), "tags": ["x"]},
        {"id": 2, "name": "b", "amount": Decimal("2.00"), "tags": None},
    ]


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(InvalidValueError, match="differ in length: 'id' 2, 'name' 1"):
        taken({"id": [1, 2], "name": ["a"]})


def test_named_tuples_are_matched_by_name():
    assert taken([Named("a", 1)])[0]["name"] == "a"


def test_a_tuple_of_another_length_is_refused():
    with pytest.raises(InvalidValueError, match="A tuple has 2 values, but there are 4"):
        taken([(1, "a")])


def test_columns_are_matched_by_name_and_missing_ones_are_null():
    assert taken(pa.table({"name": ["a"], "id": [1]})) == [
        {"id": 1, "name": "a", "amount": None, "tags": None}
    ]


@cases("rows", [[{"name": "a"}], pa.table({"name": ["a"]}), {"name": ["a"]}])
def test_a_missing_column_that_takes_no_nulls_is_refused(rows):
    with pytest.raises(InvalidValueError, match="'id' is missing"):
        taken(rows)


@cases("rows", [[{"id": 1}, {"name": "a"}], pa.table({"id": [1, None]})])
def test_a_null_in_a_column_that_takes_none_is_refused(rows):
    with pytest.raises(InvalidValueError, match="'id' contains 1 nulls"):
        taken(rows)


@cases(
    "rows",
    [[{"id": 1, "nmae": "a"}], pa.table({"id": [1], "nmae": ["a"]}), {"id": [1], "nmae": [1]}],
)
def test_an_unknown_column_is_refused_with_the_nearest_one(rows):
    with pytest.raises(InvalidValueError, match="Did you mean 'name'"):
        taken(rows)


def test_a_column_given_twice_is_refused():
    rows = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"])

    with pytest.raises(InvalidValueError, match="'id' is given twice"):
        taken(rows)


@cases("rows", [ROWS, BATCH, pd.DataFrame(ROWS)])
def test_only_the_wanted_columns_are_taken_in_their_order(rows):
    batches = list(record_batches(rows, SCHEMA, columns=["name", "id"]))

    assert [batch.schema.names for batch in batches] == [["name", "id"]]


def test_columns_are_told_from_rows_by_all_columns_of_the_table():
    columns = {"id": [1, 2], "tags": [["x"], ["y"]]}

    assert taken(columns, columns=["tags"]) == [{"tags": ["x"]}, {"tags": ["y"]}]


def test_an_unknown_wanted_column_is_refused_at_once():
    with pytest.raises(InvalidTargetColumnError, match="Did you mean 'name'"):
        record_batches(ROWS, SCHEMA, columns=["id", "nam"])


@cases("rows", ["abc", 5, [5], [[1, "a"]], b"x", pa.array([1])])
def test_what_is_no_rows_is_refused(rows):
    with pytest.raises(InvalidValueError, match=r"neither rows nor columns|does not hold rows"):
        taken(rows)


@cases("rows", [[], {"id": []}, BATCH.slice(0, 0), pa.table(BATCH.slice(0, 0))])
def test_nothing_makes_no_batch(rows):
    assert list(record_batches(rows, SCHEMA)) == []


@given(st.integers(1, 40), st.integers(1, 12))
def test_no_batch_is_larger_than_allowed_and_no_row_is_lost(count, rows_max):
    rows = [{"id": number} for number in range(count)]

    for source in (rows, iter(rows), pa.Table.from_pylist(rows)):
        batches = list(record_batches(source, SCHEMA, rows_max=rows_max))
        assert max(batch.num_rows for batch in batches) <= rows_max
        assert [row["id"] for batch in batches for row in batch.to_pylist()] == list(range(count))


@given(schemas().flatmap(lambda each: st.tuples(st.just(each), drawn_batches(each))))
def test_every_batch_of_a_table_comes_out_as_it_went_in(drawn):
    schema, batch = drawn
    # Without the promises of nested fields every column has to be made anew.
    loose = pa.table(batch).cast(pa.schema([field.with_nullable(True) for field in batch.schema]))

    (found,) = record_batches(loose, arrow_schema(schema))

    assert found.schema == arrow_schema(schema)
    assert found.equals(batch)


def test_missing_values_of_pandas_are_null():
    frame = pd.DataFrame({"id": [1, 2], "amount": [1.0, None], "name": ["a", None]})
    schema = pa.schema([("id", pa.int32()), ("amount", pa.int16()), ("name", pa.string())])

    assert taken(frame, schema)[1] == {"id": 2, "amount": None, "name": None}


def test_a_frame_with_two_columns_of_one_name_is_refused():
    frame = pd.DataFrame([[1, 2]], columns=["id", "id"])

    with pytest.raises(InvalidValueError, match="several columns with the same name"):
        taken(frame)


def test_a_polars_frame_is_taken():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(ROWS, schema_overrides={"amount": polars.Decimal(10, 2)})

    assert taken(frame) == ROWS
    assert taken(frame.lazy()) == ROWS


def test_times_of_frames_keep_their_meaning():
    zone = timezone(timedelta(hours=2))
    frame = pd.DataFrame(
        {"at": [pd.Timestamp(2024, 1, 1, 12, tzinfo=zone)], "day": [date(2024, 1, 1)]}
    )
    schema = pa.schema([("at", pa.timestamp("ms", "UTC")), ("day", pa.date32())])

    assert taken(frame, schema) == [
        {"at": datetime(2024, 1, 1, 10, tzinfo=UTC), "day": date(2024, 1, 1)}
    ]


@cases(
    "numbers",
    [
        range(2),
        array("q", [0, 1]),
        deque([0, 1]),
        pd.Series([0, 1]),
        pd.Series([0, 1], dtype="object"),
        pl.Series([0, 1]),
        np.array([0, 1]),
    ],
)
def test_a_column_is_any_sequence_of_values(numbers):
    rows = taken({"id": numbers, "name": ["a", "b"]})

    assert [(row["id"], row["name"]) for row in rows] == [(0, "a"), (1, "b")]


def test_what_pandas_counts_as_missing_in_a_series_is_null():
    rows = taken({"id": [1, 2], "name": pd.Series(["a", np.nan], dtype="object")})

    assert [row["name"] for row in rows] == ["a", None]


@cases("rows", [(1, 2.0), [1, 2], "text", 7, b"bytes"])
def test_values_that_are_no_rows_are_refused_with_advice(rows):
    with pytest.raises(InvalidValueError, match="Wrap a single tuple in a list"):
        taken(rows)
