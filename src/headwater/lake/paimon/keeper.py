"""Keeping a lake table small and quick to read."""

from collections.abc import Sequence

from headwater.errors import LakeMovedError, LakeRewrittenError
from headwater.lake.paimon.cleaning import expire, remove_orphans
from headwater.lake.paimon.compaction import rewritten, worth_rewriting
from headwater.lake.paimon.inventory import taken_inventory
from headwater.lake.paimon.manifests import (
    DELETE,
    Entry,
    Manifest,
    entries_from_bytes,
    entries_to_bytes,
)
from headwater.lake.paimon.options import number, retained_ms
from headwater.lake.paimon.place import Place
from headwater.lake.paimon.snapshot import COMPACT, KEEPER_USER, SnapshotFile
from headwater.lake.paimon.snapshot_commit import Commit, commit_snapshot, merged_manifests
from headwater.lake.paimon.table import PaimonTable
from headwater.lake.spi import (
    Cleaned,
    LakeInventory,
    LakeSnapshot,
    Retention,
    Rewrite,
    WriteResult,
)
from headwater.lake.split import UNKNOWN_BUCKET
from headwater.lake.taken import LOOKED, check_kept
from headwater.model.boundary import BOUNDARY_PROPERTY
from headwater.runtime.clock import Clock

_MANIFESTS_MAX = 8
_RETAINED_DEFAULT = 10


class PaimonKeeper:
    """Keep one lake table in order; safe beside readers and tierers."""

    def __init__(self, table: PaimonTable, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    def plan_rewrites(self, *, on: LakeSnapshot) -> list[Rewrite]:
        """Return what is worth compacting."""
        table = self._table
        groups = worth_rewriting(
            table.live(self._snapshot(on)), table.schema.options, is_keyed=table.spec.is_keyed
        )
        return [
            Rewrite(
                partition=table.partitions.from_row(group[0].partition),
                bucket=group[0].bucket if group[0].bucket_count > 0 else UNKNOWN_BUCKET,
                file_count=len(group),
                byte_count=sum(entry.file.byte_count for entry in group),
                payload=entries_to_bytes(group),
            )
            for group in groups
        ]

    def rewrite(self, work: Rewrite) -> WriteResult:
        """Write the current rows of the files into fewer ones."""
        entries = entries_from_bytes(work.payload)
        place = Place.of(self._table, work.partition, work.bucket)
        files = rewritten(self._table, place, entries, self._clock)
        return place.result(files, leaving=entries)

    def commit_rewrites(self, results: Sequence[WriteResult], *, on: LakeSnapshot) -> LakeSnapshot:
        """Put the new files in the place of the old ones, directly after `on`."""
        check_kept(on, self._table.spec.path)
        entries = [entry for each in results for entry in entries_from_bytes(each.payload)]
        before = self._snapshot(on)
        self._check_live(entries, before)
        return self._committed(before, entries=entries)

    def merge_manifests(self, *, on: LakeSnapshot) -> LakeSnapshot | None:
        """Write the list of files anew if it lies in many pieces."""
        check_kept(on, self._table.spec.path)
        before = self._snapshot(on)
        manifests = self._table.all_manifests(before)
        if len(manifests) < _MANIFESTS_MAX:
            return None
        return self._committed(before, base=merged_manifests(self._table, manifests))

    def retention(self) -> Retention:
        """Return which snapshots the options of the lake table keep."""
        options = self._table.schema.options
        least = number(options, "snapshot.num-retained.min", default=_RETAINED_DEFAULT)
        return Retention(snapshots_min=least, age_ms=retained_ms(options))

    def expire(self, retention: Retention, *, now_ms: int) -> Cleaned:
        """Drop old snapshots, and delete the files that only they held."""
        return expire(self._table, retention, now_ms=now_ms)

    def remove_orphans(self, *, older_than_ms: int) -> Cleaned:
        """Delete files under the table's place that no snapshot holds."""
        return remove_orphans(self._table, older_than_ms=older_than_ms)

    def inventory(self, *, opens_files: bool = False) -> LakeInventory:
        """Compare what all kept snapshots name with what is there."""
        return taken_inventory(self._table, now_ms=self._clock.now_ms(), opens_files=opens_files)

    def _committed(
        self,
        on: SnapshotFile,
        *,
        entries: Sequence[Entry] = (),
        base: Sequence[Manifest] | None = None,
    ) -> LakeSnapshot:
        """Commit a snapshot that holds the same rows, and so carries the same boundary."""
        boundary = self._table.boundary(on)
        held = {} if boundary is None else {BOUNDARY_PROPERTY: boundary.to_json()}
        commit = Commit(
            entries=entries,
            user=KEEPER_USER,
            kind=COMPACT,
            properties={**LOOKED, **held},
            base=base,
        )
        done = commit_snapshot(self._table, commit, on=on, now_ms=self._clock.now_ms())
        return self._table.to_lake_snapshot(done)

    def _snapshot(self, on: LakeSnapshot) -> SnapshotFile:
        found = self._table.snapshot(on.snapshot_id)
        if found is None:
            raise LakeMovedError(
                f"Snapshot {on.snapshot_id} of {self._table.spec.path} is expired by now."
            )
        return found

    def _check_live(self, entries: Sequence[Entry], before: SnapshotFile) -> None:
        live = {entry.identity for entry in self._table.live(before)}
        gone = [
            entry.file.name
            for entry in entries
            if entry.kind == DELETE and entry.identity not in live
        ]
        if gone:
            raise LakeRewrittenError(
                f"Files of the lake table {self._table.spec.path} that were rewritten are not in"
                f" snapshot {before.snapshot_id}: {', '.join(gone[:3])}."
            )
