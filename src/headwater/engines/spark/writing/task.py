"""What one Spark task writes: the rows of an epoch in a lane of its own."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from headwater.client.reading.log_batch import Offsets
from headwater.client.sync.client import Client
from headwater.client.sync.table import Table
from headwater.engines.spark.sink_options import SinkOptions
from headwater.engines.spark.writing.columns import SinkColumns
from headwater.engines.spark.writing.sink_rows import SinkRows
from headwater.errors import RequestError
from headwater.model.table import TableInfo

TABLES_MAX = 64
QUERY = "sql.streaming.queryId"
"""Where Spark tells tasks of which query they are; it keeps its id as long as its checkpoint."""


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """Tell the driver what a task wrote."""

    rows: int = 0
    batches_written: int = 0
    batches_landed: int = 0
    """Batches that an earlier attempt of the task had written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Hold what the tasks of a write have in common; it travels to each of them."""

    options: SinkOptions
    table: TableInfo
    columns: SinkColumns


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochName:
    """Name an epoch of a sink, as all attempts to write it do."""

    sink: str
    number: int
    begins: Offsets | None = None


def write_task(job: Job, batches: Iterable[pa.RecordBatch], epoch: EpochName) -> Written:
    """Write the rows of this task once, however often it is tried.

    1. Shape and check rows. 2. Find the lane. 3. Write them, less those that have landed.
    """
    task = task_context().partitionId()
    rows = SinkRows(job.columns, job.table, ignores_deletes=job.options.ignores_deletes, task=task)
    shaped = rows.shape(batches)
    first = next(shaped, None)
    if first is None:
        return Written()
    receipt = _table(job).write_epoch(
        chain([first], shaped),
        sink=epoch.sink,
        epoch=epoch.number,
        lane=0 if job.columns.has_task and _has_bucket_key(job.table) else task,
        deletes=rows.deletes,
        columns=job.columns.targets,
        begins=epoch.begins,
    )
    return Written(receipt.rows, receipt.batches_written, receipt.batches_landed)


def task_context() -> TaskContext:
    """Return what Spark tells of the task that runs here."""
    context = TaskContext.get()
    assert context is not None
    return context


def _has_bucket_key(table: TableInfo) -> bool:
    """Tell whether rows have a bucket; those of other tables go to the bucket of their lane."""
    return bool(table.descriptor.bucket_keys or table.descriptor.physical_primary_key)


def _table(job: Job) -> Table:
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
    # A worker runs many short tasks, which need not ask for the same table each time.
    return client.table(path)
