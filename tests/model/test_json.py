"""Types, schemas and descriptors survive their JSON form."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InvalidTableError
from headwater.model.aggregate import AggregateFunction, AggregateKind
from headwater.model.schema import Column, Schema, schema_from_json, schema_to_json, with_column_ids
from headwater.model.table import TableDescriptor, descriptor_from_json, descriptor_to_json
from headwater.model.type_json import type_from_json, type_to_json
from headwater.model.types import ArrayType, IntType, MapType, RowField, RowType, StringType
from tests.cases import cases
from tests.rows.strategies import data_types

names = st.text(min_size=1, max_size=8)
texts = st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=3)


@given(data_types())
def test_a_data_type_survives_json(data_type):
    assert type_from_json(json.loads(json.dumps(type_to_json(data_type)))) == data_type


@given(st.lists(st.tuples(names, data_types()), min_size=1, unique_by=lambda pair: pair[0]))
def test_a_schema_survives_json_once_it_has_ids(columns):
    schema = with_column_ids(
        Schema(columns=tuple(Column(name=name, type=kind) for name, kind in columns))
    )

    assert schema_from_json(json.loads(json.dumps(schema_to_json(schema)))) == schema


aggregates = st.builds(AggregateFunction, st.sampled_from(AggregateKind)) | st.builds(
    AggregateFunction,
    st.sampled_from([AggregateKind.LISTAGG, AggregateKind.STRING_AGG]),
    st.text(min_size=1, max_size=3),
)


@given(aggregates)
def test_an_aggregate_function_survives_json(function):
    columns = (Column(name="k", type=IntType()), Column(name="v", type=IntType()))
    plain = with_column_ids(Schema(columns=columns, primary_key=("k",), auto_increment=("v",)))
    folded = replace(plain.columns[1], aggregate=function)
    schema = replace(plain, columns=(plain.columns[0], folded))

    assert schema_from_json(json.loads(json.dumps(schema_to_json(schema)))) == schema


def test_an_aggregate_function_is_read_as_fluss_writes_it():
    function = {"type": "LISTAGG", "parameters": {"delimiter": ";"}}
    column = {"name": "a", "data_type": {"type": "STRING"}, "agg_function": function, "id": 0}

    schema = schema_from_json({"version": 1, "columns": [column], "highest_field_id": 0})

    assert schema.columns[0].aggregate == AggregateFunction(AggregateKind.LISTAGG, ";")


@cases(
    "function",
    [
        "sum",
        {},
        {"type": "median"},
        {"type": "sum", "parameters": {"delimiter": ","}},
        {"type": "listagg", "parameters": {"separator": ","}},
        {"type": "listagg", "parameters": {"delimiter": 1}},
        {"type": "listagg", "parameters": {"delimiter": ""}},
    ],
)
def test_a_broken_aggregate_function_is_refused_with_a_reason(function):
    column = {"name": "a", "data_type": {"type": "STRING"}, "agg_function": function}

    with pytest.raises(InvalidTableError):
        schema_from_json({"columns": [column]})


def test_the_physical_primary_key_leaves_out_the_partition_keys():
    columns = tuple(Column(name=name, type=IntType()) for name in "abc")
    table = TableDescriptor(
        schema=Schema(columns=columns, primary_key=("c", "a", "b")), partition_keys=("a",)
    )

    assert table.is_keyed
    assert table.physical_primary_key == ("c", "b")


@given(st.integers(1, 100), texts, texts, st.none() | st.text(max_size=5))
def test_a_descriptor_survives_json(buckets, properties, custom, comment):
    schema = with_column_ids(Schema(columns=(Column(name="a", type=IntType()),)))
    table = TableDescriptor(
        schema=schema,
        comment=comment,
        bucket_count=buckets,
        properties=properties,
        custom_properties=custom,
    )

    assert descriptor_from_json(json.loads(json.dumps(descriptor_to_json(table)))) == table


def test_a_descriptor_names_its_bucket_key_also_when_there_is_none():
    schema = Schema(columns=(Column(name="a", type=IntType()),))

    described = descriptor_to_json(TableDescriptor(schema=schema, bucket_count=2))

    assert described["bucket_key"] == []


def test_nested_fields_are_numbered_with_the_columns():
    row = RowType(fields=(RowField(name="x", type=IntType()), RowField(name="y", type=IntType())))
    nested = MapType(key=StringType(), value=ArrayType(element=row))
    schema = Schema(columns=(Column(name="a", type=nested), Column(name="b", type=IntType())))

    numbered = with_column_ids(schema)

    assert [column.column_id for column in numbered.columns] == [0, 3]
    assert numbered.highest_field_id == 3


@cases(
    "broken",
    [
        None,
        [],
        {"columns": []},
        {"columns": [{"name": "a"}]},
        {"columns": [{"name": "a", "data_type": {"type": "NOTHING"}}]},
        {"columns": [{"name": "", "data_type": {"type": "INTEGER"}}]},
        {"columns": [{"name": "a", "data_type": {"type": "DECIMAL", "precision": 99}}]},
        {"columns": [{"name": "a", "data_type": {"type": "INTEGER"}}] * 2},
        {"columns": [{"name": "a", "data_type": {"type": "INTEGER"}}], "primary_key": ["b"]},
        {"columns": "a"},
    ],
)
def test_a_broken_schema_is_refused_with_a_reason(broken):
    with pytest.raises(InvalidTableError):
        schema_from_json(broken)


def test_types_nested_too_deep_are_refused():
    json_type = {"type": "INTEGER"}
    for _ in range(100):
        json_type = {"type": "ARRAY", "element_type": json_type}

    with pytest.raises(InvalidTableError, match="nested"):
        type_from_json(json_type)
