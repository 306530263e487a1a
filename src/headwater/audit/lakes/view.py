"""What an audit of a lake table looks at, all at once, and how it words what it finds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headwater.audit.report import Check, Finding, Severity
from headwater.cluster.admin import newest_table
from headwater.cluster.cluster import Cluster
from headwater.cluster.lake import LakeCoordinator, ReportedSnapshot
from headwater.errors import AccessError, HeadwaterError, LakeSnapshotMissingError, UnsupportedError
from headwater.lake.lakes import lake_spec
from headwater.lake.spi import LakeSnapshot, LakeStorage, LakeTableSpec
from headwater.lake.split import UNKNOWN_BUCKET, LakeSplit
from headwater.model import LakeBucket, OffsetRange, TableInfo, TablePath
from headwater.model.boundary import BOUNDARY_PROPERTY
from headwater.model.path import name_of_spec
from headwater.read.offsets import Buckets, buckets_of, list_offsets, partitions_of
from headwater.runtime.tasks import aside

# What an audit of a lake table looks at, all at once, so that its parts speak of the same.


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotExtent:
    """Say which offsets a snapshot holds, and who says so."""

    snapshot: LakeSnapshot
    ranges: Mapping[LakeBucket, OffsetRange] = field(default_factory=dict)
    names: Mapping[int, str] = field(default_factory=dict)
    """The partitions that have ranges."""
    is_own: bool = False
    """Whether the snapshot carries its boundary itself: one that others commit does not."""
    has_starts: bool = True
    """Whether it is known where ranges begin, which servers are not told."""

    @property
    def snapshot_id(self) -> int:
        """Its number in the lake."""
        return self.snapshot.snapshot_id

    def name_of(self, bucket: LakeBucket) -> str | None:
        """Return the name of the partition of a bucket, if it has one."""
        return None if bucket.partition_id is None else self.names.get(bucket.partition_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeView:
    """Hold a table, its lake table and its logs as they were found one after the other.

    What the server was told was asked for before the lake, and the lake before the logs: nothing
    that comes earlier can be news to what comes later.
    """

    cluster: Cluster
    table: TableInfo
    lake: LakeStorage
    spec: LakeTableSpec
    storage_id: str | None
    """None where the server does not tell, or not to everybody."""
    reported: ReportedSnapshot | None
    line: tuple[SnapshotExtent, ...]
    """The newest snapshot and those before it that are kept, oldest first."""
    has_lake_table: bool
    buckets: Buckets
    logs: Mapping[LakeBucket, OffsetRange]
    partitions: Mapping[int, str]

    @property
    def newest(self) -> SnapshotExtent | None:
        """The last of the line; None before anything was tiered."""
        return self.line[-1] if self.line else None

    def is_live(self, bucket: LakeBucket) -> bool:
        """Tell whether there is a log of a bucket."""
        return bucket in self.logs

    def fingerprint(self) -> tuple[object, ...]:
        """Return what has to stay for a finding to count: all but new rows at the ends of logs."""
        starts = tuple(sorted((str(bucket), held.start) for bucket, held in self.logs.items()))
        ids = tuple(each.snapshot_id for each in self.line)
        return (self.table.schema_id, str(self.reported), ids, starts)


async def look_at_lake(cluster: Cluster, known: TableInfo) -> LakeView:
    """Look at a table.

    1. Ask for its columns. 2. Ask what the server was told. 3. Ask the lake for its snapshots.
    4. Ask how far the logs reach.
    """
    table = await newest_table(cluster, known)
    storage_id = await _storage_id(cluster)
    reported = await LakeCoordinator(cluster).snapshot(table.path)
    if reported is not None and reported.table_id != table.table_id:
        reported = None
    spec = lake_spec(table)
    lake = await aside(cluster.lakes.of, table)
    found = await aside(_line, lake, spec)
    buckets = await buckets_of(cluster, table)
    starts = await list_offsets(cluster, table, "earliest", buckets=buckets)
    ends = await list_offsets(cluster, table, "latest", buckets=buckets)
    return LakeView(
        cluster=cluster,
        table=table,
        lake=lake,
        spec=spec,
        storage_id=storage_id,
        reported=reported,
        line=() if found is None else tuple(_held(each, reported) for each in found),
        has_lake_table=found is not None,
        buckets=buckets,
        logs={
            LakeBucket(bucket.partition_id, bucket.bucket): OffsetRange(starts[at], ends[at])
            for at, bucket in buckets.items()
        },
        partitions=partitions_of(buckets),
    )


async def _storage_id(cluster: Cluster) -> str | None:
    try:
        return (await LakeCoordinator(cluster).heartbeat()).storage_id
    except (AccessError, UnsupportedError):
        return None


def _line(lake: LakeStorage, spec: LakeTableSpec) -> list[LakeSnapshot] | None:
    """Return the newest snapshot and those before it, oldest first; None without a lake table."""
    try:
        source = lake.source(spec)
    except LakeSnapshotMissingError:
        return None
    try:
        snapshot = source.snapshot()
    except LakeSnapshotMissingError:
        return None
    kept = {each.snapshot_id: each for each in source.snapshots()}
    line: list[LakeSnapshot] = []
    while snapshot is not None:
        line.append(snapshot)
        parent = snapshot.parent_id
        snapshot = None if parent is None else kept.get(parent)
    return line[::-1]


def _held(snapshot: LakeSnapshot, reported: ReportedSnapshot | None) -> SnapshotExtent:
    """Return what a snapshot holds: as it says itself, or where it does not, as was reported."""
    boundary = snapshot.boundary
    is_own = BOUNDARY_PROPERTY in snapshot.properties
    if not is_own and reported is not None and reported.snapshot_id == snapshot.snapshot_id:
        told = {bucket: OffsetRange(0, end) for bucket, end in reported.ends.items()}
        return SnapshotExtent(snapshot=snapshot, ranges=told, has_starts=False)
    if boundary is None:
        return SnapshotExtent(snapshot=snapshot, has_starts=False)
    return SnapshotExtent(
        snapshot=snapshot, ranges=boundary.ranges, names=boundary.partitions, is_own=is_own
    )


# Buckets as far as a lake keeps them apart: each alone, or all of a partition together.


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

    def __init__(self, looked: LakeView, splits: Iterable[LakeSplit]) -> None:
        self._looked = looked
        self._is_apart = all(split.bucket != UNKNOWN_BUCKET for split in splits)

    def of_split(self, split: LakeSplit) -> Group:
        """Return the group of the rows of a split."""
        name = name_of_spec(split.partition) if split.partition else None
        return Group(name, split.bucket if self._is_apart else UNKNOWN_BUCKET)

    def of_bucket(self, bucket: LakeBucket, held: SnapshotExtent) -> Group:
        """Return the group of the rows of a bucket."""
        name = held.name_of(bucket)
        if name is None and bucket.partition_id is not None:
            name = self._looked.partitions.get(bucket.partition_id)
        return Group(name, bucket.bucket if self._is_apart else UNKNOWN_BUCKET)

    def ranges(self, held: SnapshotExtent) -> dict[Group, dict[LakeBucket, OffsetRange]]:
        """Return the ranges of a snapshot by their groups."""
        found: dict[Group, dict[LakeBucket, OffsetRange]] = {}
        for bucket, offsets in held.ranges.items():
            found.setdefault(self.of_bucket(bucket, held), {})[bucket] = offsets
        return found


def first_bucket(buckets: Mapping[LakeBucket, OffsetRange]) -> LakeBucket:
    """Return the bucket that a finding about several ones names."""
    return min(buckets, key=lambda each: (each.partition_id or 0, each.bucket))


# A few snapshots that stand for many.


def thinned(line: Sequence[SnapshotExtent], count_max: int) -> list[SnapshotExtent]:
    """Return the oldest and the newest snapshots, if there are too many."""
    if len(line) <= count_max:
        return list(line)
    return [line[0], *line[-(count_max - 1) :]]


# Findings about one lake table, in its words.


@dataclass(frozen=True, slots=True)
class LakeFindings:
    """Write findings about one table."""

    path: TablePath
    partitions: dict[int, str]
    """The names of all partitions that the table or its lake table knows."""

    def bucket(
        self,
        check: Check,
        bucket: LakeBucket,
        message: str,
        *,
        remedy: str,
        offset: int | None = None,
        severity: Severity = Severity.ERROR,
    ) -> Finding:
        """Say what is wrong with a bucket."""
        return Finding(
            check=check,
            severity=severity,
            table=str(self.path),
            partition=self.name_of(bucket),
            bucket=bucket.bucket,
            offset=offset,
            message=message,
            remedy=remedy,
        )

    def table(
        self,
        check: Check,
        message: str,
        *,
        remedy: str,
        partition: str | None = None,
        severity: Severity = Severity.ERROR,
    ) -> Finding:
        """Say what is wrong with the whole table, or with a partition of it."""
        return Finding(
            check=check,
            severity=severity,
            table=str(self.path),
            partition=partition,
            message=message,
            remedy=remedy,
        )

    def fault(self, check: Check, fault: HeadwaterError) -> Finding:
        """Say that something could not be read, and why."""
        return self.table(check, fault.message, remedy=fault.hint)

    def name_of(self, bucket: LakeBucket) -> str | None:
        """Return the name of the partition of a bucket, or its number if that is not known."""
        number = bucket.partition_id
        return None if number is None else self.partitions.get(number, f"number {number}")
