"""A wire that trickles, delays, and cuts in the middle of frames: rows come once or not at all."""

import asyncio
import itertools
from collections import Counter
from contextlib import asynccontextmanager

import pytest
from scripts.fluss_layout import free_ports

from headwater.aio import connect
from headwater.config.client import ClientSettings
from headwater.errors import RetryLaterError
from tests import figures
from tests.serving import serving
from tests.torture.proxy import Proxy

ROWS = 8
ROUNDS_TORTURE = figures.times(50)
DELAY_S = 60.0
_numbers = itertools.count()


@pytest.fixture(scope="module")
def wired(tmp_path_factory):
    """Give the ports of a proxy to come, and of a server that tells clients to use it."""
    (port,) = free_ports(1)
    directory = tmp_path_factory.mktemp("wire") / "data"
    with serving(directory, "--advertise", f"127.0.0.1:{port}") as server:
        yield port, server.port


@asynccontextmanager
async def behind_proxy(wired, **limits):
    """Give a proxy, and a table behind it."""
    port, server_port = wired
    limits = {"deadline_s": 60.0, "request_timeout_s": 5.0} | limits
    address = f"127.0.0.1:{port}"
    async with (
        Proxy(port, server_port) as proxy,
        await connect(address, settings=ClientSettings(**limits)) as client,
    ):
        yield proxy, await client.create_table(f"wired_{next(_numbers)}", {"value": "BIGINT"})


async def check(table, acked: list[int], unknown: list[int]) -> None:
    """Check that acked rows are there once and in order, and unknown ones at most once."""
    rows = (await table.scan().to_arrow())["value"].to_pylist()
    counts = Counter(rows)
    assert max(counts.values()) == 1, "a row is there twice"
    assert [value for value in rows if value in set(acked)] == acked
    assert set(rows) <= {*acked, *unknown}


async def test_bytes_that_come_one_by_one_are_the_same_bytes(wired):
    async with behind_proxy(wired, request_timeout_s=30.0) as (proxy, table):
        proxy.wire.piece_bytes = 1

        for value in range(3):
            await table.append([(value,)])

        await check(table, list(range(3)), [])


async def test_rows_are_written_once_through_a_wire_that_cuts_frames(wired):
    await write_through_cuts(wired, rows=ROWS)


async def write_through_cuts(wired, *, rows: int) -> None:
    async with behind_proxy(wired) as (proxy, table):
        sizes = itertools.cycle((300, 700, 1_100, 1_900))
        for value in range(rows):
            proxy.wire.cut_after_bytes = next(sizes)
            await table.append([(value,)])
        assert proxy.cuts
        proxy.wire.cut_after_bytes = None
        await check(table, list(range(rows)), [])


async def test_an_answer_that_never_comes_is_an_error_in_time_and_no_second_row(wired):
    async with behind_proxy(wired, deadline_s=2.0, request_timeout_s=0.7) as (
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
async def test_many_rows_are_written_once_through_a_wire_that_cuts_frames(wired):
    await write_through_cuts(wired, rows=ROUNDS_TORTURE)

    figures.note("network", rounds=ROUNDS_TORTURE)


@pytest.mark.torture
@pytest.mark.timeout(900)
async def test_answers_that_take_a_minute_come_too_late_and_nothing_is_written_twice(wired):
    async with behind_proxy(wired, deadline_s=20.0) as (proxy, table):
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
