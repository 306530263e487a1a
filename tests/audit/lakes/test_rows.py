"""A deep audit compares the rows of lake and log, and names what differs."""

from collections.abc import AsyncIterator

import pytest

from headwater.audit.lakes.digests import LogReading
from headwater.audit.report import Check
from headwater.errors import OffsetOutOfRangeError
from tests.audit.lakes.auditing import (
    audited,
    damage_rows,
    rewrite,
    with_a_row_twice,
    with_another_text,
    without_a_row,
)
from tests.tiering.world import rows

KINDS = ["table", "keyed"]
ROUNDS = [rows(*range(20)), rows(*range(15, 30), text="b"), rows(40, 41), rows(1, 2, text="c")]


@pytest.fixture(params=KINDS)
async def table(world, request):
    table = await getattr(world, request.param)()
    await world.rounds(table, *ROUNDS)
    if table.info.is_keyed:
        await table.delete([{"id": 3}, {"id": 16}, {"id": 99}])
        await world.tier(table, 5)
    return table


async def test_rounds_deletes_and_compaction_leave_nothing_to_find(world, table):
    for number in range(6, 10):
        await (table.upsert if table.info.is_keyed else table.append)(rows(number))
        await world.tier(table, number)
    await world.compact(table)

    report = await audited(table, deep=True)

    assert report.findings == ()
    held = world.lake_rows(table).total()
    assert report.proof(Check.LAKE_ROWS).amount == held
    assert report.proof(Check.LAKE_ROWS).note == ""


async def test_expired_snapshots_leave_nothing_to_find(world, table):
    world.expire(table, keep=2)

    report = await audited(table, deep=True)

    assert report.findings == ()
    assert report.proof(Check.LAKE_ROWS).amount == world.lake_rows(table).total()


async def test_rows_that_expire_while_they_are_compared_are_told_as_not_proven(world, monkeypatch):
    table = await world.table()
    await world.rounds(table, *ROUNDS)

    async def hashed(*_: object) -> AsyncIterator[object]:
        raise OffsetOutOfRangeError("The log begins later by now.")
        yield

    monkeypatch.setattr(LogReading, "hashed", hashed)

    report = await audited(table, deep=True)

    assert report.findings == ()
    assert "no longer in the log" in report.proof(Check.LAKE_ROWS).note


@pytest.mark.parametrize("change", [without_a_row, with_a_row_twice])
async def test_a_file_with_other_rows_than_were_written_is_found(world, table, change):
    rewrite(world.data_files(table)[0], change)

    assert Check.LAKE_FILES in (await audited(table, deep=True)).checks


async def test_a_row_that_a_round_left_out_is_found_with_its_offset(world):
    table = await world.table(buckets=1)
    await world.rounds(table, *ROUNDS)
    await table.append(rows(50, 51, 52))

    world.commit_more(table, rows(50, 52), offsets=3)

    report = await audited(table, deep=True)
    assert report.checks == {Check.TIERS, Check.LAKE_ROWS}
    (finding,) = report.about(Check.LAKE_ROWS)
    assert (finding.bucket, finding.offset) == (0, 40)
    assert "lacks 1 rows" in finding.message


async def test_a_change_by_key_that_a_round_left_out_is_found_with_its_offset(world):
    table = await world.keyed(buckets=1)
    await world.rounds(table, rows(1, 2, 3))
    await table.delete([{"id": 2}])
    await table.upsert(rows(4))

    world.commit_more(table, rows(4), offsets=2)

    (finding,) = (await audited(table, deep=True)).errors
    assert (finding.check, finding.offset) == (Check.LAKE_ROWS, 3)
    assert "'id': 2" in finding.message


async def test_a_row_that_was_changed_is_found_with_its_offset(world):
    table = await world.table(buckets=1)
    await world.rounds(table, *ROUNDS)

    rewrite(world.data_files(table)[0], with_another_text)

    findings = (await audited(table, deep=True)).about(Check.LAKE_ROWS)
    assert [each.offset in (0, 20, 35, 37) for each in findings] == [True]
    assert "changed" in findings[0].message


async def test_a_round_that_came_twice_is_found_without_reading_rows(world):
    table = await world.table(buckets=1)
    await world.rounds(table, *ROUNDS)

    world.commit_more(table, rows(1, 2, text="c"))

    findings = (await audited(table)).errors
    assert {each.check for each in findings} == {Check.TIERS}
    assert "39 offsets" in findings[0].message
    assert "adds 2 rows" in findings[1].message


async def test_rows_by_key_that_came_from_nowhere_are_found(world):
    table = await world.keyed(buckets=1)
    await world.rounds(table, *ROUNDS)

    world.commit_more(table, rows(1, 77, text="c"))

    (finding,) = (await audited(table, deep=True)).errors
    assert finding.check is Check.LAKE_ROWS
    assert "has 1 rows too many" in finding.message
    assert "77" in finding.message


async def test_rows_that_did_not_change_are_compared_where_a_log_does_not_tell_what_they_were(
    world,
):
    table = await world.keyed(buckets=1, options={"table.changelog.image": "wal"})
    await world.rounds(table, rows(*range(10)))
    await table.upsert(rows(0, 1, text="z"))
    clean = await audited(table, deep=True)

    rewrite(world.data_files(table)[0], lambda held: with_another_text(held, at=-1))

    assert clean.findings == ()
    assert clean.proof(Check.LAKE_ROWS).amount == 8
    assert Check.LAKE_ROWS in (await audited(table, deep=True)).checks


@pytest.mark.parametrize("option", [{"table.changelog.image": "wal"}, {"table.kv.ttl": "1 d"}])
async def test_rows_that_cannot_be_read_are_found_where_they_are_not_compared_at_all(world, option):
    table = await world.keyed(buckets=1, options=option)
    await world.rounds(table, rows(*range(10)))

    damage_rows(world.data_files(table)[0])

    assert (await audited(table, deep=True)).checks == {Check.LAKE_FILES}


@pytest.mark.parametrize("lake_format", ["iceberg"])
async def test_rows_that_others_delete_are_an_error(world):
    table = await world.table(buckets=1)
    await world.rounds(table, *ROUNDS[:2])
    catalog = world.committer(table).catalog
    catalog.load_table((table.path.database, table.path.table)).delete("id = 3")

    report = await audited(table, deep=True)

    (error,) = report.errors
    assert "removed tiered rows" in error.message
    assert {each.check for each in report.findings} == {Check.TIERS, Check.LAKE_ROWS}
