"""A tierer that runs: which tables it takes, what it tells, and how it ends."""

import asyncio
import re
from contextlib import suppress

import pytest

from headwater.errors import (
    InvalidOptionError,
    LakeUnreachableError,
    TableMissingError,
    TieringFencedError,
)
from headwater.lake.lakes import Lakes
from headwater.model.path import TablePath
from headwater.tiering.plan import TieringSettings
from headwater.tiering.progress import Copied, TurnBegan, TurnEnded, TurnFailed, Waits
from headwater.tiering.service import TieringService
from headwater.tiering.task import LocalRunner
from tests.tiering.world import rows

QUICK = TieringSettings(poll_interval_s=0.01, heartbeat_interval_s=0.02)


@pytest.fixture(params=["plain"])
def lake_format(request):
    return request.param


class Stuck(LocalRunner):
    """Take tasks and never finish them."""

    def __init__(self, client):
        super().__init__(client)
        self.is_reached = asyncio.Event()

    async def run(self, tasks, *, report):
        self.is_reached.set()
        await asyncio.Event().wait()


class Reluctant(Stuck):
    """Take tasks, and when they are to end, take time for that."""

    def __init__(self, client):
        super().__init__(client)
        self.is_ending, self.may_end = asyncio.Event(), asyncio.Event()

    async def run(self, tasks, *, report):
        try:
            await super().run(tasks, report=report)
        finally:
            self.is_ending.set()
            await self.may_end.wait()


def service(world, heard=None, *, runner=None, settings=QUICK, lakes=None):
    return TieringService(
        world.hw,
        runner or LocalRunner(world.hw),
        settings=settings,
        lakes=lakes or world.lakes,
        listener=[].append if heard is None else heard.append,
    )


async def states(hw):
    answer = await hw.lake.heartbeat(list_states=True)
    return {state.path.table: state for state in answer.states}


def of(heard, kind):
    return {each.path.table: each for each in heard if isinstance(each, kind)}


async def test_once_tiers_every_lake_table_and_leaves_the_others_alone(world, hw):
    tables = [await world.table("a"), await world.keyed("b")]
    await tables[0].append(rows(1, 2, 3))
    await tables[1].upsert(rows(1, 2))
    other = await hw.create_table("other", {"id": "BIGINT"})
    await other.append([{"id": 1}])
    heard = []

    await service(world, heard).run_once()

    for table in tables:
        await world.check(table)
    assert {name: each.report.row_count for name, each in of(heard, TurnEnded).items()} == {
        "a": 3,
        "b": 2,
    }
    assert {each.state for each in (await states(hw)).values()} == {"scheduled"}


async def test_once_goes_on_until_a_table_is_tiered_to_its_end(world):
    table = await world.table(buckets=1)
    await table.append(rows(*range(10)))
    heard, settings = [], TieringSettings(rows_max=4)

    await service(world, heard, settings=settings).run_once()

    assert [each.report.row_count for each in heard if isinstance(each, TurnEnded)] == [4, 4, 2]
    await world.check(table)


async def test_once_takes_only_the_tables_that_are_named(world, hw):
    for name in ("a", "b"):
        await (await world.table(name)).append(rows(1))
    heard = []

    await service(world, heard).run_once(tables=[TablePath("fluss", "b")])

    assert set(of(heard, TurnBegan)) == {"b"}


async def test_once_says_why_a_table_that_is_named_is_not_tiered(world, hw):
    await hw.create_table("plain", {"id": "BIGINT"})
    named = [TablePath("fluss", "plain"), TablePath("fluss", "nowhere")]
    heard = []

    await service(world, heard).run_once(tables=named)

    failed = of(heard, TurnFailed)
    assert isinstance(failed["plain"].fault, InvalidOptionError)
    assert isinstance(failed["nowhere"].fault, TableMissingError)


async def test_one_bad_table_does_not_stop_the_others(world, hw):
    tables = [await world.table(name) for name in ("a", "b", "c")]
    for table in tables:
        await table.append(rows(1))
    opener, opened = world.lakes.opener, []

    def open_lake(name, config):
        opened.append(name)
        if len(opened) == 1:
            raise LakeUnreachableError("The warehouse cannot be reached.")
        return opener(name, config)

    heard = []
    await service(world, heard, lakes=Lakes(opener=open_lake)).run_once()

    (bad,) = of(heard, TurnFailed)
    assert len(of(heard, TurnEnded)) == 2
    state = (await states(hw))[bad]
    assert (state.state, state.failures) == ("failed", 1)
    assert state.last_failure == "LakeUnreachableError: The warehouse cannot be reached."


async def test_a_round_ends_when_the_server_takes_the_table_away(world, hw):
    table = await world.table()
    await table.append(rows(1))
    heard, runner = [], Stuck(hw)
    work = asyncio.create_task(service(world, heard, runner=runner).run_once())
    await runner.is_reached.wait()

    await table.set_options({"table.datalake.enabled": False})
    await work

    assert isinstance(of(heard, TurnFailed)["t"].fault, TieringFencedError)
    assert world.head(table) is None


