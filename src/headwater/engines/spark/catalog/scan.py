"""One read of a table: planned here in the driver, run by Spark's own Python readers."""

from functools import cached_property
from io import BytesIO

from py4j.java_gateway import JavaObject
from pyspark.sql.types import StructType
from pyspark.sql.worker.plan_data_source_read import write_read_func_and_partitions

from headwater.engines.spark.catalog.interfaces import (
    BATCH,
    COLUMNAR_MODE,
    INPUT_PARTITION,
    PYTHON_PARTITION,
    PYTHON_READERS,
    REPORTS_STATISTICS,
    STATISTICS,
    TASK_METRIC,
)
from headwater.engines.spark.catalog.jvm import Jvm
from headwater.engines.spark.catalog.proxy import Proxy
from headwater.engines.spark.catalog.python_source import python_source, python_table
from headwater.engines.spark.catalog.statistics import Statistics
from headwater.engines.spark.catalog.where_text import where_text
from headwater.engines.spark.catalog.widths import row_width
from headwater.engines.spark.reading.batch import BatchReader
from headwater.engines.spark.source import HeadwaterSource
from headwater.engines.spark.source_options import SourceOptions, check_batch

# Rows come in batches already, which Spark takes as they are.
_ROWS_PER_BATCH = 10_000
_NUMBER_BYTES = 4
# Of a condition in EXPLAIN.
SHOWN_MAX = 400


class Scan:
    """Read some columns of some rows of a table, once."""

    interfaces = (REPORTS_STATISTICS, BATCH)

    def __init__(
        self, jvm: Jvm, options: SourceOptions, schema: StructType, *, given: dict[str, str]
    ) -> None:
        self._jvm = jvm
        self._options = options
        self._schema = schema
        self._given = given

    def __str__(self) -> str:
        return f"{self._options!r} {self._schema.names}"

    # ---- what it is

    def read_schema(self) -> JavaObject:
        """Return the columns."""
        return self._jvm.struct(self._schema)

    def description(self) -> str:
        """Return what EXPLAIN shows."""
        parts = [f"headwater {self._options.table}"]
        if self._options.where is not None:
            parts.append(f"where {where_text(self._options.where)}"[:SHOWN_MAX])
        if self._options.limit is not None:
            parts.append(f"limit {self._options.limit}")
        return ", ".join(parts)

    def columnar_support_mode(self) -> JavaObject:
        """Say that Spark takes the rows out of the batches."""
        return self._jvm.kept(
            COLUMNAR_MODE, lambda: self._jvm.named(COLUMNAR_MODE).valueOf("UNSUPPORTED")
        )

    def supported_custom_metrics(self) -> JavaObject:
        """Return the figures that Spark's Python readers count."""
        source = python_source(self._jvm)
        return self._jvm.kept("python metrics", source.createPythonMetrics)

    def report_driver_metrics(self) -> JavaObject:
        """Return no figures of the driver."""
        return self._jvm.array(TASK_METRIC)

    # ---- what the optimizer asks

    def estimate_statistics(self) -> Proxy:
        """Return about how much will be read."""
        rows = self._rows
        statistics = Statistics(self._jvm, rows=rows, size=max(1, rows * row_width(self._schema)))
        return Proxy(self._jvm, statistics, (STATISTICS,))

    def reflects_fully_pushed_down_filters(self) -> bool:
        """Say that the estimate is of all rows."""
        return False

    @cached_property
    def _rows(self) -> int:
        return self._reader.estimated_rows()

    @cached_property
    def _reader(self) -> BatchReader:
        # One for all that is asked, so that a table with a lake is looked at once.
        return BatchReader(self._options, self._schema)

    # ---- in batch

    def to_batch(self) -> Proxy:
        """Return what plans the tasks."""
        check_batch(self._options)
        return Proxy(self._jvm, self, self.interfaces)

    def plan_input_partitions(self) -> JavaObject:
        """Return what each task reads."""
        partition = self._jvm.named(PYTHON_PARTITION)
        return self._jvm.array(
            INPUT_PARTITION,
            [partition(number, split) for number, split in enumerate(self._plan[1])],
        )

    def create_reader_factory(self) -> JavaObject:
        """Return what reads in each task."""
        jvm = self._jvm
        return jvm.named(PYTHON_READERS)(
            python_source(jvm), self._plan[0], jvm.struct(self._schema), jvm.none, jvm.none
        )

    @cached_property
    def _plan(self) -> tuple[bytes, tuple[bytes, ...]]:
        """Return the reader and its splits, pickled as Spark's own planner pickles them."""
        out = BytesIO()
        write_read_func_and_partitions(
            out,
            reader=self._reader,
            data_source=HeadwaterSource({}),
            schema=self._schema,
            max_arrow_batch_size=_ROWS_PER_BATCH,
            binary_as_bytes=True,
        )
        out.seek(0)
        reader = _framed(out)
        return reader, tuple(_framed(out) for _ in range(_number(out)))

    # ---- in a stream

    def to_micro_batch_stream(self, checkpoint: str) -> JavaObject:
        """Return Spark's own stream over our source."""
        table = python_table(self._jvm, self._schema)
        scan = table.newScanBuilder(self._jvm.options(self._given)).build()
        return scan.toMicroBatchStream(checkpoint)


def _framed(source: BytesIO) -> bytes:
    return source.read(_number(source))


def _number(source: BytesIO) -> int:
    return int.from_bytes(source.read(_NUMBER_BYTES), "big")
