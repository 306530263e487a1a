"""Which primary-key tables are accepted, and what the server fills in."""

from dataclasses import replace

import pytest

from headwater.errors import InvalidAlterError, InvalidOptionError
from headwater.model.aggregate import AggregateFunction, AggregateKind
from headwater.model.schema import Schema
from headwater.model.types import (
    ArrayType,
    BigIntType,
    BooleanType,
    DataType,
    DateType,
    IntType,
    MapType,
    RowField,
    RowType,
    StringType,
    TimestampLtzType,
    TimestampType,
)
from headwater.server.catalog.alter import AddColumn, DropColumn, RenameColumn
from tests.cases import cases
from tests.catalog.samples import ORDERS, keyed_table, schema_of
from tests.catalog.test_validation import accepted, refused

ENGINE = "table.merge-engine"
VERSION = "table.merge-engine.versioned.ver-column"
DELETE = "table.delete.behavior"
TTL = "table.kv.ttl"
TIME = "table.kv.ttl.time-column"
SUM = AggregateFunction(AggregateKind.SUM)
NESTED = [
    ArrayType(element=IntType()),
    MapType(key=IntType(), value=IntType()),
    RowType(fields=(RowField(name="x", type=IntType()),)),
]


def folding_table(schema: Schema, **custom_properties: str):
    return keyed_table(
        schema=schema,
        properties={ENGINE: "aggregation"},
        custom_properties=custom_properties,
    )


def with_aggregate(schema: Schema, name: str, function: AggregateFunction) -> Schema:
    columns = (
        replace(column, aggregate=function) if column.name == name else column
        for column in schema.columns
    )
    return replace(schema, columns=tuple(columns))


def numbered(schema: Schema, *names: str):
    return keyed_table(schema=replace(schema, auto_increment=names))


def test_what_is_left_out_is_filled_in():
    table = accepted(keyed_table())

    assert table.bucket_keys == ("id",)
    assert table.bucket_count == 1
    assert table.properties == {"table.replication.factor": "1", "table.kv.format-version": "2"}


def test_columns_of_the_key_become_not_null_and_others_stay():
    table = accepted(keyed_table(key=("name", "id")))

    assert [column.type.nullable for column in table.schema.columns] == [False, False, True]


def test_the_bucket_key_is_the_primary_key_without_the_partition_keys():
    table = accepted(keyed_table(key=("day", "name", "id"), partition_keys=("day",)))

    assert table.bucket_keys == ("name", "id")


def test_a_bucket_key_may_be_a_part_of_the_primary_key():
    table = accepted(keyed_table(key=("id", "name"), bucket_keys=("id",)))

    assert table.bucket_keys == ("id",)


@cases(
    ("table", "why"),
    [
        (keyed_table(key=("nothing",)), "nothing"),
        (keyed_table(key=("id", "id")), "twice"),
        (keyed_table(bucket_keys=("name",)), "bucket key 'name'"),
        (keyed_table(partition_keys=("day",)), "partition key 'day'"),
        (keyed_table(key=("day",), partition_keys=("day",)), "not a partition key"),
        (keyed_table(key=("id", "day"), partition_keys=("day",), bucket_keys=("day",)), "'day'"),
    ],
)
def test_keys_that_do_not_fit_each_other_are_refused(table, why):
    assert why in str(refused(table))


@cases("kind", NESTED)
def test_a_nested_column_cannot_be_in_the_primary_key(kind: DataType):
    table = keyed_table(schema=schema_of(id=IntType(), k=kind), key=("id", "k"))

    assert "primary key" in str(refused(table))


@cases(
    "properties",
    [
        {"table.kv.format": "indexed"},
        {"table.kv.format-version": "3"},
        {"table.log.format": "indexed"},
        {"table.log.format": "compacted"},
        {"table.statistics.columns": "*"},
        {"table.datalake.historical-partition.enabled": "true"},
        {TTL: "0 ms"},
        {TIME: "id"},
        {TTL: "1 d", TIME: "nothing"},
        {TTL: "1 d", TIME: "name"},
        {VERSION: "id"},
        {ENGINE: "first_row", VERSION: "id"},
        {ENGINE: "versioned"},
        {ENGINE: "versioned", VERSION: "nothing"},
        {ENGINE: "versioned", VERSION: "name"},
        {ENGINE: "versioned", VERSION: "id", DELETE: "allow"},
        {ENGINE: "first_row", DELETE: "allow"},
        {ENGINE: "aggregation", "table.changelog.image": "wal"},
        {ENGINE: "last_row"},
    ],
)
def test_options_that_contradict_the_table_or_each_other_are_refused(properties):
    assert refused(keyed_table(properties=properties))


@cases(
    "properties",
    [
        {"table.kv.format": "compacted"},
        {"table.kv.format-version": "1"},
        {"table.changelog.image": "wal"},
        {TTL: "1 d"},
        {TTL: "1 d", TIME: "id"},
        {DELETE: "disable"},
        {ENGINE: "first_row", DELETE: "disable"},
        {ENGINE: "versioned", VERSION: "id", DELETE: "ignore"},
        {ENGINE: "aggregation", DELETE: "allow"},
    ],
)
def test_options_that_fit_are_kept(properties):
    kept = accepted(keyed_table(properties=properties)).properties

    assert {**kept, **properties} == kept


