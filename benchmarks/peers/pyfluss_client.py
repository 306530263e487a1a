"""The official client of Apache Fluss, on either server."""

import asyncio
from collections.abc import Sequence

from benchmarks.peers.peer import NotOffered, Peer, Server, each_timed
from benchmarks.peers.work import KEY, SOME_COLUMNS, batches, keyed_batches
from benchmarks.rows import NARROW

DATABASE = "fluss"
POLL_MS = 30_000
LOOKUPS_MAX = 5
# It finds the bucket of a key in its own way, and the server has to know that.
OWN_BUCKETS = {"headwater.bucket-hash": "pyfluss"}


class PyflussClient(Peer):
    """Work through `pyfluss`, with acks that wait for no sync."""

    client = "pyfluss"

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.name = f"{server.name}, pyfluss"

    async def open(self) -> None:
        import fluss  # noqa: PLC0415 - there are no wheels of it for every Python

        self._fluss = fluss
        config = fluss.Config({"bootstrap.servers": self.server.address})
        config.writer_acks = "1"
        config.writer_enable_idempotence = False  # it knows it with synced acks only
        # Whoever waits for each row should not wait for rows that do not come.
        config.writer_batch_timeout_ms = 1
        self._connection = await fluss.FlussConnection.create(config)
        self._tables = {}
        self._buckets = {}

    async def close(self) -> None:
        await self._connection.close()

    async def new_log(self, name: str, *, buckets: int) -> None:
        await self._create(name, self._fluss.Schema(NARROW), bucket_count=buckets)

    async def new_keyed(self, name: str, *, buckets: int) -> None:
        schema = self._fluss.Schema(NARROW, primary_keys=[KEY])
        own = OWN_BUCKETS if self.server.name == "Headwater" else {}
        await self._create(name, schema, bucket_count=buckets, custom_properties=own)

    async def _create(self, name: str, schema, **traits) -> None:  # noqa: ANN001, ANN003 - untyped
        path = self._fluss.TablePath(DATABASE, name)
        descriptor = self._fluss.TableDescriptor(schema, **traits)
        await self._connection.get_admin().create_table(path, descriptor)
        self._tables[name] = await self._connection.get_table(path)
        self._buckets[name] = traits["bucket_count"]

    async def append(self, log: str, rows: int) -> None:
        writer = self._tables[log].new_append().create_writer()
        for batch in batches(rows):
            writer.write_arrow_batch(batch)
        await writer.flush()

    async def append_each(self, log: str, count: int) -> list[float]:
        writer = self._tables[log].new_append().create_writer()
        rows = batches(10_000)[0].slice(0, count).to_pylist()
        return await each_timed(lambda number: writer.append(rows[number]).wait(), count)

    async def see_each(self, log: str, count: int) -> list[float]:
        table = self._tables[log]
        writer = table.new_append().create_writer()
        rows = batches(10_000)[0].slice(0, count).to_pylist()
        scanner = await table.new_scan().create_record_batch_log_scanner()
        scanner.subscribe_buckets(dict.fromkeys(range(self._buckets[log]), 0))
        await scanner.poll_arrow(500)

        async def see(number: int) -> None:
            seeing = asyncio.ensure_future(scanner.poll_arrow(POLL_MS))
            writer.append(rows[number])
            assert (await seeing).num_rows

        return await each_timed(see, count)

    async def scan(self, log: str, rows: int) -> int:  # noqa: ARG002 - it knows where the end is
        return await self._read(log, self._tables[log].new_scan())

    async def scan_some(self, log: str, rows: int) -> int:  # noqa: ARG002
        scan = self._tables[log].new_scan().project_by_name(list(SOME_COLUMNS))
        return await self._read(log, scan)

    async def _read(self, log: str, scan) -> int:  # noqa: ANN001 - untyped
        scanner = await scan.create_record_batch_log_scanner()
        earliest = self._fluss.EARLIEST_OFFSET
        scanner.subscribe_buckets(dict.fromkeys(range(self._buckets[log]), earliest))
        return (await scanner.to_arrow()).num_rows

    async def upsert(self, table: str, rows: int) -> None:
        writer = self._tables[table].new_upsert().create_writer()
        for batch in keyed_batches(rows):
            for row in batch.to_pylist():
                writer.upsert(row)
        await writer.flush()

    async def get_each(self, table: str, keys: Sequence[int]) -> list[float]:
        lookuper = self._tables[table].new_lookup().create_lookuper()

        async def get(number: int) -> None:
            assert await lookuper.lookup({KEY: keys[number]}) is not None

        # Each waits a tenth of a second for others that could go with it, so a few tell enough.
        return await each_timed(get, min(len(keys), LOOKUPS_MAX))

    async def get_many(self, table: str, keys: Sequence[Sequence[int]]) -> list[float]:  # noqa: ARG002
        raise NotOffered("it looks up one key at a time")
