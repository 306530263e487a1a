"""Plan a snapshot's live files: which belong together, which may match, columns and bounds."""

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from headwater.errors import CorruptBatchError, CorruptFileError
from headwater.lake.files import is_castable
from headwater.lake.paimon.catalog import PaimonTable
from headwater.lake.paimon.files import local_path
from headwater.lake.paimon.layout import LakeField, LakeSchema
from headwater.lake.paimon.manifests import DataFile, Entry
from headwater.lake.paimon.types import file_type, from_binary_row, paimon_type, type_text
from headwater.lake.spi import LakeTableSpec
from headwater.lake.split import ColumnBounds, LakeFile
from headwater.model import Column
from headwater.model.arrow import arrow_type
from headwater.model.predicate import And, Literal, Predicate
from headwater.rows.statistics import BatchStatistics, ColumnStatistics, may_match

# Column bounds from the record of a data file, as values that filters compare with.

_UNKNOWN_TYPE = pa.null()
# Our files have no bounds for floats with a NaN; for files of others that is unknown.
_OURS = re.compile(r"data-[0-9a-f]{32}-\d+\.parquet\Z")

FieldColumns = dict[int, tuple[int, pa.DataType]]
"""The column that a field holds, and its type in files, by field id."""


def value_bounds(
    file: DataFile, written: LakeSchema, columns: FieldColumns
) -> Iterator[ColumnBounds]:
    """Yield the column bounds of a file that was written under a schema."""
    named = _named(file, written)
    order = [columns.get(field.field_id) for field in written.fields if field.name in named]
    record = file.bounds_record("_VALUE_STATS")
    nulls = record.get("_NULL_COUNTS")
    if not order or not isinstance(nulls, list) or len(nulls) != len(order):
        return
    kinds = [_UNKNOWN_TYPE if each is None else each[1] for each in order]
    minima = _literals(kinds, record.get("_MIN_VALUES"))
    maxima = _literals(kinds, record.get("_MAX_VALUES"))
    is_ours = _OURS.match(file.name) is not None
    for each, count, low, high in zip(order, nulls, minima, maxima, strict=True):
        if each is None:
            continue
        column_id, kind = each
        is_known = is_ours or not pa.types.is_floating(kind)
        yield ColumnBounds(
            column_id=column_id,
            lower=low if is_known else None,
            upper=high if is_known else None,
            null_count=count if isinstance(count, int) else None,
        )


def _named(file: DataFile, written: LakeSchema) -> set[str]:
    """Names of the fields that a file has bounds for."""
    names = file.record.get("_VALUE_STATS_COLS")
    if isinstance(names, list):
        return {str(name) for name in names}
    return {field.name for field in written.fields}


def _literals(kinds: Sequence[pa.DataType], row: object) -> tuple[Literal, ...]:
    nothing: tuple[Literal, ...] = (None,) * len(kinds)
    try:
        return from_binary_row(kinds, row) if isinstance(row, bytes) else nothing
    except (CorruptFileError, CorruptBatchError):
        # A file without bounds is just never skipped.
        return nothing


# Sections of a bucket: files whose key ranges overlap belong together, others do not.
#
# Sections are in key order. A section of a single file without deletes is current as it is; the
# rows of any other must be merged.

# NaN sorts after all other numbers, as in files.
_Rank = tuple[tuple[bool, Literal], ...]
KeyRange = tuple[tuple[Literal, ...], tuple[Literal, ...]]


def sections_of(entries: Sequence[Entry], key_types: Sequence[pa.DataType]) -> list[list[Entry]]:
    """Divide the files of one bucket into sections, earlier files first."""
    ranked: list[tuple[_Rank, _Rank, Entry]] = []
    for entry in entries:
        found = key_range(entry.file, key_types)
        if found is None:
            # It may overlap with any other.
            return [sorted(entries, key=_age)] if entries else []
        ranked.append((_rank(found[0]), _rank(found[1]), entry))
    sections: list[list[Entry]] = []
    end: _Rank | None = None
    for low, high, entry in sorted(ranked, key=_start):
        if end is None or low > end:
            sections.append([])
        sections[-1].append(entry)
        end = high if end is None else max(end, high)
    return [sorted(section, key=_age) for section in sections]


def is_current(section: Sequence[Entry]) -> bool:
    """Tell whether the rows of a section are current as they stand in its file."""
    return len(section) == 1 and not section[0].file.delete_count


def key_range(file: DataFile, key_types: Sequence[pa.DataType]) -> KeyRange | None:
    """The lowest and the highest key of a file; None if unknown."""
    found = []
    for name in ("_MIN_KEY", "_MAX_KEY"):
        row = file.record.get(name)
        try:
            key = from_binary_row(key_types, row) if isinstance(row, bytes) else ()
        except (CorruptFileError, CorruptBatchError):
            return None
        if not key or None in key:
            return None
        found.append(key)
    return found[0], found[1]


def _rank(key: tuple[Literal, ...]) -> _Rank:
    return tuple(
        (True, None) if isinstance(value, float) and math.isnan(value) else (False, value)
        for value in key
    )


def _start(ranked: tuple[_Rank, _Rank, Entry]) -> tuple[_Rank, _Rank]:
    return ranked[0], ranked[1]


def _age(entry: Entry) -> tuple[int, str]:
    return entry.file.sequence_min, entry.file.name


# Which files cannot contain a row that passes filters.


