"""How lake tables stand."""

import pytest

from headwater.errors import LakeUnreachableError
from headwater.lake.lakes import Lakes
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange
from headwater.tiering.status import lake_status, waiting_offsets
from tests.tiering.values import bucket
from tests.tiering.world import rows


@pytest.fixture(params=["plain"])
def lake_format(request):
    return request.param


async def test_a_table_that_was_never_tiered_lags_by_all_its_rows(world, hw):
    table = await world.table()
    await table.append(rows(1, 2, 3))

    (status,) = await lake_status(hw, [table.path], lakes=world.lakes)

    assert status.is_enabled
    assert (status.snapshot, status.lag_rows) == (None, 3)
    assert status.lag_s is not None
    assert status.state is not None


async def test_a_table_lags_by_the_rows_that_the_lake_does_not_hold(world, hw):
    table = await world.keyed(buckets=1)
    await table.upsert(rows(1, 2, 3))
    report = await world.tier(table)
    (before,) = await lake_status(hw, [table.path], lakes=world.lakes)
    await table.upsert(rows(3, 4, text="b"))

    (after,) = await lake_status(hw, [table.path], lakes=world.lakes)

    assert (before.lag_rows, before.lag_s) == (0, 0.0)
    # An update is two changes in the log.
    assert after.lag_rows == 3
    assert after.snapshot == report.snapshot
    assert after.snapshot_age_s >= 0


async def test_a_lake_out_of_reach_is_told(world, hw):
    table = await world.table()

    def vanish(_name, _config):
        raise LakeUnreachableError("The warehouse is gone.")

    (status,) = await lake_status(hw, [table.path], lakes=Lakes(opener=vanish))

    assert isinstance(status.fault, LakeUnreachableError)
    assert status.lag_rows is None


def test_what_waits_begins_where_the_lake_ends_or_the_log_begins():
    logs = {
        bucket(0): OffsetRange(2, 9),
        bucket(1): OffsetRange(3, 5),
        bucket(2): OffsetRange(0, 4),
    }

    waiting = waiting_offsets(logs, {bucket(0): 4, bucket(2): 4})

    assert waiting == {bucket(0): OffsetRange(4, 9), LakeBucket(None, 1): OffsetRange(3, 5)}
