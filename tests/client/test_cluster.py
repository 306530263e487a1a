"""The servers behind a client: found, lost, found again."""

import asyncio
from dataclasses import replace

import pytest

from headwater import aio
from headwater.config.client import ClientSettings
from headwater.config.server import ServerSettings
from headwater.errors import (
    AuthenticationError,
    ClosedError,
    LeaderMissingError,
    PartitionMissingError,
    ServerUnreachableError,
    TableMissingError,
    TimedOutError,
)
from headwater.model.bucket import TableBucket
from headwater.server.logins import Users
from headwater.server.server import Server
from headwater.wire.apis import ApiKey
from tests.clocks import loop_turns

QUICK = ClientSettings(deadline_s=0.5, connect_timeout_s=0.5, backoff_first_s=0.01)


async def started(directory, port=0, **parts):
    return await Server.start(directory, ServerSettings(host="127.0.0.1", port=port), **parts)


@pytest.fixture
async def server(tmp_path):
    running = await started(tmp_path / "data")
    yield running
    await running.stop()


async def test_a_server_among_several_addresses_is_enough(server):
    dead = await started_and_stopped_port()

    async with await aio.connect(f"127.0.0.1:{dead},127.0.0.1:{server.port}") as client:
        assert await client.list_databases() == ["fluss"]


async def started_and_stopped_port():
    listener = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    listener.close()
    await listener.wait_closed()
    return port


async def test_a_refused_connection_is_told_at_once_with_what_to_start():
    port = await started_and_stopped_port()
    endless = replace(QUICK, connect_timeout_s=3600.0)

    for host in ("127.0.0.1", "localhost"):
        told = f"{host}:{port}: Connection refused"
        with pytest.raises(ServerUnreachableError, match=told) as caught:
            await aio.connect(f"{host}:{port}", settings=endless)
        assert f"headwater serve ./data --port {port}" in caught.value.hint
    with pytest.raises(ServerUnreachableError, match=r"no host 'nowhere\.invalid'"):
        await aio.connect("nowhere.invalid:9123", settings=endless)


async def test_who_waits_for_a_server_finds_one_that_starts_later(tmp_path):
    port = await started_and_stopped_port()
    waiting = replace(QUICK, connect_timeout_s=60.0, waits_for_server=True)

    connecting = asyncio.create_task(aio.connect(f"127.0.0.1:{port}", settings=waiting))
    await asyncio.wait([connecting], timeout=0.1)
    assert not connecting.done()
    server = await Server.start(tmp_path / "data", ServerSettings(port=port))

    async with await connecting as client:
        assert await client.list_databases() == ["fluss"]
    await server.stop()


async def test_waiting_for_nobody_ends_with_the_reason():
    port = await started_and_stopped_port()

    with pytest.raises(TimedOutError, match=f"127.0.0.1:{port}.*Connection refused") as caught:
        await aio.connect(f"127.0.0.1:{port}", settings=replace(QUICK, waits_for_server=True))

    assert "that the server is running" in str(caught.value.hint)


async def test_a_server_that_asks_for_a_password_gets_it(tmp_path):
    users = Users.load(tmp_path / "users").with_user("ada", "secret")
    server = await started(tmp_path / "data", users=users)
    address = f"127.0.0.1:{server.port}"

    async with await aio.connect(address, user="ada", password="secret") as client:
        assert await client.list_databases() == ["fluss"]
    for wrong in ({"user": "ada", "password": "guess"}, {}):
        with pytest.raises(AuthenticationError):
            await aio.connect(address, **wrong)

    await server.stop()


async def test_a_client_goes_on_after_its_server_was_started_again(tmp_path):
    server = await started(tmp_path / "data")
    port = server.port
    async with await aio.connect(f"127.0.0.1:{port}") as client:
        table = await client.create_table("t", {"id": "INT"}, primary_key="id")
        await table.upsert({"id": 1})
        await server.stop()
        again = await started(tmp_path / "data", port=port)

        await table.upsert({"id": 2})

        assert await table.count() == 2
    await again.stop()


async def test_a_server_that_stays_away_ends_in_time(tmp_path):
    server = await started(tmp_path / "data")
    async with await aio.connect(f"127.0.0.1:{server.port}", settings=QUICK) as client:
        table = await client.create_table("t", {"id": "INT"}, primary_key="id")
        await server.stop()

        for attempt in (
            table.upsert({"id": 1}),
            table.get({"id": 1}),
            table.count(),
            table.scan().to_arrow(),
            client.list_databases(),
        ):
            with pytest.raises(TimedOutError):
                await attempt


