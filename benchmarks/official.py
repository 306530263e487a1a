"""The official Fluss client at the same work as ours, on the same server."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from importlib.util import find_spec

import pyarrow as pa

from benchmarks.rows import narrow_batch

ROWS = 20_000
# The client calls back after it was closed, so its loop stays open.
_runner = asyncio.Runner()


def is_installed() -> bool:
    """Tell whether the official client is there."""
    return find_spec("fluss") is not None


def upsert(port: int, table: str) -> None:
    """Upsert rows over a connection of its own and wait until all are durable."""
    client = Official(port)
    client.upsert(table, narrow_batch(ROWS, seed=3).to_pylist())
    client.close()


class Official:
    """Hold a connection of the official client."""

    def __init__(self, port: int) -> None:
        import fluss  # noqa: PLC0415 - there are no wheels of it for every Python

        self._fluss = fluss
        config = fluss.Config({"bootstrap.servers": f"127.0.0.1:{port}"})
        config.writer_batch_timeout_ms = 1
        self._connection = _run(lambda: fluss.FlussConnection.create(config))

    def _table(self, name: str):  # noqa: ANN202 - untyped
        path = self._fluss.TablePath("fluss", name)
        return _run(lambda: self._connection.get_table(path))

    def append(self, name: str, batches: Sequence[pa.RecordBatch]) -> None:
        """Append batches and wait until all are durable."""
        writer = self._table(name).new_append().create_writer()

        async def work() -> None:
            for batch in batches:
                writer.write_arrow_batch(batch)
            await writer.flush()

        _run(work)

    def scan(self, name: str, buckets: int) -> int:
        """Read all rows and return their number."""
        table = self._table(name)

        async def work() -> int:
            scanner = await table.new_scan().create_record_batch_log_scanner()
            earliest = self._fluss.EARLIEST_OFFSET
            scanner.subscribe_buckets(dict.fromkeys(range(buckets), earliest))
            return (await scanner.to_arrow()).num_rows

        return _run(work)

    def upsert(self, name: str, rows: Iterable[dict[str, object]]) -> None:
        """Upsert rows, which it takes one by one, and wait until all are durable."""
        writer = self._table(name).new_upsert().create_writer()

        async def work() -> None:
            for row in rows:
                writer.upsert(row)
            await writer.flush()

        _run(work)

    def lookups_us(self, name: str, keys: Sequence[int]) -> float:
        """Look up keys one after the other and return the median microseconds."""
        lookuper = self._table(name).new_lookup().create_lookuper()

        async def work() -> list[float]:
            taken = []
            for key in keys:
                began = time.perf_counter()
                assert await lookuper.lookup({"k": key}) is not None
                taken.append((time.perf_counter() - began) * 1e6)
            return taken

        return statistics.median(_run(work))

    def close(self) -> None:
        """Let go of the server."""
        _run(self._connection.close)


def _run(begin: Callable[[], Awaitable]):  # noqa: ANN202 - untyped
    """Run what is begun inside the loop, as the official client wants it."""

    async def awaited():  # noqa: ANN202
        return await begin()

    return _runner.run(awaited())
