"""Examine one bucket before a repair, and find where an offset begins in its segments."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.audit.files.catalog import CatalogSeen, TableSeen
from headwater.audit.files.logs import STATE_DIRECTORY, LogSeen, audit_log
from headwater.audit.files.notes import BucketNotes, WayOut, way_out
from headwater.audit.files.segments import Stream, walk
from headwater.audit.files.states import SnapshotSeen, StateFilesSeen
from headwater.audit.report import Notes
from headwater.errors import MissingError, RequestError
from headwater.log.segment import Mark, SegmentName, segment_names
from headwater.log.small_files import Checkpoint, encode_checkpoint
from headwater.model import OffsetRange, TableBucket
from headwater.rows.log_batch import BatchHeader
from headwater.store.disk import Disk

# One bucket before a repair: its log, its snapshots, and what the lake holds of it.

_ASIDE = re.compile(r".*\.(?:cut|aside)-(\d+)")
# It only records where the log begins: all segments are read at the next start.
NOTHING_KNOWN = (Mark(-1, 0, 0),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repairable:
    """What is known about a bucket before anything is done to it."""

    path: str
    table: TableSeen
    names: tuple[str, ...]
    log: LogSeen
    snapshots: tuple[SnapshotSeen, ...]
    tiered_end: int

    @property
    def state_path(self) -> str:
        """Directory of the state."""
        return f"{self.path}/{STATE_DIRECTORY}"

    @property
    def number(self) -> int:
        """A number that no set-aside file name uses yet."""
        taken = [int(match[1]) for match in map(_ASIDE.fullmatch, self.names) if match]
        return max(taken, default=0) + 1

    def hint(self, hole: OffsetRange) -> str:
        """Say how to get past a hole."""
        return f"Restore its files from a copy, or: {self.way_out(hole).option}."

    def way_out(self, hole: OffsetRange) -> WayOut:
        """Choose the repair for a hole."""
        return way_out(hole, tiered_end=self.tiered_end)

    def fresh_checkpoint(self, start_offset: int) -> bytes:
        """A checkpoint of which only the start offset is known."""
        lineage = self.log.lineage.since(start_offset)
        return encode_checkpoint(Checkpoint(start_offset, NOTHING_KNOWN, {}, lineage=lineage))


def find_bucket(
    catalog: CatalogSeen, table: TableSeen, *, bucket: int, partition: str | None
) -> TableBucket:
    """Find the bucket; raises if there is none."""
    count = table.descriptor.bucket_count or 1
    if not 0 <= bucket < count:
        raise MissingError(f"{table.name} has {count} buckets, numbered from 0.")
    if table.descriptor.is_partitioned != (partition is not None):
        raise RequestError(
            f"{table.name} is {'' if table.descriptor.is_partitioned else 'not '}partitioned.",
            hint="Use --partition only for a bucket of a partitioned table.",
        )
    if partition is None:
        return TableBucket(table.table_id, bucket)
    for partition_id, (table_id, name) in catalog.partitions.items():
        if (table_id, name) == (table.table_id, partition):
            return TableBucket(table.table_id, bucket, partition_id)
    raise MissingError(f"{table.name} has no partition '{partition}'.")


def examine(disk: Disk, catalog: CatalogSeen, bucket: TableBucket) -> Repairable:
    """Examine a bucket like an audit, without reporting findings."""
    table = catalog.tables[bucket.table_id]
    partition = "" if bucket.partition_id is None else f"p{bucket.partition_id}/"
    path = f"{bucket.table_id}/{partition}{bucket.bucket}"
    unheard = BucketNotes(notes=Notes(), bucket=bucket.bucket)
    try:
        names = disk.listdir(path)
    except FileNotFoundError:
        raise MissingError(
            f"Bucket {bucket.bucket} of {table.name} has no files: nothing was written to it."
        ) from None
    return Repairable(
        path=path,
        table=table,
        names=tuple(names),
        log=audit_log(disk, path, unheard),
        snapshots=_snapshots(disk, path, names, unheard),
        tiered_end=catalog.tiered_end(bucket),
    )


def _snapshots(
    disk: Disk, path: str, names: Sequence[str], unheard: BucketNotes
) -> tuple[SnapshotSeen, ...]:
    if STATE_DIRECTORY not in names:
        return ()
    return tuple(StateFilesSeen(disk, f"{path}/{STATE_DIRECTORY}", unheard).snapshots())


@dataclass(frozen=True, slots=True, kw_only=True)
class CutPlace:
    """The segment that ends at an offset once it is cut; None if none is left."""

    offset: int
    segment: SegmentName | None = None
    position: int = 0
    size: int = 0


def find_place(disk: Disk, bucket: Repairable, offset: int) -> CutPlace:
    """Find where an offset begins; raises for one inside a batch."""
    start_offset = bucket.log.start_offset
    kept = [name for name in segment_names(bucket.names) if name.base_offset < offset]
    if not kept or offset <= start_offset:
        return CutPlace(offset=offset)
    name = kept[-1]
    stream = Stream(disk.open(f"{bucket.path}/{name}"))
    search = _Search(offset)
    walk(stream, start=Mark(name.base_offset, 0, 0), visit=search.take)
    return CutPlace(offset=offset, segment=name, position=search.position, size=stream.size)


class _Search:
    """Adds up the batches before an offset."""

    def __init__(self, offset: int) -> None:
        self._offset = offset
        self.position = 0

    def take(self, header: BatchHeader, _: memoryview) -> None:
        if header.end_offset <= self._offset:
            self.position += header.size
        elif header.base_offset < self._offset:
            raise RequestError(
                f"Offset {self._offset} is inside a batch, which can only be kept or cut "
                "as a whole.",
                hint=f"Cut the log at {header.base_offset} or at {header.end_offset}.",
            )