async def test_a_tierer_that_is_cancelled_while_a_lost_round_ends_does_not_go_on(world, hw):
    table = await world.table()
    await table.append(rows(1))
    runner = Reluctant(hw)
    work = asyncio.create_task(service(world, runner=runner).run_once())
    await runner.is_reached.wait()
    await table.set_options({"table.datalake.enabled": False})
    await runner.is_ending.wait()

    work.cancel()
    runner.may_end.set()

    with pytest.raises(asyncio.CancelledError):
        await work


async def test_a_tierer_that_is_cancelled_gives_its_table_back(world, hw):
    table = await world.table()
    await table.append(rows(1))
    runner = Stuck(hw)
    work = asyncio.create_task(service(world, runner=runner).run_once())
    await runner.is_reached.wait()

    work.cancel()
    with suppress(asyncio.CancelledError):
        await work
    await service(world).run_once()

    await world.check(table)
    assert (await states(hw))["t"].failures == 0


async def test_one_who_tiers_all_once_waits_for_what_others_hold(world, hw):
    table = await world.table()
    await table.append(rows(1))
    runner = Stuck(hw)
    other = asyncio.create_task(service(world, runner=runner).run_once())
    await runner.is_reached.wait()

    work = asyncio.create_task(service(world).run_once())
    await asyncio.wait([work], timeout=3 * QUICK.poll_interval_s)
    is_waiting = not work.done()
    other.cancel()
    await work

    assert is_waiting
    await world.check(table)


async def test_a_tierer_that_is_stopped_ends_after_its_round(world, hw):
    for name in ("a", "b"):
        await (await world.table(name)).append(rows(1))
    heard = []

    def listen(news):
        heard.append(news)
        if isinstance(news, TurnBegan):
            running.stop()

    running = TieringService(
        hw, LocalRunner(hw), settings=QUICK, lakes=world.lakes, listener=listen
    )
    await running.run_once()

    assert len(of(heard, TurnEnded)) == 1


async def test_a_running_tierer_takes_what_becomes_due(world, hw):
    table = await world.table(options={"table.datalake.freshness": "1 ms"})
    ended = asyncio.Queue()
    running = TieringService(
        hw,
        LocalRunner(hw),
        settings=QUICK,
        lakes=world.lakes,
        listener=lambda news: isinstance(news, TurnEnded) and ended.put_nowait(news),
    )
    work = asyncio.create_task(running.run())

    for number in range(3):
        await table.append(rows(number))
        while not (await ended.get()).report.tiered:
            pass
    running.stop()
    await work

    await world.check(table)
    assert sum(world.lake_rows(table).values()) == 3


async def test_a_tierer_that_has_nothing_to_do_says_what_it_waits_for(world, hw):
    heard = []

    def listen(news):
        if isinstance(news, Waits):
            heard.append(news)
            running.stop()

    for settled in (False, True):
        if settled:
            table = await world.table("a", options={"table.datalake.freshness": "1 h"})
            await table.append(rows(1))
            await service(world).run_once()
        before_ms = hw.cluster.clock.now_ms()
        running = TieringService(
            hw, LocalRunner(hw), settings=QUICK, lakes=world.lakes, listener=listen
        )
        await running.run()
        assert heard[-1].until_ms >= before_ms

    assert "no table has a lake" in heard[0].reason
    assert re.search(rf"all tables are fresh; {table.path} is due in 3[56]\d\d s", heard[-1].reason)


async def test_two_tierers_side_by_side_hold_every_row_once(world, hw):
    tables = [
        await world.table(name, options={"table.datalake.freshness": "1 ms"})
        for name in ("a", "b", "c")
    ]
    running = [service(world) for _ in range(2)]
    works = [asyncio.create_task(each.run()) for each in running]

    for number in range(20):
        for table in tables:
            await table.append(rows(*range(number * 5, number * 5 + 5)))
    for each in running:
        each.stop()
    await asyncio.gather(*works)
    await service(world).run_once()

    for table in tables:
        await world.check(table)
        assert sum(world.lake_rows(table).values()) == 100


async def test_tasks_are_counted_while_they_run(world):
    table = await world.table(buckets=3)
    await table.append(rows(*range(60)))
    heard = []

    await service(world, heard).run_once()

    counts = [(each.tasks_done, each.tasks) for each in heard if isinstance(each, Copied)]
    assert counts == [(n, counts[-1][1]) for n in range(1, counts[-1][1] + 1)]
    assert of(heard, Copied)["t"].rows == 60


async def test_turns_with_nothing_to_do_leave_no_snapshots_behind(world):
    table = await world.table(buckets=1)
    await table.append(rows(1))
    for _ in range(4):
        await service(world).run_once(tables=[table.path])

    await table.append(rows(2))
    await service(world).run_once(tables=[table.path])

    assert len(world.snapshots(table)) == 2
    await world.check(table)
