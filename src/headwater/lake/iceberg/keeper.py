"""Keeps an Iceberg table small and quick to read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation

from headwater.errors import LakeRewrittenError
from headwater.lake.iceberg.cleaning import expire, remove_orphans
from headwater.lake.iceberg.committing import Change, check_head, commit_change
from headwater.lake.iceberg.compaction import CompactionSettings, worth_rewriting
from headwater.lake.iceberg.inventory import taken_inventory
from headwater.lake.iceberg.listing import listed_manifests
from headwater.lake.iceberg.merging import is_worth_merging
from headwater.lake.iceberg.opening import load_table, reached
from headwater.lake.iceberg.parquet import number
from headwater.lake.iceberg.planning import planned_files
from headwater.lake.iceberg.results import Written, written_of
from headwater.lake.iceberg.rewriting import rewrite_of, rewritten
from headwater.lake.iceberg.values import Place
from headwater.lake.spi import (
    Cleaned,
    LakeInventory,
    LakeSnapshot,
    Retention,
    Rewrite,
    WriteResult,
)
from headwater.lake.table import LakeTableSpec
from headwater.lake.taken import LOOKED, check_kept
from headwater.model.boundary import BOUNDARY_PROPERTY
from headwater.runtime.clock import Clock

UPKEEP_PROPERTY = "headwater.upkeep"
_MERGE_COUNT = 5
_SNAPSHOTS_MIN = 1
_AGE_MS = 5 * 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class IcebergKeeper:
    """Look after one Iceberg table."""

    catalog: Catalog
    spec: LakeTableSpec
    config: Mapping[str, str] = field(repr=False)
    clock: Clock

    def plan_rewrites(self, *, on: LakeSnapshot) -> list[Rewrite]:
        """Return what is worth compacting."""
        table = self._table()
        place = Place.of(table, self.config)
        with reached(f"Planning to compact {self.spec.path}"):
            files = planned_files(table, self.spec, on.snapshot_id)
        # What was parted otherwise cannot go into files that are parted as they are now.
        alike = [each for each in files if each.held.file.spec_id == place.spec.spec_id]
        groups = worth_rewriting(alike, CompactionSettings.of(place.properties))
        return [rewrite_of(group, place) for group in groups]

    def rewrite(self, work: Rewrite) -> WriteResult:
        """Write the current rows of the files into fewer ones."""
        with reached(f"Compacting {self.spec.path}"):
            return rewritten(work, self.config)

    def commit_rewrites(self, results: Sequence[WriteResult], *, on: LakeSnapshot) -> LakeSnapshot:
        """Put the new files in the place of the old ones, in one snapshot directly after `on`."""
        check_kept(on, self.spec.path)
        table = self._table()
        check_head(table.metadata, on, self.spec.path)
        written = [written_of(result) for result in results]
        removed = frozenset(path for each in written for path in each.removed)
        with reached(f"Compacting {self.spec.path}"):
            deletes = self._obsolete_deletes(table, on, written, removed)
        change = Change(
            operation=Operation.REPLACE,
            properties=_carried(on, "rewrite"),
            added=[file for each in written for file in each.added],
            removed=removed | deletes,
        )
        return commit_change(table, change, on=on, clock=self.clock)

    def merge_manifests(self, *, on: LakeSnapshot) -> LakeSnapshot | None:
        """Write the list of files anew if it lies in many pieces."""
        check_kept(on, self.spec.path)
        table = self._table()
        check_head(table.metadata, on, self.spec.path)
        newest = table.current_snapshot()
        assert newest is not None
        with reached(f"Merging manifests of {self.spec.path}"):
            manifests = listed_manifests(newest, table.io)
        if not is_worth_merging(manifests, table.properties, count_min=_MERGE_COUNT):
            return None
        change = Change(
            operation=Operation.REPLACE,
            properties=_carried(on, "manifests"),
            merge_count=_MERGE_COUNT,
        )
        return commit_change(table, change, on=on, clock=self.clock)

    def retention(self) -> Retention:
        """Return which snapshots the properties of the table keep, or Iceberg's default."""
        properties = self._table().properties
        return Retention(
            snapshots_min=number(
                properties, "history.expire.min-snapshots-to-keep", _SNAPSHOTS_MIN
            ),
            age_ms=number(properties, "history.expire.max-snapshot-age-ms", _AGE_MS),
        )

    def expire(self, retention: Retention, *, now_ms: int) -> Cleaned:
        """Drop old snapshots, and delete the files that only they held."""
        with reached(f"Expiring snapshots of {self.spec.path}"):
            return expire(self.catalog, self.spec.path, retention, now_ms=now_ms)

    def remove_orphans(self, *, older_than_ms: int) -> Cleaned:
        """Delete files under the table's place that no snapshot holds."""
        with reached(f"Removing orphans of {self.spec.path}"):
            return remove_orphans(self.catalog, self.spec.path, older_than_ms=older_than_ms)

    def inventory(self, *, opens_files: bool = False) -> LakeInventory:
        """Compare what all kept snapshots name with what is there."""
        with reached(f"Looking at the files of {self.spec.path}"):
            return taken_inventory(
                self.catalog,
                self.spec.path,
                now_ms=self.clock.now_ms(),
                opens_files=opens_files,
            )

    def _obsolete_deletes(
        self, table: Table, on: LakeSnapshot, written: Sequence[Written], removed: frozenset[str]
    ) -> frozenset[str]:
        """Return the files of deletes that hold for none but removed files.

        Raises `LakeRewrittenError` if rows of those were deleted since they were read.
        """
        replaced: set[str] = set()
        others: set[str] = set()
        for each in planned_files(table, self.spec, on.snapshot_id):
            paths = {file.file_path for file in each.held.deletes}
            (replaced if each.held.file.file_path in removed else others).update(paths)
        if replaced - {path for each in written for path in each.deletes}:
            raise LakeRewrittenError(
                f"Rows of {self.spec.path} were deleted while it was compacted."
            )
        return frozenset(replaced - others)

    def _table(self) -> Table:
        return load_table(self.catalog, self.spec.path)


def _carried(on: LakeSnapshot, kind: str) -> dict[str, str]:
    """Return the properties of a snapshot of upkeep: the boundary is that of the one before."""
    held = {} if on.boundary is None else {BOUNDARY_PROPERTY: on.boundary.to_json()}
    return {**held, **LOOKED, UPKEEP_PROPERTY: kind}
