"""Boundaries that lie are found, whoever they lie to."""

import pytest

from headwater.audit.report import Check
from headwater.cluster.lake import ReportedSnapshot
from headwater.model.boundary import LakeBucket
from headwater.tiering.progress import RoundStep
from headwater.tiering.target import ends_of
from tests.audit.lakes.auditing import audited
from tests.tiering.world import KilledError, killing, rows


async def told(world, table, change) -> ReportedSnapshot:
    """Tell the server other ends of the newest snapshot than it has."""
    head, turn = world.head(table), world.turn(table, 9)
    ends = {bucket: change(end) for bucket, end in ends_of(head.boundary).items()}
    path = await world.hw.lake.prepare(table.path, table.info.table_id, ends, ignore_previous=True)
    await world.hw.lake.commit(turn.assignment.table_id, head.snapshot_id, path, ends=ends)
    found = await world.hw.lake.snapshot(table.path)
    assert found.ends == ends
    return found


@pytest.mark.parametrize("kind", ["table", "keyed"])
async def test_rounds_leave_nothing_to_find(world, kind):
    table = await getattr(world, kind)()

    await world.rounds(table, rows(1, 2, 3), rows(3, 4), rows(5))

    report = await audited(table)
    assert report.findings == ()
    assert report.proof(Check.BOUNDARY).amount >= 3
    assert report.proof(Check.TIERS).amount == 2
    assert report.proof(Check.LAKE_FILES).amount >= 3


async def test_a_table_that_was_never_tiered_has_nothing_to_prove(world):
    table = await world.table()
    await table.append(rows(1, 2))

    report = await audited(table)

    assert report.findings == ()
    assert report.proof(Check.BOUNDARY).amount == 0


async def test_a_server_that_was_told_too_much_is_found(world):
    table = await world.table(buckets=1)
    await world.rounds(table, rows(1, 2, 3))
    await table.append(rows(4, 5))

    await told(world, table, lambda end: end + 2)

    (finding,) = (await audited(table)).errors
    assert (finding.check, finding.bucket, finding.offset) == (Check.BOUNDARY, 0, 3)
    assert "headwater tier" in finding.remedy


async def test_a_server_that_was_told_too_little_is_found(world):
    table = await world.table(buckets=1)
    await world.rounds(table, rows(1, 2, 3))

    await told(world, table, lambda end: end - 2)

    (finding,) = (await audited(table)).errors
    assert (finding.check, finding.offset) == (Check.BOUNDARY, 1)


async def test_a_round_that_was_not_reported_yet_is_no_fault(world):
    table = await world.table(buckets=1)
    await world.rounds(table, rows(1, 2))
    await table.append(rows(3))

    with pytest.raises(KilledError):
        await world.tier(table, 2, watch=killing(RoundStep.REPORT))

    assert (await audited(table)).findings == ()


async def test_a_lake_that_was_put_back_to_an_older_snapshot_is_found(world):
    table = await world.table(buckets=1)
    await world.rounds(table, rows(1, 2), rows(3, 4, 5))
    await table.append(rows(6, 7, 8))
    ends = {LakeBucket(None, 0): 8}
    path = await world.hw.lake.prepare(table.path, table.info.table_id, ends)

    await world.hw.lake.commit(table.info.table_id, 12345, path, ends=ends)

    (finding,) = (await audited(table)).errors
    assert (finding.check, finding.offset) == (Check.BOUNDARY, 5)
    assert "12345" in finding.message


async def test_a_boundary_that_was_changed_is_found(world):
    table = await world.table(buckets=1)
    await world.rounds(table, rows(1, 2), rows(3, 4, 5))

    world.edit_metadata("[[0,5]]", "[[0,1]]")

    report = await audited(table)
    assert report.checks == {Check.BOUNDARY, Check.TIERS}
    assert min(each.offset for each in report.about(Check.BOUNDARY)) == 1


async def test_a_boundary_that_cannot_be_read_is_found(world):
    table = await world.table(buckets=1)
    await world.rounds(table, rows(1, 2))

    world.edit_metadata("[[0,2]]", "[[0,]]")

    assert (await audited(table)).checks == {Check.BOUNDARY}


async def test_a_lake_table_of_another_storage_is_found(world):
    table = await world.table(buckets=1)
    await table.append(rows(1))
    await world.tier(table, storage="another")

    (finding,) = (await audited(table)).errors

    assert finding.check is Check.BOUNDARY
    assert "another" in finding.message


async def test_an_epoch_that_goes_back_is_found(world):
    table = await world.table(buckets=1)
    await table.append(rows(1))
    await world.tier(table, 7)
    await table.append(rows(2))
    await world.tier(table, 8)

    world.edit_metadata("[1,8]", "[1,2]")

    assert (await audited(table)).checks == {Check.BOUNDARY}
