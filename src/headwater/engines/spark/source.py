"""The format "headwater" of Spark: where its planner asks for schema, readers and writers."""

from types import TracebackType

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from headwater.engines.spark.reading.batch import BatchReader
from headwater.engines.spark.reading.stream import StreamReader
from headwater.engines.spark.reading.views import viewed
from headwater.engines.spark.sink_options import SinkOptions
from headwater.engines.spark.source_options import SourceOptions, check_batch
from headwater.engines.spark.types import spark_schema
from headwater.engines.spark.writing.batch import BatchWriter
from headwater.engines.spark.writing.stream import StreamWriter
from headwater.errors import HeadwaterError

FORMAT = "headwater"


class HeadwaterSource(DataSource):
    """Read and write tables as `spark.read.format("headwater")` and its three siblings."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns of the table, or those that are asked for."""
        with _Plainly():
            options = SourceOptions.of(self.options)
            return spark_schema(_columns(options), columns=options.columns, path=options.table)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads the table once."""
        with _Plainly():
            options = SourceOptions.of(self.options)
            check_batch(options)
            return BatchReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Return what follows the table."""
        with _Plainly():
            return StreamReader(SourceOptions.of(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001
        """Return what writes rows into the table."""
        with _Plainly():
            return BatchWriter(SinkOptions.of(self.options), schema, overwrite=overwrite)

    def streamWriter(  # noqa: N802 - Spark's
        self,
        schema: StructType,
        overwrite: bool,  # noqa: FBT001
    ) -> DataSourceStreamArrowWriter:
        """Return what writes the rows of a stream into the table."""
        with _Plainly():
            return StreamWriter(SinkOptions.of(self.options), schema, overwrite=overwrite)


def _columns(options: SourceOptions) -> pa.Schema:
    if options.virtual is not None or options.position.is_latest:
        return options.connection.client(waits=False).table(options.table).schema
    # Of a position before a change of the table, those that it had then.
    return viewed(options)[0].whole_schema


class _Plainly:
    """Show what is wrong without the way through our code on which it was found."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Not by a generator, whose caller would put the traceback back.
        if isinstance(fault, HeadwaterError):
            raise fault.with_traceback(None) from None
