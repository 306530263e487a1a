"""Writing the micro-batches of a stream into a table, each once."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from headwater.engines.spark.sink_options import SinkOptions
from headwater.engines.spark.writing.plan import plan_job
from headwater.engines.spark.writing.task import (
    QUERY,
    EpochName,
    Written,
    task_context,
    write_task,
)
from headwater.errors import UnsupportedError
from headwater.runtime.events import Events

_EPOCH = "streaming.sql.batchId"
_events = Events("spark")


class StreamWriter(DataSourceStreamArrowWriter):
    """Append the rows of a stream to a log table, or upsert them by key, exactly once.

    A micro-batch is an epoch of the query. Its rows are written by its tasks, before Spark notes
    that it is done; when it is run again, what has landed is found in the log.
    """

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        self._job, _ = plan_job(options, schema)
        if overwrite and not self._job.table.is_keyed:
            raise UnsupportedError(
                f"{options.table} has no primary key, so that the complete result cannot replace"
                " the one before.",
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
        """Note what was written; the rows are there since their tasks ended."""
        written = [each for each in messages if isinstance(each, Written)]
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
        """Leave what was written: the epoch is run again, and finds it."""
        written = sum(each.rows for each in messages if isinstance(each, Written))
        _events.warning(
            "epoch aborted", table=self._job.options.table, epoch=batchId, rows_written=written
        )
