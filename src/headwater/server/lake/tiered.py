"""How far buckets are tiered."""

from collections.abc import Mapping

from headwater.model.boundary import LakeBucket
from headwater.model.bucket import TableBucket


def tiered_end(bucket: TableBucket, ends: Mapping[LakeBucket, int]) -> int:
    """Return the first offset of a bucket that the lake does not hold; 0: it holds nothing."""
    return ends.get(LakeBucket(bucket.partition_id, bucket.bucket), 0)
