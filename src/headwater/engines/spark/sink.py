"""Write a data frame, or the micro-batches of a stream, into a table, each exactly once.

A write is planned in the driver. Each task writes its rows as a lane of an epoch, and the driver
commits the epoch.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from headwater.client.sync.client import Client
from headwater.client.sync.table import Table
from headwater.engines.spark.options import SERVERS, SERVERS_DEFAULT, TABLE, WRITE_EPOCH, WRITE_ID
from headwater.engines.spark.sink_columns import SinkColumns, SinkOptions, sink_columns
from headwater.engines.spark.sink_rows import SinkRows
from headwater.errors import RequestError, UnsupportedError
from headwater.model import TableInfo
from headwater.read.offsets import Offsets
from headwater.read.virtual import VirtualKind, read_only, split_virtual
from headwater.runtime.clock import random_bytes
from headwater.runtime.events import Events

# What one Spark task writes: the rows of an epoch, in its own lane.

TABLES_MAX = 64
QUERY = "sql.streaming.queryId"
"""The local property with the query's id, which stays the same as long as its checkpoint."""


@dataclass(frozen=True, slots=True)
class TaskResult(WriterCommitMessage):
    """What a task wrote, for the driver."""

    rows: int = 0
    batches_written: int = 0
    batches_landed: int = 0
    """Batches that an earlier attempt of the task had written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteJob:
    """What the tasks of a write have in common; travels to each of them."""

    options: SinkOptions
    table: TableInfo
    columns: SinkColumns


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochName:
    """An epoch of a sink, named identically in every attempt."""

    sink: str
    number: int
    begins: Offsets | None = None


def write_task(job: WriteJob, batches: Iterable[pa.RecordBatch], epoch: EpochName) -> TaskResult:
    """Write the rows of this task once, however often it is tried.

    1. Shape and check rows. 2. Find the lane. 3. Write them, except those that landed before.
    """
    task = task_context().partitionId()
    rows = SinkRows(job.columns, job.table, ignores_deletes=job.options.ignores_deletes, task=task)
    shaped = rows.shape(batches)
    first = next(shaped, None)
    if first is None:
        return TaskResult()
    receipt = _table(job).write_epoch(
        chain([first], shaped),
        sink=epoch.sink,
        epoch=epoch.number,
        lane=0 if job.columns.has_task and _has_bucket_key(job.table) else task,
        deletes=rows.deletes,
        columns=job.columns.targets,
        begins=epoch.begins,
    )
    return TaskResult(receipt.rows, receipt.batches_written, receipt.batches_landed)


def task_context() -> TaskContext:
    """Spark's context of the task that runs here."""
    context = TaskContext.get()
    assert context is not None
    return context


def _has_bucket_key(table: TableInfo) -> bool:
    """Tell whether rows have a bucket; in other tables they go to the bucket of their lane."""
    return bool(table.descriptor.bucket_keys or table.descriptor.physical_primary_key)


def _table(job: WriteJob) -> Table:
    known = (job.table.table_id, job.table.schema_id)
    table = _kept(job.options.connection.client(), job.options.table, known)
    if table.info.table_id != job.table.table_id:
        raise RequestError(
            f"{job.options.table} was dropped and created again while it was written.",
            hint="Run the write again.",
        )
    return table


@lru_cache(maxsize=TABLES_MAX)
def _kept(client: Client, path: str, _version: tuple[int, int]) -> Table:
    # A worker runs many short tasks, which need not load the same table each time.
    return client.table(path)


# What is checked before a write begins: the table exists, and the rows fit it.


def plan_job(options: SinkOptions, schema: StructType) -> tuple[WriteJob, Table]:
    """Look up the table and match columns; raises before anything is written."""
    path, kind = split_virtual(options.table)
    if isinstance(kind, VirtualKind):
        raise read_only(path, kind, wanted="a write")
    table = options.connection.client().table(path)
    columns = sink_columns(schema, table.info, options)
    return WriteJob(options=options, table=table.info, columns=columns), table


# Writing a data frame into a table, once.

_NAME_BYTES = 16
_events = Events("spark")


