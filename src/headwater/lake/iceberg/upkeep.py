"""Keep an Iceberg table small and fast to read: compact files, merge manifests, expire, clean."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation

from headwater.errors import LakeRewrittenError
from headwater.lake import spi
from headwater.lake.iceberg import data_files
from headwater.lake.iceberg.catalog import load_table, reached
from headwater.lake.iceberg.commit import SnapshotChange, check_head, commit_change
from headwater.lake.iceberg.files import (
    IcebergPlace,
    held_from_json,
    held_to_json,
    packed,
    place_from_json,
    scoped_path,
    unpacked,
)
from headwater.lake.iceberg.inventory import expire, inventory_of, remove_orphans
from headwater.lake.iceberg.manifests import is_worth_merging, listed_manifests
from headwater.lake.iceberg.plan import PlannedFile, planned_files
from headwater.lake.iceberg.read import read_rows
from headwater.lake.iceberg.served import remove_leftovers, tails_root
from headwater.lake.iceberg.types import parquet_schema
from headwater.lake.iceberg.write import WrittenFiles, written_of
from headwater.model.boundary import BOUNDARY_PROPERTY
from headwater.runtime.clock import Clock

# Which files are worth rewriting: decided, not done.

_SMALL_SHARE = 0.75
_DELETED_SHARE_MAX = 0.1
_SMALL_FILES_MIN = 5
_DELETE_FILES_MAX = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSettings:
    """When files are worth rewriting."""

    file_bytes: int
    """Target size of files."""
    small_files_min: int
    """This many small files of a bucket are merged."""

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> "CompactionSettings":
        """Read the properties of a table."""
        return cls(
            file_bytes=data_files.ParquetSettings.of(properties).file_bytes,
            small_files_min=data_files.number(
                properties, "headwater.compaction.small-files-min", _SMALL_FILES_MIN
            ),
        )


def worth_rewriting(
    files: Sequence[PlannedFile], settings: CompactionSettings
) -> list[tuple[PlannedFile, ...]]:
    """Group files to rewrite, each group of one bucket and about the size of one file."""
    found: list[tuple[PlannedFile, ...]] = []
    for _, alike in groupby(files, key=lambda each: (each.partition, each.bucket)):
        chosen = _chosen(list(alike), settings)
        found += _packed(chosen, settings)
    return found


def _chosen(files: Sequence[PlannedFile], settings: CompactionSettings) -> list[PlannedFile]:
    small = [each for each in files if _is_small(each, settings)]
    is_worth = len(small) >= settings.small_files_min
    return [each for each in files if _is_worn(each) or (is_worth and _is_small(each, settings))]


def _is_small(planned: PlannedFile, settings: CompactionSettings) -> bool:
    return planned.held.file.file_size_in_bytes < settings.file_bytes * _SMALL_SHARE


def _is_worn(planned: PlannedFile) -> bool:
    """Tell whether reading the file skips many rows or needs many delete files."""
    file, deletes = planned.held
    deleted = sum(each.record_count for each in deletes if scoped_path(each) == file.file_path)
    return len(deletes) > _DELETE_FILES_MAX or deleted > file.record_count * _DELETED_SHARE_MAX


def _packed(
    files: Sequence[PlannedFile], settings: CompactionSettings
) -> list[tuple[PlannedFile, ...]]:
    packs: list[list[PlannedFile]] = []
    size = 0
    for each in files:
        size += each.held.file.file_size_in_bytes
        if not packs or size > settings.file_bytes:
            packs.append([])
            size = each.held.file.file_size_in_bytes
        packs[-1].append(each)
    return [tuple(pack) for pack in packs if len(pack) > 1 or _is_worn(pack[0])]


# Rewriting files of one bucket: their current rows in fewer files.


def rewrite_of(files: Sequence[PlannedFile], place: IcebergPlace) -> spi.Rewrite:
    """Encode files of one bucket as work for a worker."""
    held = [each.held for each in files]
    return spi.Rewrite(
        partition=files[0].partition,
        bucket=files[0].bucket,
        file_count=len(files),
        byte_count=data_files.byte_count([each.file for each in held]),
        payload=packed({"place": place.to_json(), "held": held_to_json(held)}),
    )


def rewritten(work: spi.Rewrite, config: Mapping[str, str]) -> spi.WriteResult:
    """Write the current rows of files into new ones, under the lake's newest columns."""
    node = unpacked(work.payload)
    place = place_from_json(node.get("place"))
    held = held_from_json(node)
    io = place.io(config)
    # All columns of the Iceberg table, including those that others added.
    schema = parquet_schema(place.schema.fields)
    fields = [field.field_id for field in place.schema.fields]
    names = data_files.FileNames(place=place, partition=work.partition, bucket=work.bucket)
    files = data_files.IcebergDataFiles.of(place, names, io=io, schema=schema)
    rows = 0
    try:
        for each in held:
            for batch in read_rows(io, each, schema=schema, fields=fields):
                files.write(batch)
                rows += batch.num_rows
        added = files.finish()
    except BaseException:
        files.abort()
        raise
    return WrittenFiles(
        added=tuple(added),
        removed=tuple(each.file.file_path for each in held),
        deletes=tuple(sorted({file.file_path for each in held for file in each.deletes})),
    ).to_result(partition=work.partition, bucket=work.bucket, rows=rows)


