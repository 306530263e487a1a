"""Tables whose options have the names of other systems, and tables from before these counted."""

from dataclasses import replace

import pytest

from headwater.errors import InvalidAlterError, InvalidOptionError
from headwater.server.catalog.alter import ResetTableOption, SetTableOption
from tests.cases import cases
from tests.catalog.samples import ORDERS, keyed_table, log_table, open_catalog


def test_a_table_is_created_with_foreign_names_and_says_ours(catalog):
    custom = {"log.retention.hours": "24", "log.segment.bytes": "4096", "bucket.num": "3"}

    table = catalog.tables.create(ORDERS, log_table(bucket_count=None, custom_properties=custom))

    assert table.descriptor.properties["table.log.ttl"] == "24 h"
    assert table.descriptor.properties["table.log.segment.bytes"] == "4096 b"
    assert table.descriptor.bucket_count == 3
    assert table.descriptor.custom_properties == {}


@cases("name", ["table.replication-factor", "replication.factor", "table.replication.factor"])
def test_more_than_one_replica_is_refused_with_the_way_to_a_cluster(catalog, name):
    with pytest.raises(InvalidOptionError) as refused:
        catalog.tables.create(ORDERS, log_table(custom_properties={name: "3"}))

    assert "cluster of Apache Fluss" in refused.value.hint


def test_compaction_is_for_tables_with_a_key(catalog):
    custom = {"log.compaction.interval.ms": "60000"}

    with pytest.raises(InvalidOptionError, match="only for primary-key tables"):
        catalog.tables.create(ORDERS, log_table(custom_properties=custom))
    keyed = catalog.tables.create(ORDERS, keyed_table(custom_properties=custom))

    assert keyed.descriptor.properties["table.kv.compaction.interval"] == "60000 ms"


def test_a_table_is_altered_and_reset_by_foreign_names(catalog):
    catalog.tables.create(ORDERS, log_table())

    altered = catalog.tables.alter(ORDERS, [SetTableOption("log.retention.bytes", "4096")])
    reset = catalog.tables.alter(ORDERS, [ResetTableOption("log.retention.bytes")])

    assert altered.descriptor.properties["table.log.retention.bytes"] == "4096 b"
    assert "table.log.retention.bytes" not in reset.descriptor.properties


def test_no_limit_resets_an_option(catalog):
    catalog.tables.create(ORDERS, log_table(properties={"table.log.retention.bytes": "1 gb"}))

    altered = catalog.tables.alter(ORDERS, [SetTableOption("retention.bytes", "-1")])

    assert "table.log.retention.bytes" not in altered.descriptor.properties


@cases(
    "change",
    [
        SetTableOption("no.such.option", "1"),
        ResetTableOption("no.such.option"),
        SetTableOption("remote.data.dir", "s3://b"),
    ],
)
def test_a_change_of_an_unknown_option_is_refused(catalog, change):
    catalog.tables.create(ORDERS, log_table(), ignore_if_exists=True)

    with pytest.raises(InvalidOptionError):
        catalog.tables.alter(ORDERS, [change])


@cases("name", ["table.log.ttl", "log.retention.hours", "bucket.num", "remote.data.dir"])
def test_an_option_of_tables_is_refused_for_a_database(catalog, name):
    catalog.databases.create("shop", custom_properties={"a": "1"}, ignore_if_exists=True)

    with pytest.raises(InvalidOptionError, match="not of databases"):
        catalog.databases.create("other", custom_properties={name: "1"})
    with pytest.raises(InvalidOptionError, match="not of databases"):
        catalog.databases.alter("shop", set_properties={name: "1"})


def test_the_number_of_buckets_stays(catalog):
    before = catalog.tables.create(ORDERS, log_table(bucket_count=2))

    assert catalog.tables.alter(ORDERS, [SetTableOption("bucket.num", "2")]) == before
    with pytest.raises(InvalidAlterError, match=r"'bucket.num' cannot be changed"):
        catalog.tables.alter(ORDERS, [SetTableOption("bucket.num", "4")])


@pytest.fixture
def older(tmp_path, clock):
    """A catalog with a table that an earlier version created."""
    with_table = open_catalog(tmp_path / "older", clock=clock)
    table = with_table.tables.create(ORDERS, log_table())
    custom = {"log.retention.hours": "0", "bucket.num": "7", "whatever": "x"}
    descriptor = replace(table.descriptor, custom_properties=custom)
    store = with_table.tables._store
    with store.transaction():
        store.update_table(replace(table, descriptor=descriptor))
    with_table.close()
    reopened = open_catalog(tmp_path / "older", clock=clock)
    yield reopened
    reopened.close()


def test_a_table_of_an_earlier_version_is_as_it_was(older):
    held = older.tables.info(ORDERS).descriptor

    assert held.custom_properties["log.retention.hours"] == "0"
    assert held.bucket_count == 1
    altered = older.tables.alter(ORDERS, [SetTableOption("table.log.ttl", "2 d")])
    assert altered.descriptor.custom_properties == held.custom_properties


def test_what_an_earlier_version_kept_is_replaced_or_removed(older):
    altered = older.tables.alter(
        ORDERS,
        [
            SetTableOption("log.retention.hours", "5"),
            ResetTableOption("bucket.num"),
            ResetTableOption("whatever"),
        ],
    )

    assert altered.descriptor.properties["table.log.ttl"] == "5 h"
    assert altered.descriptor.custom_properties == {}
