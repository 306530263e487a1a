"""The format "headwater" of Spark, which its planner asks for schema, readers and writers."""

from types import TracebackType

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from headwater.engines.spark.read.batch import BatchReader
from headwater.engines.spark.read.stream import StreamReader
from headwater.engines.spark.read.view import viewed
from headwater.engines.spark.sink import BatchWriter, StreamWriter
from headwater.engines.spark.sink_columns import SinkOptions
from headwater.engines.spark.source_options import SourceOptions, check_batch
from headwater.engines.spark.types import spark_schema
from headwater.errors import HeadwaterError

FORMAT = "headwater"


class HeadwaterSource(DataSource):
    """Reads and writes tables as `spark.read.format("headwater")` and its three siblings."""

    @classmethod
    def name(cls) -> str:
        """Name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns of the table, or those that are selected."""
        with _Plainly():
            options = SourceOptions.of(self.options)
            return spark_schema(_columns(options), columns=options.columns, path=options.table)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reader of the table in a batch."""
        with _Plainly():
            options = SourceOptions.of(self.options)
            check_batch(options)
            return BatchReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Reader of the table as a stream."""
        with _Plainly():
            return StreamReader(SourceOptions.of(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001
        """Writer of rows into the table."""
        with _Plainly():
            return BatchWriter(SinkOptions.of(self.options), schema, overwrite=overwrite)

    def streamWriter(  # noqa: N802 - Spark's
        self,
        schema: StructType,
        overwrite: bool,  # noqa: FBT001
    ) -> DataSourceStreamArrowWriter:
        """Writer of the rows of a stream into the table."""
        with _Plainly():
            return StreamWriter(SinkOptions.of(self.options), schema, overwrite=overwrite)


def _columns(options: SourceOptions) -> pa.Schema:
    if options.virtual is not None or options.position.is_latest:
        return options.connection.client(waits=False).table(options.table).schema
    # At a position before a schema change, the columns of that time.
    return viewed(options)[0].whole_schema


class _Plainly:
    """Shows an error without the traceback through our code."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Not a generator, whose caller would put the traceback back.
        if isinstance(fault, HeadwaterError):
            raise fault.with_traceback(None) from None


def register(spark: SparkSession) -> None:
    """Register `format("headwater")` in a session, of Spark itself or of Spark Connect."""
    spark.dataSource.register(HeadwaterSource)