class BatchWriter(DataSourceArrowWriter):
    """Appends rows to a log table, or upserts them by key.

    A task that Spark runs again, or twice at once, writes its rows once. With the option `write.id`
    that also holds for the whole write, whoever runs it again.
    """

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise UnsupportedError(
                f"{options.table} cannot be overwritten.",
                hint=(
                    "Use .mode('append'): in a primary-key table it replaces rows with "
                    "the same key. To start empty, drop the table and create it again."
                ),
            )
        self._job, table = plan_job(options, schema)
        if options.write_id is not None:
            self._epoch = EpochName(sink=options.write_id, number=options.write_epoch)
        else:
            sink = random_bytes(_NAME_BYTES).hex()
            self._epoch = EpochName(sink=sink, number=0, begins=table.offsets("latest"))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        return write_task(self._job, iterator, self._epoch_here())

    def _epoch_here(self) -> EpochName:
        """The epoch of this write; within a stream, its name includes the query.

        A new stream numbers its micro-batches from 0 again, and would find them done.
        """
        query = task_context().getLocalProperty(QUERY)
        if self._epoch.begins is not None or query is None:
            return self._epoch
        return replace(self._epoch, sink=f"{self._epoch.sink}/{query}")

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log what was written; the rows are there since their tasks ended."""
        written = [each for each in messages if isinstance(each, TaskResult)]
        _events.info(
            "written",
            table=self._job.options.table,
            rows=sum(each.rows for each in written),
            batches=sum(each.batches_written for each in written),
            batches_landed=sum(each.batches_landed for each in written),
            tasks=len(written),
        )

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Leave the rows of the tasks that succeeded: a log takes nothing back."""
        written = sum(each.rows for each in messages if isinstance(each, TaskResult))
        _events.warning("write aborted", table=self._job.options.table, rows_written=written)


# Writing the micro-batches of a stream into a table, each once.

_EPOCH = "streaming.sql.batchId"


class StreamWriter(DataSourceStreamArrowWriter):
    """Appends the rows of a stream to a log table, or upserts them by key, exactly once.

    A micro-batch is an epoch of the query. Its tasks write its rows before Spark records that it is
    done; when it is run again, what has landed is found in the log.
    """

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        self._job, _ = plan_job(options, schema)
        if overwrite and not self._job.table.is_keyed:
            raise UnsupportedError(
                f"{options.table} has no primary key, so the complete result cannot "
                "replace the previous one.",
                hint="Use outputMode('append'), or write into a table with a primary key.",
            )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        context = task_context()
        query, number = context.getLocalProperty(QUERY), context.getLocalProperty(_EPOCH)
        assert query is not None
        assert number is not None
        return write_task(self._job, iterator, EpochName(sink=query, number=int(number)))

    def commit(
        self,
        messages: Sequence[WriterCommitMessage | None],
        batchId: int,  # noqa: N803 - Spark's
    ) -> None:
        """Log what was written; the rows are there since their tasks ended."""
        written = [each for each in messages if isinstance(each, TaskResult)]
        _events.info(
            "written",
            table=self._job.options.table,
            epoch=batchId,
            rows=sum(each.rows for each in written),
            batches=sum(each.batches_written for each in written),
            batches_landed=sum(each.batches_landed for each in written),
        )

    def abort(
        self,
        messages: Sequence[WriterCommitMessage | None],
        batchId: int,  # noqa: N803 - Spark's
    ) -> None:
        """Leave what was written: when the epoch is run again, it is found."""
        written = sum(each.rows for each in messages if isinstance(each, TaskResult))
        _events.warning(
            "epoch aborted", table=self._job.options.table, epoch=batchId, rows_written=written
        )


# Writing the micro-batches of a stream from `foreachBatch`, each once.


def each_batch(
    table: str,
    *,
    name: str,
    bootstrap_servers: str = SERVERS_DEFAULT,
    options: Mapping[str, str] | None = None,
) -> Callable[[DataFrame, int], None]:
    """Make a function for `foreachBatch` that writes each micro-batch exactly once.

    It is the way to write in the output mode `update` without a catalog:

        counts.writeStream.outputMode("update").foreachBatch(
            each_batch("shop.counts", name="counts")
        )

    The name separates several writes of one query into a table. Over Spark Connect it stands for
    the query itself: there, use another name with another checkpoint, which numbers its
    micro-batches from 0 again, or they are taken as done.
    """
    given = {
        SERVERS.name: bootstrap_servers,
        **(options or {}),
        TABLE.name: table,
        WRITE_ID.name: name,
    }

    def write(batch: DataFrame, number: int) -> None:
        writer = batch.write.format("headwater").options(**given).mode("append")
        writer.option(WRITE_EPOCH.name, number).save()

    return write
