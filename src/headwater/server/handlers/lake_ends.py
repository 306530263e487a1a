"""Checking what tierers say of how far they are: retention deletes rows on their word."""

from collections.abc import Mapping

from headwater.errors import BucketMissingError, PartitionMissingError, RequestError
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import TableBucket
from headwater.model.table import TableInfo
from headwater.runtime.turns import in_turns
from headwater.server.context import Context


def live_ends(
    info: TableInfo, ends: Mapping[LakeBucket, int], context: Context
) -> dict[LakeBucket, int]:
    """Return ends without those of partitions that were dropped meanwhile."""
    live: set[int | None] = {None}
    if info.descriptor.is_partitioned:
        live = {each.partition_id for each in context.catalog.partitions.list(info.path)}
    return {bucket: end for bucket, end in ends.items() if bucket.partition_id in live}


async def check_ends(info: TableInfo, ends: Mapping[LakeBucket, int], context: Context) -> None:
    """Refuse ends that no lake can have, since the log never had so many durable rows."""
    known = context.catalog.lake.ends(info.table_id)
    for bucket in ends:
        if not 0 <= bucket.bucket < (info.descriptor.bucket_count or 1):
            raise RequestError(f"{info.path} has no bucket {bucket.bucket}.")
    async for bucket, end in in_turns(live_ends(info, ends, context).items()):
        if end < 0:
            raise RequestError(f"{_named(bucket, info)} cannot end at offset {end}.")
        # What was believed before stays as it is: a log that was set back since spoils no report
        # of its neighbours. A bucket without rows need not be opened either.
        if end in (0, known.get(bucket)):
            continue
        log_end = await _log_end(info, bucket, context)
        if log_end is not None and end > log_end:
            raise RequestError(
                f"{_named(bucket, info)} is said to be tiered up to offset {end}, but its log"
                f" ends at {log_end}.",
                hint="The lake is that of another table, or the log was restored from an older"
                " copy: move the lake table away, or drop it.",
            )


async def _log_end(info: TableInfo, bucket: LakeBucket, context: Context) -> int | None:
    """Return the offset before which rows are durable; None if the bucket is gone."""
    place = TableBucket(info.table_id, bucket.bucket, bucket.partition_id)
    try:
        return (await context.tablets.tablet(place)).high_watermark
    except (BucketMissingError, PartitionMissingError):
        return None  # Dropped since the list was made.


def _named(bucket: LakeBucket, info: TableInfo) -> str:
    partition = "" if bucket.partition_id is None else f" of partition {bucket.partition_id}"
    return f"Bucket {bucket.bucket}{partition} of {info.path}"
