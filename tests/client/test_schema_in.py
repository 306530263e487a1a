from datetime import date

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given

from headwater.cluster.schema_in import schema_of
from headwater.errors import InvalidTableError
from headwater.model.arrow import arrow_schema
from headwater.model.schema import Schema
from headwater.model.type_text import type_text
from tests.cases import cases
from tests.rows.strategies import schemas


def texts(schema: Schema) -> dict[str, str]:
    return {column.name: type_text(column.type) for column in schema.columns}


def text_of(kind: pa.DataType) -> str:
    return texts(schema_of({"c": kind}))["c"]


@given(schemas())
def test_the_arrow_schema_of_a_table_leads_back_to_the_same_arrow_schema(schema):
    arrow = arrow_schema(schema)

    assert arrow_schema(schema_of(arrow)) == arrow


@cases(
    ("kind", "text"),
    [
        (pa.uint8(), "SMALLINT"),
        (pa.uint16(), "INT"),
        (pa.uint32(), "BIGINT"),
        (pa.float16(), "FLOAT"),
        (pa.large_string(), "STRING"),
        (pa.string_view(), "STRING"),
        (pa.dictionary(pa.int8(), pa.large_string()), "STRING"),
        (pa.run_end_encoded(pa.int32(), pa.int64()), "BIGINT"),
        (pa.large_binary(), "BYTES"),
        (pa.binary(7), "BINARY(7)"),
        (pa.uuid(), "BINARY(16)"),
        (pa.date64(), "DATE"),
        (pa.time32("s"), "TIME(0)"),
        (pa.time32("ms"), "TIME(3)"),
        (pa.time64("us"), "TIME(6)"),
        (pa.time64("ns"), "TIME(9)"),
        (pa.timestamp("s"), "TIMESTAMP(0)"),
        (pa.timestamp("us"), "TIMESTAMP(6)"),
        (pa.timestamp("ns", "Europe/Oslo"), "TIMESTAMP_LTZ(9)"),
        (pa.decimal128(10, 2), "DECIMAL(10, 2)"),
        (pa.decimal64(10, 2), "DECIMAL(10, 2)"),
        (pa.decimal256(38, 2), "DECIMAL(38, 2)"),
        (pa.large_list(pa.int8()), "ARRAY<TINYINT>"),
        (pa.list_(pa.int8(), 3), "ARRAY<TINYINT>"),
        (pa.list_view(pa.int8()), "ARRAY<TINYINT>"),
        (pa.map_(pa.string(), pa.int8()), "MAP<STRING NOT NULL, TINYINT>"),
        (pa.struct([pa.field("a", pa.int8(), nullable=False)]), "ROW<a TINYINT NOT NULL>"),
    ],
)
def test_arrow_types_stand_for_data_types(kind, text):
    assert text_of(kind) == text


@cases(
    ("kind", "hint"),
    [
        (pa.uint64(), r"DECIMAL\(20, 0\)"),
        (pa.null(), "has no type yet"),
        (pa.duration("s"), "Cast it"),
        (pa.struct([("a", pa.list_(pa.null()))]), "'c.a.item'"),
        (pa.decimal256(60, 2), "DECIMAL precision"),
        (pa.dense_union([pa.field("a", pa.int8())]), "Cast it"),
    ],
)
def test_arrow_types_that_no_table_can_have_are_refused(kind, hint):
    with pytest.raises(InvalidTableError, match=hint):
        text_of(kind)


def test_fields_keep_their_comment_and_whether_they_take_nulls():
    field = pa.field("c", pa.int32(), nullable=False, metadata={"comment": "why"})

    (column,) = schema_of(pa.schema([field])).columns

    assert (column.comment, type_text(column.type)) == ("why", "INT NOT NULL")


def test_columns_of_the_primary_key_take_no_nulls_and_all_have_ids():
    schema = schema_of({"id": "INT", "v": "ROW<a INT>"}, primary_key="id", auto_increment=["id"])

    assert texts(schema) == {"id": "INT NOT NULL", "v": "ROW<a INT>"}
    assert (schema.primary_key, schema.auto_increment) == (("id",), ("id",))
    assert ([column.column_id for column in schema.columns], schema.highest_field_id) == ([0, 1], 2)


def test_a_schema_of_a_table_keeps_its_key_unless_another_is_given():
    schema = schema_of({"a": "INT", "b": "INT"}, primary_key=["a"])

    assert schema_of(schema) == schema
    assert schema_of(schema, primary_key=["b"]).primary_key == ("b",)


def test_a_primary_key_that_is_no_column_is_refused():
    with pytest.raises(InvalidTableError, match="no column 'x'"):
        schema_of({"a": "INT"}, primary_key=["x"])


def test_types_in_a_mapping_are_text_or_types():
    kinds = {
        "a": "decimal(10, 2) not null",
        "b": pa.int64(),
        "c": schema_of({"c": "DATE"}).columns[0].type,
    }

    assert texts(schema_of(kinds)) == {"a": "DECIMAL(10, 2) NOT NULL", "b": "BIGINT", "c": "DATE"}


@cases(
    ("source", "message"),
    [
        ({"a": "INTT"}, "Column 'a': There is no type 'INTT'. Write INT."),
        ({"a": 5}, "Column 'a' has 5 as its type"),
        ({1: "INT"}, "must be text"),
        ({}, "at least one column"),
        (5, "A int is not a schema"),
        (pa.int64(), "is not a schema"),
    ],
)
def test_what_describes_no_columns_is_refused(source, message):
    with pytest.raises(InvalidTableError, match=message):
        schema_of(source)


@pytest.mark.parametrize("make", [pa.table, pa.record_batch], ids=["table", "batch"])
def test_tables_and_batches_have_a_schema(make):
    assert texts(schema_of(make({"a": pa.array([1])}))) == {"a": "BIGINT"}


def test_a_pandas_frame_has_a_schema():
    frame = pd.DataFrame(
        {
            "name": ["a"],
            "at": pd.to_datetime(["2024-01-01"]).tz_localize("UTC").as_unit("ms"),
            "day": [date(2024, 1, 1)],
        },
        index=pd.Index([1], name="id"),
    )

    assert texts(schema_of(frame)) == {
        "id": "BIGINT",
        "name": "STRING",
        "at": "TIMESTAMP_LTZ(3)",
        "day": "DATE",
    }


def test_a_polars_frame_has_a_schema():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": [1], "s": ["x"], "l": [[1.5]]})

    expected = {"a": "BIGINT", "s": "STRING", "l": "ARRAY<DOUBLE>"}
    assert [texts(schema_of(each)) for each in (frame, frame.lazy(), frame.schema)] == [
        expected
    ] * 3
