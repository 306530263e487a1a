"""Reading a lake table: splits of a snapshot, and the rows of splits."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import pyarrow as pa

from headwater.errors import LakeSnapshotMissingError
from headwater.lake.columns import picked, picked_schema
from headwater.lake.paimon.filters import FileFilter, answer_to
from headwater.lake.paimon.manifests import DataFile, Entry
from headwater.lake.paimon.merge import is_merged, merged_rows
from headwater.lake.paimon.options import target_bytes
from headwater.lake.paimon.reading import FileReader, wanted_columns
from headwater.lake.paimon.table import PaimonTable
from headwater.lake.spi import ColumnPath, FilterAnswer, LakeSnapshot
from headwater.lake.split import UNKNOWN_BUCKET, LakeFile, LakeSplit
from headwater.model.arrow import arrow_schema
from headwater.model.predicate import Predicate

_BATCH_ROWS = 131_072


@dataclass(frozen=True, slots=True)
class PaimonSource:
    """Read one lake table; a value."""

    table: PaimonTable
    columns: tuple[ColumnPath, ...] | None = None
    limit: int | None = None
    filters: tuple[Predicate, ...] = ()

    def with_projection(self, columns: Sequence[ColumnPath]) -> "PaimonSource":
        """Read these columns only, in this order."""
        return replace(self, columns=tuple(columns))

    def with_limit(self, rows: int) -> "PaimonSource":
        """Plan no more splits than give so many rows."""
        return replace(self, limit=rows)

    def with_filters(self, filters: Sequence[Predicate]) -> "tuple[PaimonSource, FilterAnswer]":
        """Leave out files that hold no row that passes all of the filters."""
        answer = answer_to(filters, self.table.spec)
        return replace(self, filters=(*self.filters, *answer.accepted)), answer

    def snapshot(self, snapshot_id: int | None = None) -> LakeSnapshot | None:
        """Return a snapshot, by default the newest."""
        table = self.table
        found = table.head() if snapshot_id is None else table.snapshot(snapshot_id)
        return None if found is None else table.to_lake_snapshot(found)

    def snapshots(self) -> list[LakeSnapshot]:
        """Return the snapshots that the lake still has, oldest first."""
        found = [self.table.snapshot(each) for each in self.table.snapshot_ids()]
        return [self.table.to_lake_snapshot(each) for each in found if each is not None]

    def plan(self, snapshot_id: int) -> list[LakeSplit]:
        """Return what to read."""
        found = self.table.snapshot(snapshot_id)
        if found is None:
            raise LakeSnapshotMissingError(
                f"Snapshot {snapshot_id} of the lake table {self.table.spec.path} is gone."
            )
        splits = []
        row_count = 0
        for group in self._groups(self._chosen(self.table.live(found))):
            if self.limit is not None and row_count >= self.limit:
                break
            splits.append(self._split(group, snapshot_id))
            # Of runs that overlap, nobody knows how many rows are left.
            if self._is_merged(group):
                row_count += sum(entry.file.row_count for entry in group)
        return splits

    def read(self, split: LakeSplit, *, in_key_order: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split: current ones only, under the schema of the spec."""
        node = json.loads(split.payload)
        files = list(zip((file.path for file in split.files), node["schemas"], strict=True))
        whole = arrow_schema(self.table.spec.schema)
        schema = whole if self.columns is None else picked_schema(whole, self.columns)
        is_sorted = in_key_order and len(files) > 1
        read = self._merged if is_sorted or not node["merged"] else self._plain
        for batch in read(files, schema.names, is_sorted=in_key_order):
            yield picked(batch, schema)

    @property
    def is_key_ordered(self) -> bool:
        """Tell whether splits can be read in the order of the primary key."""
        return self.table.spec.is_keyed

    def _plain(
        self, files: Sequence[tuple[str, int]], names: Sequence[str], *, is_sorted: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows as they stand in files; a single one is in the order of its keys."""
        assert not is_sorted or len(files) <= 1
        columns = [self.table.spec.schema.column(name) for name in names]
        reader = FileReader(self.table, wanted_columns(self.table, columns))
        for path, schema_id in files:
            yield from reader.batches(path, schema_id=schema_id)

    def _merged(
        self, files: Sequence[tuple[str, int]], names: Sequence[str], *, is_sorted: bool
    ) -> Iterator[pa.RecordBatch]:
        spec = self.table.spec
        needed = dict.fromkeys((*names, *spec.row_keys))
        wanted = wanted_columns(self.table, [spec.schema.column(name) for name in needed])
        reader = FileReader(self.table, wanted, with_system=True)
        runs = [reader.whole(path, schema_id=schema_id) for path, schema_id in files]
        rows = merged_rows(runs, spec.row_keys, is_sorted=is_sorted)
        yield from rows.combine_chunks().to_batches(max_chunksize=_BATCH_ROWS)

    def _chosen(self, entries: Sequence[Entry]) -> list[Entry]:
        table = self.table
        chosen = FileFilter(self.filters, table.spec, table.schema)
        return [
            entry
            for entry in entries
            if chosen.may_hold(
                entry.file,
                table.schema_of(entry.file.schema_id),
                table.partitions.literals(entry.partition),
            )
        ]

    def _groups(self, entries: Sequence[Entry]) -> Iterator[list[Entry]]:
        """Yield the files of each split: of rows by key a bucket, else as much as fits."""
        ordered = sorted(entries, key=_place)
        for _, group in groupby(ordered, key=_bucket_of):
            files = list(group)
            if self.table.spec.is_keyed:
                yield files
            else:
                yield from _packed(files, target_bytes(self.table.schema.options))

    def _is_merged(self, group: Sequence[Entry]) -> bool:
        return not self.table.spec.is_keyed or is_merged([entry.file for entry in group])

    def _split(self, group: Sequence[Entry], snapshot_id: int) -> LakeSplit:
        first, merged = group[0], self._is_merged(group)
        payload = {"schemas": [entry.file.schema_id for entry in group], "merged": merged}
        return LakeSplit(
            format="paimon",
            snapshot_id=snapshot_id,
            bucket=first.bucket if first.bucket_count > 0 else UNKNOWN_BUCKET,
            partition=self.table.partitions.from_row(first.partition),
            files=tuple(
                LakeFile(
                    path=self.table.file_path(entry),
                    row_count=entry.file.row_count,
                    byte_count=entry.file.byte_count,
                    is_plain=merged and self._is_current(entry.file),
                )
                for entry in group
            ),
            payload=json.dumps(payload).encode(),
        )

    def _is_current(self, file: DataFile) -> bool:
        return file.schema_id == self.table.schema.schema_id


def _bucket_of(entry: Entry) -> tuple[bytes, int]:
    return entry.partition, entry.bucket


def _place(entry: Entry) -> tuple[bytes, int, int, str]:
    return (*_bucket_of(entry), entry.file.sequence_min, entry.file.name)


def _packed(entries: Sequence[Entry], byte_count_max: int) -> Iterator[list[Entry]]:
    held: list[Entry] = []
    size = 0
    for entry in entries:
        if held and size + entry.file.byte_count > byte_count_max:
            yield held
            held, size = [], 0
        held.append(entry)
        size += entry.file.byte_count
    if held:
        yield held
