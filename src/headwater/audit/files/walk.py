"""Audit a data directory that is not open: every file is read, and none is changed."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwater.audit.files.catalog import RESTORE, CatalogSeen, TableSeen, read_catalog
from headwater.audit.files.lake import audit_lake_metadata, check_boundaries
from headwater.audit.files.logs import STATE_DIRECTORY, LogSeen, audit_log
from headwater.audit.files.notes import BucketNotes, CheckTally
from headwater.audit.files.rows import Bodies
from headwater.audit.files.states import audit_state, check_without_files
from headwater.audit.report import REPORT_NAME, Check, Finding, Notes, Severity
from headwater.errors import HeadwaterError
from headwater.model import TableBucket
from headwater.model.bucket import BLOCK_MIN
from headwater.server.catalog.catalog import CATALOG_NAME
from headwater.server.catalog.ids import BLOCKS_MAX
from headwater.server.catalog.lock import LOCK_NAME
from headwater.server.disk_space import RESERVE_NAME
from headwater.store.disk import Disk
from headwater.store.local import LocalDisk

# Finding the buckets of a data directory.

DROPPED = "dropped"
_PARTITION = re.compile(r"p(\d+)")


@dataclass(frozen=True, slots=True)
class BucketPlace:
    """The directory of a bucket."""

    bucket: TableBucket
    path: str


@dataclass(frozen=True, slots=True)
class Stray:
    """A file or directory that belongs to no table."""

    path: str


def places(disk: Disk) -> Iterator[BucketPlace | Stray]:
    """Yield the buckets on a disk, and whatever else lies between them."""
    for name in disk.listdir(""):
        inside = _listed(disk, name)
        if not name.isdecimal() or inside is None:
            yield Stray(name)
        else:
            for each in inside:
                yield from _of_table(disk, int(name), f"{name}/{each}")


def _of_table(disk: Disk, table_id: int, path: str) -> Iterator[BucketPlace | Stray]:
    name, inside = path.rpartition("/")[2], _listed(disk, path)
    partition = _PARTITION.fullmatch(name)
    if inside is None or not (partition or name.isdecimal()):
        yield Stray(path)
    elif partition is None:
        yield BucketPlace(TableBucket(table_id, int(name)), path)
    else:
        for each in inside:
            yield _of_partition(disk, table_id, int(partition[1]), f"{path}/{each}")


def _of_partition(disk: Disk, table_id: int, partition_id: int, path: str) -> BucketPlace | Stray:
    name = path.rpartition("/")[2]
    if not name.isdecimal() or _listed(disk, path) is None:
        return Stray(path)
    return BucketPlace(TableBucket(table_id, int(name), partition_id), path)


def _listed(disk: Disk, path: str) -> list[str] | None:
    """List a directory; None for a file."""
    try:
        return disk.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


# Files and directories that belong to no table.

_BESIDE = {
    LOCK_NAME,
    RESERVE_NAME,
    REPORT_NAME,
    "log",
    "lake",
    CATALOG_NAME,
    f"{CATALOG_NAME}-wal",
    f"{CATALOG_NAME}-shm",
}


def note_strays_beside(directory: Path, notes: Notes) -> None:
    """Note what lies in a data directory and is not part of it."""
    for path in sorted(directory.iterdir()):
        if path.name not in _BESIDE:
            _warn(notes, f"{path} is not part of a data directory.", "Move it away.")


def note_strays(
    disk: Disk, found: Sequence[BucketPlace | Stray], catalog: CatalogSeen | None, notes: Notes
) -> list[BucketPlace]:
    """Note what belongs to no table, and return the buckets that do."""
    owned = []
    for each in found:
        if isinstance(each, Stray):
            _note_stray(disk, each, notes)
        elif catalog is None or not (reason := _ownerless(each.bucket, catalog)):
            owned.append(each)
        elif _is_ahead(each.bucket, catalog):
            message = (
                f"log/{each.path} was created after the catalog was last written: the catalog is"
            )
            message += " older than the logs."
            notes.bad(Finding(check=Check.FILES, message=message, remedy=RESTORE))
        else:
            remedy = (
                "Nothing reads it: a crash interrupted its removal, or the catalog was restored"
            )
            remedy += (
                "from an older copy. Restore a newer one if there is one; otherwise move it away."
            )
            _warn(notes, f"log/{each.path} is the bucket of {reason}.", remedy)
    return owned


def _note_stray(disk: Disk, stray: Stray, notes: Notes) -> None:
    if stray.path != DROPPED:
        _warn(notes, f"log/{stray.path} belongs to no table.", "Move it away.")
        return
    for name in disk.listdir(DROPPED):
        message = f"log/{DROPPED}/{name} is left over from a dropped table or partition."
        _warn(notes, message, "The next start removes it.")


def _ownerless(bucket: TableBucket, catalog: CatalogSeen) -> str:
    """Say why a bucket belongs to no table; empty if it does."""
    if bucket.table_id not in catalog.table_ids:
        return f"table {bucket.table_id}, which is not in the catalog"
    table = catalog.tables.get(bucket.table_id)
    if bucket.partition_id is not None:
        owner, _ = catalog.partitions.get(bucket.partition_id, (None, ""))
        if owner != bucket.table_id:
            return f"partition {bucket.partition_id}, which is not in the catalog"
    elif table is not None and table.descriptor.is_partitioned:
        return f"{table.name}, whose buckets lie in partitions"
    if table is not None and bucket.bucket >= (table.descriptor.bucket_count or 1):
        return f"{table.name}, which has {table.descriptor.bucket_count} buckets"
    return ""


def _is_ahead(bucket: TableBucket, catalog: CatalogSeen) -> bool:
    """Tell whether a bucket was created after the catalog was last written."""
    return (
        bucket.table_id > catalog.table_id_last
        or (bucket.partition_id or 0) > catalog.partition_id_last
    )


def _warn(notes: Notes, message: str, remedy: str) -> None:
    notes.bad(Finding(check=Check.FILES, severity=Severity.WARNING, message=message, remedy=remedy))


LOGS = "log"


def is_storage(directory: Path) -> bool:
    """Tell whether a directory holds a catalog, or logs that lost theirs."""
    logs = directory / LOGS
    return (directory / CATALOG_NAME).exists() or (logs.is_dir() and any(logs.iterdir()))


def audit_files(directory: Path, notes: Notes, *, deep: bool) -> CatalogSeen | None:
    """Check all files of a data directory; the caller holds its lock.

    1. read the catalog  2. find the buckets and their tables  3. check each of them
    4. compare with what the catalog knows about writers and the lake

    Return the catalog, if it can be read.
    """
    note_strays_beside(directory, notes)
    if not (directory / CATALOG_NAME).exists():
        _note_no_catalog(directory, notes)
        return None
    catalog = read_catalog(directory / CATALOG_NAME, notes)
    if catalog is None:
        return None
    disk = LocalDisk(directory / LOGS)
    walk = _Walk(disk, catalog, notes, directory=str(directory), deep=deep)
    if (directory / LOGS).is_dir():
        walk.buckets()
    walk.finish()
    audit_lake_metadata(directory, catalog, notes)
    return catalog


def audit_disk(disk: Disk, notes: Notes, *, deep: bool) -> None:
    """Check all buckets on a disk without a catalog."""
    walk = _Walk(disk, None, notes, directory="DIRECTORY", deep=deep)
    walk.buckets()
    walk.finish()


class _Walk:
    """Goes from bucket to bucket."""

    def __init__(
        self, disk: Disk, catalog: CatalogSeen | None, notes: Notes, *, directory: str, deep: bool
    ) -> None:
        self._disk = disk
        self._catalog = catalog
        self._notes = notes
        self._directory = directory
        self._deep = deep
        self._tallies: dict[str, CheckTally] = {}
        self._ends: dict[BucketPlace, int] = {}

    def buckets(self) -> None:
        """Check every bucket that belongs to a table."""
        found = list(places(self._disk))
        owned = note_strays(self._disk, found, self._catalog, self._notes)
        for place in owned:
            self._bucket(place)

    def finish(self) -> None:
        """Report how much was checked, and compare with the catalog."""
        for name, tally in self._tallies.items():
            tally.prove(self._notes, table=name)
        if self._catalog is not None:
            ends = {place.bucket: end for place, end in self._ends.items()}
            check_boundaries(self._catalog, ends, self._notes)

    def _bucket(self, place: BucketPlace) -> None:
        notes, table = self._about(place), self._table(place)
        self._notes.progress(f"files of {notes.table} bucket {notes.bucket}")
        bodies = None if table is None else Bodies(table, deep=self._deep)
        try:
            log = audit_log(
                self._disk, place.path, notes, visit=None if bodies is None else bodies.take
            )
            self._state(place, log, notes=notes, table=table)
        except (HeadwaterError, OSError) as fault:
            notes.error(
                Check.READABLE,
                f"{place.path} cannot be read: {fault}",
                remedy="Check the disk, and restore the directory from a copy.",
            )
            return
        self._ends[place] = log.end_offset
        self._note_bodies(bodies, notes)
        self._note_writers(log, notes)

    def _state(
        self, place: BucketPlace, log: LogSeen, *, notes: BucketNotes, table: TableSeen | None
    ) -> None:
        if STATE_DIRECTORY in self._disk.listdir(place.path):
            directory = f"{place.path}/{STATE_DIRECTORY}"
            audit_state(self._disk, directory, log, table=table, notes=notes, deep=self._deep)
        elif table is not None and table.descriptor.is_keyed:
            check_without_files(log, notes)

    def _note_bodies(self, bodies: Bodies | None, notes: BucketNotes) -> None:
        if bodies is None:
            return
        if self._deep:
            notes.tally.add(Check.READABLE, bodies.rows, unit="rows")
        for offset, fault in bodies.faults:
            notes.error(
                Check.READABLE,
                f"A batch holds rows that cannot be read: {fault}",
                offset=offset,
                remedy=(
                    "Its checksum is right, so it was written like that: please report "
                    "how it came to be."
                ),
            )

    def _note_writers(self, log: LogSeen, notes: BucketNotes) -> None:
        catalog = self._catalog
        if catalog is None or catalog.writer_blocks is None:
            return
        blocks = {block for block in log.writer_blocks if block >= BLOCK_MIN}
        if blocks - catalog.writer_blocks and len(catalog.writer_blocks) < BLOCKS_MAX:
            notes.error(
                Check.FILES,
                "A writer wrote here with an id that the catalog has not handed out: the "
                "catalog is older than the log.",
                remedy=RESTORE,
            )

    def _about(self, place: BucketPlace) -> BucketNotes:
        table, bucket = self._table(place), place.bucket
        name = str(bucket.table_id) if table is None else table.name
        partition = None
        if bucket.partition_id is not None:
            known = self._catalog.partitions if self._catalog else {}
            partition = known.get(bucket.partition_id, (0, str(bucket.partition_id)))[1]
        return BucketNotes(
            notes=self._notes,
            bucket=bucket.bucket,
            table=name,
            partition=partition,
            directory=self._directory,
            tiered_end=0 if self._catalog is None else self._catalog.tiered_end(bucket),
            tally=self._tallies.setdefault(name, CheckTally()),
        )

    def _table(self, place: BucketPlace) -> TableSeen | None:
        return None if self._catalog is None else self._catalog.tables.get(place.bucket.table_id)


def _note_no_catalog(directory: Path, notes: Notes) -> None:
    if is_storage(directory):
        message = f"{directory} holds logs, but no {CATALOG_NAME}: their tables are unknown."
        notes.bad(Finding(check=Check.FILES, message=message, remedy=RESTORE))
