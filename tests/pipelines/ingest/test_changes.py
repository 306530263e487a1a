"""Values from text, and changes in layers."""

import math
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.model import types
from headwater.pipelines.ingest.postgres.changes import (
    DELETED,
    RowChanges,
    TableShape,
    completed,
    layer_rows,
    layers_of,
)
from headwater.pipelines.ingest.postgres.column_types import (
    can_widen,
    convert,
    data_type_of,
    elements_of,
)
from headwater.pipelines.ingest.postgres.pgoutput import (
    UNCHANGED,
    RelationColumn,
    RelationMessage,
    ReplicaIdentity,
)
from tests.cases import cases

RELATION = RelationMessage(
    1,
    "public",
    "orders",
    ReplicaIdentity.DEFAULT,
    (RelationColumn("id", 23, -1, True), RelationColumn("note", 25), RelationColumn("n", 23)),
)
SHAPE = TableShape(
    ("id", "note", "n"), (types.IntType(), types.StringType(), types.IntType()), ("id",)
)


def test_columns_get_types_that_hold_their_values_exactly():
    assert data_type_of(1700, (12 << 16 | 3) + 4) == types.DecimalType(precision=12, scale=3)
    assert data_type_of(1700) == types.StringType()
    assert data_type_of(1700, (50 << 16 | 3) + 4) == types.StringType()
    assert data_type_of(1700, (5 << 16 | (-2 & 0x7FF)) + 4) == types.StringType()
    assert data_type_of(1184, 3) == types.TimestampLtzType(precision=3)
    assert data_type_of(1007) == types.ArrayType(element=types.IntType())
    assert data_type_of(999_999) == types.StringType()


@cases(
    "kind,text,value",
    [
        (types.BooleanType(), "f", False),
        (types.BytesType(), "\\x00ff", b"\x00\xff"),
        (types.DecimalType(precision=5, scale=2), "-12.30", Decimal("-12.30")),
        (types.DateType(), "2024-02-29", date(2024, 2, 29)),
        (types.TimeType(precision=6), "03:04:05.1", time(3, 4, 5, 100_000)),
        (
            types.TimestampType(precision=6),
            "2024-01-01 00:00:00.5",
            datetime(2024, 1, 1, 0, 0, 0, 500_000),
        ),
        (
            types.TimestampLtzType(precision=0),
            "2024-01-01 00:00:00+00",
            datetime(2024, 1, 1, tzinfo=UTC),
        ),
        (types.DoubleType(), "-Infinity", -math.inf),
        (types.ArrayType(element=types.IntType()), "{1,NULL}", [1, None]),
    ],
)
def test_values_are_exact(kind, text, value):
    bad = []

    found = convert("x", pa.array([text, None]), kind, bad)

    assert found.to_pylist() == [value, None]
    assert not bad


def test_a_value_that_does_not_fit_is_told_and_the_others_are_converted():
    bad = []
    texts = pa.array(["2024-01-01", "infinity", None, "0044-03-15 BC", "2024-01-02"])

    found = convert("day", texts, types.DateType(), bad)

    assert found.to_pylist() == [date(2024, 1, 1), None, None, None, date(2024, 1, 2)]
    assert [(each.row, each.column) for each in bad] == [(1, "day"), (3, "day")]


@given(st.lists(st.none() | st.text(alphabet='ab",\\{} N')))
def test_elements_of_arrays_come_back(values):
    def quoted(value):
        return (
            "NULL" if value is None else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        )

    assert elements_of("{" + ",".join(map(quoted, values)) + "}") == values


def test_a_column_holds_narrower_types_and_refuses_wider_ones():
    assert can_widen(types.BigIntType(), types.IntType())
    assert not can_widen(types.IntType(), types.BigIntType())
    assert not can_widen(
        types.DecimalType(precision=10, scale=2), types.DecimalType(precision=10, scale=3)
    )


def test_what_was_not_sent_is_taken_from_the_row_that_was():
    assert completed((b"1", UNCHANGED), (b"1", b"big")) == (b"1", b"big")
    assert completed((b"1", UNCHANGED), (b"1", None)) == (b"1", UNCHANGED)


def test_rows_without_partial_updates_are_one_layer_with_their_deletes():
    changes = RowChanges(RELATION, SHAPE)
    changes.upsert((b"1", b"a", b"2"))
    changes.delete((b"1", None, None))

    (layer,) = layers_of(changes, [0])
    rows = layer_rows(changes, layer).columns.to_pylist()

    assert rows[0] == {"id": 1, "note": "a", "n": 2, DELETED: False}
    assert rows[1] == {"id": 1, "note": None, "n": None, DELETED: True}


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["set", "part", "delete"]))))
def test_layers_one_after_the_other_give_what_the_changes_gave(steps):
    changes, wanted, written = RowChanges(RELATION, SHAPE), {}, {}
    for number, (key, what) in enumerate(steps):
        row = (b"%d" % key, UNCHANGED if what == "part" else b"%d" % number, b"%d" % number)
        if what == "delete":
            changes.delete(row)
            wanted.pop(key, None)
        elif what == "set" or key in wanted:
            changes.upsert(row)
            note = wanted[key]["note"] if what == "part" else str(number)
            wanted[key] = {"id": key, "note": note, "n": number}

    for layer in layers_of(changes, [0]) if changes.rows else []:
        for row in layer_rows(changes, layer).columns.to_pylist():
            if row.pop(DELETED):
                written.pop(row["id"], None)
            else:
                written[row["id"]] = {**written.get(row["id"], {}), **row}

    assert written == wanted
