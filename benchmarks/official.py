"""Upserts through the official Fluss client, which takes rows one by one."""

import asyncio
from importlib.util import find_spec

from benchmarks.rows import narrow_batch

ROWS = 20_000
# The client calls back after it was closed, so its loop stays open.
_runner = asyncio.Runner()


def is_installed() -> bool:
    """Tell whether the official client is there."""
    return find_spec("fluss") is not None


def upsert(port: int, table: str) -> None:
    """Upsert rows and wait until all are durable."""
    _runner.run(_upsert(port, table))


async def _upsert(port: int, table: str) -> None:
    import fluss  # noqa: PLC0415 - there are no wheels of it for every Python

    config = fluss.Config({"bootstrap.servers": f"127.0.0.1:{port}"})
    connection = await fluss.FlussConnection.create(config)
    target = await connection.get_table(fluss.TablePath("fluss", table))
    writer = target.new_upsert().create_writer()
    for row in narrow_batch(ROWS, seed=3).to_pylist():
        writer.upsert(row)
    await writer.flush()
    connection.close()
