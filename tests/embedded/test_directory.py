"""A data directory whose lock, catalog or files are deleted, moved or replaced under its owner."""

import os
import shutil
import sqlite3
import tempfile
from pathlib import Path

import pytest

import headwater
from headwater.config.client import ClientSettings
from headwater.errors import DirectoryInUseError, HeadwaterError, StorageError
from headwater.server import disk_space
from headwater.server.catalog.store import CatalogStore
from tests.serving import ServerProcess

SCHEMA = {"id": "BIGINT"}
HASTY = ClientSettings(deadline_s=0.2)


def filled(directory: Path) -> headwater.Client:
    storage = headwater.open(directory, settings=HASTY)
    storage.create_table("log", SCHEMA).append({"id": 1})
    storage.create_table("keyed", SCHEMA, primary_key="id").upsert({"id": 1})
    return storage


def image_of(directory: Path) -> dict[Path, bytes]:
    """Read all files, but those that SQLite shares among those who have a database open."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {path: path.read_bytes() for path in files if not path.name.endswith(("-shm", "-wal"))}


def test_a_second_process_is_refused_though_the_lock_file_was_deleted(tmp_path):
    with filled(tmp_path / "data") as storage:
        (tmp_path / "data" / "LOCK").unlink()

        with pytest.raises(DirectoryInUseError):
            headwater.open(tmp_path / "data")

        storage.table("log").append({"id": 2})
        assert (tmp_path / "data" / "LOCK").read_text() == f"{os.getpid()}\n"
        with pytest.raises(DirectoryInUseError, match="already open in this process"):
            headwater.open(tmp_path / "data")


def moved(directory: Path) -> None:
    directory.rename(directory.with_name("elsewhere"))


def replaced(directory: Path) -> None:
    moved(directory)
    shutil.copytree(directory.with_name("elsewhere"), directory)


def locked_by_an_older_version(directory: Path) -> None:
    (directory / "LOCK").unlink()
    (directory / "LOCK").touch()


@pytest.mark.parametrize("lose", [moved, replaced, locked_by_an_older_version, shutil.rmtree])
def test_a_directory_that_was_lost_is_not_written_to_again(tmp_path, lose):
    storage = filled(tmp_path / "data")
    log, keyed = storage.table("log"), storage.table("keyed")
    lose(tmp_path / "data")
    before = image_of(tmp_path)

    for write in (
        lambda: log.append({"id": 2}),
        lambda: keyed.upsert({"id": 2}),
        lambda: storage.create_table("more", SCHEMA),
        lambda: storage.drop_table("log"),
    ):
        with pytest.raises(HeadwaterError, match="is lost: "):
            write()
    storage.close()

    assert image_of(tmp_path) == before


def test_a_directory_that_was_moved_is_still_held(tmp_path):
    storage = filled(tmp_path / "data")
    moved(tmp_path / "data")

    with pytest.raises(DirectoryInUseError):
        headwater.open(tmp_path / "elsewhere")
    storage.close()

    headwater.open(tmp_path / "elsewhere").close()


def test_rows_in_a_file_that_was_deleted_are_not_acknowledged(tmp_path):
    storage = filled(tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / "log")

    with pytest.raises(HeadwaterError, match="deleted while it was in use"):
        storage.table("log").append({"id": 2})
    storage.close()


def test_a_catalog_that_was_deleted_takes_no_changes(tmp_path):
    storage = filled(tmp_path / "data")
    (tmp_path / "data" / "catalog.sqlite").unlink()

    with pytest.raises(HeadwaterError, match="deleted while in use"):
        storage.create_table("more", SCHEMA)
    storage.close()


def test_a_server_whose_directory_was_replaced_ends_and_says_why(tmp_path):
    server = ServerProcess(tmp_path / "data")

    replaced(tmp_path / "data")

    assert server.wait(30) == 9
    assert "is lost: its lock file was replaced" in server.told()


def test_a_child_that_lives_on_does_not_keep_what_its_parent_has_closed(tmp_path):
    storage = filled(tmp_path / "data")
    release, end = os.pipe()
    child = os.fork()
    if not child:
        os.close(end)
        os.read(release, 1)
        os._exit(0)

    storage.close()
    try:
        headwater.open(tmp_path / "data").close()
    finally:
        os.write(end, b"x")
        os.waitpid(child, 0)


def test_a_storage_on_a_disk_that_takes_no_writes_is_read(tmp_path, monkeypatch):
    filled(tmp_path / "data").close()
    before = image_of(tmp_path)

    def full(*_, **__):
        raise StorageError("The catalog failed: disk I/O error.")

    monkeypatch.setattr(CatalogStore, "open", full)
    monkeypatch.setattr(disk_space, "free_bytes", lambda _: 0)
    storage = headwater.open(tmp_path / "data", settings=HASTY)

    assert storage.table("log").scan().to_pylist() == [{"id": 1}]
    assert storage.table("keyed").get({"id": 1}) == {"id": 1}
    for write in (
        lambda: storage.table("log").append({"id": 2}),
        lambda: storage.table("keyed").upsert({"id": 2}),
        lambda: storage.drop_table("log"),
    ):
        with pytest.raises(HeadwaterError, match="read-only: its disk is full"):
            write()
    storage.close()
    assert {path: before[path] for path in before if path.suffix == ".log"}.items() <= image_of(
        tmp_path
    ).items()


def killed_in_a_change(directory: Path, made: Path) -> None:
    """Copy a directory while a change of its catalog is only in SQLite's log."""
    with filled(directory) as storage:
        reader = sqlite3.connect(directory / "catalog.sqlite", isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM tables").fetchall()
        storage.create_table("late", SCHEMA).append({"id": 3})
        shutil.copytree(directory, made)
        reader.close()


def takes_no_writes(monkeypatch) -> None:
    def full(*_, **__):
        raise StorageError("The catalog failed: attempt to write a readonly database.")

    monkeypatch.setattr(CatalogStore, "open", full)
    monkeypatch.setattr(disk_space, "free_bytes", lambda _: 0)


def test_a_catalog_that_was_killed_in_a_change_is_read_where_nothing_can_be_written(
    tmp_path, monkeypatch
):
    killed_in_a_change(tmp_path / "data", tmp_path / "copy")
    before = image_of(tmp_path / "copy")
    assert (tmp_path / "copy" / "catalog.sqlite-wal").stat().st_size
    takes_no_writes(monkeypatch)

    with headwater.open(tmp_path / "copy", settings=HASTY) as storage:
        assert storage.table("late").scan().to_pylist() == [{"id": 3}]
        assert storage.table("keyed").get({"id": 1}) == {"id": 1}
        with pytest.raises(HeadwaterError, match="read-only: its disk is full"):
            storage.drop_table("late")

    catalog = tmp_path / "copy" / "catalog.sqlite"
    assert catalog.read_bytes() == before[catalog]


def test_a_catalog_that_cannot_be_copied_anywhere_says_what_to_do(tmp_path, monkeypatch):
    killed_in_a_change(tmp_path / "data", tmp_path / "copy")
    takes_no_writes(monkeypatch)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))

    with pytest.raises(StorageError, match="Set TMPDIR to a directory with") as told:
        headwater.open(tmp_path / "copy", settings=HASTY)

    assert "was being changed when its process was killed" in str(told.value)


def test_space_is_set_aside_when_a_disk_gets_full_and_given_back_when_it_is(tmp_path, monkeypatch):
    free = [disk_space.RESERVED_BELOW]
    monkeypatch.setattr(disk_space, "free_bytes", lambda _: free[0])
    reserve = tmp_path / disk_space.RESERVE_NAME

    def kept() -> bool:
        disk_space.keep_reserve(tmp_path)
        disk_space.give_reserve(tmp_path)
        return reserve.exists()

    assert not kept()
    free[0] -= 1
    assert kept()
    assert reserve.stat().st_size == disk_space.RESERVE_BYTES
    free[0] = disk_space.STARTING_BYTES - 1
    assert not kept()
