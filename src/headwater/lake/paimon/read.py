"""Plan and read a snapshot of a Paimon table: prune files, merge rows by key, yield rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.errors import CorruptFileError, LakeSnapshotMissingError
from headwater.lake.files import check_count, picked, picked_schema, read_whole, values_gone
from headwater.lake.keys import KeyColumn, KeySet, in_key_order, last_of_each
from headwater.lake.paimon.catalog import PaimonTable
from headwater.lake.paimon.files import reaching
from headwater.lake.paimon.layout import DELETED, KIND, SEQUENCE, FileLayout, LakeSchema
from headwater.lake.paimon.manifests import Entry
from headwater.lake.paimon.options import target_bytes
from headwater.lake.paimon.plan import (
    FileFacts,
    FileFilter,
    PaimonLakeFiles,
    facts_of,
    is_current,
    sections_of,
)
from headwater.lake.spi import ColumnPath, FilterAnswer, LakeSnapshot
from headwater.lake.split import UNKNOWN_BUCKET, LakeFile, LakeSplit
from headwater.model import Column
from headwater.model.arrow import arrow_schema, arrow_type
from headwater.model.predicate import Predicate

# Merging the runs of a bucket: for each key, the row that was written last.

_UPDATE_BEFORE = 1
_BATCH_ROWS = 131_072
_Rows = TypeVar("_Rows", pa.Table, pa.RecordBatch)


def merged_rows(runs: Sequence[pa.Table], keys: Sequence[str], *, is_sorted: bool) -> pa.Table:
    """Merge runs that carry their sequence into the current rows, optionally by key."""
    kept = _left(_current(_ascending(runs), keys))
    return kept.take(pa.array(in_key_order(_of(kept, keys)))) if is_sorted else kept


def merged_stream(
    oldest: Iterator[pa.RecordBatch], newer: Sequence[pa.Table], keys: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the current rows of runs; all rows of the oldest one are older than all others.

    The oldest run, usually by far the largest, is not held in memory.
    """
    rest = pa.concat_tables(_ascending(newer))
    rest = rest.take(pa.array(last_of_each(_of(rest, keys))))
    newest = KeySet.of(_of(rest, keys))
    for batch in oldest:
        kept = _left(batch.filter(pa.array(~newest.mask(_of(batch, keys)))))
        if kept.num_rows:
            yield kept
    yield from _left(rest).combine_chunks().to_batches(max_chunksize=_BATCH_ROWS)


def _left(rows: _Rows) -> _Rows:
    """Drop the rows that delete a key or carry an old value."""
    gone = pa.array([_UPDATE_BEFORE, DELETED], pa.int8())
    return rows.filter(pc.invert(pc.is_in(rows.column(KIND), value_set=gone)))


def _current(runs: Sequence[pa.Table], keys: Sequence[str]) -> pa.Table:
    """The last row of each key; later runs hold later rows."""
    oldest, newer = runs[0], list(runs[1:])
    if not newer:
        return oldest.take(pa.array(last_of_each(_of(oldest, keys))))
    # The oldest run, usually by far the largest, is only searched for the keys of the others.
    rest = pa.concat_tables(newer)
    rest = rest.take(pa.array(last_of_each(_of(rest, keys))))
    is_replaced = KeySet.of(_of(rest, keys)).mask(_of(oldest, keys))
    return pa.concat_tables([oldest.filter(pa.array(~is_replaced)), rest])


def _of(rows: pa.Table | pa.RecordBatch, keys: Sequence[str]) -> list[KeyColumn]:
    return [rows.column(key) for key in keys]


def _ascending(runs: Sequence[pa.Table]) -> list[pa.Table]:
    """Sort rows by age: whole runs if they do not overlap, otherwise row by row."""
    filled = [run for run in runs if run.num_rows]
    if not filled:
        return list(runs[:1])
    ends = [pc.min_max(run.column(SEQUENCE)) for run in filled]
    spans = sorted(
        (int(end["min"].as_py()), int(end["max"].as_py()), at) for at, end in enumerate(ends)
    )
    if all(left[1] < right[0] for left, right in pairwise(spans)):
        return [filled[at] for _, _, at in spans]
    rows = pa.concat_tables(filled)
    order = np.argsort(rows.column(SEQUENCE).to_numpy(), kind="stable")
    return [rows.take(pa.array(order))]


