"""How the columns of an Iceberg table become those of a table, and when they cannot."""

from dataclasses import replace

import pytest
from pyiceberg import types as ice
from pyiceberg.schema import Schema as IceSchema

from headwater.errors import LakeTableDiffersError
from headwater.lake.iceberg.layout import (
    IcebergTableState,
    column_ids_of,
    evolved,
    new_properties,
    new_schema,
    partition_spec,
)
from headwater.lake.spi import LakeTableSpec
from headwater.model.path import TablePath
from headwater.model.schema import Column, Schema, with_column_ids
from headwater.model.types import BigIntType, IntType, StringType
from headwater.tiering.target import with_system_columns
from tests.cases import cases


def spec_of(*columns: Column, highest: int = 1) -> LakeTableSpec:
    schema = Schema(columns=columns, highest_field_id=highest)
    return LakeTableSpec(path=TablePath("db", "t"), schema=with_column_ids(schema))


ID = Column(name="id", type=BigIntType(), column_id=0)
NAME = Column(name="name", type=StringType(), column_id=1)
SPEC = spec_of(ID, NAME)


def held_of(spec: LakeTableSpec) -> IcebergTableState:
    schema = new_schema(spec)
    return IcebergTableState(
        schema=schema,
        parted=partition_spec(spec, schema),
        ids=column_ids_of(new_properties(spec, schema)),
        column_id_last=schema.highest_field_id,
    )


def test_a_table_as_it_should_be_stays():
    assert evolved(held_of(SPEC), SPEC) is None


def test_columns_come_go_and_are_renamed_by_their_ids():
    added = Column(name="name", type=IntType(nullable=False), column_id=2)
    wanted = spec_of(replace(NAME, name="label"), added, highest=2)

    evolution = evolved(held_of(SPEC), wanted)

    assert evolution is not None
    fields = [(each.field_id, each.name, each.required) for each in evolution.schema.fields]
    assert fields == [(2, "label", False), (3, "name", False)]
    assert evolution.ids.fields == {1: 2, 2: 3}


def test_a_table_that_is_further_on_is_left_alone():
    later = evolved(held_of(SPEC), spec_of(ID, Column(name="x", type=IntType(), column_id=2)))
    assert later is not None
    held = replace(held_of(SPEC), schema=later.schema, ids=later.ids, column_id_last=3)

    assert evolved(held, SPEC) is None


def test_a_table_of_others_is_matched_by_name():
    evolution = evolved(replace(held_of(SPEC), ids=None), SPEC)

    assert evolution is not None
    assert evolution.ids.fields == {0: 1, 1: 2}
    assert evolution.schema.fields == held_of(SPEC).schema.fields


def test_a_column_that_others_added_stays():
    held = held_of(SPEC)
    extra = ice.NestedField(9, "extra", ice.StringType(), required=False)
    held = replace(held, schema=IceSchema(*held.schema.fields, extra), column_id_last=9)

    evolution = evolved(held, spec_of(ID, Column(name="n", type=StringType(), column_id=1)))

    assert evolution is not None
    assert [each.name for each in evolution.schema.fields] == ["id", "n", "extra"]


def test_columns_of_apache_fluss_stay_the_last_ones():
    wider = spec_of(ID, NAME, Column(name="x", type=IntType(), column_id=2), highest=2)

    evolution = evolved(held_of(with_system_columns(SPEC)), with_system_columns(wider))

    assert evolution is not None
    names = [each.name for each in evolution.schema.fields]
    assert names == ["id", "name", "x", "__bucket", "__offset", "__timestamp"]


@cases(
    ("change", "told"),
    [
        ({"ids": None, "schema": IceSchema(ice.NestedField(1, "id", ice.LongType()))}, "no column"),
        ({"schema": IceSchema(ice.NestedField(1, "id", ice.LongType()))}, "dropped in the lake"),
        ({"format_version": 1}, "format version 1"),
    ],
)
def test_what_cannot_become_the_table_is_told(change, told):
    with pytest.raises(LakeTableDiffersError, match=told):
        evolved(replace(held_of(SPEC), **change), SPEC)


@cases(
    ("other", "told"),
    [
        (spec_of(replace(ID, type=IntType()), NAME), "is long, not int"),
        (replace(SPEC, bucket_keys=("id",), bucket_count=4), "partitioned by"),
        (replace(SPEC, partition_keys=("name",)), "partitioned by"),
        (replace(SPEC, schema=replace(SPEC.schema, primary_key=("id",))), "primary key"),
    ],
)
def test_another_type_or_layout_is_told(other, told):
    with pytest.raises(LakeTableDiffersError, match=told):
        evolved(held_of(SPEC), other)
