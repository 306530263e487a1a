"""How many rows the lake does not hold yet."""

from collections.abc import Iterable, Mapping

from headwater.model.boundary import LakeBucket
from headwater.model.bucket import TableBucket

Ends = Mapping[LakeBucket, int]


def tiered_end(bucket: TableBucket, ends: Ends) -> int:
    """Return the first offset of a bucket that the lake does not hold; 0: it holds nothing."""
    return ends.get(LakeBucket(bucket.partition_id, bucket.bucket), 0)


def untiered_rows(logs: Iterable[tuple[TableBucket, int, int]], ends: Ends) -> int:
    """Return how many offsets lie beyond the lake, given start and end of each log."""
    return sum(max(end - max(start, tiered_end(bucket, ends)), 0) for bucket, start, end in logs)
