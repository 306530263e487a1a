"""The official client, connected to a cluster."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import fluss

SETTLED_WITHIN_S = 60
POLL_S = 0.05


@asynccontextmanager
async def connected(bootstrap: str) -> AsyncIterator[fluss.FlussConnection]:
    """Connect for the length of a block."""
    config = fluss.Config({"bootstrap.servers": bootstrap})
    config.writer_batch_timeout_ms = 1
    connection = await fluss.FlussConnection.create(config)
    try:
        yield connection
    finally:
        await connection.close()


async def settled(admin: fluss.FlussAdmin, path: fluss.TablePath, *, buckets: int) -> None:
    """Wait until each bucket of a table is led; the official client does not try again."""
    async with asyncio.timeout(SETTLED_WITHIN_S):
        while not await _is_led(admin, path, buckets):  # noqa: ASYNC110 - a cluster tells nobody
            await asyncio.sleep(POLL_S)


async def _is_led(admin: fluss.FlussAdmin, path: fluss.TablePath, buckets: int) -> bool:
    try:
        await admin.list_offsets(path, list(range(buckets)), fluss.OffsetSpec.earliest())
    except fluss.FlussError as fault:
        # In the first moments of a cluster it calls that an error of its own.
        if not fault.is_retriable and "No leader found" not in str(fault):
            raise
        return False
    return True
