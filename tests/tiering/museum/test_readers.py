"""Readers and writers beside a tierer: what they see is never more and never less than there is."""

from headwater.lake.lakes import lake_spec
from headwater.lake.spi import Retention
from headwater.tiering.progress import LakeTarget, RoundStep
from headwater.tiering.task import LocalRunner
from headwater.tiering.upkeep import compact
from tests.tiering.world import folded, rows


def target_of(world, table):
    return LakeTarget(table.info, world.lakes.of(table.info), lake_spec(table.info))


async def test_05_what_can_be_read_and_the_offsets_it_reaches_move_together(world, hw):
    table = await world.keyed(buckets=1)
    for turn in (1, 2, 3):
        await table.upsert(rows(1, 2, text=str(turn)))
        report = await world.tier(table, turn)

        readable = await hw.lake.snapshot(table.path, readable=True)

        assert readable.snapshot_id == report.snapshot.snapshot_id
        ends = {key: held.end for key, held in report.snapshot.boundary.ranges.items()}
        assert readable.ends == ends
        await world.check(table)


async def test_13_the_boundary_survives_compaction_and_expiry(world, hw):
    table = await world.keyed(buckets=1)
    for turn in (1, 2, 3):
        await table.upsert(rows(*range(turn * 3), text=str(turn)))
        await world.tier(table, turn)
    before = world.head(table)

    target = target_of(world, table)
    await compact(target, before, runner=LocalRunner(hw))
    keeper = target.lake.keeper(target.spec)
    keeper.expire(Retention(snapshots_min=1, age_ms=0), now_ms=before.committed_ms + 10**9)

    assert (await world.check(table)).boundary == before.boundary
    await table.upsert(rows(1, text="later"))
    await world.tier(table, 4)
    await world.check(table)


async def test_15_a_writer_at_every_step_loses_nothing_and_doubles_nothing(world):
    table = await world.table()
    written = 0

    async def write(_step: RoundStep) -> None:
        nonlocal written
        await table.append(rows(*range(written, written + 10)))
        written += 10

    for turn in (1, 2, 4):
        await world.tier(table, turn, watch=write)
        await world.check(table)
    await world.tier(table, 5)

    assert sum(world.lake_rows(table).values()) == written


async def test_16_an_old_snapshot_stays_what_it_was(world, hw):
    table = await world.keyed(buckets=1)
    await table.upsert(rows(1, 2, 3))
    old = (await world.tier(table, 1)).snapshot
    seen = world.lake_rows(table, old.snapshot_id)
    await table.upsert(rows(2, 4, text="b"))
    await table.delete([{"id": 1}])
    new = (await world.tier(table, 2)).snapshot

    assert world.lake_rows(table, old.snapshot_id) == seen
    await compact(target_of(world, table), new, runner=LocalRunner(hw))
    assert world.lake_rows(table, old.snapshot_id) == seen
    await world.check(table)


async def test_20_a_reader_of_lake_and_log_sees_every_row_once_at_every_step(world):
    table = await world.table()
    await table.append(rows(*range(30)))
    counts = []

    async def read(_step: RoundStep) -> None:
        head = world.head(table) if world.has_lake_table(table) else None
        ends = await world.ends(table, head)
        tail = folded(await world.log(table, start=ends), table)
        held = world.lake_rows(table, head.snapshot_id) if head else tail - tail
        counts.append((sum((held + tail).values()), max((held + tail).values())))

    for turn in (1, 3):
        await world.tier(table, turn, watch=read)

    assert set(counts) == {(30, 1)}
