"""Rounds whose tasks run on Spark."""

import pytest

from headwater.errors import LakeUnreachableError
from headwater.lake.lakes import Lakes
from headwater.tiering.upkeep import compact
from tests.engines.spark.tiering.deadly_lake import DeadlyLake, Moment
from tests.lake.formats import config_of
from tests.tiering.world import rows

DATED = {"id": "BIGINT", "text": "STRING", "day": "STRING"}


async def test_every_row_of_a_log_comes_to_the_lake_once(world, runner):
    table = await world.table()

    for number in range(1, 4):
        await table.append(rows(*range(100 * number, 100 * number + 50)))
        await world.tier(table, number, runner=runner)

    await world.check(table)
    assert world.lake_rows(table).total() == 150


async def test_a_keyed_lake_table_is_what_its_changes_make_of_it(world, runner):
    table = await world.keyed()
    await table.upsert(rows(*range(50)))
    await world.tier(table, 1, runner=runner)
    await table.upsert(rows(*range(25, 75), text="b"))
    await table.delete([{"id": 3}, {"id": 30}])

    report = await world.tier(table, 2, runner=runner)

    await world.check(table)
    assert world.lake_rows(table).total() == 73
    assert report.rows_left == 0


async def test_partitions_are_tiered_side_by_side(world, runner):
    table = await world.table(schema=DATED, partition_by="day", buckets=2)
    for day in ("20261114", "20261115", "20261116"):
        await table.append([{"id": n, "text": "a", "day": day} for n in range(20)])
    done = []

    report = await world.tier(table, runner=Reporting(runner, done))

    await world.check(table)
    assert len(done) == len(report.tiered) >= 3
    assert world.lake_rows(table).total() == 60


async def test_files_are_compacted_by_workers(world, runner):
    table = await world.table(buckets=1)
    for number in range(1, 8):
        await table.append(rows(number))
        report = await world.tier(table, number, runner=runner)

    _, files = await compact(report.target, report.snapshot, runner=runner)

    await world.check(table)
    assert files >= 2


class Reporting:
    """Note what a runner reports."""

    def __init__(self, runner, done):
        self._runner = runner
        self._done = done

    async def run(self, tasks, *, report):
        def note(each):
            self._done.append(each.task.split)
            report(each)

        return await self._runner.run(tasks, report=note)


def deadly(lake_format, tmp_path, moment):
    """Return a lake whose writers die once, or fail each time."""
    config = config_of(lake_format, tmp_path / "lake")
    return Lakes(opener=lambda name, _config: DeadlyLake(name, config, moment, tmp_path / "mark"))


@pytest.mark.parametrize("moment", Moment)
async def test_a_worker_that_dies_is_replaced(world, runner, tmp_path, moment):
    table = await world.keyed()
    await table.upsert(rows(*range(50)))
    world.lakes = deadly(world.format, tmp_path, moment)

    await world.tier(table, runner=runner)

    assert (tmp_path / "mark").exists()
    await world.check(table)


async def test_what_is_wrong_in_a_worker_is_told_in_our_words(world, runner, tmp_path):
    table = await world.table()
    await table.append(rows(*range(50)))
    world.lakes = deadly(world.format, tmp_path, None)

    with pytest.raises(LakeUnreachableError) as fault:
        await world.tier(table, runner=runner)

    assert str(fault.value) == "The warehouse is gone."
    assert "Check the address" in fault.value.hint
