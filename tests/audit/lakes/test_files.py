"""Files that are gone, left over or listed twice are found, and lakes that cannot be reached."""

import os
import shutil
from pathlib import Path

import pytest

from headwater.audit.lakes.metadata import ORPHAN_AGE_MS
from headwater.audit.report import Check, Severity
from tests.audit.lakes.auditing import audited
from tests.tiering.world import rows


@pytest.fixture
async def table(world):
    table = await world.table(buckets=1)
    await world.rounds(table, rows(1, 2, 3), rows(4, 5))
    return table


def age(path, *, ms: int) -> None:
    then_s = path.stat().st_mtime - ms / 1000
    os.utime(path, (then_s, then_s))


async def test_a_data_file_that_is_gone_is_found_without_reading_rows(world, table):
    file = world.data_files(table)[0]
    file.unlink()

    (finding,) = (await audited(table)).errors

    assert finding.check is Check.LAKE_FILES
    assert file.name in finding.message
    assert "Restore" in finding.remedy


async def test_a_data_file_that_is_gone_ends_no_deep_audit(world, table):
    world.data_files(table)[0].unlink()

    report = await audited(table, deep=True)

    assert report.checks == {Check.LAKE_FILES}


async def test_a_data_file_that_is_no_file_of_rows_is_found(world, table):
    file = world.data_files(table)[0]
    file.write_bytes(b"x" * file.stat().st_size)

    report = await audited(table, deep=True)

    assert report.checks == {Check.LAKE_FILES}
    assert any(file.name in each.message for each in report.errors)


async def test_an_old_file_that_no_snapshot_names_is_worth_a_look(world, table):
    stray = world.data_files(table)[0].with_name("stray.parquet")
    stray.write_bytes(b"123")
    age(stray, ms=ORPHAN_AGE_MS + 60_000)

    (finding,) = (await audited(table)).findings

    assert finding.severity is Severity.WARNING
    assert "3 bytes" in finding.message
    assert "headwater lake clean" in finding.remedy


async def test_a_young_file_that_no_snapshot_names_is_only_counted(world, table):
    world.data_files(table)[0].with_name("stray.parquet").write_bytes(b"123")

    report = await audited(table)

    assert report.findings == ()
    assert "1 young files" in report.proof(Check.LAKE_FILES).note


async def test_files_that_a_snapshot_lists_twice_are_found(world, table):
    world.list_twice(table)

    report = await audited(table)

    assert Check.LAKE_FILES in report.checks
    assert any("listed" in each.message for each in report.about(Check.LAKE_FILES))


async def test_a_lake_that_is_gone_is_found(world, table):
    shutil.rmtree(world.directory)

    report = await audited(table, deep=True)

    assert report.errors
    assert report.checks <= {Check.READABLE, Check.BOUNDARY}


@pytest.mark.parametrize("lake_format", ["iceberg", "paimon"])
async def test_metadata_that_is_damaged_is_found_and_ends_no_audit(world, table):
    files = [path for path in world.directory.rglob("*") if _is_needed(path)]

    for path in files:
        held = path.read_bytes()
        path.write_bytes(bytes(len(held)))
        assert (await audited(table)).errors, path
        path.write_bytes(held)

    assert len(files) > 3
    assert (await audited(table)).findings == ()


def _is_needed(path: Path) -> bool:
    """Tell whether a file is needed, and not kept for its history only."""
    if path.suffix == ".json":
        return path.name.startswith("00002")
    is_list = path.suffix == ".avro" or path.parent.name in ("manifest", "schema")
    return is_list or path.name.startswith("snapshot-")
