"""Altering tables."""

import pytest

from headwater.errors import HeadwaterError, InvalidAlterError, InvalidOptionError
from headwater.model.types import BigIntType, IntType, RowField, RowType, StringType
from headwater.server.catalog.alter import (
    AddColumn,
    ColumnPosition,
    DropColumn,
    ModifyColumn,
    RenameColumn,
    ResetTableOption,
    SetTableOption,
)
from tests.catalog.samples import ORDERS, log_table, schema_of

ADD_X = AddColumn(name="x", type=IntType(), comment="new")


@pytest.fixture
def table(catalog):
    return catalog.tables.create(
        ORDERS,
        log_table(
            schema=schema_of(
                id=BigIntType(), day=StringType(), name=StringType(), counted=IntType()
            ),
            bucket_keys=("id",),
            partition_keys=("day",),
            properties={"table.statistics.columns": "counted"},
        ),
    )


def test_an_added_column_comes_last_with_a_new_id_and_a_new_version(catalog, table):
    altered = catalog.tables.alter(ORDERS, [ADD_X])

    column = altered.descriptor.schema.columns[-1]
    assert (column.name, column.column_id, column.comment) == ("x", 4, "new")
    assert altered.schema_id == 2
    assert catalog.tables.schemas(table.table_id) == {
        1: table.descriptor.schema,
        2: altered.descriptor.schema,
    }


def test_fields_inside_an_added_column_get_ids_too(catalog, table):
    row = RowType(fields=(RowField(name="a", type=IntType()), RowField(name="b", type=IntType())))

    altered = catalog.tables.alter(ORDERS, [AddColumn(name="r", type=row), ADD_X])

    added = altered.descriptor.schema.columns[-2]
    assert isinstance(added.type, RowType)
    assert [added.column_id, *(field.field_id for field in added.type.fields)] == [4, 5, 6]
    assert altered.descriptor.schema.columns[-1].column_id == 7


def test_the_id_of_a_dropped_column_is_not_used_again(catalog, table):
    catalog.tables.alter(ORDERS, [ADD_X])
    catalog.tables.alter(ORDERS, [DropColumn("x")])

    altered = catalog.tables.alter(ORDERS, [ADD_X])

    assert altered.descriptor.schema.columns[-1].column_id == 5
    assert altered.schema_id == 4


def test_a_renamed_column_keeps_its_id(catalog, table):
    altered = catalog.tables.alter(ORDERS, [RenameColumn("name", "title")])

    assert altered.descriptor.schema.column("title").column_id == 2
    assert altered.schema_id == 2


@pytest.mark.parametrize(
    "change",
    [
        AddColumn(name="name", type=IntType()),
        AddColumn(name="", type=IntType()),
        AddColumn(name="__bucket", type=IntType()),
        AddColumn(name="x", type=IntType(nullable=False)),
        AddColumn(name="x", type=IntType(), position=ColumnPosition.FIRST),
        AddColumn(name="x", type=IntType(), position=ColumnPosition.AFTER),
        DropColumn("id"),
        DropColumn("day"),
        DropColumn("counted"),
        DropColumn("nothing"),
        RenameColumn("id", "x"),
        RenameColumn("day", "x"),
        RenameColumn("counted", "x"),
        RenameColumn("name", "id"),
        RenameColumn("name", "__offset"),
        RenameColumn("nothing", "x"),
        ModifyColumn(name="name", type=IntType()),
        ModifyColumn(name="name", position=ColumnPosition.LAST),
        ModifyColumn(name="nothing", comment="x"),
    ],
    ids=str,
)
def test_a_change_that_is_not_allowed_changes_nothing(catalog, table, change):
    with pytest.raises(HeadwaterError):
        catalog.tables.alter(ORDERS, [SetTableOption("table.log.ttl", "1 d"), ADD_X, change])

    assert catalog.tables.info(ORDERS) == table
    assert list(catalog.tables.schemas(table.table_id)) == [1]


