"""Commits whose outcome nobody knows: looked for before they are tried again."""

from dataclasses import replace

import pytest

from headwater.errors import LakeCommitUnknownError, LakeMovedError, LakeUnreachableError
from headwater.tiering.commit import ATTEMPTS_MAX
from tests.tiering.shaky import Shaking, first_time, outcome_unknown
from tests.tiering.world import rows


def vanish():
    raise LakeUnreachableError("The warehouse is gone.")


@pytest.fixture
def shaking(world):
    shaking = Shaking()
    world.lakes = shaking.over(world.lakes)
    return shaking


async def test_10_a_commit_that_succeeded_unheard_is_not_made_twice(world, shaking):
    table = await world.table()
    await table.append(rows(*range(20)))
    shaking.after_commit = first_time(outcome_unknown)

    await world.tier(table, 1)

    head = await world.check(table)
    paths = world.files(table, head)
    assert shaking.commits == 1
    assert len(paths) == len(set(paths)) == head.file_count


@pytest.mark.parametrize("failure", [outcome_unknown, vanish])
async def test_10_a_commit_that_failed_unheard_is_made_in_the_end(world, shaking, failure):
    table = await world.keyed()
    await table.upsert(rows(*range(20)))
    shaking.before_commit = first_time(failure)

    await world.tier(table, 1)

    await world.check(table)
    assert shaking.commits == 2


async def test_10_rows_of_a_commit_that_nobody_knows_of_are_there_once_after_the_next_round(
    world, shaking, monkeypatch
):
    monkeypatch.setattr("headwater.tiering.commit.PAUSE_FIRST_S", 0.001)
    monkeypatch.setattr("headwater.tiering.commit.PAUSE_MAX_S", 0.001)
    table = await world.table()
    await table.append(rows(*range(20)))
    shaking.before_commit = outcome_unknown
    with pytest.raises(LakeCommitUnknownError):
        await world.tier(table, 1)
    assert shaking.commits == ATTEMPTS_MAX

    shaking.before_commit = lambda: None
    await world.tier(table, 2)

    await world.check(table)


async def test_10_a_foreign_snapshot_in_between_is_built_on(world, shaking):
    table = await world.table(buckets=1)
    await table.append(rows(1))
    await world.tier(table, 1)
    await table.append(rows(2))

    def carry_on():
        """Commit what a compaction would: other files, the same boundary."""
        committer = world.committer(table)
        head = committer.head()
        boundary = replace(head.boundary, round_id=head.boundary.round_id)
        committer.inner.commit([], boundary=boundary, on=head, properties={})
        raise LakeMovedError("Others were quicker.")

    shaking.before_commit = first_time(carry_on)
    await world.tier(table, 2)

    await world.check(table)
    assert len(world.snapshots(table)) == 3
