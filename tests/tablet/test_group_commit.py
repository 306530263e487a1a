"""How one sync serves many appends."""

import asyncio

import pytest

from headwater.errors import BucketFencedError
from headwater.tablet.group_commit import GroupCommit
from tests.tablet.support import FakeLog, HeldExecutor, ManualClock, fenced, settle


class Setting:
    def __init__(self) -> None:
        self.log = FakeLog()
        self.executor = HeldExecutor()
        self.clock = ManualClock()
        self.announced: list[int] = []
        self.commit = GroupCommit(
            self.log,
            self.executor,
            clock=self.clock,
            on_synced=lambda: self.announced.append(self.log.synced_offset),
        )

    async def write(self) -> asyncio.Task[None]:
        """Append one record and wait in the background until it is durable."""
        self.log.end_offset += 1
        waiting = self.commit.durable(self.log.end_offset)
        task = asyncio.get_running_loop().create_task(waiting)
        await settle()
        return task


@pytest.fixture
async def setting():
    return Setting()


async def test_a_writer_waits_until_its_record_is_durable(setting):
    waiter = await setting.write()
    assert not waiter.done()

    await setting.executor.run_next()

    assert waiter.done()
    assert setting.announced == [1]


async def test_one_sync_serves_all_that_wait_for_it(setting):
    first = await setting.write()
    others = [await setting.write() for _ in range(50)]

    await setting.executor.run_next()

    assert all(waiter.done() for waiter in (first, *others))
    assert setting.log.syncs == 1
    assert setting.executor.jobs == []


async def test_what_is_written_during_a_sync_waits_for_the_next(setting):
    first = await setting.write()
    setting.log.captured = 1
    second = await setting.write()

    await setting.executor.run_next()
    after_one = first.done(), second.done()
    setting.log.captured = None
    await setting.executor.run_next()

    assert after_one == (True, False)
    assert second.done()


async def test_what_is_durable_already_does_not_wait(setting):
    await setting.commit.durable(0)

    assert setting.executor.jobs == []


async def test_a_failed_sync_fails_all_that_wait_and_all_that_follow(setting):
    waiters = [await setting.write() for _ in range(3)]
    setting.log.failure = fenced()

    await setting.executor.run_next()

    for waiter in (*waiters, await setting.write()):
        with pytest.raises(BucketFencedError, match="disk failed"):
            await waiter
    assert setting.executor.jobs == []


async def test_an_unforeseen_error_leaves_nobody_waiting(setting):
    waiter = await setting.write()
    setting.log.failure = ZeroDivisionError()

    await setting.executor.run_next()

    with pytest.raises(BucketFencedError, match="ZeroDivisionError"):
        await waiter


async def test_a_writer_that_gives_up_disturbs_no_other(setting):
    first, second, third = [await setting.write() for _ in range(3)]

    second.cancel()
    await settle()
    await setting.executor.run_next()

    assert second.cancelled()
    assert (await first, await third) == (None, None)


async def test_when_the_only_writer_gives_up_the_next_one_is_served(setting):
    first = await setting.write()
    first.cancel()
    await settle()
    second = await setting.write()

    await setting.executor.run_next()

    assert second.done()


async def test_a_requested_sync_comes_after_a_short_delay(setting):
    setting.log.end_offset = 5

    for _ in range(3):
        setting.commit.request()
    await settle()

    assert [seconds for seconds, _ in setting.clock.sleepers] == [0.02]
    assert setting.executor.jobs == []
    await setting.clock.wake_all()
    await setting.executor.run_next()
    assert setting.log.synced_offset == 5


async def test_a_sync_requested_while_one_runs_is_not_forgotten(setting):
    await setting.write()
    setting.commit.request()
    await settle()
    await setting.clock.wake_all()
    setting.log.end_offset += 1

    await setting.executor.run_next()
    await setting.executor.run_next()

    assert setting.log.syncs == 2
    assert setting.executor.jobs == []


async def test_a_sync_that_somebody_waits_for_comes_at_once(setting):
    setting.log.end_offset = 5
    setting.commit.request()
    await settle()

    setting.commit.request(at_once=True)
    await setting.executor.run_next()

    assert setting.log.synced_offset == 5
    await setting.clock.wake_all()
    assert setting.executor.jobs == []  # the one that was planned has nothing left to do


async def test_a_sync_wanted_at_once_while_one_runs_follows_it(setting):
    await setting.write()
    setting.log.captured = 1
    setting.log.end_offset += 1
    setting.commit.request(at_once=True)

    await setting.executor.run_next()
    setting.log.captured = None
    await setting.executor.run_next()

    assert setting.log.synced_offset == 2
    assert setting.executor.jobs == []


async def test_a_checkpoint_follows_in_the_same_job_when_due(setting):
    setting.log.is_checkpoint_due = True
    waiter = await setting.write()

    await setting.executor.run_next()

    assert waiter.done()
    assert setting.log.checkpoints == 1


async def test_closing_waits_for_the_sync_that_runs(setting):
    waiter = await setting.write()
    closing = asyncio.get_running_loop().create_task(setting.commit.close())
    await settle()
    assert not closing.done()

    await setting.executor.run_next()

    assert waiter.done()
    await closing


async def test_closing_drops_a_planned_sync(setting):
    setting.commit.request()
    await settle()

    await setting.commit.close()
    setting.commit.request()

    assert setting.executor.jobs == []


@pytest.mark.parametrize("at_once", [True, False])
async def test_nothing_is_synced_after_closing(setting, at_once):
    await setting.commit.close()
    setting.log.end_offset += 1

    setting.commit.request(at_once=at_once)
    await settle()

    assert setting.executor.jobs == []
    assert setting.clock.sleepers == []
