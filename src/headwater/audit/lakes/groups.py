"""Buckets as far as a lake keeps them apart: each alone, or all of a partition together."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headwater.audit.lakes.looked import Held, Looked
from headwater.lake.split import UNKNOWN_BUCKET, LakeSplit
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange
from headwater.model.partition import name_of_spec


class Group(NamedTuple):
    """Name the rows of a lake table that can be told apart by where their files lie."""

    partition: str | None
    bucket: int
    """The bucket, or `UNKNOWN_BUCKET` for all buckets of the partition."""

    def __str__(self) -> str:
        bucket = "all buckets" if self.bucket == UNKNOWN_BUCKET else f"bucket {self.bucket}"
        return bucket if self.partition is None else f"{bucket} of partition {self.partition}"


class Grouping:
    """Put splits and ranges of one table into the same groups."""

    def __init__(self, looked: Looked, splits: Iterable[LakeSplit]) -> None:
        self._looked = looked
        self._is_apart = all(split.bucket != UNKNOWN_BUCKET for split in splits)

    def of_split(self, split: LakeSplit) -> Group:
        """Return the group of the rows of a split."""
        name = name_of_spec(split.partition) if split.partition else None
        return Group(name, split.bucket if self._is_apart else UNKNOWN_BUCKET)

    def of_bucket(self, bucket: LakeBucket, held: Held) -> Group:
        """Return the group of the rows of a bucket."""
        name = held.name_of(bucket)
        if name is None and bucket.partition_id is not None:
            name = self._looked.partitions.get(bucket.partition_id)
        return Group(name, bucket.bucket if self._is_apart else UNKNOWN_BUCKET)

    def ranges(self, held: Held) -> dict[Group, dict[LakeBucket, OffsetRange]]:
        """Return the ranges of a snapshot by their groups."""
        found: dict[Group, dict[LakeBucket, OffsetRange]] = {}
        for bucket, offsets in held.ranges.items():
            found.setdefault(self.of_bucket(bucket, held), {})[bucket] = offsets
        return found


def first_bucket(buckets: Mapping[LakeBucket, OffsetRange]) -> LakeBucket:
    """Return the bucket that a finding about several ones names."""
    return min(buckets, key=lambda each: (each.partition_id or 0, each.bucket))
