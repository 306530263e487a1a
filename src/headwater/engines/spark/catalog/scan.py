"""One read of a table: what Spark's optimizer pushes down, its size, and its plan.

It is planned here in the driver and run by Spark's own readers of Python sources.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from io import BytesIO

from py4j.java_gateway import JavaObject
from pyspark.sql import types as spark
from pyspark.sql.types import LongType, StructField, StructType
from pyspark.sql.udf import _wrap_function
from pyspark.sql.worker.plan_data_source_read import write_read_func_and_partitions

from headwater.engines.spark.catalog import filters
from headwater.engines.spark.catalog import jvm as java
from headwater.engines.spark.read.batch import BatchReader, row_count
from headwater.engines.spark.source import FORMAT, HeadwaterSource
from headwater.engines.spark.source_options import SourceOptions, check_batch
from headwater.model import Schema

# Estimated bytes per row, by column types.

_BYTES: dict[type[spark.DataType], int] = {
    spark.BooleanType: 1,
    spark.ByteType: 1,
    spark.ShortType: 2,
    spark.IntegerType: 4,
    spark.FloatType: 4,
    spark.DateType: 4,
    spark.StringType: 20,
    spark.BinaryType: 100,
    spark.DecimalType: 16,
    spark.ArrayType: 100,
    spark.MapType: 200,
}
_OTHERS = 8
# Spark's overhead for each row.
_ROW = 8


def row_width(schema: spark.StructType) -> int:
    """Estimated width of a row."""
    return _ROW + sum(column_width(field.dataType) for field in schema)


def column_width(kind: spark.DataType) -> int:
    """Estimated width of one value, with Spark's own defaults."""
    if isinstance(kind, spark.StructType):
        return sum(column_width(field.dataType) for field in kind)
    return _BYTES.get(type(kind), _OTHERS)


def narrowest(schema: spark.StructType) -> spark.StructType:
    """The column that is cheapest to read, for a query that needs rows but no values."""
    return spark.StructType([min(schema.fields, key=lambda field: column_width(field.dataType))])


# Spark's own machinery for Python sources.


def register_source(jvm: java.Jvm) -> None:
    """Register our source with the session, which need not be the active one.

    `spark.dataSource.register` looks for the name in the active session, and fails there.
    """
    manager = _manager(jvm)
    if not manager.dataSourceExists(FORMAT):
        wrapped = _wrap_function(jvm.session.sparkContext, HeadwaterSource)
        manager.registerDataSource(FORMAT, jvm.named(java.USER_SOURCE)(wrapped))


def python_source(jvm: java.Jvm) -> JavaObject:
    """Our source as registered in the session."""
    return jvm.kept("python source", lambda: _manager(jvm).lookupDataSource(FORMAT))


def python_table(jvm: java.Jvm, schema: StructType) -> JavaObject:
    """Spark's table over our source, new each time, since it caches what was read."""
    source = jvm.named(java.PYTHON_SOURCE)()
    source.setShortName(FORMAT)
    return jvm.named(java.PYTHON_TABLE)(source, FORMAT, jvm.struct(schema))


def _manager(jvm: java.Jvm) -> JavaObject:
    return jvm.session._jsparkSession.sessionState().dataSourceManager()  # noqa: SLF001


# The size of a scan, for Spark's optimizer.


class Statistics:
    """How much a scan reads."""

    def __init__(self, jvm: java.Jvm, *, rows: int, size: int) -> None:
        self._jvm = jvm
        self._rows = rows
        self._size = size

    def __str__(self) -> str:
        return f"{self._rows} rows, {self._size} bytes"

    def size_in_bytes(self) -> JavaObject:
        """Size of all rows."""
        return self._jvm.named("java.util.OptionalLong").of(self._size)

    def num_rows(self) -> JavaObject:
        """Number of rows."""
        return self._jvm.named("java.util.OptionalLong").of(self._rows)

    def column_stats(self) -> JavaObject:
        """No column statistics."""
        return self._jvm.kept("no column statistics", self._jvm.named("java.util.HashMap"))


# `count(*)` of a table, answered without reading rows.

COUNT_SCHEMA = StructType([StructField("count(*)", LongType(), nullable=False)])


