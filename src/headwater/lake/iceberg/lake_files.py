"""Data files as engines see them: what columns are called in them, and what is known of these."""

from collections.abc import Iterator
from dataclasses import dataclass

from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import NestedField, PrimitiveType

from headwater.errors import UnsupportedError
from headwater.lake.castable import is_castable
from headwater.lake.iceberg.bounds import column_bounds
from headwater.lake.iceberg.fields import WrittenSchemas, field_ids, lost_columns
from headwater.lake.iceberg.planning import Planned
from headwater.lake.iceberg.tasks import HeldFile, held_to_json
from headwater.lake.iceberg.types import parquet_field
from headwater.lake.iceberg.values import packed
from headwater.lake.split import ColumnBounds, LakeFile
from headwater.lake.table import LakeTableSpec
from headwater.model.arrow import arrow_type
from headwater.model.schema import Column


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """Say how the columns of a table stand in files of one schema."""

    names: tuple[tuple[int, str], ...] | None
    is_current: bool
    lost: tuple[int, ...]
    """Columns that were dropped before, or of which nobody knows whether they were."""
    absent: tuple[int, ...]
    """Columns that came later."""
    bounded: tuple[tuple[Column, tuple[int, PrimitiveType]], ...]


class LakeFiles:
    """Describe the data files of one table; files of one schema share what it says."""

    def __init__(self, metadata: TableMetadata, spec: LakeTableSpec) -> None:
        self._columns = spec.schema.columns
        self._schemas = WrittenSchemas.of(metadata)
        self.fields = field_ids(metadata, spec)
        self._never = lost_columns(metadata, spec, self.fields)
        self._current = {each.field_id: each.name for each in metadata.schema().fields}
        self._seen: dict[int | None, _Seen] = {}

    def of(self, planned: Planned) -> LakeFile:
        """Return what an engine, or the reader of a split, is told of a file."""
        file, deletes = planned.held
        seen = self._seen_by(planned.held)
        are_parquet = all(each.file_format is FileFormat.PARQUET for each in deletes)
        return LakeFile(
            path=file.file_path,
            row_count=file.record_count,
            byte_count=file.file_size_in_bytes,
            is_plain=seen.is_current and not deletes,
            format=file.file_format.value.lower(),
            names=seen.names if are_parquet else None,
            stands_alone=True,
            deletes=tuple(each.file_path for each in deletes),
            bounds=tuple(_bounds(file, seen)),
            payload=packed({"held": held_to_json([planned.held]), "lost": list(seen.lost)}),
        )

    def _seen_by(self, held: HeldFile) -> _Seen:
        schema = self._schemas.of_file(held)
        schema_id = None if schema is None else schema.schema_id
        if schema_id not in self._seen:
            self._seen[schema_id] = self._of_schema(schema)
        return self._seen[schema_id]

    def _of_schema(self, schema: Schema | None) -> _Seen:
        held = {} if schema is None else {each.field_id: each for each in schema.fields}
        lost = [each.column_id for each in self._columns if self._is_lost(each, schema)]
        fields = {each.column_id: held.get(self._field_id(each)) for each in self._columns}
        missing = [column for column, found in fields.items() if found is None]
        return _Seen(
            names=None if schema is None or lost else self._names(fields),
            is_current=self._is_current(schema),
            lost=tuple(lost),
            absent=() if schema is None else tuple(each for each in missing if each not in lost),
            bounded=tuple(self._bounded(schema)),
        )

    def _field_id(self, column: Column) -> int:
        return self.fields.get(column.column_id, -1)

    def _is_lost(self, column: Column, schema: Schema | None) -> bool:
        """Tell whether a file may lack a column that its rows once had."""
        field_id = self._field_id(column)
        if column.column_id in self._never:
            return True
        if field_id < 0 or field_id in self._current:
            return False
        if schema is None:
            return True
        held = {each.field_id for each in schema.fields}
        return field_id not in held and not self._schemas.is_before(schema, field_id)

    def _names(self, fields: dict[int, NestedField | None]) -> tuple[tuple[int, str], ...] | None:
        """Return what columns are called; None if one of them takes more than a cast."""
        names = []
        for column in self._columns:
            found = fields[column.column_id]
            if found is None:
                continue
            if not _is_read_by_cast(found, column):
                return None
            names.append((column.column_id, found.name))
        return tuple(names)

    def _is_current(self, schema: Schema | None) -> bool:
        """Tell whether whoever reads such files by names gets the columns of the table."""
        names = [self._current.get(self._field_id(each)) for each in self._columns]
        return (
            schema is not None
            and schema.schema_id == self._schemas.current_id
            and names == [each.name for each in self._columns]
        )

    def _bounded(self, schema: Schema | None) -> Iterator[tuple[Column, tuple[int, PrimitiveType]]]:
        """Yield the columns that files can have bounds of, each with its field."""
        held = {} if schema is None else {each.field_id: each for each in schema.fields}
        for column in self._columns:
            field_id = self._field_id(column)
            found = held.get(field_id) or (self._schemas.newest(field_id) if not schema else None)
            if found is None or not isinstance(found.field_type, PrimitiveType):
                continue
            if _is_read_by_cast(found, column):
                yield column, (field_id, found.field_type)


def _bounds(file: DataFile, seen: _Seen) -> Iterator[ColumnBounds]:
    for column, found in seen.bounded:
        bounds = column_bounds(file, column_id=column.column_id, data_type=column.type, field=found)
        if bounds is not None:
            yield bounds
    for column_id in seen.absent:
        yield ColumnBounds(
            column_id=column_id, lower=None, upper=None, null_count=file.record_count
        )


def _is_read_by_cast(field: NestedField, column: Column) -> bool:
    try:
        return is_castable(parquet_field(field).type, arrow_type(column.type))
    except UnsupportedError:
        # A type that only others write.
        return False
