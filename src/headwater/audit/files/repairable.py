"""One bucket as a repair finds it: its log, its snapshots, and what the lake holds of it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.audit.files.bucket_notes import BucketNotes
from headwater.audit.files.catalog_seen import CatalogSeen, TableSeen
from headwater.audit.files.giving_up import WayOut, way_out
from headwater.audit.files.log_leftovers import STATE_DIRECTORY
from headwater.audit.files.logs import LogSeen, audit_log
from headwater.audit.files.state_files import SnapshotSeen, StateFiles
from headwater.audit.report import Notes
from headwater.errors import MissingError, RequestError
from headwater.log.checkpoint import Checkpoint, encode_checkpoint
from headwater.log.mark import Mark
from headwater.model.bucket import OffsetRange, TableBucket
from headwater.store.disk import Disk

_ASIDE = re.compile(r".*\.(?:cut|aside)-(\d+)")
# It says where the log begins and nothing else: all segments are read at the next start.
NOTHING_KNOWN = (Mark(-1, 0, 0),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repairable:
    """Hold what is known of a bucket before anything is done to it."""

    path: str
    table: TableSeen
    names: tuple[str, ...]
    log: LogSeen
    snapshots: tuple[SnapshotSeen, ...]
    tiered_end: int

    @property
    def state_path(self) -> str:
        """Return the directory of the state."""
        return f"{self.path}/{STATE_DIRECTORY}"

    @property
    def number(self) -> int:
        """Return a number that no name of anything set aside ends in."""
        taken = [int(match[1]) for match in map(_ASIDE.fullmatch, self.names) if match]
        return max(taken, default=0) + 1

    def hint(self, hole: OffsetRange) -> str:
        """Say how to get out of a hole."""
        return f"Restore its files from a copy, or: {self.way_out(hole).option}."

    def way_out(self, hole: OffsetRange) -> WayOut:
        """Return the cure of a hole."""
        return way_out(hole, tiered_end=self.tiered_end)

    def fresh_checkpoint(self, start_offset: int) -> bytes:
        """Return the checkpoint of a log of which only the start is known."""
        lineage = self.log.lineage.since(start_offset)
        return encode_checkpoint(Checkpoint(start_offset, NOTHING_KNOWN, {}, lineage=lineage))


def find_bucket(
    catalog: CatalogSeen, table: TableSeen, *, bucket: int, partition: str | None
) -> TableBucket:
    """Return the bucket that is meant, or say that there is none."""
    count = table.descriptor.bucket_count or 1
    if not 0 <= bucket < count:
        raise MissingError(f"{table.name} has {count} buckets, numbered from 0.")
    if table.descriptor.is_partitioned != (partition is not None):
        raise RequestError(
            f"{table.name} is {'' if table.descriptor.is_partitioned else 'not '}partitioned.",
            hint="Give --partition for a bucket of a partitioned table, and for no other.",
        )
    if partition is None:
        return TableBucket(table.table_id, bucket)
    for partition_id, (table_id, name) in catalog.partitions.items():
        if (table_id, name) == (table.table_id, partition):
            return TableBucket(table.table_id, bucket, partition_id)
    raise MissingError(f"There is no partition '{partition}' of {table.name}.")


def examine(disk: Disk, catalog: CatalogSeen, bucket: TableBucket) -> Repairable:
    """Look at a bucket as an audit does, without saying what it finds."""
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
    return tuple(StateFiles(disk, f"{path}/{STATE_DIRECTORY}", unheard).snapshots())
