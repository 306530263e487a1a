"""Cursors on a real server: shared by processes, one of which is killed, and looked after."""

import asyncio
import os
from datetime import UTC, datetime

import pytest
import pytest_asyncio

from headwater.aio import connect
from headwater.errors import ConflictError, CursorLostError, MissingError
from headwater.read.offsets import Place
from tests.flows.cursor_members import (
    BUCKETS,
    LEASE_S,
    WITHIN_S,
    check_killed_members,
    drain,
    ids,
    make_table,
    rows,
    take,
)
from tests.serving import ServerProcess, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("cursors") / "data") as running:
        yield running


@pytest_asyncio.fixture
async def client(server):
    async with await connect(server.address) as client:
        yield client


@pytest_asyncio.fixture
async def table(client):
    return await make_table(client)


async def test_every_row_arrives_when_one_of_three_processes_is_killed(server, table):
    await check_killed_members(server.address, table)


@pytest.mark.torture
@pytest.mark.timeout(3600)
async def test_every_row_arrives_through_twenty_kills(server, table):
    await check_killed_members(server.address, table, kills=20)


async def test_a_group_goes_on_when_the_server_is_killed_and_started_again(tmp_path):
    server = ServerProcess(tmp_path / "data")
    async with await connect(server.address) as client:
        table = await make_table(client, buckets=2)
        async with table.cursor("steady", auto_commit=False, lease_s=LEASE_S) as cursor:
            await table.append(rows(1, 2))
            assert await take(cursor, 2) == [1, 2]
            await cursor.commit()
            await asyncio.to_thread(server.kill)
            server = await asyncio.to_thread(ServerProcess, tmp_path / "data", port=server.port)
            await table.append(rows(3, 4))

            assert await take(cursor, 2) == [3, 4]
            await cursor.commit()
        states = (await client.cursors.describe("steady", table.path)).places
    await asyncio.to_thread(server.stop)

    assert sum(state.position for state in states) == 4


async def test_a_cursor_begins_where_it_is_told_and_goes_on_from_there(client, table):
    await table.append(rows(1, 2, 3))
    async with table.cursor("news", start="latest", lease_s=LEASE_S) as cursor:
        await table.append(rows(4))
        assert await take(cursor, 1) == [4]
    await table.append(rows(5))

    async with table.cursor("news", start="earliest", lease_s=LEASE_S) as cursor:
        assert await take(cursor, 1) == [5]


async def test_columns_and_filters_narrow_what_a_cursor_gives(table):
    await table.append(rows(*range(10), day="monday"))
    where = [("id", ">=", 7)]
    async with table.cursor("few", columns=["id"], where=where, lease_s=LEASE_S) as cursor:
        batches = await cursor.poll(5.0)

        assert batches[0].rows.schema.names == ["id"]
        assert set(ids(batches) + await drain(cursor)) == {7, 8, 9}
        assert sum(cursor.positions.values()) == 10, "what was filtered out was read all the same"


async def test_describe_tells_who_reads_what_and_how_far_behind(client, table):
    await table.append(rows(*range(20)))
    async with table.cursor("seen", auto_commit=False, lease_s=LEASE_S) as cursor:
        before = await client.cursors.describe("seen", table.path)
        await drain(cursor)
        await cursor.commit()
        after = await client.cursors.describe("seen", table.path)

    assert (before.lag_rows, after.lag_rows) == (20, 0)
    assert 0 < before.lag_s < WITHIN_S
    assert after.lag_s == 0
    assert {place.owner for place in before.places} == {cursor.member}
    (member,) = after.members
    assert len(member.places) == BUCKETS
    assert str(os.getpid()) in member.note


async def test_list_tells_of_every_cursor(client, table):
    await table.append(rows(1, 2, 3))
    async with table.cursor("a.b", lease_s=LEASE_S) as cursor:
        await drain(cursor)
    async with table.cursor("c", auto_commit=False, lease_s=LEASE_S):
        listed = [each for each in await client.cursors.list() if each.table == table.path]

    assert [(each.name, each.members, each.lag_rows) for each in listed] == [
        ("a.b", 0, 0),
        ("c", 1, 3),
    ]


async def read_all(table, name: str) -> list[int]:
    async with table.cursor(name, lease_s=LEASE_S) as cursor:
        return await drain(cursor)


async def append_later(table, appended) -> datetime:
    """Append rows in another millisecond than those before, and return that moment."""
    clock = table.cluster.clock
    await clock.sleep(0.002)
    moment_ms = clock.now_ms()
    await table.append(appended)
    return datetime.fromtimestamp(moment_ms / 1000, UTC)


async def test_a_cursor_can_be_set_to_other_rows(client):
    table = await make_table(client, buckets=1)
    await table.append(rows(1, 2))
    between = await append_later(table, rows(3))
    assert await read_all(table, "again") == [1, 2, 3]

    results = []
    for to in ("earliest", "latest", between, {Place(None, 0): 1}, {0: 2}):
        await client.cursors.reset("again", table.path, to=to)
        results.append(await read_all(table, "again"))

    assert results == [[1, 2, 3], [], [3], [2, 3], [3]]


async def test_a_cursor_at_work_is_only_set_if_forced(client):
    table = await make_table(client, buckets=1)
    await table.append(rows(1, 2))
    async with table.cursor("busy", auto_commit=False, lease_s=LEASE_S) as cursor:
        await drain(cursor)
        with pytest.raises(ConflictError, match=cursor.member):
            await client.cursors.reset("busy", table.path, to="earliest")
        with pytest.raises(ConflictError):
            await client.cursors.delete("busy", table.path)

        await client.cursors.reset("busy", table.path, to="earliest", force=True)
        with pytest.raises(CursorLostError):
            await cursor.commit()

        assert await drain(cursor) == [1, 2]


async def test_a_deleted_cursor_is_gone(client, table):
    await read_all(table, "brief")

    await client.cursors.delete("brief", table.path)

    with pytest.raises(MissingError):
        await client.cursors.describe("brief", table.path)


async def test_partitions_come_and_go_while_a_cursor_reads(client):
    table = await make_table(client, buckets=2, partition_by="day")
    await table.append(rows(1, 2, day="monday"))
    async with table.cursor("days", start="latest", lease_s=LEASE_S) as cursor:
        await table.append(rows(3, 4, day="tuesday"))
        assert await take(cursor, 2) == [3, 4]
        await table.drop_partition({"day": "monday"})

        while {place.partition for place in cursor.assigned} != {"tuesday"}:
            await cursor.poll(0.1)
        await table.append(rows(5, day="monday"))

        assert await take(cursor, 1) == [5]
