"""Databases: create, alter, drop, find."""

import pytest

from headwater.errors import (
    DatabaseExistsError,
    DatabaseMissingError,
    DatabaseNotEmptyError,
    InvalidNameError,
    TableMissingError,
)
from headwater.model.path import TablePath
from tests.catalog.samples import ORDERS, log_table, open_catalog

HOSTILE = ["", "../x", "a/b", "a\0b", "a.b", "a\u2024b", "x" * 10_000, "__x", "a$b", "é", "a\n"]


def test_a_new_catalog_has_the_database_fluss(catalog):
    assert catalog.databases.list() == ("fluss",)


def test_the_default_database_does_not_come_back_once_it_is_dropped(tmp_path):
    catalog = open_catalog(tmp_path)
    catalog.databases.drop("fluss")
    catalog.close()

    reopened = open_catalog(tmp_path)

    assert reopened.databases.list() == ()
    reopened.close()


def test_a_created_database_is_found_with_all_it_was_given(catalog, clock):
    made = catalog.databases.create("shop", comment="\ud800 wares", custom_properties={"a": "1"})

    assert catalog.databases.info("shop") == made
    assert made.comment == "\ud800 wares"
    assert made.custom_properties == {"a": "1"}
    assert made.created_ms == made.modified_ms == clock.now_ms()


def test_a_database_that_exists_is_refused_or_ignored(catalog):
    first = catalog.databases.create("shop", comment="first")

    again = catalog.databases.create("shop", comment="second", ignore_if_exists=True)

    assert again == first
    with pytest.raises(DatabaseExistsError):
        catalog.databases.create("shop")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_database_name_is_refused_and_never_found(catalog, name):
    with pytest.raises(InvalidNameError):
        catalog.databases.create(name)
    with pytest.raises(DatabaseMissingError):
        catalog.databases.info(name)
    assert not catalog.databases.exists(name)


def test_altering_sets_and_resets_properties_and_the_comment(catalog, clock):
    catalog.databases.create("shop", comment="old", custom_properties={"a": "1", "b": "2"})
    clock.time_ms += 5

    altered = catalog.databases.alter(
        "shop", set_properties={"c": "3"}, reset_properties=["a", "unknown"], comment="new"
    )

    assert altered.custom_properties == {"b": "2", "c": "3"}
    assert altered.comment == "new"
    assert altered.modified_ms == altered.created_ms + 5


def test_altering_nothing_leaves_the_database_as_it_is(catalog, clock):
    made = catalog.databases.create("shop", custom_properties={"a": "1"})
    clock.time_ms += 5

    assert catalog.databases.alter("shop", set_properties={"a": "1"}) == made


def test_a_database_with_tables_is_dropped_by_cascade_only(catalog):
    table = catalog.tables.create(ORDERS, log_table())

    with pytest.raises(DatabaseNotEmptyError):
        catalog.databases.drop("fluss")
    dropped = catalog.databases.drop("fluss", cascade=True)

    assert dropped == (table,)
    assert catalog.databases.list() == ()
    with pytest.raises(TableMissingError):
        catalog.tables.info(ORDERS)


def test_dropping_a_database_leaves_the_tables_of_others(catalog):
    catalog.databases.create("shop")
    catalog.tables.create(TablePath("shop", "orders"), log_table())
    kept = catalog.tables.create(ORDERS, log_table())

    catalog.databases.drop("shop", cascade=True)

    assert catalog.tables.all() == (kept,)


def test_a_missing_database_is_told_or_ignored(catalog):
    assert catalog.databases.drop("nothing", ignore_if_missing=True) == ()
    for ask in (catalog.databases.drop, catalog.databases.alter, catalog.tables.list):
        with pytest.raises(DatabaseMissingError, match="nothing"):
            ask("nothing")
