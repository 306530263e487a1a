"""Tasks of a round, and who runs them.

A task copies a range of the log of one bucket, or the bucket's rows at an offset: it reads large
batches, marks what is deleted, and writes files of the lake. This process runs tasks, or an engine
with workers does.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.client.client import AsyncClient
from headwater.cluster.cluster import Cluster
from headwater.errors import PartitionMissingError
from headwater.lake import spi
from headwater.model import LakeBucket, TableInfo
from headwater.read.filters import RowView
from headwater.read.log_ranges import LogRanges
from headwater.read.offsets import LogBatch
from headwater.read.split import LogPart, LogRange, StateAt
from headwater.read.state import StateReader
from headwater.rows.log_batch import ChangeType
from headwater.runtime.tasks import aside, begun, to_the_end
from headwater.tiering.target import has_system_columns, log_rows_filled, state_rows_filled

# The rows of a split as a lake writer takes them: large batches, with what is deleted marked.

# Handing a batch to a thread and a file costs the same however few rows it has.
CHUNK_ROWS_MIN = 131_072
CHUNK_BYTES_MIN = 16 * 1024**2


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Hold rows in the order of the log."""

    rows: pa.RecordBatch
    deleted: pa.BooleanArray | None
    """For a table with a primary key: whether a row says that its key is gone."""


@dataclass(frozen=True, slots=True)
class ChunkReader:
    """Read splits of one table under one schema."""

    cluster: Cluster
    table: TableInfo
    is_filled: bool = False
    """Whether rows get the columns that lake tables of older versions of Apache Fluss have."""

    async def chunks(self, split: LogPart) -> AsyncGenerator[Chunk, None]:
        """Yield what a split holds; ends when all of its offsets were read, rows or not."""
        found = self._log(split) if isinstance(split, LogRange) else self._state(split)
        waiting: list[Chunk] = []
        rows = size = 0
        async with aclosing(found) as pieces:
            async for piece in pieces:
                waiting.append(piece)
                rows += piece.rows.num_rows
                size += piece.rows.get_total_buffer_size()
                if rows >= CHUNK_ROWS_MIN or size >= CHUNK_BYTES_MIN:
                    yield _joined(waiting)
                    waiting, rows, size = [], 0, 0
        if waiting:
            yield _joined(waiting)

    async def _log(self, log: LogRange) -> AsyncGenerator[Chunk, None]:
        async with aclosing(LogRanges(self.cluster, RowView.of(self.table)).read([log])) as found:
            async for batch in found:
                yield chunk_of(log_rows_filled(batch) if self.is_filled else batch)

    async def _state(self, state: StateAt) -> AsyncGenerator[Chunk, None]:
        bucket = state.bucket_of(self.table)
        # A row whose state at the offset is unknown is kept as it is now: the next round meets it
        # in the log, and puts the same in its place.
        reader = StateReader(self.cluster, RowView.of(self.table), state, keeps_unknown=True)
        async with aclosing(aiter(reader)) as found:
            async for rows in found:
                if rows.num_rows:
                    marks = _marks(np.zeros(rows.num_rows, bool))
                    yield Chunk(state_rows_filled(rows, bucket) if self.is_filled else rows, marks)


def chunk_of(batch: LogBatch) -> Chunk:
    """Return what a lake table takes of a batch: rows as they are after each change."""
    if batch.changes is None:
        return Chunk(batch.rows, None)
    is_before = batch.changes == ChangeType.UPDATE_BEFORE
    if not is_before.any():
        return Chunk(batch.rows, _marks(batch.changes == ChangeType.DELETE))
    rows = batch.rows.filter(pa.array(~is_before))
    return Chunk(rows, _marks(batch.changes[~is_before] == ChangeType.DELETE))


def _marks(deleted: npt.NDArray[np.bool_]) -> pa.BooleanArray:
    return pa.array(deleted)


def _joined(chunks: list[Chunk]) -> Chunk:
    if len(chunks) == 1:
        return chunks[0]
    marks = [chunk.deleted for chunk in chunks if chunk.deleted is not None]
    assert len(marks) in (0, len(chunks)), "a table has a primary key or it has none"
    return Chunk(
        pa.concat_batches([chunk.rows for chunk in chunks]),
        pa.concat_arrays(marks) if marks else None,
    )