UPKEEP_PROPERTY = "headwater.upkeep"
_MERGE_COUNT = 5
_SNAPSHOTS_MIN = 1
_AGE_MS = 5 * 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class IcebergKeeper:
    """Maintains one Iceberg table."""

    catalog: Catalog
    spec: spi.LakeTableSpec
    config: Mapping[str, str] = field(repr=False)
    clock: Clock

    def plan_rewrites(self, *, on: spi.LakeSnapshot) -> list[spi.Rewrite]:
        """Plan what is worth compacting."""
        table = self._table()
        place = IcebergPlace.of(table, self.config)
        with reached(f"Planning to compact {self.spec.path}"):
            files = planned_files(table, self.spec, on.snapshot_id)
        # Files of an older partition spec cannot be merged into those of the current one.
        alike = [each for each in files if each.held.file.spec_id == place.spec.spec_id]
        groups = worth_rewriting(alike, CompactionSettings.of(place.properties))
        return [rewrite_of(group, place) for group in groups]

    def rewrite(self, work: spi.Rewrite) -> spi.WriteResult:
        """Write the current rows of the files into fewer ones."""
        with reached(f"Compacting {self.spec.path}"):
            return rewritten(work, self.config)

    def commit_rewrites(
        self, results: Sequence[spi.WriteResult], *, on: spi.LakeSnapshot
    ) -> spi.LakeSnapshot:
        """Replace the old files with the new ones, in one snapshot directly after `on`."""
        spi.check_kept(on, self.spec.path)
        table = self._table()
        check_head(table.metadata, on, self.spec.path)
        written = [written_of(result) for result in results]
        removed = frozenset(path for each in written for path in each.removed)
        with reached(f"Compacting {self.spec.path}"):
            deletes = self._obsolete_deletes(table, on, written, removed)
        change = SnapshotChange(
            operation=Operation.REPLACE,
            properties=_carried(on, "rewrite"),
            added=[file for each in written for file in each.added],
            removed=removed | deletes,
        )
        return commit_change(table, change, on=on, clock=self.clock)

    def merge_manifests(self, *, on: spi.LakeSnapshot) -> spi.LakeSnapshot | None:
        """Merge manifests if there are many."""
        spi.check_kept(on, self.spec.path)
        table = self._table()
        check_head(table.metadata, on, self.spec.path)
        newest = table.current_snapshot()
        assert newest is not None
        with reached(f"Merging manifests of {self.spec.path}"):
            manifests = listed_manifests(newest, table.io)
        if not is_worth_merging(manifests, table.properties, count_min=_MERGE_COUNT):
            return None
        change = SnapshotChange(
            operation=Operation.REPLACE,
            properties=_carried(on, "manifests"),
            merge_count=_MERGE_COUNT,
        )
        return commit_change(table, change, on=on, clock=self.clock)

    def retention(self) -> spi.Retention:
        """Which snapshots the table's properties keep, or Iceberg's default."""
        properties = self._table().properties
        return spi.Retention(
            snapshots_min=data_files.number(
                properties, "history.expire.min-snapshots-to-keep", _SNAPSHOTS_MIN
            ),
            age_ms=data_files.number(properties, "history.expire.max-snapshot-age-ms", _AGE_MS),
        )

    def expire(self, retention: spi.Retention, *, now_ms: int) -> spi.Cleaned:
        """Drop old snapshots, and delete the files that only they held."""
        with reached(f"Expiring snapshots of {self.spec.path}"):
            return expire(self.catalog, self.spec.path, retention, now_ms=now_ms)

    def remove_orphans(self, *, older_than_ms: int) -> spi.Cleaned:
        """Delete files below the table's location that no snapshot holds, and left-over tails."""
        with reached(f"Removing orphans of {self.spec.path}"):
            found = remove_orphans(self.catalog, self.spec.path, older_than_ms=older_than_ms)
            table = self._table()
            left = remove_leftovers(
                table.io, tails_root(table.location()), now_ms=self.clock.now_ms()
            )
        return spi.Cleaned(
            data_files=found.data_files + left.data_files,
            metadata_files=found.metadata_files + left.metadata_files,
            byte_count=found.byte_count + left.byte_count,
        )

    def inventory(self, *, opens_files: bool = False) -> spi.LakeInventory:
        """Compare what all kept snapshots name with the files that exist."""
        with reached(f"Checking the files of {self.spec.path}"):
            return inventory_of(
                self.catalog,
                self.spec.path,
                now_ms=self.clock.now_ms(),
                opens_files=opens_files,
            )

    def _obsolete_deletes(
        self,
        table: Table,
        on: spi.LakeSnapshot,
        written: Sequence[WrittenFiles],
        removed: frozenset[str],
    ) -> frozenset[str]:
        """The delete files that apply only to removed files.

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


def _carried(on: spi.LakeSnapshot, kind: str) -> dict[str, str]:
    """The properties of a snapshot of upkeep: it keeps the boundary of the one before."""
    held = {} if on.boundary is None else {BOUNDARY_PROPERTY: on.boundary.to_json()}
    return {**held, **spi.CHECKED, UPKEEP_PROPERTY: kind}
