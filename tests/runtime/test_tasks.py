"""Tasks that run beside: none is lost, none fails in silence."""

import asyncio
import gc
import logging

import pytest

from headwater.runtime.clock import SystemClock
from headwater.runtime.tasks import Tasks, repeat, to_the_end


async def fail():
    raise ValueError("why")


async def for_ever():
    await asyncio.get_running_loop().create_future()


async def test_a_task_that_fails_is_reported_and_forgotten(caplog):
    tasks = Tasks()

    await asyncio.wait([tasks.start(fail(), name="doomed")])
    await tasks.stop()

    (reported,) = [each for each in caplog.records if each.message == "task failed"]
    assert reported.fields == {"task": "doomed"}
    assert reported.levelno == logging.ERROR
    assert len(tasks) == 0


async def test_finishing_waits_for_what_ends_and_cancels_the_rest():
    tasks, ended = Tasks(), []

    async def end():
        ended.append(True)

    tasks.start(end(), name="short")
    stuck = tasks.start(for_ever(), name="stuck")

    await tasks.finish(within_s=0.05)

    assert ended == [True]
    assert stuck.cancelled()
    assert len(tasks) == 0


async def test_a_step_that_fails_is_tried_again(caplog):
    class Clock(SystemClock):
        async def sleep(self, seconds):
            assert seconds == 5.0
            if len(steps) == 3:
                raise asyncio.CancelledError

    steps = []

    async def step():
        steps.append(len(steps))
        if len(steps) == 2:
            raise ValueError("why")

    with pytest.raises(asyncio.CancelledError):
        await repeat(step, every_s=5.0, clock=Clock(), name="chore")

    assert steps == [0, 1, 2]
    assert [each.message for each in caplog.records] == ["step failed"]


async def test_whoever_is_cancelled_again_and_again_still_waits_for_the_end_of_its_work():
    work = asyncio.get_running_loop().create_future()
    waiting = asyncio.get_running_loop().create_task(to_the_end(work))

    for _ in range(3):
        await asyncio.wait([waiting], timeout=0)
        waiting.cancel()
    await asyncio.wait([waiting], timeout=0)
    before = waiting.done()
    work.set_result(7)
    await asyncio.wait([waiting])

    assert not before
    assert waiting.cancelled()


async def test_work_that_fails_fails_whoever_waits_for_it():
    with pytest.raises(ValueError, match="why"):
        await to_the_end(asyncio.get_running_loop().create_task(fail()))


async def test_work_that_fails_after_its_waiter_was_cancelled_is_told_in_one_line(caplog):
    caplog.set_level(logging.INFO)
    loop = asyncio.get_running_loop()
    work, unheard = loop.create_future(), []
    loop.set_exception_handler(lambda _, context: unheard.append(context))
    waiting = loop.create_task(to_the_end(work))
    await asyncio.wait([waiting], timeout=0)
    waiting.cancel()
    await asyncio.wait([waiting], timeout=0)

    work.set_exception(ValueError("why"))
    await asyncio.wait([waiting])
    del work, waiting
    gc.collect()

    assert unheard == []
    assert [each.message for each in caplog.records] == ["failed after cancellation"]
