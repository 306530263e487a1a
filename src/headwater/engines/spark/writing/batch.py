"""Writing a data frame into a table, once."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
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
from headwater.runtime.ids import random_bytes

_NAME_BYTES = 16
_events = Events("spark")


class BatchWriter(DataSourceArrowWriter):
    """Append rows to a log table, or upsert them by key.

    A task that Spark runs again, or twice at once, writes its rows once. With the option
    `write.id` that holds for the whole write as well, run again by whomever.
    """

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise UnsupportedError(
                f"{options.table} cannot be overwritten.",
                hint="Use .mode('append'): in a primary-key table it replaces rows of the same"
                " key. For an empty table, drop it and create it anew.",
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
        """Return the epoch, whose name stands for itself or, within a stream, for its query.

        A stream that begins anew numbers its micro-batches anew, and would find them done.
        """
        query = task_context().getLocalProperty(QUERY)
        if self._epoch.begins is not None or query is None:
            return self._epoch
        return replace(self._epoch, sink=f"{self._epoch.sink}/{query}")

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Note what was written; the rows are there since their tasks ended."""
        written = [each for each in messages if isinstance(each, Written)]
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
        written = sum(each.rows for each in messages if isinstance(each, Written))
        _events.warning("write aborted", table=self._job.options.table, rows_written=written)
