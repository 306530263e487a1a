"""Upkeep after rounds: as the options of a table ask for it, and never to the harm of a round."""

from pathlib import Path

import pytest

from headwater.errors import LakeUnreachableError
from headwater.runtime.clock import SystemClock
from headwater.tiering.plan import TieringSettings
from headwater.tiering.progress import TurnEnded, TurnFailed, UpkeepDone
from headwater.tiering.service import TieringService
from headwater.tiering.task import LocalRunner
from tests.tiering.shaky import Shaking
from tests.tiering.world import rows

COMPACTING = {"table.datalake.auto-compaction": True}
YEAR_MS = 365 * 24 * 3600 * 1000
EXPIRING = {"table.datalake.auto-expire-snapshot": True}


@pytest.fixture(params=["plain"])
def lake_format(request):
    return request.param


async def once(world, heard, **traits):
    await TieringService(
        world.hw, LocalRunner(world.hw), lakes=world.lakes, listener=heard.append, **traits
    ).run_once()


def last(heard, kind):
    return [each for each in heard if isinstance(each, kind)][-1]


async def rounds(world, table, heard, count=6):
    for number in range(count):
        await table.append(rows(*range(number * 3, number * 3 + 3)))
        await once(world, heard)


async def test_small_files_are_compacted_if_the_table_asks_for_it(world):
    table, heard = await world.table(buckets=1, options=COMPACTING), []

    await rounds(world, table, heard)

    head = await world.check(table)
    assert sum(each.files_rewritten for each in heard if isinstance(each, UpkeepDone)) > 0
    assert head.file_count < 6


async def test_nothing_is_compacted_unless_the_table_asks_for_it(world):
    table, heard = await world.table(buckets=1), []

    await rounds(world, table, heard)

    assert (await world.check(table)).file_count == 6


async def test_the_server_knows_the_snapshot_of_a_compaction(world, hw):
    table, heard = await world.table(buckets=1, options=COMPACTING), []

    await rounds(world, table, heard)

    known = await hw.lake.snapshot(table.path)
    head = await world.check(table)
    assert known.snapshot_id == head.snapshot_id
    assert last(heard, TurnEnded).report.snapshot == head


async def test_snapshots_expire_if_the_table_asks_for_it(world):
    table, heard = await world.table(buckets=1, options=EXPIRING), []

    await rounds(world, table, heard, count=3)

    assert last(heard, UpkeepDone).snapshots_dropped == 0
    await world.check(table)


async def test_upkeep_that_fails_does_not_fail_the_round(world):
    table, heard = await world.table(buckets=1, options=EXPIRING), []
    await table.append(rows(1))

    def vanish():
        raise LakeUnreachableError("The warehouse is gone.")

    world.lakes = Shaking(before_upkeep=vanish).over(world.lakes)
    await once(world, heard)

    assert last(heard, TurnFailed).is_upkeep
    assert last(heard, TurnEnded).report.row_count == 1


async def test_files_that_no_snapshot_names_are_removed_when_they_are_old(world):
    table, heard = await world.table(buckets=1, options=EXPIRING), []
    await table.append(rows(1))
    await once(world, heard)
    (held,) = world.files(table, world.head(table))
    orphan = Path(held).with_name("forgotten.parquet")
    orphan.write_bytes(b"nobody names this")

    await once(world, heard)
    assert orphan.exists()
    await once(world, heard, settings=TieringSettings(orphans_age_s=0.001))

    assert not orphan.exists()
    await world.check(table)


class LeapingClock(SystemClock):
    """Be a clock that somebody sets a year ahead."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


async def test_a_clock_that_leaps_ahead_makes_no_file_and_no_snapshot_old(world):
    table, heard = await world.table(buckets=1, options=EXPIRING), []
    clock = world.hw.cluster.clock = LeapingClock()
    service = TieringService(
        world.hw, LocalRunner(world.hw), lakes=world.lakes, listener=heard.append
    )
    await table.append(rows(1))
    await once(world, heard)
    await table.append(rows(2))
    file = Path(world.files(table, world.head(table))[0]).with_name("not_committed_yet.parquet")
    file.write_bytes(b"somebody is about to commit this")

    clock.ahead_ms = YEAR_MS
    await service.run_once()

    assert file.exists()
    assert last(heard, UpkeepDone).snapshots_dropped == 0


@pytest.mark.parametrize("lake_format", ["plain", "iceberg", "paimon"])
async def test_a_tierer_that_starts_with_its_clock_ahead_goes_by_that_of_the_server(world, caplog):
    table, heard = await world.table(buckets=1, options=EXPIRING), []
    await rounds(world, table, heard)
    count = len(world.snapshots(table))
    held = world.files(table, world.head(table))[0].removeprefix("file://")
    file = Path(held).with_name("not_committed_yet.parquet")
    file.write_bytes(b"somebody is about to commit this")
    await table.append(rows(2))

    clock = world.hw.cluster.clock = LeapingClock()
    clock.ahead_ms = YEAR_MS
    await once(world, heard)

    assert file.exists()
    assert len(world.snapshots(table)) > count
    assert last(heard, UpkeepDone).snapshots_dropped == 0
    assert "clock is ahead of the server" in caplog.text
