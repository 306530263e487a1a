"""Tables: create, drop, find."""

import pytest

from headwater.errors import (
    BucketLimitError,
    BucketMissingError,
    DatabaseMissingError,
    HeadwaterError,
    SchemaMissingError,
    TableExistsError,
    TableMissingError,
)
from headwater.model.path import TablePath
from tests.catalog.samples import ORDERS, log_table, open_catalog
from tests.catalog.test_databases import HOSTILE


def test_a_created_table_has_all_that_was_left_out_filled_in(catalog, clock):
    table = catalog.tables.create(
        ORDERS, log_table(comment="wares", custom_properties={"custom.a": "1"})
    )

    assert table.descriptor.bucket_count == 1
    assert table.descriptor.bucket_keys == ()
    assert table.descriptor.properties == {"table.replication.factor": "1"}
    assert table.descriptor.comment == "wares"
    assert [column.column_id for column in table.descriptor.schema.columns] == [0, 1, 2]
    assert table.descriptor.schema.highest_field_id == 2
    assert (table.schema_id, table.created_ms) == (1, clock.now_ms())


def test_a_table_is_found_by_path_by_id_and_in_its_database(catalog):
    table = catalog.tables.create(ORDERS, log_table())

    assert catalog.tables.exists(ORDERS)
    assert catalog.tables.info(ORDERS) == table
    assert catalog.tables.by_id(table.table_id) == table
    assert catalog.tables.list("fluss") == ("orders",)
    assert catalog.tables.schema(table.table_id, 1) == table.descriptor.schema
    assert catalog.tables.schemas(table.table_id) == {1: table.descriptor.schema}


def test_the_number_of_buckets_is_the_one_asked_for_within_the_limit(catalog):
    table = catalog.tables.create(ORDERS, log_table(bucket_count=4096))

    assert table.descriptor.bucket_count == 4096
    with pytest.raises(BucketLimitError, match="4096"):
        catalog.tables.create(TablePath("fluss", "more"), log_table(bucket_count=4097))


def test_the_default_number_of_buckets_comes_from_the_settings(tmp_path):
    catalog = open_catalog(tmp_path, default_bucket_number=7)

    table = catalog.tables.create(ORDERS, log_table())
    catalog.close()

    assert table.descriptor.bucket_count == 7


def test_a_table_that_exists_is_refused_or_ignored(catalog):
    first = catalog.tables.create(ORDERS, log_table())

    again = catalog.tables.create(ORDERS, log_table(bucket_count=9), ignore_if_exists=True)

    assert again == first
    with pytest.raises(TableExistsError):
        catalog.tables.create(ORDERS, log_table())


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_table_name_is_refused_and_never_found(catalog, name):
    path = TablePath("fluss", name)

    with pytest.raises(HeadwaterError) as refused:
        catalog.tables.create(path, log_table())
    with pytest.raises(TableMissingError) as missing:
        catalog.tables.info(path)

    assert max(len(str(refused.value)), len(str(missing.value))) < 500


def test_a_table_needs_its_database(catalog):
    with pytest.raises(DatabaseMissingError):
        catalog.tables.create(TablePath("nothing", "orders"), log_table())


def test_a_dropped_table_is_gone_and_its_id_is_never_used_again(catalog):
    first = catalog.tables.create(ORDERS, log_table())

    dropped = catalog.tables.drop(ORDERS)
    second = catalog.tables.create(ORDERS, log_table())

    assert dropped == first
    assert second.table_id > first.table_id
    with pytest.raises(BucketMissingError):
        catalog.tables.by_id(first.table_id)
    with pytest.raises(BucketMissingError):
        catalog.tables.schema(first.table_id, 1)


def test_an_id_is_not_used_again_after_a_reopen_either(tmp_path):
    catalog = open_catalog(tmp_path)
    first = catalog.tables.create(ORDERS, log_table())
    catalog.tables.drop(ORDERS)
    catalog.close()

    reopened = open_catalog(tmp_path)
    second = reopened.tables.create(ORDERS, log_table())
    reopened.close()

    assert second.table_id > first.table_id


def test_a_missing_table_is_told_or_ignored(catalog):
    assert catalog.tables.drop(ORDERS, ignore_if_missing=True) is None
    assert not catalog.tables.exists(ORDERS)
    with pytest.raises(TableMissingError, match=r"fluss\.orders"):
        catalog.tables.drop(ORDERS)
    with pytest.raises(TableMissingError):
        catalog.tables.alter(ORDERS, [])


def test_a_schema_version_that_never_was_is_told(catalog):
    table = catalog.tables.create(ORDERS, log_table())

    with pytest.raises(SchemaMissingError, match="version 2"):
        catalog.tables.schema(table.table_id, 2)


def test_changing_the_properties_that_were_handed_in_changes_no_table(catalog):
    custom = {"custom.a": "1"}
    catalog.tables.create(ORDERS, log_table(custom_properties=custom))

    custom["custom.a"] = "2"

    assert catalog.tables.info(ORDERS).descriptor.custom_properties == {"custom.a": "1"}
