"""Whole data directories: clean ones of all kinds, killed ones, and planted damage."""

import asyncio
import shutil
import sqlite3
from pathlib import Path

import pytest

import headwater
from headwater.audit.report import Check, Severity
from headwater.audit.tables import audit_storage
from headwater.model.boundary import LakeBucket
from headwater.rows.log_batch import build_batch
from headwater.server.catalog.file import RowSums
from headwater.server.catalog.lake_entries import ReportedLakeSnapshot, TieredOffsets
from tests.audit.files.storages import (
    ROWS,
    errors,
    fill_keyed,
    fill_log,
    findings,
    rows,
    saved,
    storage,
)
from tests.serving import ServerProcess


@pytest.fixture(scope="module")
def log_made(tmp_path_factory) -> Path:
    """Return a directory with one log table, made once."""
    directory = tmp_path_factory.mktemp("log") / "data"
    asyncio.run(fill_log(directory))
    return directory


@pytest.fixture
def log_directory(log_made, tmp_path) -> Path:
    """Return a copy of a directory with one log table."""
    return Path(shutil.copytree(log_made, tmp_path / "data"))


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


async def fill_all_kinds(directory: Path) -> None:
    """Make tables of all kinds, and let each see a little of everything."""
    async with storage(directory) as (client, server):
        days = {**ROWS, "day": "STRING"}
        events = await client.create_table("days", days, partition_by="day", buckets=2)
        await events.append([{**each, "day": f"d{each['id'] % 3}"} for each in rows(0, 60)])
        users = await client.create_table(
            "users", days, primary_key=["id", "day"], partition_by="day", buckets=2
        )
        await users.upsert([{**each, "day": f"d{each['id'] % 2}"} for each in rows(0, 90)])
        visits = {"user": "BIGINT", "visit": "BIGINT", "page": "STRING"}
        pages = await client.create_table(
            "visits", visits, primary_key=["user", "visit"], bucket_by="user", buckets=1
        )
        for number in range(30):
            await pages.upsert([{"user": number % 3, "visit": number, "page": "x" * 200}])
            if number % 8 == 0:
                await saved(server)
        await pages.add_column("more", "INT")
        await pages.upsert([{"user": 1, "visit": 100, "page": "y", "more": 3}])
        await saved(server)
        await client.create_table("empty", ROWS)
        for name, key in (("sunk", ()), ("sunk_by_key", "id")):
            sunk = await client.create_table(name, ROWS, primary_key=key, buckets=2)
            for epoch in range(3):
                await sunk.write_epoch(rows(10 * epoch, 10 * epoch + 10), sink="s", epoch=epoch)
        async with events.cursor("reader") as cursor:
            await cursor.poll()
            await cursor.commit()


async def test_tables_of_all_kinds_give_nothing_offline_as_through_a_server(tmp_path):
    await fill_all_kinds(tmp_path / "data")

    assert findings(tmp_path / "data") == []
    async with storage(tmp_path / "data") as (client, _):
        assert (await audit_storage(client, deep=True)).is_clean


async def test_an_audit_changes_nothing(tmp_path):
    await fill_log(tmp_path / "data")
    await fill_keyed(tmp_path / "data")
    before = contents(tmp_path / "data")

    findings(tmp_path / "data")

    assert contents(tmp_path / "data") == before


def test_a_directory_that_was_killed_gives_warnings_at_most(tmp_path):
    server = ServerProcess(tmp_path / "data")
    with headwater.connect(server.address) as client:
        client.create_table("e", ROWS).append(rows(0, 500))
        client.create_table("k", ROWS, primary_key="id").upsert(rows(0, 500))
        server.kill()

    assert errors(tmp_path / "data") == []


def test_an_empty_directory_gives_nothing(tmp_path):
    assert findings(tmp_path) == []


async def test_logs_without_a_catalog_are_an_error(log_directory):
    (log_directory / "catalog.sqlite").unlink()

    (found,) = errors(log_directory)

    assert "their tables are unknown" in found.message


def changed(directory: Path, *statements: str) -> None:
    """Change the catalog behind the back of the server, with the checksums of its rows."""
    connection = sqlite3.connect(directory / "catalog.sqlite")
    for statement in statements:
        connection.execute(statement)
    RowSums(connection).add_all()
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE tables SET descriptor = '{'", "Table 1 (fluss.events) cannot be read"),
        ("UPDATE tables SET schema_id = 2", "it has schema 2"),
        ("UPDATE schemas SET schema = '[]'", "Schema 1 of table 1"),
        ("INSERT INTO partitions (table_id, name) VALUES (1, 'x')", "Partition 1 of table 1"),
        ("DELETE FROM meta WHERE key = 'writer_id_end'", "writer_id_end"),
        ("DELETE FROM meta WHERE key = 'incarnation'", "incarnation"),
        ("UPDATE writer_blocks SET block = 'x'", "The writer id blocks"),
        ("INSERT INTO lake_tables VALUES (1, 1, 'no')", "tiering progress of table 1"),
        ("INSERT INTO lake_snapshots VALUES (1, 1, 1, 1, '{}')", "Lake snapshot 1"),
        ("INSERT INTO schemas VALUES (77, 1, '{}')", "refers to no tables"),
        ("PRAGMA user_version = 99", "has version 99"),
    ],
)
async def test_an_entry_of_the_catalog_that_cannot_be_read_is_an_error(
    log_directory, statement, words
):
    changed(log_directory, statement)

    found = errors(log_directory)

    assert words in " ".join(each.message for each in found)
    assert "Restore the catalog" in found[0].remedy


