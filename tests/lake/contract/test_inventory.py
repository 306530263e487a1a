"""An inventory finds what is missing, what is left over, and what is listed twice; nothing else."""

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headwater.lake.spi import Retention
from headwater.model.types import BigIntType, StringType

ROUNDS = 6
FEW = 2
ALL_OLD = Retention(snapshots_min=1, age_ms=0)
DAY_MS = 86_400_000


@pytest.fixture(params=[(), ("id",)], ids=["log", "keyed"])
def table(tables, request):
    table = tables.make({"id": BigIntType(nullable=False), "name": StringType()}, key=request.param)
    tier(table, FEW)
    return table


def tier(table, rounds: int) -> None:
    for turn in range(rounds):
        rows = [{"id": turn * 2 + at, "name": f"{turn}"} for at in range(4)]
        table.tier(rows, deleted=[False, False, False, turn > 0] if table.spec.is_keyed else None)


def a_data_file(table) -> Path:
    splits = table.source.plan(table.head().snapshot_id)
    return Path(splits[0].files[0].path.removeprefix("file://").removeprefix("file:"))


def seen(table, **options) -> tuple[list[str], list[str], list[str]]:
    found = table.keeper.inventory(**options)
    return (
        [Path(each.path).name for each in found.missing],
        [Path(each.path).name for each in found.orphans],
        [Path(each.path).name for each in found.duplicates],
    )


def test_a_table_in_order_has_all_its_files_and_no_others(table):
    found = table.keeper.inventory(opens_files=True)

    assert (found.missing, found.orphans, found.duplicates) == ((), (), ())
    assert found.named >= table.head().file_count


def test_files_are_in_order_after_compaction_and_expiry(table):
    tier(table, ROUNDS)
    table.compact()
    table.keeper.expire(ALL_OLD, now_ms=table.head().committed_ms + DAY_MS)

    assert seen(table, opens_files=True) == ([], [], [])


@pytest.mark.usefixtures("lake_directory")
def test_a_data_file_that_is_gone_is_named_with_a_snapshot_that_needs_it(table):
    file = a_data_file(table)
    file.unlink()

    (lost,) = table.keeper.inventory().missing

    assert Path(lost.path).name == file.name
    assert lost.fault == "is missing"
    assert lost.snapshot_id in {each.snapshot_id for each in table.source.snapshots()}


@pytest.mark.usefixtures("lake_directory")
def test_a_file_of_another_size_is_missing(table):
    file = a_data_file(table)
    file.write_bytes(file.read_bytes() + b"x")

    assert seen(table) == ([file.name], [], [])


@pytest.mark.usefixtures("lake_directory")
def test_a_file_that_cannot_be_opened_is_missing_if_files_are_opened(table):
    file = a_data_file(table)
    file.write_bytes(b"x" * file.stat().st_size)

    assert seen(table) == ([], [], [])
    assert seen(table, opens_files=True) == ([file.name], [], [])


def test_every_list_of_files_that_is_gone_is_missing(table, lake_directory, lake_format):
    if lake_format == "plain":
        pytest.skip("has its files in the snapshots themselves")
    place = next(lake_directory.rglob(f"{table.spec.path.table}*"))
    lists = [each for each in place.rglob("*") if _is_list(each)]
    lists[0].unlink()

    assert lists[0].name in seen(table)[0]


def _is_list(path: Path) -> bool:
    return path.is_file() and (path.suffix == ".avro" or path.parent.name == "manifest")


@pytest.mark.usefixtures("lake_directory")
def test_a_file_that_no_snapshot_names_is_an_orphan_with_its_age_and_size(table):
    stray = a_data_file(table).with_name("stray.parquet")
    stray.write_bytes(b"12345")
    hour_ago_s = stray.stat().st_mtime - 3600
    os.utime(stray, (hour_ago_s, hour_ago_s))

    (orphan,) = table.keeper.inventory().orphans

    assert Path(orphan.path).name == stray.name
    assert orphan.byte_count == 5
    assert 3_600_000 <= orphan.age_ms < 3_900_000


def test_files_that_are_written_and_not_committed_yet_are_orphans(table):
    results = table.write([{"id": 1, "name": "a"}], on=table.head())

    missing, orphans, duplicates = seen(table)

    assert (missing, duplicates) == ([], [])
    assert len(orphans) >= sum(each.file_count for each in results) > 0


@pytest.mark.usefixtures("lake_directory")
def test_a_file_with_fewer_rows_than_told_is_missing_if_files_are_opened(table):
    file = a_data_file(table)
    size, rows = file.stat().st_size, pq.read_table(file)
    pq.write_table(rows.slice(1), file)

    missing = table.keeper.inventory(opens_files=True).missing

    assert [Path(each.path).name for each in missing] == [file.name]
    assert size != file.stat().st_size or "rows" in missing[0].fault
