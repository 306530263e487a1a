"""A loop in a thread of its own, for callers that do not await."""

import asyncio
import gc
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from headwater.errors import ClosedError
from headwater.runtime.loops import LoopThread, keep_from_collections
from tests.clocks import loop_turns


@pytest.fixture
def loop():
    thread = LoopThread("test")
    yield thread
    thread.close()


async def double(number):
    await loop_turns()
    return 2 * number


async def fail():
    raise KeyError("inside")


def test_a_coroutine_runs_elsewhere_and_its_result_comes_back(loop):
    async def where():
        return threading.current_thread().name

    assert loop.run(double(21)) == 42
    assert loop.run(where()) == "test"


def test_what_a_coroutine_raises_is_raised_to_the_caller(loop):
    with pytest.raises(KeyError, match="inside"):
        loop.run(fail())


def test_many_threads_may_share_it(loop):
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda number: loop.run(double(number)), range(200)))

    assert results == [2 * number for number in range(200)]


def test_a_call_from_its_own_thread_is_refused_instead_of_waiting_for_itself(loop):
    async def call_back():
        return loop.run(double(1))

    with pytest.raises(ClosedError, match="own thread"):
        loop.run(call_back())


def test_a_closed_loop_says_so():
    loop = LoopThread("test")
    loop.close()
    loop.close()

    with pytest.raises(ClosedError, match="closed"):
        loop.run(double(1))
    assert not loop.is_open


def test_closing_ends_what_still_runs():
    loop = LoopThread("test")
    cancelled = threading.Event()

    async def wait():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def start():
        return asyncio.get_running_loop().create_task(wait())

    task = loop.run(start())
    loop.close()

    assert cancelled.is_set()
    assert task.cancelled()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_forked_child_is_told_that_it_has_no_loop(loop):
    child = os.fork()
    if child == 0:
        try:
            loop.run(double(1))
        except ClosedError as fault:
            os._exit(0 if "fork" in str(fault) else 1)
        os._exit(2)

    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0


async def test_a_loop_can_be_closed_where_another_one_runs():
    loop = LoopThread("test")

    loop.close()

    assert not loop.is_open


def test_whoever_waits_is_told_when_the_loop_is_closed_meanwhile():
    loop = LoopThread("test")
    waiting = threading.Event()

    async def wait():
        waiting.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as threads:
        outcome = threads.submit(loop.run, wait())
        waiting.wait()
        loop.close()

        with pytest.raises(ClosedError, match="in the meantime"):
            outcome.result()


def test_work_can_be_begun_without_waiting_even_from_inside(loop):
    done = threading.Event()

    async def finish():
        done.set()

    async def begin():
        loop.start(finish())

    loop.run(begin())

    assert done.wait(10)


def test_work_that_comes_too_late_is_let_go():
    loop = LoopThread("test")
    loop.close()

    loop.start(double(1))


def test_what_stays_is_kept_from_collections():
    made = [{} for _ in range(1000)]

    keep_from_collections()
    looked_at = {id(each) for each in gc.get_objects()}
    gc.unfreeze()

    assert looked_at.isdisjoint(map(id, made))