class CountScan:
    """Answers `count(*)` with a known number."""

    def __init__(self, jvm: java.Jvm, *, rows: int, table: str) -> None:
        self._jvm = jvm
        self._rows = rows
        self._table = table

    def __str__(self) -> str:
        return f"count of {self._table}: {self._rows}"

    def read_schema(self) -> JavaObject:
        """The one column."""
        return self._jvm.struct(COUNT_SCHEMA)

    def description(self) -> str:
        """What EXPLAIN shows."""
        return f"headwater {self._table}, counted without reading"

    def supported_custom_metrics(self) -> JavaObject:
        """No metrics."""
        return self._jvm.array(java.METRIC)

    def report_driver_metrics(self) -> JavaObject:
        """No driver metrics."""
        return self._jvm.array(java.TASK_METRIC)

    def rows(self) -> JavaObject:
        """The one row."""
        row = self._jvm.named(java.GENERIC_ROW)(1)
        row.setLong(0, self._rows)
        return self._jvm.array(java.INTERNAL_ROW, [row])


# The scan.

# Rows come in batches already, which Spark takes as they are.
_ROWS_PER_BATCH = 10_000
_NUMBER_BYTES = 4
# Maximum length of a condition in EXPLAIN.
SHOWN_MAX = 400


class SparkScan:
    """Reads some columns of some rows of a table, once."""

    interfaces = (java.REPORTS_STATISTICS, java.BATCH)

    def __init__(
        self, jvm: java.Jvm, options: SourceOptions, schema: StructType, *, given: dict[str, str]
    ) -> None:
        self._jvm = jvm
        self._options = options
        self._schema = schema
        self._given = given

    def __str__(self) -> str:
        return f"{self._options!r} {self._schema.names}"

    # ---- what it is

    def read_schema(self) -> JavaObject:
        """The columns to read."""
        return self._jvm.struct(self._schema)

    def description(self) -> str:
        """What EXPLAIN shows."""
        parts = [f"headwater {self._options.table}"]
        if self._options.where is not None:
            parts.append(f"where {filters.where_text(self._options.where)}"[:SHOWN_MAX])
        if self._options.limit is not None:
            parts.append(f"limit {self._options.limit}")
        return ", ".join(parts)

    def columnar_support_mode(self) -> JavaObject:
        """Spark takes the rows out of the batches."""
        return self._jvm.kept(
            java.COLUMNAR_MODE, lambda: self._jvm.named(java.COLUMNAR_MODE).valueOf("UNSUPPORTED")
        )

    def supported_custom_metrics(self) -> JavaObject:
        """The metrics that Spark's Python readers count."""
        source = python_source(self._jvm)
        return self._jvm.kept("python metrics", source.createPythonMetrics)

    def report_driver_metrics(self) -> JavaObject:
        """No driver metrics."""
        return self._jvm.array(java.TASK_METRIC)

    # ---- what the optimizer asks

    def estimate_statistics(self) -> java.Proxy:
        """Estimate how much will be read."""
        rows = self._rows
        statistics = Statistics(self._jvm, rows=rows, size=max(1, rows * row_width(self._schema)))
        return java.Proxy(self._jvm, statistics, (java.STATISTICS,))

    def reflects_fully_pushed_down_filters(self) -> bool:
        """The estimate is for all rows."""
        return False

    @cached_property
    def _rows(self) -> int:
        return self._reader.estimated_rows()

    @cached_property
    def _reader(self) -> BatchReader:
        # One for all questions, so that a table with a lake is examined once.
        return BatchReader(self._options, self._schema)

    # ---- in batch

    def to_batch(self) -> java.Proxy:
        """The planner of the tasks."""
        check_batch(self._options)
        return java.Proxy(self._jvm, self, self.interfaces)

    def plan_input_partitions(self) -> JavaObject:
        """What each task reads."""
        partition = self._jvm.named(java.PYTHON_PARTITION)
        return self._jvm.array(
            java.INPUT_PARTITION,
            [partition(number, split) for number, split in enumerate(self._plan[1])],
        )

    def create_reader_factory(self) -> JavaObject:
        """What reads in each task."""
        jvm = self._jvm
        return jvm.named(java.PYTHON_READERS)(
            python_source(jvm), self._plan[0], jvm.struct(self._schema), jvm.none, jvm.none
        )

    @cached_property
    def _plan(self) -> tuple[bytes, tuple[bytes, ...]]:
        """The reader and its splits, pickled like Spark's own planner does."""
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
        """Spark's own stream over our source."""
        table = python_table(self._jvm, self._schema)
        scan = table.newScanBuilder(self._jvm.options(self._given)).build()
        return scan.toMicroBatchStream(checkpoint)


