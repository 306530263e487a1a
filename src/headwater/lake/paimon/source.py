"""Reading a lake table: splits of a snapshot, and the rows of splits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import pyarrow as pa

from headwater.errors import LakeSnapshotMissingError
from headwater.lake.columns import picked, picked_schema
from headwater.lake.paimon.filters import FileFilter
from headwater.lake.paimon.lake_files import FileFacts, LakeFiles, facts_of
from headwater.lake.paimon.manifests import Entry
from headwater.lake.paimon.merge import merged_rows, merged_stream
from headwater.lake.paimon.options import target_bytes
from headwater.lake.paimon.reading import FileReader, wanted_columns
from headwater.lake.paimon.sections import is_current, sections_of
from headwater.lake.paimon.table import PaimonTable
from headwater.lake.spi import ColumnPath, FilterAnswer, LakeSnapshot
from headwater.lake.split import UNKNOWN_BUCKET, LakeFile, LakeSplit
from headwater.model.arrow import arrow_schema
from headwater.model.predicate import Predicate

_BATCH_ROWS = 131_072
_Told = tuple[LakeFile, FileFacts]
_Group = list[tuple[Entry, LakeFile]]


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
        answer = FilterAnswer(accepted=tuple(filters), remaining=tuple(filters))
        return replace(self, filters=(*self.filters, *filters)), answer

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
        splits: list[LakeSplit] = []
        row_count = 0
        for group in self._groups(self.table.live(found)):
            if self.limit is not None and not self.filters and row_count >= self.limit:
                break
            splits.append(self._split(group, snapshot_id))
            # Of files that overlap, nobody knows how many rows are left.
            row_count += sum(file.row_count for _, file in group if file.stands_alone)
        return splits

    def read(self, split: LakeSplit, *, in_key_order: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split: current ones only, under the schema of the spec."""
        whole = arrow_schema(self.table.spec.schema)
        schema = whole if self.columns is None else picked_schema(whole, self.columns)
        told = [(file, facts_of(file)) for file in split.files]
        # Sections are numbered in the order of keys.
        ordered = sorted(told, key=lambda each: each[1].section)
        for _, group in groupby(ordered, key=lambda each: each[1].section):
            for batch in self._section(list(group), schema.names, in_key_order=in_key_order):
                yield picked(batch, schema)

    @property
    def is_key_ordered(self) -> bool:
        """Tell whether splits can be read in the order of the primary key."""
        return self.table.spec.is_keyed

    def _section(
        self, files: Sequence[_Told], names: Sequence[str], *, in_key_order: bool
    ) -> Iterator[pa.RecordBatch]:
        if all(file.stands_alone for file, _ in files):
            return self._plain(files, names)
        return self._merged(files, names, in_key_order=in_key_order)

    def _plain(self, files: Sequence[_Told], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield rows as they stand in files; by key they are in the order of their keys."""
        columns = [self.table.spec.schema.column(name) for name in names]
        reader = FileReader(self.table, wanted_columns(self.table, columns))
        for file, facts in files:
            yield from reader.batches(file.path, schema_id=facts.schema_id)

    def _merged(
        self, files: Sequence[_Told], names: Sequence[str], *, in_key_order: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield the current rows of files whose keys overlap."""
        spec = self.table.spec
        needed = dict.fromkeys((*names, *spec.row_keys))
        wanted = wanted_columns(self.table, [spec.schema.column(name) for name in needed])
        reader = FileReader(self.table, wanted, with_system=True)
        (first, facts), *others = sorted(files, key=lambda each: each[1].sequences)
        newer = [reader.whole(file.path, schema_id=each.schema_id) for file, each in others]
        is_oldest = all(facts.sequences[1] < each.sequences[0] for _, each in others)
        if newer and is_oldest and not in_key_order:
            oldest = reader.batches(first.path, schema_id=facts.schema_id)
            yield from merged_stream(oldest, newer, spec.row_keys)
            return
        runs = [reader.whole(first.path, schema_id=facts.schema_id), *newer]
        rows = merged_rows(runs, spec.row_keys, is_sorted=in_key_order)
        yield from rows.combine_chunks().to_batches(max_chunksize=_BATCH_ROWS)

    def _groups(self, entries: Sequence[Entry]) -> Iterator[_Group]:
        """Yield the files of each split: of rows by key a bucket, else as much as fits."""
        described = LakeFiles(self.table)
        chosen = FileFilter(self.filters, self.table.spec)
        for _, group in groupby(sorted(entries, key=_place), key=_bucket_of):
            files = list(group)
            partition = self.table.partitions.literals(files[0].partition)
            left = [
                (entry, file)
                for entry, file in self._described(files, described)
                if chosen.may_hold(file, partition)
            ]
            if self.table.spec.is_keyed:
                yield from [left] if left else []
            else:
                yield from _packed(left, target_bytes(self.table.schema.options))

    def _described(
        self, entries: Sequence[Entry], described: LakeFiles
    ) -> Iterator[tuple[Entry, LakeFile]]:
        if not self.table.spec.is_keyed:
            for entry in entries:
                yield entry, described.of(entry, section=0, stands_alone=True)
            return
        for number, section in enumerate(sections_of(entries, described.key_types)):
            for entry in section:
                yield (
                    entry,
                    described.of(entry, section=number, stands_alone=is_current(section)),
                )

    def _split(self, group: _Group, snapshot_id: int) -> LakeSplit:
        first = group[0][0]
        return LakeSplit(
            format="paimon",
            snapshot_id=snapshot_id,
            bucket=first.bucket if first.bucket_count > 0 else UNKNOWN_BUCKET,
            partition=self.table.partitions.from_row(first.partition),
            files=tuple(file for _, file in group),
            payload=b"",
        )


def _bucket_of(entry: Entry) -> tuple[bytes, int]:
    return entry.partition, entry.bucket


def _place(entry: Entry) -> tuple[bytes, int, int, str]:
    return (*_bucket_of(entry), entry.file.sequence_min, entry.file.name)


def _packed(group: _Group, byte_count_max: int) -> Iterator[_Group]:
    held: list[tuple[Entry, LakeFile]] = []
    size = 0
    for entry, file in group:
        if held and size + file.byte_count > byte_count_max:
            yield held
            held, size = [], 0
        held.append((entry, file))
        size += file.byte_count
    if held:
        yield held
