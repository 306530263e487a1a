"""Reading a view of lake and log: the splits that it has, and the rows of a task's share."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import StructType

from headwater.client.reading.gathering import gathered
from headwater.client.union.split import UnionSplit
from headwater.client.union.view import TableView
from headwater.client.union.viewing import AsyncView
from headwater.engines.spark.reading.pump import pumped
from headwater.engines.spark.reading.reading import Reading
from headwater.engines.spark.reading.union_shares import UnionShare, union_shares
from headwater.engines.spark.reading.views import named_partitions
from headwater.engines.spark.source_options import SourceOptions
from headwater.engines.spark.types import SparkBatches


@dataclass(frozen=True, slots=True)
class ViewShare:
    """Hold what one task reads of a view."""

    view: TableView
    splits: UnionShare
    is_tail: bool = False
    """Whether only the rows of the logs are read, since Spark reads the files."""


def view_splits(
    view: TableView, reading: Reading, options: SourceOptions
) -> tuple[UnionSplit, ...]:
    """Return the splits that hold wanted rows; of one view they are the same each time."""
    if options.limit == 0:
        return ()
    link = reading.link()
    planning = AsyncView.of(link.awaiting.cluster, view).plan(
        columns=known_columns(view, reading),
        where=reading.where,
        partitions=named_partitions(options, reading.table),
        limit=options.limit,
    )
    return link.loop.run(planning).splits


def shares_of(splits: tuple[UnionSplit, ...], options: SourceOptions) -> tuple[UnionShare, ...]:
    """Return what each task reads."""
    if options.limit is not None:
        # One task alone can tell when there are rows enough.
        return (splits,) if splits else ()
    return union_shares(splits, rows_max=options.split_rows)


def read_view(
    reading: Reading, share: ViewShare, *, schema: StructType, options: SourceOptions
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a share, reading on while Spark takes them."""
    if not share.splits:
        return
    link = reading.link()
    view = AsyncView.of(link.awaiting.cluster, share.view)
    batches = SparkBatches(schema, truncates_nanoseconds=options.truncates_nanoseconds)
    rows = _tail if share.is_tail else _rows
    for batch in pumped(link.loop, lambda: rows(view, share.splits, reading)):
        yield batches.cast(_widened(batch, batches.schema))


def known_columns(view: TableView, reading: Reading) -> Sequence[str]:
    """Return the columns that are read of those that the table had at the position.

    A stream that is started anew may want columns that came after its first view was taken.
    """
    held = view.table.schema.names
    # One column at least: rows cannot be read without any.
    return [name for name in reading.columns if name in held] or held[:1]


def _widened(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    missing = [field for field in schema if field.name not in batch.schema.names]
    for field in missing:
        batch = batch.append_column(field, pa.nulls(batch.num_rows, field.type))
    return batch


async def _rows(
    view: AsyncView, splits: UnionShare, reading: Reading
) -> AsyncGenerator[pa.RecordBatch, None]:
    columns = known_columns(view.value, reading)
    found = view.read(splits, columns=columns, where=reading.where, limit=reading.limit)
    async with aclosing(found) as batches:
        async for batch in gathered(batches):
            yield batch


async def _tail(
    view: AsyncView, splits: UnionShare, reading: Reading
) -> AsyncGenerator[pa.RecordBatch, None]:
    async with aclosing(view.tail_rows(splits, columns=reading.columns)) as batches:
        async for batch in gathered(batches):
            yield batch
