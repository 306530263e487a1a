"""A wire that trickles, delays, and cuts in the middle of frames: rows come once or not at all."""

import asyncio
import itertools
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from headwater.aio import connect
from headwater.config.client import ClientSettings
from headwater.errors import RetryLaterError
from tests import figures
from tests.serving import ServerProcess
from tests.torture.proxy import Proxy

ROWS = 8
ROUNDS_TORTURE = 100
DELAY_S = 60.0


@asynccontextmanager
async def behind_proxy(directory, **limits):
    """Give a proxy, a table behind it, and the same table reached without it."""
    async with AsyncExitStack() as stack:
        proxy = Proxy(0)
        await stack.enter_async_context(proxy)
        server = await asyncio.to_thread(
            ServerProcess, directory, "--advertise", f"127.0.0.1:{proxy.port}"
        )
        stack.callback(server.stop)
        proxy._port = server.port
        limits = {"deadline_s": 60.0, "request_timeout_s": 5.0} | limits
        client = await connect(f"127.0.0.1:{proxy.port}", settings=ClientSettings(**limits))
        await stack.enter_async_context(client)
        table = await client.create_table("wired", {"value": "BIGINT"}, buckets=1)
        yield proxy, table


async def check(table, acked: list[int], unknown: list[int]) -> None:
    """Check that acked rows are there once and in order, and unknown ones at most once."""
    rows = (await table.scan().to_arrow())["value"].to_pylist()
    counts = Counter(rows)
    assert max(counts.values()) == 1, "a row is there twice"
    assert [value for value in rows if value in set(acked)] == acked
    assert set(rows) <= {*acked, *unknown}


async def test_bytes_that_come_one_by_one_are_the_same_bytes(tmp_path):
    async with behind_proxy(tmp_path / "data", request_timeout_s=30.0) as (proxy, table):
        proxy.wire.piece_bytes = 1

        for value in range(3):
            await table.append([(value,)])

        await check(table, list(range(3)), [])


async def test_rows_are_written_once_through_a_wire_that_cuts_frames(tmp_path):
    await write_through_cuts(tmp_path / "data", rows=ROWS)


async def write_through_cuts(directory, *, rows: int) -> None:
    async with behind_proxy(directory) as (proxy, table):
        sizes = itertools.cycle((300, 700, 1_100, 1_900))
        for value in range(rows):
            proxy.wire.cut_after_bytes = next(sizes)
            await table.append([(value,)])
        assert proxy.cuts
        proxy.wire.cut_after_bytes = None
        await check(table, list(range(rows)), [])


async def test_an_answer_that_never_comes_is_an_error_in_time_and_no_second_row(tmp_path):
    async with behind_proxy(tmp_path / "data", deadline_s=2.0, request_timeout_s=0.7) as (
        proxy,
        table,
    ):
        await table.append([(0,)])
        proxy.wire.swallows_answers = True

        with pytest.raises(RetryLaterError):
            await asyncio.wait_for(table.append([(1,)]), timeout=20)
        proxy.wire.swallows_answers = False
        proxy.cut()
        await table.append([(2,)])

        await check(table, [0, 2], [1])


@pytest.mark.torture
@pytest.mark.timeout(900)
async def test_many_rows_are_written_once_through_a_wire_that_cuts_frames(tmp_path):
    await write_through_cuts(tmp_path / "data", rows=ROUNDS_TORTURE)

    figures.note("network", rounds=ROUNDS_TORTURE)


@pytest.mark.torture
@pytest.mark.timeout(900)
async def test_answers_that_take_a_minute_come_too_late_and_nothing_is_written_twice(tmp_path):
    async with behind_proxy(tmp_path / "data", deadline_s=20.0) as (proxy, table):
        await table.append([(0,)])
        proxy.wire.delay_s = DELAY_S

        with pytest.raises(RetryLaterError):
            await table.append([(1,)])
        proxy.wire.delay_s = 0.0
        proxy.cut()
        await table.append([(2,)])
        await asyncio.sleep(DELAY_S + 5)  # what was on its way arrives now

        await check(table, [0, 2], [1])
    figures.note("network", rounds=1)
