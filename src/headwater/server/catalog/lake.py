"""What the catalog knows of the lake; reads come from memory, changes go to disk first."""

from collections.abc import Mapping
from dataclasses import replace

from headwater.errors import LakeSnapshotMissingError, TieringFencedError
from headwater.model import LakeBucket
from headwater.server.catalog.lake_entries import ReportedLakeSnapshot, TieringRecord
from headwater.server.catalog.store import CatalogStore, Image

SNAPSHOTS_KEPT_MAX = 1000
KEEP_ALL = -1


class LakeRecords:
    """The rounds and snapshots of tables, for as long as the tables exist."""

    def __init__(self, store: CatalogStore, image: Image) -> None:
        self._store = store
        self._image = image
        self._records = store.lake.records()
        self._snapshots = store.lake.snapshots()

    def record(self, table_id: int) -> TieringRecord:
        """Return what is known of the rounds of a table."""
        return self._records.get(table_id, TieringRecord())

    def put_record(self, table_id: int, record: TieringRecord) -> None:
        """Record a round of a table."""
        self._image.table_by_id(table_id)
        with self._store.transaction():
            self._store.lake.put_record(table_id, record)
        self._records[table_id] = record

    def snapshots(self, table_id: int) -> tuple[ReportedLakeSnapshot, ...]:
        """List the snapshots of a table, in the order in which they were committed."""
        return self._snapshots.get(table_id, ())

    def latest(self, table_id: int) -> ReportedLakeSnapshot | None:
        """Return the newest snapshot of a table."""
        held = self.snapshots(table_id)
        return held[-1] if held else None

    def ends(self, table_id: int) -> Mapping[LakeBucket, int]:
        """Map buckets to how far they are tiered; those never tiered are left out."""
        latest = self.latest(table_id)
        return {} if latest is None else latest.tiered.ends

    def held_ends(self, table_id: int) -> Mapping[LakeBucket, int]:
        """Map buckets to the offset before which the log may drop rows: the lake has them."""
        latest = self.latest(table_id)
        return {} if latest is None else latest.held_ends

    def settle(self, table_id: int, snapshot_id: int) -> None:
        """Record that the lake was seen to have what was reported of its newest snapshot."""
        *before, latest = self.snapshots(table_id)
        if latest.snapshot_id != snapshot_id:
            return
        kept = (*before, replace(latest, standing="checked", believed=None))
        with self._store.transaction():
            self._store.lake.put_snapshots(table_id, kept)
        self._snapshots[table_id] = kept

    def commit(self, snapshot: ReportedLakeSnapshot, *, earliest_kept: int | None) -> None:
        """Record a snapshot; a repeated one, or one with older offsets, changes nothing.

        Raises `TieringFencedError` if offsets go back, unless they are to replace what was known.
        """
        self._image.table_by_id(snapshot.table_id)
        held = self.snapshots(snapshot.table_id)
        if any(_is_same(each, snapshot) for each in held):
            return
        if held and not snapshot.tiered.replaces:
            check_forward(held[-1], snapshot)
        kept = kept_snapshots(held, snapshot, earliest_kept=earliest_kept)
        with self._store.transaction():
            self._store.lake.put_snapshots(snapshot.table_id, kept)
        self._snapshots[snapshot.table_id] = kept

    def find(self, table_id: int, snapshot_id: int) -> ReportedLakeSnapshot:
        """Return a snapshot by its id."""
        for each in self.snapshots(table_id):
            if each.snapshot_id == snapshot_id:
                return each
        path = self._image.table_by_id(table_id).path
        raise LakeSnapshotMissingError(f"No lake snapshot {snapshot_id} of {path} is known.")

    def forget_dropped(self) -> None:
        """Forget tables that were dropped; the file no longer has them."""
        for known in (self._records, self._snapshots):
            for table_id in known.keys() - self._image.paths_by_id.keys():
                del known[table_id]

    def paths_in_use(self) -> frozenset[str]:
        """List the offsets files that snapshots of existing tables refer to."""
        return frozenset(
            path
            for table_id in self._image.paths_by_id
            for each in self.snapshots(table_id)
            for path in (each.tiered_path, each.readable_path)
            if path
        )


def check_forward(held: ReportedLakeSnapshot, told: ReportedLakeSnapshot) -> None:
    """Reject offsets that go back: a late report must not undo a newer one."""
    # A report that could not be checked fences nobody: it may be false.
    for bucket, end in held.held_ends.items():
        new = told.tiered.ends.get(bucket, end)
        if new < end:
            raise TieringFencedError(
                f"Snapshot {told.snapshot_id} ends at offset {new} of {_named(bucket)}, but "
                f"snapshot {held.snapshot_id} already ends at {end}.",
                hint="If the lake was rolled back on purpose, prepare the offsets again with "
                "ignore_previous.",
            )


def kept_snapshots(
    held: tuple[ReportedLakeSnapshot, ...],
    told: ReportedLakeSnapshot,
    *,
    earliest_kept: int | None,
) -> tuple[ReportedLakeSnapshot, ...]:
    """Return which snapshots stay known, by position since ids need not grow."""
    before = tuple(each for each in held if each.snapshot_id != told.snapshot_id)
    if earliest_kept is None:
        return (told,)
    ids = [each.snapshot_id for each in before]
    # An unknown id says nothing about the others, so they all stay.
    first = ids.index(earliest_kept) if earliest_kept in ids else 0
    if earliest_kept == told.snapshot_id:
        first = len(before)
    return (*before[first:], told)[-SNAPSHOTS_KEPT_MAX:]


def _is_same(held: ReportedLakeSnapshot, told: ReportedLakeSnapshot) -> bool:
    return (
        held.snapshot_id == told.snapshot_id
        and held.tiered.ends == told.tiered.ends
        and held.standing in (told.standing, "checked")
    )


def _named(bucket: LakeBucket) -> str:
    partition = "" if bucket.partition_id is None else f" of partition {bucket.partition_id}"
    return f"bucket {bucket.bucket}{partition}"