# One task of a round: a part of one bucket, read from its log and written to lake files.

RowsWatch = Callable[[int], None]
"""Told how many more rows were written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TieringTask:
    """Say what to copy and where to; a value that travels to workers."""

    lake: spi.LakeStorage
    spec: spi.LakeTableSpec
    write: spi.WriteTask
    table: TableInfo
    """The table with the schema that the round is written in, whatever comes meanwhile."""
    split: LogPart


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTask:
    """Say which lake files to turn into fewer ones; a value that travels to workers."""

    lake: spi.LakeStorage
    spec: spi.LakeTableSpec
    work: spi.Rewrite


@dataclass(frozen=True, slots=True)
class Skipped:
    """Tell that the bucket went away with its partition, so that there is nothing to copy."""

    bucket: LakeBucket


Outcome: TypeAlias = spi.WriteResult | Skipped


def _ignore(_rows: int) -> None:
    """Take no note of it."""


async def run_task(
    task: TieringTask, client: AsyncClient, *, watch: RowsWatch = _ignore
) -> Outcome:
    """Copy the rows of a task into files that nobody sees yet.

    1. Open a writer. 2. Write each batch in a thread while the next one is read. 3. Close the
    files. Whatever goes wrong, what was written is removed.
    """
    client.cluster.know(task.table)
    is_filled = has_system_columns(task.spec)
    reader = ChunkReader(client.cluster, task.table, is_filled=is_filled)
    writer = await aside(task.lake.writer, task.spec, task.write)
    try:
        async with aclosing(reader.chunks(task.split)) as chunks:
            await _write(writer, chunks, watch)
        return await aside(writer.finish)
    except PartitionMissingError:
        await aside(writer.abort)
        return Skipped(task.split.log_bucket)
    except BaseException:
        await aside(writer.abort)
        raise


async def rewrite_files(task: RewriteTask) -> spi.WriteResult:
    """Write the rows of some lake files into fewer ones."""
    keeper = await aside(task.lake.keeper, task.spec)
    return await aside(keeper.rewrite, task.work)


async def _write(
    writer: spi.LakeWriter, chunks: AsyncGenerator[Chunk, None], watch: RowsWatch
) -> None:
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


# Who runs the tasks of a round: this process, or an engine with workers.

PARALLEL = 2
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TaskDone:
    """Tell of a task that has ended."""

    task: TieringTask
    outcome: Outcome


Report = Callable[[TaskDone], None]


class Runner(Protocol):
    """Run tasks side by side; when one fails for good, raise its error and let go of the others."""

    async def run(self, tasks: Sequence[TieringTask], *, report: Report) -> list[Outcome]:
        """Return what came of each task, in the order of the tasks, and report each as it ends."""
        ...

    async def rewrite(self, tasks: Sequence[RewriteTask]) -> list[spi.WriteResult]:
        """Return the files that each rewrite has led to, in the order of the tasks."""
        ...


class LocalRunner:
    """Run tasks in this process, a few at a time."""

    def __init__(self, client: AsyncClient, *, parallel: int = PARALLEL) -> None:
        self._client = client
        self._parallel = parallel

    async def run(self, tasks: Sequence[TieringTask], *, report: Report) -> list[Outcome]:
        """Return what came of each task, in the order of the tasks, and report each as it ends."""

        async def one(task: TieringTask) -> Outcome:
            outcome = await run_task(task, self._client)
            report(TaskDone(task, outcome))
            return outcome

        return await self._all([one(task) for task in tasks])

    async def rewrite(self, tasks: Sequence[RewriteTask]) -> list[spi.WriteResult]:
        """Return the files that each rewrite has led to, in the order of the tasks."""
        return await self._all([rewrite_files(task) for task in tasks])

    async def _all(self, works: Sequence[Coroutine[object, object, T]]) -> list[T]:
        room = asyncio.Semaphore(self._parallel)

        async def one(work: Awaitable[T]) -> T:
            async with room:
                return await work

        try:
            async with asyncio.TaskGroup() as group:
                running = [group.create_task(one(work)) for work in works]
        except ExceptionGroup as faults:
            raise faults.exceptions[0] from None
        finally:
            for work in works:
                work.close()  # Those whose turn never came.
        return [each.result() for each in running]