@cases("engine", ["first_row", "aggregation", "versioned"])
def test_a_merge_engine_ignores_deletes_unless_told_otherwise(engine):
    version = {VERSION: "id"} if engine == "versioned" else {}

    table = accepted(keyed_table(properties={ENGINE: engine, **version}))

    assert table.properties[DELETE] == "ignore"


@cases("kind", [TimestampType(), TimestampLtzType(precision=3), BigIntType()])
def test_versions_and_ages_come_from_a_time(kind: DataType):
    schema = schema_of(id=IntType(), at=kind)

    assert accepted(keyed_table(schema=schema, properties={ENGINE: "versioned", VERSION: "at"}))
    assert accepted(keyed_table(schema=schema, properties={TTL: "1 h", TIME: "at"}))


@cases("kind", [IntType(), DateType(), BooleanType()])
def test_an_age_does_not_come_from_other_types(kind: DataType):
    schema = schema_of(id=IntType(), at=kind)
    table = keyed_table(schema=schema, properties={TTL: "1 h", TIME: "at"})

    assert "at" in str(refused(table))


def test_a_column_can_be_folded_by_a_function_that_takes_its_type():
    schema = with_aggregate(schema_of(id=IntType(), n=IntType()), "n", SUM)

    assert accepted(folding_table(schema)).schema.column("n").aggregate == SUM


@cases(
    ("name", "engine", "why"),
    [
        ("n", None, "merge engine aggregation"),
        ("n", "first_row", "merge engine aggregation"),
        ("id", "aggregation", "primary key"),
        ("text", "aggregation", "'text'"),
    ],
)
def test_a_function_that_does_not_fit_its_column_is_refused(name, engine, why):
    schema = schema_of(id=IntType(), n=IntType(), text=StringType())
    properties = {ENGINE: engine} if engine else {}

    table = keyed_table(schema=with_aggregate(schema, name, SUM), properties=properties)

    assert why in str(refused(table))


def test_functions_can_be_given_as_custom_properties():
    given = {
        "fields.n.agg": "SUM",
        "fields.text.agg": "listagg",
        "fields.text.listagg.delimiter": ";",
    }
    schema = schema_of(id=IntType(), n=IntType(), text=StringType(), rest=IntType())

    table = accepted(folding_table(schema, **given))

    assert [column.aggregate for column in table.schema.columns] == [
        None,
        SUM,
        AggregateFunction(AggregateKind.LISTAGG, ";"),
        None,
    ]
    assert table.custom_properties == given


@cases(
    "given",
    [
        {"fields.nothing.agg": "sum"},
        {"fields.n.agg": "median"},
        {"fields.n.agg": "sum", "fields.n.sum.delimiter": ","},
        {"fields.n.agg": "listagg"},
        {"fields.id.agg": "sum"},
    ],
)
def test_a_custom_property_with_a_function_that_does_not_fit_is_refused(given):
    assert refused(folding_table(schema_of(id=IntType(), n=IntType()), **given))


@cases("kind", [IntType(), BigIntType(), BigIntType(nullable=False)])
def test_a_whole_number_can_be_an_auto_increment_column(kind: DataType):
    table = accepted(numbered(schema_of(id=IntType(), n=kind), "n"))

    assert table.schema.auto_increment == ("n",)
    assert table.schema.column("n").type == kind


@cases("names", [("id",), ("n", "m"), ("text",), ("nothing",)])
def test_an_auto_increment_column_that_cannot_count_is_refused(names):
    schema = schema_of(id=IntType(), n=IntType(), m=IntType(), text=StringType())

    assert refused(numbered(schema, *names))


def test_a_column_can_be_added_with_its_function(catalog):
    catalog.tables.create(ORDERS, folding_table(schema_of(id=IntType())))

    catalog.tables.alter(ORDERS, [AddColumn(name="n", type=BigIntType(), aggregate=SUM)])
    table = catalog.tables.alter(ORDERS, [RenameColumn("n", "total")])

    assert table.descriptor.schema.column("total").aggregate == SUM
    assert table.schema_id == 3


def test_a_column_cannot_be_added_with_a_function_that_the_table_does_not_use(catalog):
    catalog.tables.create(ORDERS, keyed_table())

    with pytest.raises(InvalidOptionError, match="merge engine aggregation"):
        catalog.tables.alter(ORDERS, [AddColumn(name="n", type=BigIntType(), aggregate=SUM)])


@pytest.mark.parametrize("name", ["id", "n", "version", "at"])
def test_columns_that_the_table_relies_on_stay(catalog, name):
    schema = schema_of(id=IntType(), n=IntType(), version=BigIntType(), at=TimestampType())
    properties = {ENGINE: "versioned", VERSION: "version", TTL: "1 d", TIME: "at"}
    table = keyed_table(schema=replace(schema, auto_increment=("n",)), properties=properties)
    catalog.tables.create(ORDERS, table)

    for change in (DropColumn(name), RenameColumn(name, "other")):
        with pytest.raises(InvalidAlterError, match=name):
            catalog.tables.alter(ORDERS, [change])


def test_other_columns_of_a_primary_key_table_can_be_added_renamed_and_dropped(catalog):
    catalog.tables.create(ORDERS, keyed_table())
    changes = [AddColumn(name="n", type=IntType()), RenameColumn("name", "x"), DropColumn("day")]

    table = catalog.tables.alter(ORDERS, changes)

    assert table.descriptor.schema.names == ("id", "x", "n")
    assert table.descriptor.schema.primary_key == ("id",)
