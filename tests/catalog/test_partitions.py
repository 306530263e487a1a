"""Partitions: create, drop, find."""

import asyncio

import pytest

from headwater.errors import (
    InvalidPartitionError,
    NotPartitionedError,
    PartitionExistsError,
    PartitionLimitError,
    PartitionMissingError,
    TableMissingError,
)
from headwater.model.path import TablePath
from tests.catalog.samples import ORDERS, log_table, open_catalog, partitioned_table
from tests.catalog.test_databases import HOSTILE


def test_a_partition_is_named_by_its_values_in_the_order_of_the_keys(catalog):
    table = catalog.tables.create(ORDERS, partitioned_table("day", "name"))

    made = catalog.partitions.create(ORDERS, {"name": "x", "day": "1"})

    assert made.name == "1$x"
    assert made.spec == (("day", "1"), ("name", "x"))
    assert made.table_id == table.table_id
    assert catalog.partitions.by_id(made.partition_id) == made
    assert catalog.partitions.by_name(ORDERS, "1$x") == made


def test_partitions_are_listed_by_any_of_their_values(catalog):
    catalog.tables.create(ORDERS, partitioned_table("day", "name"))
    for day, name in ("1x", "1y", "2x"):
        catalog.partitions.create(ORDERS, {"day": day, "name": name})

    def listed(**partial):
        return [partition.name for partition in catalog.partitions.list(ORDERS, partial)]

    assert listed() == ["1$x", "1$y", "2$x"]
    assert listed(name="x") == ["1$x", "2$x"]
    assert listed(day="2", name="y") == []


@pytest.mark.parametrize("spec", [{}, {"day": "1"}, {"day": "1", "name": "x", "id": "2"}])
def test_a_specification_that_does_not_fit_the_keys_is_refused(catalog, spec):
    catalog.tables.create(ORDERS, partitioned_table("day", "name"))

    with pytest.raises(InvalidPartitionError, match=r"name|id"):
        catalog.partitions.create(ORDERS, spec)


def test_a_filter_by_a_column_that_does_not_partition_is_refused(catalog):
    catalog.tables.create(ORDERS, partitioned_table())

    with pytest.raises(InvalidPartitionError, match="name"):
        catalog.partitions.list(ORDERS, {"name": "x"})


@pytest.mark.parametrize("value", HOSTILE)
def test_a_hostile_partition_value_is_refused_and_never_found(catalog, value):
    catalog.tables.create(ORDERS, partitioned_table())

    with pytest.raises(InvalidPartitionError):
        catalog.partitions.create(ORDERS, {"day": value})
    with pytest.raises(PartitionMissingError):
        catalog.partitions.drop(ORDERS, {"day": value})
    assert catalog.partitions.list(ORDERS, {"day": value}) == ()


def test_a_partition_that_exists_is_refused_or_ignored(catalog):
    catalog.tables.create(ORDERS, partitioned_table())
    first = catalog.partitions.create(ORDERS, {"day": "1"})

    assert catalog.partitions.create(ORDERS, {"day": "1"}, ignore_if_exists=True) == first
    with pytest.raises(PartitionExistsError):
        catalog.partitions.create(ORDERS, {"day": "1"})


def test_a_table_has_no_more_partitions_than_the_limit(catalog):
    catalog.tables.create(ORDERS, partitioned_table())
    for day in range(5):
        catalog.partitions.create(ORDERS, {"day": str(day)})

    with pytest.raises(PartitionLimitError, match="5"):
        catalog.partitions.create(ORDERS, {"day": "6"})
    catalog.partitions.drop(ORDERS, {"day": "1"})

    assert catalog.partitions.create(ORDERS, {"day": "6"})


def test_a_dropped_partition_is_gone_and_its_id_is_never_used_again(catalog):
    catalog.tables.create(ORDERS, partitioned_table())
    first = catalog.partitions.create(ORDERS, {"day": "1"})

    dropped = catalog.partitions.drop(ORDERS, {"day": "1"})
    second = catalog.partitions.create(ORDERS, {"day": "1"})

    assert dropped == first
    assert second.partition_id > first.partition_id
    with pytest.raises(PartitionMissingError):
        catalog.partitions.by_id(first.partition_id)


def test_partitions_go_with_their_table(catalog):
    catalog.tables.create(ORDERS, partitioned_table())
    made = catalog.partitions.create(ORDERS, {"day": "1"})

    catalog.tables.drop(ORDERS)

    with pytest.raises(PartitionMissingError):
        catalog.partitions.by_id(made.partition_id)


def test_a_table_without_partition_keys_has_no_partitions(catalog):
    catalog.tables.create(ORDERS, log_table())

    for ask in (catalog.partitions.create, catalog.partitions.drop, catalog.partitions.list):
        with pytest.raises(NotPartitionedError):
            ask(ORDERS, {"day": "1"})


def test_missing_partitions_and_tables_are_told_or_ignored(catalog):
    catalog.tables.create(ORDERS, partitioned_table())

    assert catalog.partitions.drop(ORDERS, {"day": "1"}, ignore_if_missing=True) is None
    with pytest.raises(PartitionMissingError, match="'1'"):
        catalog.partitions.by_name(ORDERS, "1")
    with pytest.raises(TableMissingError):
        catalog.partitions.list(TablePath("fluss", "nothing"))


def test_a_partition_of_an_automatic_table_must_be_a_time_that_is_kept(catalog):
    catalog.tables.create(ORDERS, partitioned_table(enabled="true", time_zone="UTC"))

    assert catalog.partitions.create(ORDERS, {"day": "20241104"})
    for value in ("20241103", "apple"):
        with pytest.raises(InvalidPartitionError):
            catalog.partitions.create(ORDERS, {"day": value})


async def test_partitions_that_are_asked_for_at_once_are_made_by_one_change(tmp_path):
    catalog = open_catalog(tmp_path, partition_count_max=5)
    catalog.tables.create(ORDERS, partitioned_table())
    catalog.partitions.create(ORDERS, {"day": "0"})
    statements: list[str] = []
    catalog.partitions._store._file._connection.set_trace_callback(statements.append)

    made = await asyncio.gather(
        *(catalog.partitions.create_soon(ORDERS, {"day": day}) for day in "1204"),
        catalog.partitions.create_soon(ORDERS, {"day": "2"}, ignore_if_exists=True),
        catalog.partitions.create_soon(ORDERS, {"hour": "1"}),
        catalog.partitions.create_soon(ORDERS, {"day": "5"}),
        catalog.partitions.create_soon(ORDERS, {"day": "6"}),
        return_exceptions=True,
    )
    catalog.close()

    assert [getattr(each, "name", type(each)) for each in made] == [
        "1",
        "2",
        PartitionExistsError,
        "4",
        "2",
        InvalidPartitionError,
        "5",
        PartitionLimitError,
    ]
    assert statements.count("COMMIT") == 1
    reopened = open_catalog(tmp_path)
    assert [each.name for each in reopened.partitions.list(ORDERS)] == ["0", "1", "2", "4", "5"]
    reopened.close()
