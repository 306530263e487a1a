"""What the catalog keeps over reopens, crashes and failed writes."""

import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from headwater.errors import CorruptFileError, DirectoryInUseError, StorageError
from headwater.model.path import TablePath
from headwater.model.types import IntType
from headwater.server.catalog import file
from headwater.server.catalog.alter import AddColumn, DropColumn, RenameColumn, SetTableOption
from headwater.server.catalog.catalog import ServerCatalog
from tests.catalog.samples import ORDERS, log_table, open_catalog, partitioned_table

DAY_1 = {"day": "1"}
CHANGES = {
    "create database": lambda catalog: catalog.databases.create("new", comment="é"),
    "alter database": lambda catalog: catalog.databases.alter("shop", set_properties={"a": "1"}),
    "drop database": lambda catalog: catalog.databases.drop("fluss", cascade=True),
    "create table": lambda catalog: catalog.tables.create(TablePath("shop", "new"), log_table()),
    "drop table": lambda catalog: catalog.tables.drop(ORDERS),
    "set option": lambda catalog: catalog.tables.alter(ORDERS, [SetTableOption("custom.a", "b")]),
    "add column": lambda catalog: catalog.tables.alter(
        ORDERS, [AddColumn(name="x", type=IntType(), comment="c")]
    ),
    "drop column": lambda catalog: catalog.tables.alter(ORDERS, [DropColumn("name")]),
    "rename column": lambda catalog: catalog.tables.alter(ORDERS, [RenameColumn("name", "n")]),
    "create partition": lambda catalog: catalog.partitions.create(ORDERS, {"day": "2"}),
    "drop partition": lambda catalog: catalog.partitions.drop(ORDERS, DAY_1),
}
HOLD = """
import sys
from pathlib import Path
from headwater.config.server import ServerSettings
from headwater.runtime.clock import SystemClock
from headwater.server.catalog.catalog import ServerCatalog

catalog = ServerCatalog.open(Path(sys.argv[1]), clock=SystemClock(), settings=ServerSettings())
print(*[catalog.next_writer_id("") for _ in range(int(sys.argv[2]))], flush=True)
sys.stdin.read()
"""


def filled(directory: Path) -> ServerCatalog:
    catalog = open_catalog(directory)
    catalog.databases.create("shop", custom_properties={"b": "2"})
    catalog.tables.create(ORDERS, partitioned_table())
    catalog.partitions.create(ORDERS, DAY_1)
    return catalog


def image_of(catalog: ServerCatalog):
    return catalog.tables._image


def holder(directory: Path, ids: int = 1) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLD, str(directory), str(ids)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def killed(process: subprocess.Popen[str]) -> str:
    first_line = process.stdout.readline()
    process.kill()
    process.communicate()
    return first_line


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_reopened_catalog_is_what_it_was(tmp_path, change):
    catalog = filled(tmp_path)
    change(catalog)
    held = image_of(catalog)
    catalog.close()

    reopened = open_catalog(tmp_path)
    reopened.close()

    assert image_of(reopened) == held


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_failed_transaction_leaves_memory_and_file_as_they_were(tmp_path, change):
    catalog = filled(tmp_path)
    refuse_every_change(tmp_path / "catalog.sqlite")

    with pytest.raises(StorageError, match="disk on fire"):
        change(catalog)
    held = image_of(catalog)
    catalog.close()
    allow_changes(tmp_path / "catalog.sqlite")

    reopened = open_catalog(tmp_path)
    reopened.close()
    untouched = filled(tmp_path / "other")
    untouched.close()
    assert held == image_of(reopened) == image_of(untouched)


def refuse_every_change(path: Path) -> None:
    beside = sqlite3.connect(path)
    for table in (
        "databases",
        "tables",
        "schemas",
        "partitions",
        "row_numbers",
        "lake_tables",
        "lake_snapshots",
        "writer_blocks",
        "meta",
    ):
        for verb in ("INSERT", "UPDATE", "DELETE"):
            beside.execute(
                f"CREATE TRIGGER refuse_{verb}_{table} AFTER {verb} ON {table}"
                " BEGIN SELECT RAISE(ABORT, 'disk on fire'); END"
            )
    beside.commit()
    beside.close()


def allow_changes(path: Path) -> None:
    beside = sqlite3.connect(path)
    for (name,) in beside.execute(
        "SELECT name FROM sqlite_master WHERE type = 'trigger'"
    ).fetchall():
        beside.execute(f"DROP TRIGGER {name}")
    beside.commit()
    beside.close()


