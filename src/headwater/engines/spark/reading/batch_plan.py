"""What a batch reads, pinned to the offsets of the moment at which it is planned."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from headwater.client.cluster import Cluster
from headwater.client.reading.log_batch import Place
from headwater.client.reading.offsets import When, list_offsets
from headwater.client.reading.places import Buckets
from headwater.client.virtual import VirtualKind
from headwater.engines.spark.reading.names import place_text
from headwater.engines.spark.reading.plan import one_share, shares
from headwater.engines.spark.reading.reading import Reading, check_image
from headwater.engines.spark.reading.selection import selected
from headwater.engines.spark.reading.splits import LogSplit, Share, Split, StateSplit
from headwater.engines.spark.source_options import SourceOptions
from headwater.errors import OffsetOutOfRangeError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def plan_batch(
    cluster: Cluster, reading: Reading, options: SourceOptions
) -> tuple[Share, ...]:
    """Return what each task reads.

    1. Find the buckets, and where their logs begin and the read ends. 2. Make shares of that.
    """
    splits = await splits_of(cluster, reading, options)
    if options.limit is not None:
        return one_share(splits) if options.limit else ()
    # The two halves of an update stay together.
    cuts = reading.virtual is not VirtualKind.BINLOG
    return shares(splits, split_rows=options.split_rows, cuts=cuts)


async def splits_of(cluster: Cluster, reading: Reading, options: SourceOptions) -> Sequence[Split]:
    """Return what is read of each bucket."""
    buckets = await selected(cluster, reading, options)
    starts, ends = await asyncio.gather(
        list_offsets(cluster, reading.table, "earliest", buckets=buckets),
        list_offsets(cluster, reading.table, _end(options), buckets=buckets),
    )
    if reading.is_state:
        if options.as_of_ms is not None:
            check_image(reading.table, wanted="Its rows as they were")
            _check_reaches_back(reading, starts, ends)
        return _states(buckets, ends)
    return _ranges(buckets, starts, ends=ends)


def moment(millis: int) -> datetime:
    """Return a moment that is given in milliseconds."""
    return _EPOCH + timedelta(milliseconds=millis)


def _end(options: SourceOptions) -> When:
    return "latest" if options.as_of_ms is None else moment(options.as_of_ms)


def _states(buckets: Buckets, ends: Mapping[Place, int]) -> list[StateSplit]:
    return [StateSplit(place, bucket, ends[place]) for place, bucket in buckets.items()]


def _ranges(
    buckets: Buckets, starts: Mapping[Place, int], *, ends: Mapping[Place, int]
) -> list[LogSplit]:
    return [
        LogSplit(place, bucket, starts[place], max(starts[place], ends[place]))
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