def test_the_last_columns_beside_the_partition_keys_stay(catalog, table):
    changes = [
        ResetTableOption("table.statistics.columns"),
        DropColumn("counted"),
        DropColumn("name"),
    ]

    catalog.tables.alter(ORDERS, changes)

    with pytest.raises(InvalidAlterError, match="bucket key"):
        catalog.tables.alter(ORDERS, [DropColumn("id")])


def test_a_column_without_statistics_left_can_be_dropped_in_the_same_step(catalog, table):
    altered = catalog.tables.alter(
        ORDERS, [ResetTableOption("table.statistics.columns"), DropColumn("counted")]
    )

    assert altered.descriptor.schema.names == ("id", "day", "name")


def test_only_the_comment_of_a_column_can_be_modified(catalog, table):
    altered = catalog.tables.alter(
        ORDERS, [ModifyColumn(name="name", type=StringType(), comment="a name")]
    )

    assert altered.descriptor.schema.column("name").comment == "a name"


def test_options_and_custom_properties_change_without_a_new_schema(catalog, table, clock):
    clock.time_ms += 9

    altered = catalog.tables.alter(
        ORDERS, [SetTableOption("table.log.ttl", "1 d"), SetTableOption("owner", "me")]
    )

    assert altered.descriptor.properties["table.log.ttl"] == "1 d"
    assert altered.descriptor.custom_properties == {"owner": "me"}
    assert altered.schema_id == 1
    assert altered.modified_ms == table.modified_ms + 9


def test_reset_options_are_gone(catalog, table):
    catalog.tables.alter(
        ORDERS, [SetTableOption("table.log.ttl", "1 d"), SetTableOption("owner", "me")]
    )

    altered = catalog.tables.alter(
        ORDERS, [ResetTableOption("table.log.ttl"), ResetTableOption("owner")]
    )

    assert altered.descriptor == table.descriptor


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [SetTableOption("table.statistics.columns", "counted")],
        [SetTableOption("table.replication.factor", "1")],
        [ResetTableOption("table.log.ttl"), ResetTableOption("owner")],
        [RenameColumn("name", "name")],
        [ModifyColumn(name="name", type=StringType())],
    ],
)
def test_what_is_so_already_changes_nothing(catalog, table, clock, changes):
    clock.time_ms += 9

    assert catalog.tables.alter(ORDERS, changes) == table


@pytest.mark.parametrize(
    "change",
    [SetTableOption("table.log.format", "indexed"), ResetTableOption("table.replication.factor")],
)
def test_an_option_that_cannot_change_is_told_with_those_that_can(catalog, table, change):
    with pytest.raises(InvalidAlterError, match=r"can be changed are .*table\.log\.ttl"):
        catalog.tables.alter(ORDERS, [change])


@pytest.mark.parametrize(
    "change",
    [
        SetTableOption("table.log.tll", "1 d"),
        ResetTableOption("table.log.tll"),
        SetTableOption("table.log.ttl", "soon"),
        SetTableOption("table.log.local-ttl", "8 d"),
        SetTableOption("table.statistics.columns", "nothing"),
        SetTableOption("table.kv.standby-replica.enabled", "true"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(catalog, table, change):
    with pytest.raises(InvalidOptionError):
        catalog.tables.alter(ORDERS, [change])


def test_automatic_partitions_can_be_switched_on_later(catalog, table):
    altered = catalog.tables.alter(ORDERS, [SetTableOption("table.auto-partition.enabled", "true")])

    assert altered.descriptor.properties["table.auto-partition.enabled"] == "true"


def test_a_change_brings_no_control_characters(catalog):
    catalog.tables.create(ORDERS, log_table())

    for change in (
        AddColumn(name="a\0", type=IntType()),
        RenameColumn("name", "a\0"),
        SetTableOption("a\0", "x"),
        SetTableOption("a", "\0"),
    ):
        with pytest.raises(HeadwaterError, match="contains a control character"):
            catalog.tables.alter(ORDERS, [change])
    with pytest.raises(HeadwaterError, match="contains a control character"):
        catalog.databases.alter("fluss", set_properties={"a": "\0"})
