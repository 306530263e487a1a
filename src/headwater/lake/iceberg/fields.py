"""Which fields of an Iceberg table hold the columns of a table, under any of its schemas."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pyiceberg.schema import Schema, index_by_id
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import NestedField

from headwater.lake.iceberg.layout import column_ids_of
from headwater.lake.iceberg.tasks import HeldFile
from headwater.lake.iceberg.types import iceberg_type
from headwater.lake.table import LakeTableSpec
from headwater.model.schema import Column

_NAMED_SCHEMA = re.compile(r"-s(\d+)-\d+\.parquet\Z")
_FIRST_SCHEMA_ID = 0
# Writers of others write names of other signs under other names.
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def field_ids(metadata: TableMetadata, spec: LakeTableSpec) -> Mapping[int, int]:
    """Return the ids of fields by those of columns; by name in a table that others made.

    Columns that were dropped in the lake are there too; those that it never had are not.
    """
    ids = column_ids_of(metadata.properties)
    if ids is None:
        current = {field.name: field.field_id for field in metadata.schema().fields}
        known: dict[int, int] = {}
        highest = max(column.column_id for column in spec.schema.columns)
    else:
        current, known, highest = {}, {**ids.dropped, **ids.fields}, ids.highest
    for column in spec.schema.columns:
        if column.name in current:
            known[column.column_id] = current[column.name]
        elif column.column_id not in known and column.column_id <= highest:
            former = _former(metadata, column, taken=frozenset(known.values()))
            known |= {} if former is None else {column.column_id: former}
    return known


def lost_columns(
    metadata: TableMetadata, spec: LakeTableSpec, fields: Mapping[int, int]
) -> frozenset[int]:
    """Return the columns that the table dropped, and no schema of the lake ever had."""
    ids = column_ids_of(metadata.properties)
    columns = [] if ids is None else spec.schema.columns
    return frozenset(
        column.column_id
        for column in columns
        if ids is not None and column.column_id <= ids.highest and column.column_id not in fields
    )


def _former(metadata: TableMetadata, column: Column, *, taken: frozenset[int]) -> int | None:
    """Return the field that a column was by name and type, if there was only one like it."""
    kind = iceberg_type(column.type, column=column.name)
    found = {
        field.field_id
        for schema in metadata.schemas
        for field in schema.fields
        if field.name == column.name
        and type(field.field_type) is type(kind)
        and field.field_id not in taken
    }
    return found.pop() if len(found) == 1 else None


@dataclass(frozen=True, slots=True)
class WrittenSchemas:
    """Find the schemas that files were written under."""

    schemas: Mapping[int, Schema]
    current_id: int

    @classmethod
    def of(cls, metadata: TableMetadata) -> "WrittenSchemas":
        """Know the schemas of a table."""
        return cls({each.schema_id: each for each in metadata.schemas}, metadata.current_schema_id)

    def of_file(self, held: HeldFile) -> Schema | None:
        """Return the schema of a file; None if nobody can tell.

        Files of ours say it in their names. Those of others were written under the only one that
        there ever was, if they tell of all of its fields.
        """
        named = _NAMED_SCHEMA.search(held.file.file_path)
        if named is not None:
            return self.schemas.get(int(named.group(1)))
        only = self.schemas.get(_FIRST_SCHEMA_ID)
        if only is None or len(self.schemas) > 1:
            return None
        told = {*(held.file.column_sizes or ()), *(held.file.value_counts or ())}
        leaves = {each for each, field in index_by_id(only).items() if _is_leaf(field)}
        has_plain_names = all(_PLAIN_NAME.match(field.name) for field in only.fields)
        return only if leaves <= told and has_plain_names else None

    def is_before(self, schema: Schema, field_id: int) -> bool:
        """Tell whether a schema is older than a field."""
        having = [
            each.schema_id for each in self.schemas.values() if _field(each, field_id) is not None
        ]
        return bool(having) and schema.schema_id < min(having)

    def newest(self, field_id: int) -> NestedField | None:
        """Return a field as it was last."""
        for _, schema in sorted(self.schemas.items(), reverse=True):
            if (found := _field(schema, field_id)) is not None:
                return found
        return None


def _is_leaf(field: NestedField) -> bool:
    return field.field_type.is_primitive


def _field(schema: Schema, field_id: int) -> NestedField | None:
    return next((each for each in schema.fields if each.field_id == field_id), None)
