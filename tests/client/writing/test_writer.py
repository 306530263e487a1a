"""A writer between its caller and a cluster that takes its time."""

import asyncio
from itertools import count

import pytest

from headwater.client.writer import AsyncWriter
from headwater.errors import RecordTooLargeError
from headwater.model.arrow import arrow_schema
from headwater.write.pipeline import Appender
from headwater.write.target import WriteContext
from tests.client.writing.fake_cluster import TABLE, FakeCluster
from tests.clocks import loop_turns

ROWS = 5_000


def writer_to(cluster: FakeCluster) -> AsyncWriter:
    writers = WriteContext(cluster)
    appender = Appender(cluster, TABLE, writers)
    return AsyncWriter(appender, writers, arrow_schema(TABLE.schema), key=(), name="rows")


async def turns() -> None:
    """Let everything go as far as it can."""
    await loop_turns(2_000)


def rows_taken(cluster: FakeCluster) -> int:
    return sum(rows for _, _, _, rows in cluster.taken)


async def test_a_writer_waits_while_too_many_rows_are_on_their_way():
    is_open = asyncio.Event()
    limits = {"batch_rows_max": 10, "batch_bytes_max": 100, "pending_bytes_max": 1000}
    cluster = FakeCluster(batch_timeout_ms=0, **limits)
    cluster.meet = lambda node_id, bucket: is_open.wait()
    writer, taken = writer_to(cluster), count()

    async def write() -> None:
        for number in range(ROWS):
            await writer.append({"id": number})
            next(taken)
        await writer.flush()

    writing = asyncio.create_task(write())
    await turns()
    so_far = next(taken)
    is_open.set()
    await writing

    assert so_far < ROWS // 5
    assert rows_taken(cluster) == ROWS


async def test_whoever_is_interrupted_loses_no_rows_and_is_told_by_the_next_flush():
    is_open, fault = asyncio.Event(), RecordTooLargeError("Too large.")
    cluster = FakeCluster(batch_timeout_ms=3_600_000)

    async def refuse() -> None:
        await is_open.wait()
        raise fault

    cluster.meet = lambda node_id, bucket: refuse()
    writer = writer_to(cluster)
    await writer.append({"id": 1})
    flushing = asyncio.create_task(writer.flush())
    await turns()
    flushing.cancel()
    await turns()
    is_open.set()

    with pytest.raises(RecordTooLargeError):
        await writer.flush()
    cluster.meet = lambda node_id, bucket: None
    await writer.append({"id": 2})
    assert (await writer.flush()).rows == 1
