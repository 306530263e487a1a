"""The loop that a seed drives."""

import asyncio
import random

import pytest

from tests.simulation.loop import Fuse, SimExecutor, SimLoop, StuckError


@pytest.fixture
def loop():
    loop = SimLoop(random.Random(1), steps_max=10_000, work_s=0.05)
    yield loop
    loop.bury()
    loop.close()


def test_hours_pass_in_no_time(loop):
    async def sleep() -> float:
        await asyncio.sleep(3600)
        return loop.time()

    assert loop.run_until_complete(sleep()) == 3600


def test_nothing_of_a_killed_process_runs_again(loop):
    seen = []
    process = loop.process("victim")

    async def victim() -> None:
        try:
            while True:
                seen.append(loop.time())
                await asyncio.sleep(1)
        finally:
            seen.append("unwound")

    loop.start_in(process, victim())
    loop.run_until_complete(asyncio.wait_for(asyncio.sleep(2.5), None))
    process.kill()
    loop.run_until_complete(asyncio.sleep(10))

    assert seen == [0, 1, 2]


def test_a_paused_process_goes_on_where_it_was(loop):
    seen = []
    process = loop.process("sleeper")

    async def sleeper() -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            seen.append(loop.time())

    loop.start_in(process, sleeper())
    process.is_paused = True
    loop.call_later(5, setattr, process, "is_paused", False)
    loop.run_until_complete(asyncio.sleep(10))

    assert seen == [6, 7, 8]


def test_handles_of_one_process_keep_their_order_and_those_of_two_do_not(loop):
    seen = []
    for name in ("a", "b"):
        process = loop.process(name)
        for number in range(20):
            loop.call_in(process, 1.0, seen.append, (name, number))

    loop.run_until_complete(asyncio.sleep(2))

    assert [number for name, number in seen if name == "a"] == list(range(20))
    assert [name for name, _ in seen] not in (["a"] * 20 + ["b"] * 20, ["b"] * 20 + ["a"] * 20)


def test_work_for_threads_ends_in_an_order_that_is_drawn(loop):
    seen = []
    executor = SimExecutor(loop)

    async def work() -> None:
        for number in range(10):
            executor.submit(seen.append, number)
        await asyncio.gather(*(asyncio.to_thread(seen.append, number) for number in range(10, 20)))
        await asyncio.sleep(1)

    loop.run_until_complete(work())

    assert sorted(seen) == list(range(20)) != seen


def test_those_who_all_wait_for_each_other_are_found_out(loop):
    with pytest.raises(StuckError, match="waits"):
        loop.run_until_complete(loop.create_future())


def test_those_who_never_rest_are_found_out(loop):
    def again() -> None:
        loop.call_soon(again)

    again()
    with pytest.raises(StuckError, match="10000 steps"):
        loop.run_until_complete(loop.create_future())


def test_a_fuse_strikes_between_two_handles_though_more_are_ready(loop):
    seen = []
    process = loop.process("victim")
    for number in range(5):
        loop.call_in(process, 1.0, seen.append, number)
    process.fuse = Fuse(3, process.kill)

    loop.run_until_complete(asyncio.sleep(2))

    assert seen == [0, 1]


def test_what_nobody_asked_after_is_told_of_those_who_live(loop):
    async def fail() -> None:
        raise ValueError("forgotten")

    processes = {name: loop.process(name) for name in ("dead", "alive")}
    for process in processes.values():
        loop.start_in(process, fail())
        loop.call_in(process, 1.0, "not to be called")
    loop.run_until_complete(asyncio.sleep(0.5))
    processes["dead"].kill()
    loop.run_until_complete(asyncio.sleep(1))

    told = loop.untold()
    assert all(each.startswith("alive: ") for each in told)
    assert [("forgotten" in each, "not callable" in each) for each in told] == [
        (False, True),
        (True, False),
    ]
