"""Which tables are accepted."""

from dataclasses import replace

import pytest

from headwater.config.server import ServerSettings
from headwater.errors import HeadwaterError, InvalidOptionError, InvalidTableError
from headwater.model.schema import Schema
from headwater.model.table import TableDescriptor
from headwater.model.types import (
    ArrayType,
    BigIntType,
    BytesType,
    DataType,
    DateType,
    DecimalType,
    IntType,
    MapType,
    RowField,
    RowType,
    StringType,
)
from headwater.server.catalog.validation import RESERVED_COLUMNS, accepted_table
from tests.cases import cases
from tests.catalog.samples import log_table, partitioned_table, schema_of

ROW = RowType(fields=(RowField(name="x", type=IntType()),))
NESTED = [ArrayType(element=IntType()), MapType(key=IntType(), value=IntType()), ROW]


def accepted(table: TableDescriptor) -> TableDescriptor:
    return accepted_table(table, settings=ServerSettings())


def refused(table: TableDescriptor) -> HeadwaterError:
    with pytest.raises((InvalidTableError, InvalidOptionError)) as caught:
        accepted(table)
    return caught.value


def test_an_auto_increment_column_needs_a_primary_key():
    schema = replace(schema_of(id=IntType()), auto_increment=("id",))

    assert "primary key" in str(refused(log_table(schema=schema)))


@cases("name", RESERVED_COLUMNS)
def test_a_reserved_column_name_is_refused(name):
    assert name in str(refused(log_table(schema=schema_of(**{name: IntType()}))))


def test_a_table_without_columns_is_refused():
    assert "column" in str(refused(log_table(schema=Schema(columns=()))))


@cases("count", [0, -1])
def test_a_table_needs_a_bucket(count):
    assert "bucket" in str(refused(log_table(bucket_count=count)))


@cases("kind", [*NESTED, DecimalType()])
def test_a_type_that_is_no_plain_value_cannot_partition(kind: DataType):
    table = log_table(schema=schema_of(id=IntType(), p=kind), partition_keys=("p",))

    assert "partition key" in str(refused(table))


@cases("kind", [StringType(), IntType(), BytesType(), DateType()])
def test_plain_types_can_partition(kind: DataType):
    table = log_table(schema=schema_of(id=IntType(), p=kind), partition_keys=("p",))

    assert accepted(table).partition_keys == ("p",)


@cases("keys", [("nothing",), ("day", "day"), ("id", "name", "day")])
def test_partition_keys_are_some_different_columns(keys):
    assert refused(log_table(partition_keys=keys))


@cases("keys", [("nothing",), ("id", "id"), ("day",)])
def test_bucket_keys_are_different_columns_that_do_not_partition(keys):
    assert refused(log_table(bucket_keys=keys, partition_keys=("day",)))


@cases("kind", NESTED)
def test_a_nested_column_cannot_be_a_bucket_key(kind: DataType):
    table = log_table(schema=schema_of(id=IntType(), k=kind), bucket_keys=("k",))

    assert "bucket key" in str(refused(table))


@cases("names", [("x", "x"), ("",), ()])
def test_fields_of_a_row_need_different_names(names):
    row = RowType(fields=tuple(RowField(name=name, type=IntType()) for name in names))
    inside = MapType(key=IntType(), value=ArrayType(element=row))

    assert "'r'" in str(refused(log_table(schema=schema_of(r=inside))))


def test_column_ids_that_leave_no_room_are_refused():
    schema = replace(schema_of(id=IntType()), highest_field_id=2**31)
    numbered = replace(schema, columns=(replace(schema.columns[0], column_id=0),))

    assert "ids" in str(refused(log_table(schema=numbered)))


@cases(
    ("name", "value"),
    [
        ("table.log.format", "indexed"),
        ("table.log.format", "compacted"),
        ("table.replication.factor", "3"),
        ("table.merge-engine", "first_row"),
        ("table.merge-engine.versioned.ver-column", "id"),
        ("table.delete.behavior", "allow"),
        ("table.kv.ttl", "1 d"),
        ("table.kv.ttl.time-column", "id"),
        ("table.kv.standby-replica.enabled", "true"),
        ("table.datalake.historical-partition.enabled", "true"),
        ("table.statistics.columns", "nothing"),
        ("table.auto-partition.enabled", "true"),
        ("table.unknown", "1"),
        ("my.property", "1"),
    ],
)
def test_an_option_that_cannot_be_served_is_refused(name, value):
    assert refused(log_table(properties={name: value}))


def test_statistics_are_kept_of_plain_columns_only():
    schema = schema_of(id=BigIntType(), data=BytesType())

    assert "BYTES" in str(
        refused(log_table(schema=schema, properties={"table.statistics.columns": "id,data"}))
    )
    assert accepted(log_table(schema=schema, properties={"table.statistics.columns": "*"}))
    assert accepted(log_table(schema=schema, properties={"table.statistics.columns": "id"}))


def test_several_partition_keys_get_no_partitions_ahead_of_time():
    table = accepted(partitioned_table("day", "name", enabled="true", key="day"))

    assert table.properties["table.auto-partition.num-precreate"] == "0"


@cases(
    "properties",
    [
        {"enabled": "true"},
        {"enabled": "true", "key": "id"},
        {"enabled": "true", "key": "day", "num_precreate": "2"},
        {"time_format": "yyyy-MM-dd"},
    ],
)
def test_contradicting_settings_of_several_partition_keys_are_refused(properties):
    assert refused(partitioned_table("day", "name", **properties))


@cases(
    "properties",
    [{"time_format": "yyyyMMdd"}, {"time_unit": "month", "time_format": "yyyy-MM"}],
)
def test_automatic_partitions_by_date_need_the_form_of_a_date(properties):
    table = partitioned_table("day", enabled="true", **properties)
    dated = replace(table, schema=schema_of(id=IntType(), day=DateType()))

    assert "yyyy-MM-dd" in str(refused(dated))


@cases("properties", [{}, {"time_format": "yyyy-MM-dd"}])
def test_automatic_partitions_by_date_have_the_form_of_a_date(properties):
    table = partitioned_table("day", enabled="true", **properties)

    found = accepted(replace(table, schema=schema_of(id=IntType(), day=DateType())))

    assert found.properties["table.auto-partition.time-format"] == "yyyy-MM-dd"


@cases("character", ["\0", "\n", "\x1b", "\x7f", "\x9b"])
def test_control_characters_in_names_are_refused(character):
    name = f"a{character}b"
    row = RowType(fields=(RowField(name=name, type=IntType()),))

    for table in (
        log_table(schema=schema_of(**{name: IntType()})),
        log_table(schema=schema_of(x=ArrayType(element=row))),
        log_table(custom_properties={name: "x"}),
    ):
        assert f"contains a control character, {character!r}" in str(refused(table))


def test_control_characters_in_values_are_refused_but_lines_are_not():
    assert accepted(log_table(custom_properties={"custom.x": "one\n\ttwo\r\n"}))

    assert "'custom.x' contains a control character" in str(
        refused(log_table(custom_properties={"custom.x": "\0"}))
    )
