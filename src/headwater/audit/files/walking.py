"""The audit of a data directory that is not open: every file is read, and none is changed."""

from pathlib import Path

from headwater.audit.files.bodies import Bodies
from headwater.audit.files.boundaries import check_boundaries
from headwater.audit.files.bucket_notes import BucketNotes
from headwater.audit.files.catalog import RESTORE, read_catalog
from headwater.audit.files.catalog_seen import CatalogSeen, TableSeen
from headwater.audit.files.lake_metadata import audit_lake_metadata
from headwater.audit.files.log_leftovers import STATE_DIRECTORY
from headwater.audit.files.logs import LogSeen, audit_log
from headwater.audit.files.places import Place, places
from headwater.audit.files.states import audit_state, check_without_files
from headwater.audit.files.strays import note_strays, note_strays_beside
from headwater.audit.files.tally import Tally
from headwater.audit.finding import Check, Finding
from headwater.audit.report import Notes
from headwater.errors import HeadwaterError
from headwater.model.writer_id import BLOCK_MIN
from headwater.server.catalog.catalog import CATALOG_NAME
from headwater.server.catalog.writer_ids import BLOCKS_MAX
from headwater.store.disk import Disk
from headwater.store.local import LocalDisk

LOGS = "log"


def is_storage(directory: Path) -> bool:
    """Tell whether a directory holds a catalog, or logs that have lost theirs."""
    logs = directory / LOGS
    return (directory / CATALOG_NAME).exists() or (logs.is_dir() and any(logs.iterdir()))


def audit_files(directory: Path, notes: Notes, *, deep: bool) -> CatalogSeen | None:
    """Look at all files of a data directory; the caller holds its lock.

    1. read the catalog  2. find the buckets, and whose they are  3. look at each of them
    4. compare with what the catalog knows of writers and of the lake

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
    """Look at all buckets on a disk of which there is no catalog."""
    walk = _Walk(disk, None, notes, directory="DIRECTORY", deep=deep)
    walk.buckets()
    walk.finish()


class _Walk:
    """Go from bucket to bucket."""

    def __init__(
        self, disk: Disk, catalog: CatalogSeen | None, notes: Notes, *, directory: str, deep: bool
    ) -> None:
        self._disk = disk
        self._catalog = catalog
        self._notes = notes
        self._directory = directory
        self._deep = deep
        self._tallies: dict[str, Tally] = {}
        self._ends: dict[Place, int] = {}

    def buckets(self) -> None:
        """Look at every bucket that belongs to a table."""
        found = list(places(self._disk))
        owned = note_strays(self._disk, found, self._catalog, self._notes)
        for place in owned:
            self._bucket(place)

    def finish(self) -> None:
        """Say how much was looked at, and compare with what the catalog promises."""
        for name, tally in self._tallies.items():
            tally.prove(self._notes, table=name)
        if self._catalog is not None:
            ends = {place.bucket: end for place, end in self._ends.items()}
            check_boundaries(self._catalog, ends, self._notes)

    def _bucket(self, place: Place) -> None:
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
        self, place: Place, log: LogSeen, *, notes: BucketNotes, table: TableSeen | None
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
                remedy="Its checksum fits, so it was written like that: report how it came to be.",
            )

    def _note_writers(self, log: LogSeen, notes: BucketNotes) -> None:
        catalog = self._catalog
        if catalog is None or catalog.writer_blocks is None:
            return
        blocks = {block for block in log.writer_blocks if block >= BLOCK_MIN}
        if blocks - catalog.writer_blocks and len(catalog.writer_blocks) < BLOCKS_MAX:
            notes.error(
                Check.FILES,
                "A writer wrote here whose id the catalog has not handed out: it is older than the"
                " log.",
                remedy=RESTORE,
            )

    def _about(self, place: Place) -> BucketNotes:
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
            tally=self._tallies.setdefault(name, Tally()),
        )

    def _table(self, place: Place) -> TableSeen | None:
        return None if self._catalog is None else self._catalog.tables.get(place.bucket.table_id)


def _note_no_catalog(directory: Path, notes: Notes) -> None:
    if is_storage(directory):
        message = f"{directory} holds logs, but no {CATALOG_NAME}: nothing says whose they are."
        notes.bad(Finding(check=Check.FILES, message=message, remedy=RESTORE))