def test_a_value_of_the_catalog_that_nobody_wrote_is_an_error(log_directory):
    connection = sqlite3.connect(log_directory / "catalog.sqlite")
    connection.execute("UPDATE tables SET created_ms = created_ms + 1")
    connection.commit()
    connection.close()

    (found,) = errors(log_directory)

    assert "does not match" in found.message


async def test_a_catalog_that_is_damaged_is_an_error(log_directory):
    path = log_directory / "catalog.sqlite"
    path.write_bytes(path.read_bytes()[:4096] + b"\xff" * 500 + path.read_bytes()[4596:])

    assert errors(log_directory)


async def test_directories_and_files_without_an_owner_are_warnings(log_directory):
    await fill_keyed(log_directory)
    async with storage(log_directory) as (client, _):
        await client.drop_table("users")
    log = log_directory / "log"
    for copy in ("2", "1/p1", "dropped/9", "other"):
        shutil.copytree(log / "1" / "0", log / copy / "0")
    shutil.copytree(log / "1" / "0", log / "1" / "7")
    (log_directory / "notes.txt").write_text("")
    changed(log_directory, "INSERT INTO sqlite_sequence VALUES ('partitions', 5)")

    found = findings(log_directory)

    assert [each.severity for each in found] == ["warning"] * 6
    assert {each.check for each in found} == {Check.FILES}


async def test_a_bucket_that_is_newer_than_the_catalog_is_an_error(log_directory):
    shutil.copytree(log_directory / "log" / "1", log_directory / "log" / "5")

    (found,) = errors(log_directory)

    assert "older than the logs" in found.message


async def test_writers_that_the_catalog_never_knew_are_an_error(log_directory):
    changed(log_directory, "DELETE FROM writer_blocks")

    (found,) = errors(log_directory)

    assert "the catalog is older than the log" in found.message


async def tiered(directory: Path, end: int) -> Path:
    """Have the catalog know of a lake snapshot, and return its offsets file."""
    async with storage(directory) as (_, server):
        catalog, files = server._services.catalog, server._services.lake.files
        offsets = TieredOffsets(table_id=1, ends={LakeBucket(None, 0): end})
        url = files.write(offsets)
        told = ReportedLakeSnapshot(
            table_id=1,
            snapshot_id=5,
            committed_ms=1,
            tiered=offsets,
            tiered_path=url,
            readable=offsets,
            readable_path=url,
        )
        catalog.lake.commit(told, earliest_kept=None)
    return Path(url.removeprefix("file://"))


async def test_a_lake_within_the_log_gives_nothing(log_directory):
    await tiered(log_directory, 120)

    assert findings(log_directory) == []


async def test_a_lake_that_holds_more_than_the_log_ever_had_is_an_error(log_directory):
    await tiered(log_directory, 121)

    (found,) = errors(log_directory)

    assert (found.check, found.offset) == (Check.BOUNDARY, 120)


async def test_a_bucket_that_is_gone_is_an_error_where_the_lake_knows_it(log_directory):
    await tiered(log_directory, 20)
    shutil.rmtree(log_directory / "log" / "1")

    (found,) = errors(log_directory)

    assert (found.check, found.offset) == (Check.BOUNDARY, 0)


@pytest.mark.parametrize("text", ["{", '{"version": 1, "table_id": 1, "bucket_offsets": [7]}'])
async def test_an_offsets_file_that_is_damaged_or_differs_is_an_error(log_directory, text):
    path = await tiered(log_directory, 120)
    path.write_text(text)

    (found,) = errors(log_directory)

    assert (found.check, found.table) == (Check.FILES, "fluss.events")


async def test_an_offsets_file_that_is_missing_is_worth_one_look(log_directory):
    (await tiered(log_directory, 120)).unlink()

    (found,) = findings(log_directory)

    assert (found.check, found.severity) == (Check.FILES, Severity.WARNING)


@pytest.mark.parametrize(("schema_id", "words"), [(9, "has no schema 9"), (1, "cannot be read")])
def test_a_batch_whose_rows_cannot_be_read_is_an_error(log_directory, schema_id, words):
    last = max((log_directory / "log" / "1" / "0").glob("*.log"))
    batch = build_batch(
        b"garbage", schema_id=schema_id, record_count=1, base_offset=120, timestamp_ms=1 << 42
    )
    last.write_bytes(last.read_bytes() + batch)

    (found,) = errors(log_directory)

    assert (found.check, found.offset) == (Check.READABLE, 120)
    assert words in found.message
