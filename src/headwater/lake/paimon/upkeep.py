"""Keep a Paimon table small and fast to read: compact files, merge manifests, expire, clean."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np
import pyarrow as pa

from headwater.errors import LakeMovedError, LakeRewrittenError
from headwater.lake import spi
from headwater.lake.paimon.catalog import PaimonTable
from headwater.lake.paimon.commit import Commit, commit_snapshot, merged_manifests
from headwater.lake.paimon.data_files import SOURCE_COMPACT, PaimonDataFiles
from headwater.lake.paimon.inventory import expire, inventory_of, remove_orphans
from headwater.lake.paimon.layout import INSERTED, SEQUENCE, FileLayout
from headwater.lake.paimon.manifests import (
    COMPACT,
    DELETE,
    KEEPER_USER,
    DataFile,
    Entry,
    Manifest,
    SnapshotFile,
    entries_from_bytes,
    entries_to_bytes,
)
from headwater.lake.paimon.options import number, retained_ms, target_bytes
from headwater.lake.paimon.read import FileReader, merged_rows, wanted_fields
from headwater.lake.paimon.write import PaimonBucket
from headwater.lake.split import UNKNOWN_BUCKET
from headwater.model.boundary import BOUNDARY_PROPERTY
from headwater.runtime.clock import Clock

# Which files are worth rewriting, and rewriting them.

_SMALL_SHARE = 0.75
_DELETED_SHARE = 0.2

_Path = tuple[str, int]


def worth_rewriting(
    entries: Sequence[Entry], options: Mapping[str, str], *, is_keyed: bool
) -> list[list[Entry]]:
    """Group files to rewrite, each group of one bucket."""
    ordered = sorted(entries, key=_place)
    buckets = [list(group) for _, group in groupby(ordered, key=_bucket_of)]
    if is_keyed:
        return [bucket for bucket in buckets if _has_many_runs(bucket, options)]
    return [group for bucket in buckets for group in _small_ones(bucket, options)]


def _has_many_runs(entries: Sequence[Entry], options: Mapping[str, str]) -> bool:
    files = [entry.file for entry in entries]
    rows = sum(file.row_count for file in files)
    deleted = sum(file.delete_count for file in files)
    return run_count(files) >= _trigger(options) or deleted > _DELETED_SHARE * rows


def run_count(files: Sequence[DataFile]) -> int:
    """Number of sorted runs that a reader has to merge."""
    levels = {file.level for file in files if file.level > 0}
    return sum(file.level == 0 for file in files) + len(levels)


def _trigger(options: Mapping[str, str]) -> int:
    return number(options, "num-sorted-run.compaction-trigger", default=5)


def top_level(options: Mapping[str, str]) -> int:
    """The level of files that have been merged with everything."""
    return number(options, "num-levels", default=_trigger(options) + 1) - 1


def _small_ones(entries: Sequence[Entry], options: Mapping[str, str]) -> Iterator[list[Entry]]:
    """Yield neighbours that fit into one file; rows of a bucket keep their order."""
    target = target_bytes(options)
    least = number(options, "compaction.min.file-num", default=5)
    for is_small, group in groupby(
        _with_small_together(entries, target), key=lambda entry: _is_small(entry, target)
    ):
        small = list(group)
        if is_small and len(small) >= least:
            yield from (each for each in _packed(small, target) if len(each) > 1)


def _with_small_together(entries: Sequence[Entry], target: int) -> Sequence[Entry]:
    if entries[0].bucket_count > 0:
        return entries
    return sorted(entries, key=lambda entry: _is_small(entry, target))


def _is_small(entry: Entry, target: int) -> bool:
    return entry.file.byte_count < _SMALL_SHARE * target


def _packed(entries: Sequence[Entry], target: int) -> Iterator[list[Entry]]:
    held: list[Entry] = []
    for entry in entries:
        if held and sum(each.file.byte_count for each in (*held, entry)) > target:
            yield held
            held = []
        held.append(entry)
    if held:
        yield held


def _bucket_of(entry: Entry) -> tuple[bytes, int]:
    return entry.partition, entry.bucket


def _place(entry: Entry) -> tuple[bytes, int, int, str]:
    return (*_bucket_of(entry), entry.file.sequence_min, entry.file.name)


def rewritten(
    table: PaimonTable, place: PaimonBucket, entries: Sequence[Entry], clock: Clock
) -> list[DataFile]:
    """Write the current rows of files into new ones, under the newest of their schemas."""
    is_keyed = table.spec.is_keyed
    # Files may be newer than the known schema: none of their fields may get lost.
    newest = max(table.schema.schema_id, *(entry.file.schema_id for entry in entries))
    settings = place.settings(
        schema_id=newest,
        sequence_start=min(entry.file.sequence_min for entry in entries),
        level=top_level(table.schema.options) if is_keyed else 0,
        source=SOURCE_COMPACT,
    )
    files = PaimonDataFiles(place.directory, settings, clock)
    wanted = wanted_fields(settings.layout, table.schema_of(newest))
    reader = FileReader(table, wanted, with_system=is_keyed)
    paths = [(table.file_path(entry), entry.file.schema_id) for entry in entries]
    try:
        for rows in _merged(reader, paths, settings.layout) if is_keyed else _all(reader, paths):
            files.write(rows)
        return files.finish()
    except BaseException:
        files.abort()
        raise


def _merged(reader: FileReader, paths: Sequence[_Path], layout: FileLayout) -> Iterator[pa.Table]:
    """Yield the current rows of runs, in key order."""
    runs = [reader.whole(path, schema_id=schema_id) for path, schema_id in paths]
    rows = merged_rows(runs, layout.keys, is_sorted=True)
    kinds = pa.array(np.full(rows.num_rows, INSERTED, np.int8))
    if rows.num_rows:
        yield layout.keyed(rows.select(layout.fields.names), rows.column(SEQUENCE), kinds)


def _all(reader: FileReader, paths: Sequence[_Path]) -> Iterator[pa.Table]:
    """Yield the rows of files as they are."""
    for path, schema_id in paths:
        for batch in reader.batches(path, schema_id=schema_id):
            yield pa.Table.from_batches([batch])


_MANIFESTS_MAX = 8
_RETAINED_DEFAULT = 10


class PaimonKeeper:
    """Maintains one lake table; safe next to readers and tierers."""

    def __init__(self, table: PaimonTable, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    def plan_rewrites(self, *, on: spi.LakeSnapshot) -> list[spi.Rewrite]:
        """Plan what is worth compacting."""
        table = self._table
        groups = worth_rewriting(
            table.live(self._snapshot(on)), table.schema.options, is_keyed=table.spec.is_keyed
        )
        return [
            spi.Rewrite(
                partition=table.partitions.from_row(group[0].partition),
                bucket=group[0].bucket if group[0].bucket_count > 0 else UNKNOWN_BUCKET,
                file_count=len(group),
                byte_count=sum(entry.file.byte_count for entry in group),
                payload=entries_to_bytes(group),
            )
            for group in groups
        ]

    def rewrite(self, work: spi.Rewrite) -> spi.WriteResult:
        """Write the current rows of the files into fewer ones."""
        entries = entries_from_bytes(work.payload)
        place = PaimonBucket.of(self._table, work.partition, work.bucket)
        files = rewritten(self._table, place, entries, self._clock)
        return place.result(files, leaving=entries)

    def commit_rewrites(
        self, results: Sequence[spi.WriteResult], *, on: spi.LakeSnapshot
    ) -> spi.LakeSnapshot:
        """Replace the old files with the new ones, in one snapshot directly after `on`."""
        spi.check_kept(on, self._table.spec.path)
        entries = [entry for each in results for entry in entries_from_bytes(each.payload)]
        before = self._snapshot(on)
        self._check_live(entries, before)
        return self._committed(before, entries=entries)

    def merge_manifests(self, *, on: spi.LakeSnapshot) -> spi.LakeSnapshot | None:
        """Merge manifests if there are many."""
        spi.check_kept(on, self._table.spec.path)
        before = self._snapshot(on)
        manifests = self._table.all_manifests(before)
        if len(manifests) < _MANIFESTS_MAX:
            return None
        return self._committed(before, base=merged_manifests(self._table, manifests))

    def retention(self) -> spi.Retention:
        """Which snapshots the lake table's options keep."""
        options = self._table.schema.options
        least = number(options, "snapshot.num-retained.min", default=_RETAINED_DEFAULT)
        return spi.Retention(snapshots_min=least, age_ms=retained_ms(options))

    def expire(self, retention: spi.Retention, *, now_ms: int) -> spi.Cleaned:
        """Drop old snapshots, and delete the files that only they held."""
        return expire(self._table, retention, now_ms=now_ms)

    def remove_orphans(self, *, older_than_ms: int) -> spi.Cleaned:
        """Delete files below the table's location that no snapshot holds."""
        return remove_orphans(self._table, older_than_ms=older_than_ms)

    def inventory(self, *, opens_files: bool = False) -> spi.LakeInventory:
        """Compare what all kept snapshots name with the files that exist."""
        return inventory_of(self._table, now_ms=self._clock.now_ms(), opens_files=opens_files)

    def _committed(
        self,
        on: SnapshotFile,
        *,
        entries: Sequence[Entry] = (),
        base: Sequence[Manifest] | None = None,
    ) -> spi.LakeSnapshot:
        """Commit a snapshot with the same rows, and so with the same boundary."""
        boundary = self._table.boundary(on)
        held = {} if boundary is None else {BOUNDARY_PROPERTY: boundary.to_json()}
        commit = Commit(
            entries=entries,
            user=KEEPER_USER,
            kind=COMPACT,
            properties={**spi.CHECKED, **held},
            base=base,
        )
        done = commit_snapshot(self._table, commit, on=on, now_ms=self._clock.now_ms())
        return self._table.to_lake_snapshot(done)

    def _snapshot(self, on: spi.LakeSnapshot) -> SnapshotFile:
        found = self._table.snapshot(on.snapshot_id)
        if found is None:
            raise LakeMovedError(
                f"Snapshot {on.snapshot_id} of {self._table.spec.path} has expired."
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
                f"Files of the lake table {self._table.spec.path} that were rewritten are "
                f"no longer in snapshot {before.snapshot_id}: {', '.join(gone[:3])}."
            )
