"""One task of a round: a share of one bucket, read from its log and written to lake files."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from headwater.client.client import AsyncClient
from headwater.errors import PartitionMissingError
from headwater.lake.spi import LakeStorage, LakeWriter, Rewrite, WriteResult, WriteTask
from headwater.lake.table import LakeTableSpec
from headwater.model.boundary import LakeBucket
from headwater.model.table import TableInfo
from headwater.runtime.aside import aside, begun
from headwater.runtime.tasks import to_the_end
from headwater.tiering.chunks import Chunk, ShareReader
from headwater.tiering.shares import Share
from headwater.tiering.system_columns import has_system_columns

RowsWatch = Callable[[int], None]
"""Told how many more rows were written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TieringTask:
    """Say what to copy and where to; a value that travels to workers."""

    lake: LakeStorage
    spec: LakeTableSpec
    write: WriteTask
    table: TableInfo
    """The table with the schema that the round is written in, whatever comes meanwhile."""
    partition: str | None
    share: Share


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTask:
    """Say which lake files to turn into fewer ones; a value that travels to workers."""

    lake: LakeStorage
    spec: LakeTableSpec
    work: Rewrite


@dataclass(frozen=True, slots=True)
class Skipped:
    """Tell that the bucket went away with its partition, so that there is nothing to copy."""

    bucket: LakeBucket


Outcome: TypeAlias = WriteResult | Skipped


def _ignore(_rows: int) -> None:
    """Take no note of it."""


async def tier_share(
    task: TieringTask, client: AsyncClient, *, watch: RowsWatch = _ignore
) -> Outcome:
    """Copy a share into files that nobody sees yet.

    1. Open a writer. 2. Write each batch in a thread while the next one is read. 3. Close the
    files. Whatever goes wrong, what was written is removed.
    """
    client.cluster.know(task.table)
    is_filled = has_system_columns(task.spec)
    reader = ShareReader(client.cluster, task.table, task.partition, is_filled=is_filled)
    writer = await aside(task.lake.writer, task.spec, task.write)
    try:
        async with aclosing(reader.chunks(task.share)) as chunks:
            await _write(writer, chunks, watch)
        return await aside(writer.finish)
    except PartitionMissingError:
        await aside(writer.abort)
        return Skipped(task.share.bucket)
    except BaseException:
        await aside(writer.abort)
        raise


async def rewrite_files(task: RewriteTask) -> WriteResult:
    """Write the rows of some lake files into fewer ones."""
    keeper = await aside(task.lake.keeper, task.spec)
    return await aside(keeper.rewrite, task.work)


async def _write(writer: LakeWriter, chunks: AsyncGenerator[Chunk, None], watch: RowsWatch) -> None:
    writing: asyncio.Future[None] | None = None
    try:
        async for chunk in chunks:
            if writing is not None:
                await to_the_end(writing)
            writing = begun(partial(writer.write, chunk.rows, deleted=chunk.deleted))
            watch(chunk.rows.num_rows)
    finally:
        # Also when reading failed: the writer is used by one thread at a time.
        if writing is not None:
            await to_the_end(writing)
