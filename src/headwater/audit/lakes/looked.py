"""What an audit of a lake table looks at, all at once, so that its parts speak of the same."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.client.cluster import Cluster
from headwater.client.lake.coordinator import LakeCoordinator
from headwater.client.lake.values import ReportedSnapshot
from headwater.client.reading.offsets import list_offsets
from headwater.client.reading.places import Buckets, buckets_of, partitions_of
from headwater.client.union.newest import newest_table
from headwater.errors import AccessError, LakeSnapshotMissingError, UnsupportedError
from headwater.lake.lakes import lake_spec
from headwater.lake.spi import LakeSnapshot, LakeStorage
from headwater.lake.table import LakeTableSpec
from headwater.model.boundary import BOUNDARY_PROPERTY, LakeBucket
from headwater.model.bucket import OffsetRange
from headwater.model.table import TableInfo
from headwater.runtime.aside import aside


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
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
        """Return the id of the snapshot."""
        return self.snapshot.snapshot_id

    def name_of(self, bucket: LakeBucket) -> str | None:
        """Return the name of the partition of a bucket, if it has one."""
        return None if bucket.partition_id is None else self.names.get(bucket.partition_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
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
    line: tuple[Held, ...]
    """The newest snapshot and those before it that are kept, oldest first."""
    has_lake_table: bool
    buckets: Buckets
    logs: Mapping[LakeBucket, OffsetRange]
    partitions: Mapping[int, str]

    @property
    def newest(self) -> Held | None:
        """Return the newest snapshot."""
        return self.line[-1] if self.line else None

    def is_live(self, bucket: LakeBucket) -> bool:
        """Tell whether there is a log of a bucket."""
        return bucket in self.logs

    def fingerprint(self) -> tuple[object, ...]:
        """Return what has to stay for a finding to count: all but new rows at the ends of logs."""
        starts = tuple(sorted((str(bucket), held.start) for bucket, held in self.logs.items()))
        ids = tuple(each.snapshot_id for each in self.line)
        return (self.table.schema_id, str(self.reported), ids, starts)


async def look_at_lake(cluster: Cluster, known: TableInfo) -> Looked:
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
    return Looked(
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


def _held(snapshot: LakeSnapshot, reported: ReportedSnapshot | None) -> Held:
    """Return what a snapshot holds: as it says itself, or where it does not, as was reported."""
    boundary = snapshot.boundary
    is_own = BOUNDARY_PROPERTY in snapshot.properties
    if not is_own and reported is not None and reported.snapshot_id == snapshot.snapshot_id:
        told = {bucket: OffsetRange(0, end) for bucket, end in reported.ends.items()}
        return Held(snapshot=snapshot, ranges=told, has_starts=False)
    if boundary is None:
        return Held(snapshot=snapshot, has_starts=False)
    return Held(snapshot=snapshot, ranges=boundary.ranges, names=boundary.partitions, is_own=is_own)
