"""Columns and fields of rows are picked by path, whatever lies beside them."""

import pyarrow as pa
import pytest

from headwater.errors import InvalidTableError
from headwater.lake.files import picked, picked_schema
from tests.cases import cases

INNER = pa.struct([("x", pa.int32()), ("y", pa.string())])
SCHEMA = pa.schema([("id", pa.int64()), ("r", pa.struct([("a", pa.int8()), ("in", INNER)]))])
ROWS = pa.record_batch(
    [
        pa.array([1, 2, 3], pa.int64()),
        pa.array(
            [{"a": 1, "in": {"x": 10, "y": "p"}}, None, {"a": 3, "in": None}], SCHEMA.field(1).type
        ),
    ],
    schema=SCHEMA,
)


@cases(
    ("paths", "expected"),
    [
        ([("r",), ("id",)], {"r": ROWS.column(1).to_pylist(), "id": [1, 2, 3]}),
        ([("r", "a")], {"r": [{"a": 1}, None, {"a": 3}]}),
        ([("r", "in", "y")], {"r": [{"in": {"y": "p"}}, None, {"in": None}]}),
        (
            [("r", "in", "x"), ("r", "a")],
            {"r": [{"in": {"x": 10}, "a": 1}, None, {"in": None, "a": 3}]},
        ),
        (
            [("r", "a"), ("r", "in", "x")],
            {"r": [{"a": 1, "in": {"x": 10}}, None, {"a": 3, "in": None}]},
        ),
        ([("r", "a"), ("r",)], {"r": ROWS.column(1).to_pylist()}),
        ([("r",), ("r", "a")], {"r": ROWS.column(1).to_pylist()}),
    ],
)
def test_paths_pick_columns_and_fields_in_their_order(paths, expected):
    rows = picked(ROWS, picked_schema(SCHEMA, paths))

    rows.validate(full=True)
    assert rows.to_pydict() == expected
    assert str(rows.to_pydict()) == str(expected)


def test_a_slice_of_rows_keeps_its_rows():
    rows = picked(ROWS.slice(1, 2), picked_schema(SCHEMA, [("r", "a")]))

    assert rows.to_pydict() == {"r": [None, {"a": 3}]}


def test_no_column_at_all_keeps_the_count_of_rows():
    assert picked(ROWS, picked_schema(SCHEMA, [])).num_rows == 3


@cases("path", [("nope",), ("r", "nope"), ("id", "x")])
def test_a_path_that_leads_nowhere_is_told(path):
    with pytest.raises(InvalidTableError):
        picked_schema(SCHEMA, [path])
