"""Data files as engines see them: what columns are called in them, and what is known of these."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from headwater.lake.castable import is_castable
from headwater.lake.paimon.files import local_path
from headwater.lake.paimon.manifests import DataFile, Entry
from headwater.lake.paimon.schema import LakeField, LakeSchema
from headwater.lake.paimon.sections import key_range
from headwater.lake.paimon.statistics import FieldColumns, value_bounds
from headwater.lake.paimon.table import PaimonTable
from headwater.lake.paimon.types import file_type, paimon_type, type_text
from headwater.lake.split import ColumnBounds, LakeFile
from headwater.model.arrow import arrow_type
from headwater.model.schema import Column


class FileFacts(NamedTuple):
    """Tell what a reader of a split has to know of a file."""

    schema_id: int
    section: int
    sequences: tuple[int, int]
    """The smallest and the largest number that says how recent a row is."""


def facts_of(file: LakeFile) -> FileFacts:
    """Read what the payload of a file tells."""
    schema_id, section, low, high = json.loads(file.payload)
    return FileFacts(schema_id, section, (low, high))


@dataclass(frozen=True, slots=True)
class _Seen:
    """Say how the columns of a table stand in files of one schema."""

    names: tuple[tuple[int, str], ...] | None
    absent: tuple[int, ...]
    bounded: FieldColumns


class LakeFiles:
    """Describe the data files of one table; files of one schema share what it says."""

    def __init__(self, table: PaimonTable) -> None:
        self._table = table
        self._columns = table.spec.schema.columns
        self._fields = {each.column_id: table.field_id_of(each) for each in self._columns}
        self._seen: dict[int, _Seen] = {}

    @property
    def key_types(self) -> list[pa.DataType]:
        """Return the types of what tells the rows of one partition apart."""
        schema = self._table.spec.schema
        return [file_type(schema.column(name).type) for name in self._table.spec.row_keys]

    def of(self, entry: Entry, *, section: int, stands_alone: bool) -> LakeFile:
        """Return what an engine, or the reader of a split, is told of a file."""
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
        """Return the bounds of the first column of keys, which files always tell in full."""
        found = key_range(file, self.key_types) if self._table.spec.is_keyed else None
        if found is None:
            return None
        low, high = found[0][0], found[1][0]
        if isinstance(low, float) or isinstance(high, float):
            # A file that ends with NaN may still hold other numbers.
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
