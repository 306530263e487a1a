"""Views of lake and log: when a read takes one, at which position, and what tasks read of it."""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.types import StructType

from headwater.client.client import AsyncClient
from headwater.client.view import AsyncView
from headwater.engines.spark.options import ScanMode
from headwater.engines.spark.read.selection import Reading, partition_of, place_of
from headwater.engines.spark.read.splits import PlannedSplits, Share, packed, planned_of
from headwater.engines.spark.read.task import pumped
from headwater.engines.spark.source_options import LakePosition, SourceOptions
from headwater.engines.spark.types import SparkBatches
from headwater.model import TableInfo
from headwater.model.path import spec_of_name
from headwater.read.offsets import Place
from headwater.read.position import has_lake
from headwater.read.sources import gathered
from headwater.read.view import TableView

# Views of lake and log: when a read takes one, at which position, and what tasks read of it.


def reads_view(reading: Reading, options: SourceOptions) -> bool:
    """Tell whether lake and log are read as one; else servers are asked alone, as ever."""
    if reading.virtual is not None:
        return False
    is_union = options.position.mode is ScanMode.UNION and has_lake(reading.table)
    return is_union or options.position.needs_view


def viewed(options: SourceOptions) -> tuple[Reading, TableView | None]:
    """Find a table, and take a view of it if the read needs one, whose columns count then."""
    whole = Reading.whole(options)
    if options.planned is not None:
        return _planned(whole, planned_of(options.planned))
    if not reads_view(whole, options):
        return whole, None
    link = whole.link()
    view = link.loop.run(look(link.awaiting, whole.table, options.position)).value
    return replace(whole, table=view.table), view


def _planned(whole: Reading, planned: PlannedSplits) -> tuple[Reading, TableView]:
    """Return as much of a view as is needed to read splits that are known."""
    link, table = whole.link(), whole.table
    schema = link.loop.run(link.awaiting.cluster.schema(table, planned.schema_id))
    known = replace(
        table,
        schema_id=planned.schema_id,
        descriptor=replace(table.descriptor, schema=schema),
    )
    return replace(whole, table=known), TableView(table=known, snapshot=None, logs={})


async def look(client: AsyncClient, table: TableInfo, position: LakePosition) -> AsyncView:
    """Return a table at a position."""
    found = await client.table(str(table.path))
    return await found.view(
        token=position.token,
        snapshot_id=position.snapshot_id,
        as_of=position.as_of_ms,
        offsets=_ends(position, table),
        mode=str(position.mode),
    )


def _ends(position: LakePosition, table: TableInfo) -> Mapping[Place | int, int] | None:
    if position.ends is None:
        return None
    keys = table.descriptor.partition_keys
    return {place_of(text, keys): offset for text, offset in position.ends.items()}


def named_partitions(options: SourceOptions, table: TableInfo) -> list[Mapping[str, str]] | None:
    """Return the partitions that are asked for, by the value of each of their keys."""
    if options.partitions is None:
        return None
    keys = table.descriptor.partition_keys
    return [dict(spec_of_name(partition_of(each, keys), keys)) for each in options.partitions]


# Reading a view of lake and log: the splits that it has, and the rows of a task's share.


@dataclass(frozen=True, slots=True)
class ViewShare:
    """Hold what one task reads of a view."""

    view: TableView
    splits: Share
    is_tail: bool = False
    """Whether only the rows of the logs are read, since Spark reads the files."""


def view_splits(view: TableView, reading: Reading, options: SourceOptions) -> Share:
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


def shares_of(splits: Share, options: SourceOptions) -> tuple[Share, ...]:
    """Share splits out to tasks; a limit needs one task alone."""
    if options.limit is not None:
        # One task alone can tell when there are rows enough.
        return (splits,) if splits else ()
    return tuple(packed(splits, rows_max=options.split_rows))


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
    view: AsyncView, splits: Share, reading: Reading
) -> AsyncGenerator[pa.RecordBatch, None]:
    columns = known_columns(view.value, reading)
    found = view.read(splits, columns=columns, where=reading.where, limit=reading.limit)
    async with aclosing(found) as batches:
        async for batch in gathered(batches):
            yield batch


async def _tail(
    view: AsyncView, splits: Share, reading: Reading
) -> AsyncGenerator[pa.RecordBatch, None]:
    async with aclosing(view.tail_rows(splits, columns=reading.columns)) as batches:
        async for batch in gathered(batches):
            yield batch
