"""Shuffle rows by bucket, so that one task of an epoch has all rows of a bucket."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from headwater.cluster.router import Router
from headwater.engines.spark.clients import SparkConnection
from headwater.engines.spark.options import SERVERS, SERVERS_DEFAULT, SINK_OPTIONS, given_options
from headwater.engines.spark.sink_columns import ORDER_COLUMN, TASK_COLUMN
from headwater.errors import InvalidValueError
from headwater.model import TableDescriptor
from headwater.model.arrow import arrow_schema
from headwater.read.virtual import LOG_OFFSET
from headwater.rows.columns import cast_column


@dataclass(frozen=True, slots=True)
class TaskNumbers:
    """Assigns rows of a table to tasks."""

    descriptor: TableDescriptor
    count: int

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that determine the bucket of a row; empty if any bucket will do."""
        keys = self.descriptor.bucket_keys or self.descriptor.physical_primary_key
        return tuple(dict.fromkeys((*self.descriptor.partition_keys, *keys))) if keys else ()

    def of(self, *columns: pa.Array) -> pa.Array:
        """The task of each row, given the columns in `names`."""
        schema = arrow_schema(self.descriptor.schema)
        fields = [schema.field(name) for name in self.names]
        batch = pa.RecordBatch.from_arrays(
            [cast_column(column, field) for column, field in zip(columns, fields, strict=True)],
            names=list(self.names),
        )
        tasks = np.zeros(batch.num_rows, np.int32)
        for share in Router.of(self.descriptor).route(batch):
            assert share.bucket is not None
            # Partitions start at different tasks, or the first task would have most of the work.
            first = 0 if share.partition is None else zlib.crc32(share.partition.encode())
            tasks[slice(None) if share.rows is None else share.rows] = (
                first + share.bucket
            ) % self.count
        return pa.array(tasks)


TASKS_MAX = 100_000


def by_bucket(
    df: DataFrame,
    table: str,
    *,
    bootstrap_servers: str = SERVERS_DEFAULT,
    tasks: int | None = None,
    order_by: str | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Shuffle rows so that all rows of a bucket of a table are written by one task.

    Use it as the last step before `write` or `writeStream`, of a batch or a stream:

        by_bucket(df, "shop.orders").writeStream.format("headwater").option("table", "shop.orders")

    There are as many tasks as the table has buckets, unless `tasks` says otherwise. It pays off if
    many tasks would each send a few rows to every bucket. It also weakens the condition for
    exactly-once: a micro-batch that is run again must have the same rows, in any tasks. Without it,
    each task must have the same rows as before, which a shuffle in the query does not guarantee
    unless all its keys decide where a row goes. A table without a bucket key distributes its rows
    by content, and `tasks` must stay the same for it.

    Rows of one key keep their order within a task, but not across tasks. `order_by` names a column
    by which the sink sorts the rows of a primary-key table; for a changelog that is `_log_offset`
    by default.
    """
    given = {SERVERS.name: bootstrap_servers, **(options or {})}
    connection = SparkConnection.of(given_options(given, SINK_OPTIONS))
    descriptor = connection.client().table(table).info.descriptor
    count = _tasks(tasks, descriptor)
    # Chosen again, in case the rows were shuffled for another table before.
    rows = df.drop(TASK_COLUMN, ORDER_COLUMN)
    task = _task(rows, TaskNumbers(descriptor, count), path=table)
    if descriptor.is_keyed and (order := order_by or _own_order(df, descriptor)):
        rows = rows.withColumn(ORDER_COLUMN, _named(order))
    return rows.withColumn(TASK_COLUMN, task).repartitionById(count, TASK_COLUMN)


def _tasks(wanted: int | None, descriptor: TableDescriptor) -> int:
    count = (descriptor.bucket_count or 1) if wanted is None else wanted
    if not 1 <= count <= TASKS_MAX:
        raise InvalidValueError(f"The number of tasks must be 1 to {TASKS_MAX}, not {count}.")
    return count


def _own_order(df: DataFrame, descriptor: TableDescriptor) -> str | None:
    name = LOG_OFFSET.name
    return name if name in df.columns and name not in descriptor.schema.names else None


def _task(df: DataFrame, numbers: TaskNumbers, *, path: str) -> Column:
    if not numbers.names:
        hashed = [field.name for field in df.schema if _has_hash(field.dataType)]
        content = F.xxhash64(*map(_named, hashed)) if hashed else F.lit(0)
        return F.pmod(content, F.lit(numbers.count)).cast("int")
    for name in numbers.names:
        if name not in df.columns:
            raise InvalidValueError(
                f"The rows have no column '{name}', which determines the bucket in {path}.",
                hint=f"Their columns are {', '.join(df.columns)}.",
            )
    # The stubs ask for the kind of the function; the function itself needs none.
    task_of = arrow_udf(numbers.of, "int")  # type: ignore[call-overload]
    return task_of(*map(_named, numbers.names))


def _named(name: str) -> Column:
    # Quoted, since a dot in a name would lead into a struct.
    return F.col(f"`{name.replace('`', '``')}`")


def _has_hash(kind: DataType) -> bool:
    match kind:
        case MapType():
            return False
        case ArrayType(elementType=element):
            return _has_hash(element)
        case StructType(fields=fields):
            return all(_has_hash(field.dataType) for field in fields)
        case _:
            return True