# Reading data files under the columns of a table, whatever schema they were written under.

_SYSTEM_TYPES = {SEQUENCE: pa.int64(), KIND: pa.int8()}


@dataclass(frozen=True, slots=True)
class WantedColumn:
    """A column to read: the field it comes from, and what it becomes."""

    field_id: int | None
    becomes: pa.Field
    column: Column | None = None
    """The column of the table; None for a field taken as it is in files."""


def wanted_columns(table: PaimonTable, columns: Sequence[Column]) -> tuple[WantedColumn, ...]:
    """How to read columns of the table, with the table's types."""
    return tuple(
        WantedColumn(
            table.field_id_of(each),
            pa.field(each.name, arrow_type(each.type), nullable=each.type.nullable),
            each,
        )
        for each in columns
    )


def wanted_fields(layout: FileLayout, schema: LakeSchema) -> tuple[WantedColumn, ...]:
    """How to read all fields of the lake table, with the types of its files."""
    return tuple(
        WantedColumn(held.field_id, field)
        for held, field in zip(schema.fields, layout.fields, strict=True)
    )


@dataclass(frozen=True, slots=True)
class FileReader:
    """Reads data files of one table."""

    table: PaimonTable
    wanted: tuple[WantedColumn, ...]
    """What to read, in this order."""
    with_system: bool = False
    """Whether to also read, after the columns, what orders the rows of a key."""

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the result."""
        system = [pa.field(name, kind) for name, kind in _SYSTEM_TYPES.items()]
        return pa.schema(
            [*(each.becomes for each in self.wanted), *(system if self.with_system else ())]
        )

    def batches(self, path: str, *, schema_id: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file."""
        self._check_held(path, schema_id)
        names = self._names(schema_id)
        wanted = [name for name in names if name is not None]
        with self._opened(path) as file:
            # Without columns, rows are still counted.
            if not wanted:
                yield from self._blank(file.metadata.num_rows, len(names))
                return
            count = 0
            for rows in self._iterated(file, path, wanted):
                count += rows.num_rows
                with read_whole(path):
                    conformed = self._conformed(rows, names)
                yield conformed
            check_count(path, count, expected=file.metadata.num_rows)

    def whole(self, path: str, *, schema_id: int) -> pa.Table:
        """Read all rows of a file."""
        return pa.Table.from_batches(self.batches(path, schema_id=schema_id), schema=self.schema)

    def _check_held(self, path: str, schema_id: int) -> None:
        """Raise for a file without values of a column that was dropped before it was written."""
        written = self.table.schema_of(schema_id)
        for each in self.wanted:
            if each.column is not None and self.table.is_lost(each.column, written):
                raise values_gone(self.table.spec.path, each.column.name, path)

    def _names(self, schema_id: int) -> list[str | None]:
        """The name of each column in a file; None if the file does not have it."""
        written = self.table.schema_of(schema_id)
        ids = [each.field_id for each in self.wanted]
        fields = [None if each is None else written.field(each) for each in ids]
        names = [None if field is None else field.name for field in fields]
        return [*names, *(_SYSTEM_TYPES if self.with_system else ())]

    def _opened(self, path: str) -> pq.ParquetFile:
        try:
            with reaching(path), read_whole(path):
                return pq.ParquetFile(
                    self.table.files.open_input(path), page_checksum_verification=True
                )
        except FileNotFoundError as fault:
            raise CorruptFileError(
                f"The data file {path} is missing.",
                hint="Its snapshot expired while it was read: read a newer one.",
            ) from fault

    def _iterated(
        self, file: pq.ParquetFile, path: str, names: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        with read_whole(path):
            if missing := {*names} - {*file.schema_arrow.names}:
                raise pa.ArrowInvalid(f"it does not have the column {min(missing)}")
            batches = file.iter_batches(batch_size=_BATCH_ROWS, columns=list(names))
        while True:
            with reaching(path), read_whole(path):
                rows = next(batches, None)
            if rows is None:
                return
            yield rows

    def _conformed(self, rows: pa.RecordBatch, names: Sequence[str | None]) -> pa.RecordBatch:
        columns = [
            pa.nulls(rows.num_rows, field.type)
            if name is None
            else _cast(rows.column(name), field.type)
            for name, field in zip(names, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _blank(self, count: int, column_count: int) -> Iterator[pa.RecordBatch]:
        assert column_count == len(self.schema)
        nulls = pa.nulls(count, pa.struct(list(self.schema)))
        yield (
            pa.RecordBatch.from_arrays(
                [pa.nulls(count, field.type) for field in self.schema], schema=self.schema
            )
            if column_count
            else pa.RecordBatch.from_struct_array(nulls)
        )


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    return column if column.type == wanted else column.cast(wanted)


_Told = tuple[LakeFile, FileFacts]
_Group = list[tuple[Entry, LakeFile]]


@dataclass(frozen=True, slots=True)
class PaimonSource:
    """Reads one lake table; a value."""

    table: PaimonTable
    columns: tuple[ColumnPath, ...] | None = None
    limit: int | None = None
    filters: tuple[Predicate, ...] = ()

    def with_projection(self, columns: Sequence[ColumnPath]) -> "PaimonSource":
        """Read only these columns, in this order."""
        return replace(self, columns=tuple(columns))

    def with_limit(self, rows: int) -> "PaimonSource":
        """Plan no more splits than needed for this many rows."""
        return replace(self, limit=rows)

    def with_filters(self, filters: Sequence[Predicate]) -> "tuple[PaimonSource, FilterAnswer]":
        """Skip files that cannot contain a row that passes all filters."""
        answer = FilterAnswer(accepted=tuple(filters), remaining=tuple(filters))
        return replace(self, filters=(*self.filters, *filters)), answer

    def snapshot(self, snapshot_id: int | None = None) -> LakeSnapshot | None:
        """A snapshot, by default the newest."""
        table = self.table
        found = table.head() if snapshot_id is None else table.snapshot(snapshot_id)
        return None if found is None else table.to_lake_snapshot(found)

    def snapshots(self) -> list[LakeSnapshot]:
        """The snapshots that the lake still has, oldest first."""
        found = [self.table.snapshot(each) for each in self.table.snapshot_ids()]
        return [self.table.to_lake_snapshot(each) for each in found if each is not None]

    def plan(self, snapshot_id: int) -> list[LakeSplit]:
        """Plan what to read of a snapshot."""
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
            # If files overlap, the number of current rows is unknown.
            row_count += sum(file.row_count for _, file in group if file.stands_alone)
        return splits

    def read(self, split: LakeSplit, *, in_key_order: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the current rows of a split, under the schema of the spec."""
        whole = arrow_schema(self.table.spec.schema)
        schema = whole if self.columns is None else picked_schema(whole, self.columns)
        known = [(file, facts_of(file)) for file in split.files]
        # Sections are numbered in key order.
        ordered = sorted(known, key=lambda each: each[1].section)
        for _, group in groupby(ordered, key=lambda each: each[1].section):
            for batch in self._section(list(group), schema.names, in_key_order=in_key_order):
                yield picked(batch, schema)

    @property
    def is_key_ordered(self) -> bool:
        """Tell whether splits can be read in primary-key order."""
        return self.table.spec.is_keyed

    def _section(
        self, files: Sequence[_Told], names: Sequence[str], *, in_key_order: bool
    ) -> Iterator[pa.RecordBatch]:
        if all(file.stands_alone for file, _ in files):
            return self._plain(files, names)
        return self._merged(files, names, in_key_order=in_key_order)

    def _plain(self, files: Sequence[_Told], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield rows as they are in files; keyed files are in key order."""
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
        """Yield the files of each split: a whole bucket if keyed, otherwise enough for one task."""
        described = PaimonLakeFiles(self.table)
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
        self, entries: Sequence[Entry], described: PaimonLakeFiles
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
