"""The clients of a soak in one process: write, follow, look up and commit at a steady rate.

python -m scripts.soak_client HOST:PORT
Each looks whether what it sees is right, and ends the process with a fault if it is not.
"""

import asyncio
import signal
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count

from headwater.aio import AsyncClient, AsyncTable, connect
from headwater.errors import TableExistsError

LOG, KEYED = "soak.events", "soak.state"
PAUSE_S = 0.25
ROWS = 25
KEYS = 2_000
CURSOR = "soak"
LANES = ("a", "b")
# All that is kept is bounded in time, so that what still grows after it is a leak.
OPTIONS = {
    "table.datalake.enabled": "true",
    "table.datalake.format": "iceberg",
    "table.datalake.freshness": "20 s",
    "table.datalake.auto-compaction": "true",
    "table.datalake.auto-expire-snapshot": "true",
    "iceberg.history.expire.max-snapshot-age-ms": "300000",
    "table.log.ttl": "10 min",
}


@dataclass(slots=True)
class Clients:
    """Hold what the clients share: how far each lane was written and seen, and what keys hold."""

    log: AsyncTable
    keyed: AsyncTable
    stopping: asyncio.Event
    written: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    held: dict[int, int] = field(default_factory=dict)

    async def pause(self) -> None:
        try:
            async with asyncio.timeout(PAUSE_S):
                await self.stopping.wait()
        except TimeoutError:
            return

    async def append(self, lane: str) -> None:
        """Append numbers that go up by one."""
        while not self.stopping.is_set():
            first = self.written[lane]
            await self.log.append([(lane, number) for number in range(first, first + ROWS)])
            self.written[lane] = first + ROWS
            await self.pause()

    async def upsert(self) -> None:
        """Give some keys new values, and delete one."""
        for turn in count():
            if self.stopping.is_set():
                return
            keys = [(turn * ROWS + at) % KEYS for at in range(ROWS)]
            await self.keyed.upsert([(key, turn) for key in keys])
            await self.keyed.delete({"id": keys[0]})
            self.held.update(dict.fromkeys(keys[1:], turn))
            self.held.pop(keys[0], None)
            await self.pause()

    async def look_up(self) -> None:
        """Look keys up; what is found is never older than what was written before."""
        for turn in count():
            if self.stopping.is_set():
                return
            key = turn * 7 % KEYS
            least = self.held.get(key)
            found = await self.keyed.get({"id": key})
            # Deletions come along with the same upserts, so only rows that are there are judged.
            if found is not None and least is not None:
                assert found["turn"] >= least, f"key {key} went back"
            await self.pause()

    async def follow(self) -> None:
        """Follow the log: the numbers of each lane have no gap and come once."""
        seen: dict[str, int] = {}
        async with await self.log.tail("latest") as tail:
            while not self.stopping.is_set():
                for batch in await tail.poll(PAUSE_S):
                    rows = batch.rows
                    for lane, number in zip(
                        rows["lane"].to_pylist(), rows["number"].to_pylist(), strict=True
                    ):
                        assert number == seen.get(lane, number - 1) + 1, f"{lane}: {number}"
                        seen[lane] = number

    async def commit(self) -> None:
        """Read with a cursor, and commit."""
        async with self.log.cursor(CURSOR, start="latest", auto_commit=False) as cursor:
            while not self.stopping.is_set():
                if await cursor.poll(PAUSE_S):
                    await cursor.commit()
                await self.pause()

    async def scan(self) -> None:
        """Count what lake and log hold together, now and then; it never goes down by itself."""
        while not self.stopping.is_set():
            table = await self.keyed.scan(columns=["id"]).to_arrow()
            assert len(set(table["id"].to_pylist())) == table.num_rows, "a key is there twice"
            for _ in range(40):
                await self.pause()


async def open_tables(client: AsyncClient) -> tuple[AsyncTable, AsyncTable]:
    """Make the tables, or find those that are there."""
    await client.create_database("soak", exists_ok=True)
    columns = {"lane": "STRING", "number": "BIGINT"}
    try:
        await client.create_table(LOG, columns, bucket_by="lane", buckets=2, options=OPTIONS)
        keyed = {"id": "INT", "turn": "BIGINT"}
        await client.create_table(KEYED, keyed, primary_key="id", buckets=2, options=OPTIONS)
    except TableExistsError:
        pass
    return await client.table(LOG), await client.table(KEYED)


async def main(address: str) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with await connect(address) as client:
        clients = Clients(*await open_tables(client), stopping)
        async with asyncio.TaskGroup() as group:
            for lane in LANES:
                group.create_task(clients.append(lane))
            for work in (clients.upsert, clients.look_up, clients.follow, clients.commit):
                group.create_task(work())
            group.create_task(clients.scan())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
