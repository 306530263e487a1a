"""Read a table once, pinned to the offsets of the moment at which the read is planned."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from headwater.cluster.cluster import Cluster
from headwater.engines.spark.read.selection import Reading, check_image, place_text, selected
from headwater.engines.spark.read.splits import (
    LogShare,
    Share,
    exact_rows,
    log_shares,
    parts_in_order,
    planned_of,
)
from headwater.engines.spark.read.task import read_share
from headwater.engines.spark.read.view import (
    ViewShare,
    read_view,
    reads_view,
    shares_of,
    view_splits,
    viewed,
)
from headwater.engines.spark.source_options import SourceOptions
from headwater.errors import OffsetOutOfRangeError, UnsupportedError
from headwater.model import OffsetRange
from headwater.read.offsets import Buckets, Place, When, count_rows, list_offsets
from headwater.read.split import LogPart, LogRange, StateAt, rows_max_of
from headwater.read.virtual import VirtualKind

# What a batch reads, pinned to the offsets of the moment at which it is planned.

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def plan_batch(
    cluster: Cluster, reading: Reading, options: SourceOptions
) -> tuple[LogShare, ...]:
    """Return what each task reads.

    1. Find the buckets, and where their logs begin and the read ends. 2. Make shares of that.
    """
    splits = await splits_of(cluster, reading, options)
    if options.limit is not None:
        # One task alone can tell when there are rows enough.
        parts = tuple(parts_in_order(splits)) if options.limit else ()
        return (LogShare(parts),) if parts else ()
    # The two halves of an update stay together.
    cuts = reading.virtual is not VirtualKind.BINLOG
    return log_shares(splits, split_rows=options.split_rows, cuts=cuts)


async def splits_of(
    cluster: Cluster, reading: Reading, options: SourceOptions
) -> Sequence[LogPart]:
    """Return what is read of each bucket."""
    buckets = await selected(cluster, reading, options)
    ends = await list_offsets(cluster, reading.table, _end(options), buckets=buckets)
    if reading.is_state and options.as_of_ms is None:
        return _states(buckets, ends)
    # After the ends: a log that is cut meanwhile answers a moment with its new first offset.
    starts = await list_offsets(cluster, reading.table, "earliest", buckets=buckets)
    if reading.is_state:
        check_image(reading.table, wanted="Its rows as they were")
        _check_reaches_back(reading, starts, ends)
        return _states(buckets, ends)
    return _ranges(buckets, starts, ends=ends)


def moment(millis: int) -> datetime:
    """Return a moment that is given in milliseconds."""
    return _EPOCH + timedelta(milliseconds=millis)


def _end(options: SourceOptions) -> When:
    return "latest" if options.as_of_ms is None else moment(options.as_of_ms)


def _states(buckets: Buckets, ends: Mapping[Place, int]) -> list[StateAt]:
    return [StateAt.of(place, bucket, ends[place]) for place, bucket in buckets.items()]


def _ranges(
    buckets: Buckets, starts: Mapping[Place, int], *, ends: Mapping[Place, int]
) -> list[LogRange]:
    return [
        LogRange.of(place, bucket, OffsetRange(starts[place], max(starts[place], ends[place])))
        for place, bucket in buckets.items()
    ]


def _check_reaches_back(
    reading: Reading, starts: Mapping[Place, int], ends: Mapping[Place, int]
) -> None:
    """Refuse to read rows as they were before the first change that the log still has."""
    # Where a log begins at the very offset, changes since the moment may be among those gone.
    lost = [place for place, end in ends.items() if starts[place] >= end and starts[place] > 0]
    if lost:
        bucket = place_text(lost[0], reading.table.descriptor.partition_keys)
        raise OffsetOutOfRangeError(
            f"{reading.table.path} cannot be read as it was at that moment: the log of bucket"
            f" {bucket} begins at offset {starts[lost[0]]}, which is not before it.",
            hint="Ask for a later moment, or give 'table.log.ttl' a longer time.",
        )


# How many rows a read has, told without reading them.


def row_count(options: SourceOptions) -> int | None:
    """Return how many rows there are exactly, or None where only reading tells."""
    reading = Reading.whole(options)
    if options.where is not None:
        return None
    if reads_view(reading, options):
        return _limited(_rows_of_view(options), options)
    link = reading.link()
    rows = link.loop.run(_rows(link.awaiting.cluster, reading, options))
    return _limited(rows, options)


def _rows_of_view(options: SourceOptions) -> int | None:
    reading, view = viewed(options)
    assert view is not None
    splits = view_splits(view, reading, replace(options, limit=None))
    rows = exact_rows(splits, is_keyed=view.table.is_keyed)
    # Of partitions that were dropped the lake may have rows still, under names of others too.
    asks = view.table.is_keyed and not view.table.is_partitioned and options.position.is_latest
    if rows is not None or not asks:
        return rows
    link = reading.link()
    return link.loop.run(_rows(link.awaiting.cluster, reading, options))


def estimated_rows(options: SourceOptions) -> int:
    """Return how many rows there are about: of a filtered read, as many as it looks at."""
    reading = Reading.whole(options)
    link = reading.link()
    cluster = link.awaiting.cluster
    rows = link.loop.run(_rows(cluster, reading, options))
    if rows is None:
        splits = link.loop.run(splits_of(cluster, reading, options))
        rows = sum(map(rows_max_of, splits))
    return _limited(rows, options) or 0


async def _rows(cluster: Cluster, reading: Reading, options: SourceOptions) -> int | None:
    """Return how many rows are in the selected buckets, if that is known."""
    if not reading.table.is_keyed:
        return sum(map(rows_max_of, await splits_of(cluster, reading, options)))
    if reading.virtual is not None or options.as_of_ms is not None:
        # Writes that changed nothing take offsets of the log as well.
        return None
    buckets = await selected(cluster, reading, options)
    try:
        return await count_rows(cluster, reading.table, buckets=buckets)
    except UnsupportedError:
        return None


def _limited(rows: int | None, options: SourceOptions) -> int | None:
    return rows if rows is None or options.limit is None else min(rows, options.limit)


# Reading a table once.


class BatchReader(DataSourceReader):
    """Read the rows of a table as they are when the read is planned, however often it is run.

    A table with a lake is read from there, and from its log where the lake ends. Else a log table
    is read from its first row to its last, a primary-key table as its rows are at one offset of
    each bucket.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        planned = None if options.planned is None else planned_of(options.planned)
        self._is_tail = planned is not None and planned.is_tail
        self._planned = None if planned is None else planned.splits
        self._options = replace(options, planned=None)
        self._schema = schema
        # The view travels to the tasks with the reader, once for all of their shares.
        whole, self._view = viewed(options)
        self._reading = whole.asked(schema, follows=False)

    def __getstate__(self) -> dict[str, object]:
        # Tasks have their own splits.
        own = ("_splits", "_planned")
        return {name: value for name, value in self.__dict__.items() if name not in own}

    def partitions(self) -> list[InputPartition]:
        """Plan the read, one partition for each task of Spark."""
        if self._view is not None:
            return [InputPartition(share) for share in shares_of(self._splits, self._options)]
        link = self._reading.link()
        planned = link.loop.run(plan_batch(link.awaiting.cluster, self._reading, self._options))
        return [InputPartition(share) for share in planned]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task."""
        # Where there is nothing to read, Spark makes a task of its own that has no share.
        if self._view is not None:
            share = ViewShare(self._view, partition.value or (), self._is_tail)
            return read_view(self._reading, share, schema=self._schema, options=self._options)
        return read_share(
            self._reading,
            partition.value or LogShare(),
            schema=self._schema,
            truncates_nanoseconds=self._options.truncates_nanoseconds,
        )

    def estimated_rows(self) -> int:
        """Return how many rows there are about: of a filtered read, as many as it looks at."""
        if self._view is None:
            return estimated_rows(self._options)
        rows = sum(map(rows_max_of, self._splits))
        return rows if self._options.limit is None else min(rows, self._options.limit)

    @cached_property
    def _splits(self) -> Share:
        if self._planned is not None:
            return self._planned
        assert self._view is not None
        return view_splits(self._view, self._reading, self._options)