def test_a_writer_id_that_could_not_be_reserved_is_not_handed_out(tmp_path):
    catalog = open_catalog(tmp_path)
    refuse_every_change(tmp_path / "catalog.sqlite")

    for _ in range(2):
        with pytest.raises(StorageError):
            catalog.next_writer_id("")
    catalog.close()


def test_writer_ids_are_never_the_same_over_blocks_and_reopens(tmp_path):
    seen = []
    for _ in range(3):
        catalog = open_catalog(tmp_path)
        seen += [catalog.next_writer_id("") for _ in range(1001)]
        catalog.close()

    assert len(seen) == len(set(seen))
    assert min(seen) > 0


def test_writer_ids_are_never_the_same_after_a_kill(tmp_path):
    first = killed(holder(tmp_path, ids=1500)).split()
    second = killed(holder(tmp_path, ids=1500)).split()

    assert len(first) == len(second) == 1500
    assert not set(first) & set(second)


def test_a_second_process_is_told_which_one_holds_the_directory(tmp_path):
    process = holder(tmp_path)
    process.stdout.readline()

    with pytest.raises(DirectoryInUseError, match=rf"process {process.pid}\..*Stop that process"):
        open_catalog(tmp_path)
    process.kill()
    process.communicate()

    open_catalog(tmp_path).close()


def test_a_second_catalog_in_one_process_is_refused_until_the_first_is_closed(tmp_path):
    first = open_catalog(tmp_path)

    with pytest.raises(DirectoryInUseError, match="already open in this process"):
        open_catalog(tmp_path)
    first.close()
    first.close()

    open_catalog(tmp_path).close()


def test_the_storage_id_stays_and_differs_between_directories(tmp_path):
    ids = []
    for name in ("one", "one", "other"):
        catalog = open_catalog(tmp_path / name)
        ids.append(catalog.storage_id)
        catalog.close()

    assert ids[0] == ids[1] != ids[2]
    assert len(ids[0]) == 36


def test_a_catalog_of_a_newer_version_is_refused_and_left_alone(tmp_path):
    open_catalog(tmp_path).close()
    beside = sqlite3.connect(tmp_path / "catalog.sqlite")
    beside.execute("PRAGMA user_version = 99")
    beside.close()

    for _ in range(2):
        with pytest.raises(StorageError, match=r"version 99.*newer"):
            open_catalog(tmp_path)


def test_a_file_that_is_no_catalog_is_refused(tmp_path):
    (tmp_path / "catalog.sqlite").write_bytes(b"not a database, but long enough to be one" * 99)

    with pytest.raises(CorruptFileError, match=r"catalog\.sqlite"):
        open_catalog(tmp_path)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tables SET descriptor = '{'",
        "UPDATE tables SET descriptor = '[]'",
        "UPDATE tables SET schema_id = 'x'",
        "UPDATE schemas SET schema = '{}'",
        "UPDATE databases SET details = '1'",
        "UPDATE partitions SET name = 'a$b'",
        "DELETE FROM meta",
    ],
)
def test_a_row_that_cannot_be_read_back_is_told(tmp_path, statement):
    filled(tmp_path).close()
    beside = sqlite3.connect(tmp_path / "catalog.sqlite", isolation_level=None)
    beside.execute(statement)
    beside.close()

    with pytest.raises(CorruptFileError):
        open_catalog(tmp_path)


def test_a_directory_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(StorageError, match="file"):
        open_catalog(tmp_path / "file" / "data")


def test_the_catalog_syncs_every_commit(tmp_path):
    catalog = open_catalog(tmp_path)
    file = catalog.tables._store._file

    assert file.rows("PRAGMA synchronous") == [(2,)]
    assert file.rows("PRAGMA journal_mode") == [("wal",)]
    assert file.rows("PRAGMA foreign_keys") == [(1,)]
    catalog.close()
    assert stat.S_ISREG((tmp_path / "LOCK").stat().st_mode)


@pytest.mark.timeout(60)
def test_a_change_waits_for_nobody_who_reads_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(file, "BUSY_MS_MAX", 600_000)
    catalog = filled(tmp_path)
    with closing(sqlite3.connect(tmp_path / "catalog.sqlite", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM tables").fetchall()

        catalog.databases.create("beside")

    catalog.databases.create("after")
    wal = tmp_path / "catalog.sqlite-wal"
    assert not wal.exists() or not wal.stat().st_size