async def test_a_dropped_table_is_told_at_once(server):
    async with await aio.connect(f"127.0.0.1:{server.port}") as client:
        table = await client.create_table("t", {"id": "INT"}, primary_key="id")
        await table.upsert({"id": 1})
        await client.drop_table("t")

        for attempt in (table.upsert({"id": 2}), table.get({"id": 1}), table.count()):
            with pytest.raises(TableMissingError):
                await attempt


async def test_a_table_made_anew_is_not_taken_for_the_old_one(server):
    async with await aio.connect(f"127.0.0.1:{server.port}") as client:
        old = await client.create_table("t", {"id": "INT"}, primary_key="id")
        await old.upsert({"id": 1})
        await client.drop_table("t")
        new = await client.create_table("t", {"id": "INT"}, primary_key="id")

        with pytest.raises(TableMissingError, match="dropped"):
            await old.upsert({"id": 2})

        assert await new.count() == 0


async def partitioned(client):
    table = await client.create_table("p", {"day": "STRING", "id": "INT"}, partition_by="day")
    await table.append({"day": "monday", "id": 1})
    partition_id = await client.cluster.partition_id(table.info, "monday")
    return table, TableBucket(table.info.table_id, 0, partition_id)


async def test_a_dropped_partition_is_told_at_once(server):
    async with await aio.connect(f"127.0.0.1:{server.port}") as client:
        table, bucket = await partitioned(client)
        await table.drop_partition({"day": "monday"})
        client.cluster.stale(bucket)

        with pytest.raises(PartitionMissingError):
            await client.cluster.leader(bucket)


async def test_a_partition_that_only_the_coordinator_knows_yet_is_waited_for(tmp_path):
    async with await aio.open(tmp_path / "data") as client:
        _, bucket = await partitioned(client)
        client.cluster._pool = Slow(client.cluster._pool)
        client.cluster.stale(bucket)

        with pytest.raises(LeaderMissingError, match="yet"):
            await client.cluster.leader(bucket)

        assert await client.cluster.leader(bucket) == 0


class Slow:
    """Be a server that hears of a partition late, as those of a cluster may."""

    def __init__(self, pool):
        self._pool = pool
        self.reached = ()
        self.has_heard = False

    async def link(self, address):
        self._link = await self._pool.link(address)
        return self

    async def exchange(self, api, parts, *, timeout_s):
        if api.key is ApiKey.GET_METADATA and not self.has_heard:
            self.has_heard = True
            raise PartitionMissingError("There is no such partition.")
        return await self._link.exchange(api, parts, timeout_s=timeout_s)

    async def close(self):
        await self._pool.close()


async def test_scans_that_are_cancelled_while_they_begin_leave_nothing_on_the_server(server):
    scanners = server._services.scanners
    settings = ClientSettings(state_scan_bytes_max=100)
    async with await aio.connect(f"127.0.0.1:{server.port}", settings=settings) as client:
        table = await client.create_table("t", {"id": "INT"}, primary_key="id")
        await table.upsert([{"id": number} for number in range(1000)])

        for turns in range(40):
            reading = asyncio.create_task(table.scan().to_arrow())
            await loop_turns(turns)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            assert len(scanners) == 0, f"cancelled after {turns} turns"

        assert await table.scan(limit=3).to_arrow()


async def test_new_columns_are_waited_for_where_a_server_hears_of_them_late(tmp_path):
    async with await aio.open(tmp_path / "data") as client:
        table = await client.create_table("t", {"id": "INT"})
        current, stale = client.cluster.table, [table.info, table.info]

        async def late(path):
            return stale.pop() if stale else await current(path)

        client.cluster.table = late
        await table.add_column("text", "STRING")

        assert table.schema.names == ["id", "text"]


async def test_a_closed_client_says_so(server):
    client = await aio.connect(f"127.0.0.1:{server.port}")
    table = await client.create_table("t", {"id": "INT"})
    await client.close()
    await client.close()

    with pytest.raises(ClosedError):
        await client.list_databases()
    with pytest.raises(ClosedError):
        await table.append({"id": 1})


async def test_many_callers_share_one_connection(server):
    async with await aio.connect(f"127.0.0.1:{server.port}") as client:
        await asyncio.gather(*(client.list_databases() for _ in range(100)))

        assert len(server.listener._connections) == 1