def _framed(source: BytesIO) -> bytes:
    return source.read(_number(source))


def _number(source: BytesIO) -> int:
    return int.from_bytes(source.read(_NUMBER_BYTES), "big")


# What Spark's optimizer pushes down: columns, conditions, a limit, a count.


class ScanBuilder:
    """Collects what one reference to a table needs; each reference has its own."""

    interfaces = (
        java.PUSHES_COLUMNS,
        java.PUSHES_PREDICATES,
        java.PUSHES_LIMIT,
        java.PUSHES_AGGREGATES,
    )

    def __init__(
        self,
        jvm: java.Jvm,
        options: SourceOptions,
        schema: StructType,
        *,
        filterable: Schema,
        given: dict[str, str],
    ) -> None:
        self._jvm = jvm
        self._options = options
        self._whole = self._wanted = schema
        self._filterable = filterable
        self._given = given
        # The user's own limit and filter come first, then Spark's conditions.
        self._is_open = options.where is None and options.limit is None
        self._branches: filters.Branches = filters.EVERYTHING
        self._pushed: list[JavaObject] = []
        self._count: int | None = None

    def __str__(self) -> str:
        return f"scan builder of {self._options.table} {id(self)}"

    # ---- columns

    def prune_columns(self, required: JavaObject) -> None:
        """Read only these columns; nested columns are read whole."""
        names = StructType.fromJson(json.loads(required.json())).names
        self._wanted = StructType([self._whole[name] for name in names])

    # ---- conditions

    def push_predicates(self, predicates: Sequence[JavaObject]) -> JavaObject:
        """Accept the conditions that can be tested here, and return the others."""
        left = [
            each for each in filters.items(predicates) if not (self._is_open and self._take(each))
        ]
        return self._jvm.array(java.PREDICATE, left)

    def _take(self, predicate: JavaObject) -> bool:
        expression = filters.read_predicate(predicate)
        if expression is None:
            return False
        branches = filters.branches_of_predicate(expression, self._filterable)
        joined = None if branches is None else filters.both(self._branches, branches)
        if joined is None:
            return False
        self._branches = joined
        self._pushed.append(predicate)
        return True

    def pushed_predicates(self) -> JavaObject:
        """The conditions that were accepted."""
        return self._jvm.array(java.PREDICATE, self._pushed)

    def supports_iterative_pushdown(self) -> bool:
        """One round is enough."""
        return False

    # ---- limit

    def push_limit(self, limit: int) -> bool:
        """Read no more rows than a limit."""
        if not self._is_open:
            return False
        self._options = replace(self._options, limit=limit)
        return True

    def is_partially_pushed(self) -> bool:
        """Spark must limit the rows as well."""
        return True

    # ---- count

    def support_complete_push_down(self, aggregation: JavaObject) -> bool:
        """Tell whether an aggregation is a plain `count(*)`."""
        if len(aggregation.groupByExpressions()):
            return False
        kinds = [each.getClass().getSimpleName() for each in aggregation.aggregateExpressions()]
        return kinds == ["CountStar"]

    def push_aggregation(self, aggregation: JavaObject) -> bool:
        """Count the rows here, if the number is known without reading them."""
        if not self.support_complete_push_down(aggregation):
            return False
        self._count = row_count(self._final())
        return self._count is not None

    # ---- done

    def build(self) -> java.Proxy:
        """Build the scan."""
        if self._count is not None:
            counted = CountScan(self._jvm, rows=self._count, table=self._options.table)
            return java.Proxy(self._jvm, counted, (java.LOCAL_SCAN,))
        schema = self._wanted if self._wanted.fields else narrowest(self._whole)
        options = replace(self._final(), columns=tuple(schema.names))
        scan = SparkScan(self._jvm, options, schema, given=self._given)
        return java.Proxy(self._jvm, scan, SparkScan.interfaces)

    def _final(self) -> SourceOptions:
        if self._branches == filters.EVERYTHING:
            return self._options
        return replace(self._options, where=self._branches)
