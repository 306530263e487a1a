"""Cursors on an Apache Fluss cluster: kept in one of its primary-key tables, with no help."""

import pytest_asyncio

from headwater.aio import connect
from tests.flows.cursor_members import (
    LEASE_S,
    check_killed_members,
    drain,
    make_table,
    rows,
    take,
)


@pytest_asyncio.fixture
async def client(fluss_bootstrap):
    async with await connect(fluss_bootstrap) as client:
        yield client


async def test_every_row_arrives_when_one_of_three_processes_is_killed(fluss_bootstrap, client):
    await check_killed_members(fluss_bootstrap, await make_table(client))


async def test_a_cursor_is_described_and_set_back(client):
    table = await make_table(client, buckets=2)
    await table.append(rows(1, 2, 3))
    async with table.cursor("kept", lease_s=LEASE_S) as cursor:
        assert await take(cursor, 3) == [1, 2, 3]
    assert (await client.cursors.describe("kept", table.path)).lag_rows == 0

    await client.cursors.reset("kept", table.path, to="earliest")

    state = await client.cursors.describe("kept", table.path)
    assert state.lag_rows == 3
    assert state.lag_s > 0
    async with table.cursor("kept", lease_s=LEASE_S) as cursor:
        assert await take(cursor, 3) == [1, 2, 3]


async def test_a_partition_that_comes_later_is_read_from_its_first_row(client):
    table = await make_table(client, buckets=1, partition_by="day")
    await table.append(rows(1, day="monday"))
    async with table.cursor("days", start="latest", lease_s=LEASE_S) as cursor:
        await table.append(rows(2, day="tuesday"))

        assert await take(cursor, 1) == [2]
        assert await drain(cursor) == []
