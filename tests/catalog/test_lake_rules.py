"""Which tables can be tiered, and how tables become so."""

import pytest

from headwater.config.server import ServerSettings
from headwater.errors import InvalidAlterError, InvalidOptionError, InvalidTableError
from headwater.model.types import (
    ArrayType,
    BigIntType,
    BooleanType,
    DecimalType,
    DoubleType,
    IntType,
    RowField,
    RowType,
    SmallIntType,
    StringType,
    TimestampLtzType,
    TimestampType,
)
from headwater.server.catalog.alter import AddColumn, ResetTableOption, SetTableOption
from headwater.server.catalog.validation import accepted_table
from tests.cases import cases
from tests.catalog.samples import ORDERS, keyed_table, log_table, open_catalog, schema_of

ENABLED = {"table.datalake.enabled": "true"}
FORMAT = "table.datalake.format"
NANOS = TimestampType(precision=9)


def accepted(table, **settings: str):
    return accepted_table(table, settings=ServerSettings(**settings))


@pytest.fixture
def catalog(tmp_path):
    opened = open_catalog(tmp_path)
    yield opened
    opened.close()


def test_a_tiered_table_has_the_format_of_the_server_unless_it_names_one():
    assert accepted(log_table(properties=ENABLED)).properties[FORMAT] == "iceberg"
    table = accepted(log_table(properties=ENABLED), datalake_format="paimon")
    assert table.properties[FORMAT] == "paimon"
    table = accepted(log_table(properties={**ENABLED, FORMAT: "paimon"}))
    assert table.properties[FORMAT] == "paimon"


def test_a_table_that_is_not_tiered_has_no_format():
    assert FORMAT not in accepted(keyed_table()).properties


@cases("name", ["hudi", "lance"])
def test_a_format_that_is_not_served_is_refused(name):
    with pytest.raises(InvalidTableError, match="iceberg or paimon"):
        accepted(log_table(properties={**ENABLED, FORMAT: name}))


def test_a_table_that_is_not_tiered_may_ask_for_the_keys_of_fluss():
    table = accepted(keyed_table(properties={FORMAT: "lance"}))

    assert table.properties[FORMAT] == "lance"
    with pytest.raises(InvalidTableError, match="iceberg or paimon"):
        accepted(keyed_table(properties={FORMAT: "hudi"}))


def test_lookups_in_expired_partitions_are_not_served():
    name = "table.datalake.historical-partition.enabled"

    with pytest.raises(InvalidTableError, match="expired partitions"):
        accepted(log_table(properties={name: "true"}))


@cases(
    "kind",
    [IntType(), BigIntType(), StringType(), DecimalType(precision=9, scale=2), TimestampType()],
)
def test_a_table_in_icebergs_format_is_bucketed_by_what_iceberg_can_hash(kind):
    table = keyed_table(schema=schema_of(id=kind), properties=ENABLED)

    assert accepted(table).bucket_keys == ("id",)


@cases("kind", [SmallIntType(), BooleanType(), DoubleType(), NANOS, TimestampLtzType()])
def test_a_table_in_icebergs_format_is_not_bucketed_by_anything_else(kind):
    with pytest.raises(InvalidTableError, match="bucket key"):
        accepted(keyed_table(schema=schema_of(id=kind), properties={FORMAT: "iceberg"}))
    accepted(keyed_table(schema=schema_of(id=kind), properties={FORMAT: "paimon"}))


def test_a_table_in_icebergs_format_has_one_bucket_key():
    with pytest.raises(InvalidTableError, match="Bucket by one column"):
        accepted(keyed_table(key=("id", "name"), properties=ENABLED))

    accepted(keyed_table(key=("id", "name"), bucket_keys=("id",), properties=ENABLED))


@cases("kind", [NANOS, ArrayType(element=NANOS), RowType(fields=(RowField(name="x", type=NANOS),))])
def test_times_that_iceberg_cannot_hold_are_refused_before_rows_are_written(kind):
    schema = schema_of(id=BigIntType(), at=kind)

    with pytest.raises(InvalidTableError, match=r"'at'.*TIMESTAMP\(6\)"):
        accepted(log_table(schema=schema, properties=ENABLED))
    accepted(log_table(schema=schema, properties={**ENABLED, FORMAT: "paimon"}))


def test_a_log_table_is_tiered_from_some_day_on(catalog):
    catalog.tables.create(ORDERS, log_table())

    changed = catalog.tables.alter(ORDERS, [SetTableOption("table.datalake.enabled", "true")])

    assert changed.descriptor.properties[FORMAT] == "iceberg"


def test_a_log_table_may_be_given_a_format_once(catalog):
    catalog.tables.create(ORDERS, log_table())

    changed = catalog.tables.alter(
        ORDERS, [SetTableOption(FORMAT, "paimon"), SetTableOption("table.datalake.enabled", "true")]
    )

    assert changed.descriptor.properties[FORMAT] == "paimon"
    with pytest.raises(InvalidAlterError, match="cannot be changed"):
        catalog.tables.alter(ORDERS, [SetTableOption(FORMAT, "iceberg")])
    with pytest.raises(InvalidAlterError, match="cannot be changed"):
        catalog.tables.alter(ORDERS, [ResetTableOption(FORMAT)])


@pytest.mark.parametrize(
    "table", [keyed_table(), log_table(bucket_keys=("id",), bucket_count=2)], ids=["keyed", "log"]
)
def test_a_table_whose_rows_lie_in_buckets_without_a_format_is_never_tiered(catalog, table):
    catalog.tables.create(ORDERS, table)

    with pytest.raises(InvalidAlterError, match="without a lake format"):
        catalog.tables.alter(ORDERS, [SetTableOption("table.datalake.enabled", "true")])

    assert FORMAT not in catalog.tables.info(ORDERS).descriptor.properties


def test_a_keyed_table_that_has_a_format_is_tiered_later(catalog):
    catalog.tables.create(ORDERS, keyed_table(properties={FORMAT: "iceberg"}))

    changed = catalog.tables.alter(
        ORDERS,
        [
            SetTableOption("table.datalake.enabled", "true"),
            SetTableOption("table.datalake.freshness", "10 s"),
            SetTableOption("table.datalake.auto-compaction", "true"),
            SetTableOption("table.datalake.auto-expire-snapshot", "true"),
        ],
    )

    assert changed.descriptor.properties["table.datalake.freshness"] == "10 s"


def test_a_column_that_the_lake_cannot_hold_is_not_added(catalog):
    catalog.tables.create(ORDERS, log_table(properties=ENABLED))

    with pytest.raises(InvalidTableError, match="'at'"):
        catalog.tables.alter(ORDERS, [AddColumn(name="at", type=NANOS)])


def test_properties_of_a_catalog_are_those_of_the_server_only():
    given = {**ENABLED, "table.datalake.iceberg.uri": "sqlite:///mine"}

    with pytest.raises(InvalidOptionError, match="no table option"):
        accepted(log_table(properties=given))