@dataclass(frozen=True, slots=True)
class FileFilter:
    """Decides for each data file whether to read it."""

    filters: tuple[Predicate, ...]
    spec: LakeTableSpec

    def may_hold(self, file: LakeFile, partition: Sequence[Literal]) -> bool:
        """Return False only if no row of the file passes, and none comes back without it.

        Where files are merged only keys count: an older row must not come back because the file
        with its newer values was skipped.
        """
        if not self.filters:
            return True
        usable = None if file.stands_alone else self._key_ids()
        known = {
            each.column_id: ColumnStatistics(each.null_count, each.lower, each.upper)
            for each in file.bounds
            if each.null_count is not None and (usable is None or each.column_id in usable)
        }
        known.update(self._of_partition(partition))
        return may_match(And(self.filters), BatchStatistics(known), record_count=file.row_count)

    def _key_ids(self) -> set[int]:
        schema = self.spec.schema
        return {schema.column(name).column_id for name in schema.primary_key}

    def _of_partition(self, partition: Sequence[Literal]) -> dict[int, ColumnStatistics]:
        columns = [self.spec.schema.column(key) for key in self.spec.partition_keys]
        return {
            column.column_id: ColumnStatistics(0, value, value)
            for column, value in zip(columns, partition, strict=True)
        }


# Data files as engines see them: their column names and bounds.


class FileFacts(NamedTuple):
    """What the reader of a split needs to know about a file."""

    schema_id: int
    section: int
    sequences: tuple[int, int]
    """The smallest and largest sequence number of its rows."""


def facts_of(file: LakeFile) -> FileFacts:
    """Decode the payload of a file."""
    schema_id, section, low, high = json.loads(file.payload)
    return FileFacts(schema_id, section, (low, high))


@dataclass(frozen=True, slots=True)
class _Seen:
    """How the columns of a table appear in files of one schema."""

    names: tuple[tuple[int, str], ...] | None
    absent: tuple[int, ...]
    bounded: FieldColumns


class PaimonLakeFiles:
    """Describes the data files of one table; files of one schema share the description."""

    def __init__(self, table: PaimonTable) -> None:
        self._table = table
        self._columns = table.spec.schema.columns
        self._fields = {each.column_id: table.field_id_of(each) for each in self._columns}
        self._seen: dict[int, _Seen] = {}

    @property
    def key_types(self) -> list[pa.DataType]:
        """Types of the columns that identify rows within one partition."""
        schema = self._table.spec.schema
        return [file_type(schema.column(name).type) for name in self._table.spec.row_keys]

    def of(self, entry: Entry, *, section: int, stands_alone: bool) -> LakeFile:
        """Describe a file for engines and for the reader of a split."""
        file = entry.file
        path = self._table.file_path(entry)
        seen = self._seen_by(file.schema_id)
        is_whole = file.record.get("_WRITE_COLS") is None
        payload = [file.schema_id, section, file.sequence_min, file.sequence_max]
        return LakeFile(
            path=local_path(path) or path,
            row_count=file.row_count,
            byte_count=file.byte_count,
            is_plain=stands_alone and file.schema_id == self._table.schema.schema_id,
            format=file.name.rpartition(".")[2],
            names=seen.names if is_whole else None,
            stands_alone=stands_alone,
            bounds=tuple(self._bounds(file, seen)),
            payload=json.dumps(payload).encode(),
        )

    def _seen_by(self, schema_id: int) -> _Seen:
        if schema_id not in self._seen:
            self._seen[schema_id] = self._of_schema(self._table.schema_of(schema_id))
        return self._seen[schema_id]

    def _of_schema(self, written: LakeSchema) -> _Seen:
        held = {each.field_id: each for each in written.fields}
        found = [(each, held.get(_or_none(self._fields[each.column_id]))) for each in self._columns]
        missing = [column for column, field in found if field is None]
        is_lost = any(self._table.is_lost(each, written) for each in missing)
        are_castable = all(
            field is None or _is_read_by_cast(column, field) for column, field in found
        )
        return _Seen(
            names=tuple((column.column_id, field.name) for column, field in found if field)
            if are_castable and not is_lost
            else None,
            absent=tuple(
                each.column_id for each in missing if not self._table.is_lost(each, written)
            ),
            bounded={
                field.field_id: (column.column_id, file_type(column.type))
                for column, field in found
                if field is not None and _is_same_type(column, field)
            },
        )

    def _bounds(self, file: DataFile, seen: _Seen) -> Iterator[ColumnBounds]:
        written = self._table.schema_of(file.schema_id)
        first_key = self._first_key(file)
        for bounds in value_bounds(file, written, seen.bounded):
            if first_key is not None and first_key.column_id == bounds.column_id:
                continue
            yield bounds
        if first_key is not None:
            yield first_key
        for column_id in seen.absent:
            yield ColumnBounds(
                column_id=column_id, lower=None, upper=None, null_count=file.row_count
            )

    def _first_key(self, file: DataFile) -> ColumnBounds | None:
        """Bounds of the first key column, which files always store in full."""
        found = key_range(file, self.key_types) if self._table.spec.is_keyed else None
        if found is None:
            return None
        low, high = found[0][0], found[1][0]
        if isinstance(low, float) or isinstance(high, float):
            # A file whose upper bound is NaN may still hold other numbers.
            return None
        column = self._table.spec.schema.column(self._table.spec.row_keys[0])
        return ColumnBounds(column_id=column.column_id, lower=low, upper=high, null_count=0)


def _or_none(field_id: int | None) -> int:
    return -1 if field_id is None else field_id


def _is_read_by_cast(column: Column, field: LakeField) -> bool:
    return _is_same_type(column, field) and is_castable(
        file_type(column.type), arrow_type(column.type)
    )


def _is_same_type(column: Column, field: LakeField) -> bool:
    wanted = paimon_type(column.type, iter(range(2**31)).__next__)
    return type_text(wanted, with_nullability=False) == type_text(
        field.type, with_nullability=False
    )
