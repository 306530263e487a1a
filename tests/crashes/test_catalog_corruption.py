"""No damage of the catalog makes a server serve other tables than there are."""

import sqlite3
from pathlib import Path

import pytest

from headwater.errors import CorruptFileError, HeadwaterError, StorageError
from headwater.model.path import TablePath
from headwater.server.catalog.catalog import ServerCatalog
from headwater.server.catalog.lake_entries import TieringRecord
from tests.catalog.samples import log_table, open_catalog, partitioned_table
from tests.crashes.mutations import flip, mutated
from tests.figures import note

NAME = "catalog.sqlite"
TABLE, PARTED = TablePath("shop", "orders"), TablePath("shop", "days")
LONG_EVERY = 13


def filled(directory: Path) -> bytes:
    """Fill a catalog with entries of every kind and return its file."""
    catalog = open_catalog(directory)
    catalog.databases.create("shop", custom_properties={"b": "2"})
    for number in range(10):
        catalog.tables.create(TablePath("shop", f"t{number}"), log_table())
    catalog.tables.create(TABLE, log_table())
    catalog.tables.create(PARTED, partitioned_table())
    for number in range(20):
        catalog.partitions.create(PARTED, {"day": str(number)})
    catalog.reserve_ids(catalog.tables.info(TABLE).table_id, 5)
    catalog.next_writer_id("somebody")
    catalog.lake.put_record(catalog.tables.info(TABLE).table_id, TieringRecord(turn=3))
    catalog.close()
    (directory / "log" / "1" / "0").mkdir(parents=True, exist_ok=True)
    return (directory / NAME).read_bytes()


def contents(catalog: ServerCatalog) -> tuple:
    """Return all that a catalog says; how often it was opened is not part of it."""
    table_id = catalog.tables.info(TABLE).table_id
    told = catalog.tables._image, catalog.storage_id, catalog.lake.record(table_id)
    return (*told, catalog._writer_ids._owners, catalog.reserve_ids(table_id, 1))


def opened(directory: Path, content: bytes) -> tuple:
    """Return what a catalog with this content says."""
    for beside in ("-wal", "-shm"):
        (directory / f"{NAME}{beside}").unlink(missing_ok=True)
    (directory / NAME).write_bytes(content)
    catalog = open_catalog(directory)
    try:
        return contents(catalog)
    finally:
        catalog.close()


def outcome(directory: Path, content: bytes, good: tuple) -> str:
    try:
        found = opened(directory, content)
    except HeadwaterError as fault:
        assert isinstance(fault, StorageError), repr(fault)
        return "refused"
    return "harmless" if found == good else "changed"


def test_no_damage_at_any_64th_of_the_catalog_changes_what_it_says(tmp_path):
    content = filled(tmp_path)
    good = opened(tmp_path, content)

    outcomes = {label: outcome(tmp_path, each, good) for label, each in mutated(content)[::3]}

    assert [label for label, each in outcomes.items() if each == "changed"] == []
    assert list(outcomes.values()).count("refused") > len(outcomes) / 2


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_no_flipped_bit_in_the_catalog_changes_what_it_says(tmp_path):
    content = filled(tmp_path)
    good = opened(tmp_path, content)
    damaged = dict(mutated(content))
    damaged |= {f"flip {at}": flip(content, at) for at in range(0, len(content), LONG_EVERY)}

    outcomes = {label: outcome(tmp_path, each, good) for label, each in damaged.items()}

    assert [label for label, each in outcomes.items() if each == "changed"] == []
    note("corruption", places=len(outcomes))


def test_damage_of_a_row_is_told_with_the_row(tmp_path):
    content = filled(tmp_path)
    beside = sqlite3.connect(tmp_path / NAME, isolation_level=None)
    beside.execute("UPDATE tables SET modified_ms = modified_ms + 1 WHERE name = 't3'")
    beside.close()

    with pytest.raises(CorruptFileError, match=r"checksum of tables \[4\] does not match"):
        open_catalog(tmp_path)

    assert opened(tmp_path, content)


@pytest.mark.parametrize("content", [None, b""], ids=["deleted", "empty"])
def test_a_directory_with_rows_but_without_a_catalog_is_not_begun_anew(tmp_path, content):
    filled(tmp_path)
    (tmp_path / NAME).unlink()
    if content is not None:
        (tmp_path / NAME).write_bytes(content)

    with pytest.raises(CorruptFileError, match="Restore the catalog from a backup"):
        open_catalog(tmp_path)

    assert (tmp_path / NAME).exists() == (content is not None)


def test_an_older_catalog_does_not_give_ids_to_new_tables_that_have_rows(tmp_path):
    old = filled(tmp_path)
    (tmp_path / "log" / "40" / "0").mkdir(parents=True)
    (tmp_path / "log" / "12" / "p77" / "0").mkdir(parents=True)

    (tmp_path / NAME).write_bytes(old)
    catalog = open_catalog(tmp_path)

    assert catalog.tables.create(TablePath("shop", "new"), log_table()).table_id > 40
    assert catalog.partitions.create(PARTED, {"day": "new"}).partition_id > 77
    catalog.close()


def test_nothing_committed_waits_in_a_file_of_its_own(tmp_path):
    catalog = open_catalog(tmp_path)

    catalog.databases.create("shop")

    assert (tmp_path / f"{NAME}-wal").stat().st_size == 0
    catalog.close()
