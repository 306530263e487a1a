"""Reading a table once."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from headwater.engines.spark.reading.batch_plan import plan_batch
from headwater.engines.spark.reading.reading import Reading
from headwater.engines.spark.reading.task import read_share
from headwater.engines.spark.source_options import SourceOptions


class BatchReader(DataSourceReader):
    """Read the rows of a table as they are when the read is planned, however often it is run.

    A log table is read from its first row to its last, a primary-key table as its rows are at
    one offset of each bucket.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._reading = Reading.of(options, schema, follows=False)

    def partitions(self) -> list[InputPartition]:
        """Return what each task reads."""
        link = self._reading.link()
        planned = link.loop.run(plan_batch(link.awaiting.cluster, self._reading, self._options))
        return [InputPartition(share) for share in planned]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task."""
        # Where there is nothing to read, Spark makes a task of its own that has no share.
        return read_share(
            self._reading,
            partition.value or (),
            schema=self._schema,
            truncates_nanoseconds=self._options.truncates_nanoseconds,
        )
