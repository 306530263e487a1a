"""Headwater's own client, on either server."""

import asyncio
import time
from collections.abc import Sequence

import pyarrow as pa

from benchmarks.peers.peer import Peer, Server, each_timed
from benchmarks.peers.work import KEY, SOME_COLUMNS, batches, keyed_batches
from benchmarks.rows import NARROW
from headwater.aio import AsyncClient, AsyncTable, connect
from headwater.config.client import ClientSettings

DATABASE = "fluss"
SEEN_WITHIN_S = 30.0


class OwnClient(Peer):
    """Work through `headwater.aio`."""

    client = "headwater"

    def __init__(self, server: Server, *, acks: int = 1) -> None:
        super().__init__(server)
        self._acks = acks
        self._client: AsyncClient | None = None
        self._tables: dict[str, AsyncTable] = {}
        self.name = self.server.name
        if acks == -1:
            self.name = f"{self.name}, synced"
            self.note = "acks when the rows are on the disk, which is Headwater's default"

    async def open(self) -> None:
        self._client = await connect(self.server.address, settings=ClientSettings(acks=self._acks))
        await self._client.create_database(DATABASE, exists_ok=True)

    async def close(self) -> None:
        assert self._client is not None
        await self._client.close()

    def table(self, name: str) -> AsyncTable:
        """Return a table that was made before."""
        return self._tables[name]

    async def new_log(self, name: str, *, buckets: int) -> None:
        assert self._client is not None
        path = f"{DATABASE}.{name}"
        self._tables[name] = await self._client.create_table(path, NARROW, buckets=buckets)

    async def new_keyed(self, name: str, *, buckets: int) -> None:
        assert self._client is not None
        path = f"{DATABASE}.{name}"
        self._tables[name] = await self._client.create_table(
            path, NARROW, primary_key=KEY, buckets=buckets
        )

    async def append(self, log: str, rows: int) -> None:
        async with self._tables[log].writer() as writer:
            for batch in batches(rows):
                await writer.write(batch)

    async def append_each(self, log: str, count: int) -> list[float]:
        table, one = self._tables[log], batches(10_000)[0]
        return await each_timed(lambda number: table.append(one.slice(number, 1)), count)

    async def see_each(self, log: str, count: int) -> list[float]:
        table, one = self._tables[log], batches(10_000)[0]
        async with await table.tail("latest") as tail:
            await tail.poll(0.2)

            async def see(number: int) -> None:
                seeing = asyncio.ensure_future(tail.poll(SEEN_WITHIN_S))
                await table.append(one.slice(number, 1))
                assert await seeing

            return await each_timed(see, count)

    async def scan(self, log: str, rows: int) -> int:  # noqa: ARG002 - it knows where the end is
        return (await self._tables[log].scan().to_arrow()).num_rows

    async def scan_some(self, log: str, rows: int) -> int:  # noqa: ARG002
        return (await self._tables[log].scan(columns=list(SOME_COLUMNS)).to_arrow()).num_rows

    async def upsert(self, table: str, rows: int) -> None:
        async with self._tables[table].writer() as writer:
            for batch in keyed_batches(rows):
                await writer.write(batch)

    async def get_each(self, table: str, keys: Sequence[int]) -> list[float]:
        async def get(number: int) -> None:
            assert await self._tables[table].get({KEY: keys[number]}) is not None

        return await each_timed(get, len(keys))

    async def get_many(self, table: str, keys: Sequence[Sequence[int]]) -> list[float]:
        taken = []
        for some in keys:
            began = time.perf_counter()
            found = await self._tables[table].lookup(pa.table({KEY: pa.array(some, pa.int64())}))
            taken.append(time.perf_counter() - began)
            assert found.num_rows == len(some)
        return taken
