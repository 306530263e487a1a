"""How the columns of an Iceberg table become those of a table: decided, not done."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

from pyiceberg import types as ice
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema

from headwater.errors import LakeTableDiffersError
from headwater.lake.iceberg.layout import (
    ColumnIds,
    highest_id,
    identifier_names,
    schema_of,
    transforms,
)
from headwater.lake.iceberg.types import iceberg_type
from headwater.lake.table import SYSTEM_COLUMNS, LakeTableSpec
from headwater.model.schema import Column

FORMAT_VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Tell what an Iceberg table is made of."""

    schema: Schema
    parted: PartitionSpec
    ids: ColumnIds | None
    column_id_last: int
    schema_id_last: int = 0
    format_version: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True)
class Evolution:
    """Say what an Iceberg table has to become."""

    schema: Schema
    ids: ColumnIds


def evolved(held: Held, spec: LakeTableSpec) -> Evolution | None:
    """Return what the Iceberg table has to become; None if it may stay as it is.

    Raises `LakeTableDiffersError` if it cannot become this table.
    """
    ids = held.ids or _matched_by_name(held, spec)
    if _is_later(ids, spec):
        return None
    faults = [*_faults(held, spec, ids), *_layout_faults(held, spec, ids)]
    if faults:
        raise _differs(spec, faults)
    kept = _kept_fields(held, spec, ids)
    added = _added_fields(held, spec, ids)
    fields = _placed(kept, list(added.values()))
    known = {**ids.fields, **{column: field.field_id for column, field in added.items()}}
    kept_ids = {each.column_id: known[each.column_id] for each in spec.schema.columns}
    found = ColumnIds(
        kept_ids,
        max(ids.highest, highest_id(spec)),
        {**ids.dropped, **{each: known[each] for each in known if each not in kept_ids}},
    )
    if fields == list(held.schema.fields) and found == held.ids:
        return None
    schema = schema_of(
        spec,
        fields,
        schema_id=held.schema_id_last + 1,
        keys=held.schema.identifier_field_ids,
    )
    return Evolution(schema, found)


def _matched_by_name(held: Held, spec: LakeTableSpec) -> ColumnIds:
    """Match the columns of a table that others made."""
    by_name = {field.name: field.field_id for field in held.schema.fields}
    names = set(spec.schema.names)
    faults = [f"it has no column '{name}'" for name in spec.schema.names if name not in by_name]
    faults += [f"it has a column '{name}' more" for name in by_name if name not in names]
    if faults:
        raise _differs(spec, faults)
    fields = {column.column_id: by_name[column.name] for column in spec.schema.columns}
    return ColumnIds(fields, highest_id(spec))


def _is_later(ids: ColumnIds, spec: LakeTableSpec) -> bool:
    """Tell whether the Iceberg table has seen columns come or go that the spec does not know of."""
    return ids.highest > highest_id(spec) or any(
        column.column_id <= ids.highest and column.column_id not in ids.fields
        for column in spec.schema.columns
    )


def _faults(held: Held, spec: LakeTableSpec, ids: ColumnIds) -> list[str]:
    fields = {field.field_id: field for field in held.schema.fields}
    foreign = {field.name for field in fields.values()} - {
        fields[each].name for each in ids.fields.values() if each in fields
    }
    faults = []
    for column in spec.schema.columns:
        field = fields.get(ids.fields.get(column.column_id, -1))
        wanted = iceberg_type(column.type, column=column.name)
        if column.column_id in ids.fields and field is None:
            faults.append(f"its column '{column.name}' was dropped in the lake")
        elif field is not None and _shape(field.field_type) != _shape(wanted):
            faults.append(f"its column '{field.name}' is {field.field_type}, not {wanted}")
        elif field is None and column.name in foreign:
            faults.append(f"it has a column '{column.name}' that others added")
    return faults


def _layout_faults(held: Held, spec: LakeTableSpec, ids: ColumnIds) -> list[str]:
    faults = []
    if held.format_version != FORMAT_VERSION:
        faults.append(f"it has format version {held.format_version}, not {FORMAT_VERSION}")
    by_name = {column.name: ids.fields.get(column.column_id) for column in spec.schema.columns}
    wanted = [(by_name[name], str(transform)) for name, transform in transforms(spec)]
    found = [(field.source_id, str(field.transform)) for field in held.parted.fields]
    if found != wanted:
        faults.append(
            f"its files are parted by {held.parted.fields or 'nothing'},"
            f" not by {[(name, str(each)) for name, each in transforms(spec)] or 'nothing'}"
        )
    keys = {by_name[name] for name in identifier_names(spec)}
    if set(held.schema.identifier_field_ids) != keys:
        names = ", ".join(sorted(held.schema.identifier_field_names()))
        faults.append(f"its primary key is {names or 'missing'}")
    return faults


def _kept_fields(held: Held, spec: LakeTableSpec, ids: ColumnIds) -> list[ice.NestedField]:
    columns = {ids.fields.get(each.column_id): each for each in spec.schema.columns}
    mapped = set(ids.fields.values())
    return [
        _updated(field, columns[field.field_id], spec) if field.field_id in columns else field
        for field in held.schema.fields
        # What is not mapped others added, and their rows have values in it.
        if field.field_id in columns or field.field_id not in mapped
    ]


def _added_fields(held: Held, spec: LakeTableSpec, ids: ColumnIds) -> dict[int, ice.NestedField]:
    """Return the fields of columns that are new, by the ids of these."""
    next_id = count(held.column_id_last + 1).__next__
    return {
        column.column_id: _new_field(column, next_id)
        for column in spec.schema.columns
        if column.column_id not in ids.fields
    }


def _placed(
    kept: Sequence[ice.NestedField], added: Sequence[ice.NestedField]
) -> list[ice.NestedField]:
    """Return all fields, new ones behind those of the table and before those of Apache Fluss."""
    fields = [*kept, *added]
    system = [field for field in fields if field.name in SYSTEM_COLUMNS]
    return [field for field in fields if field.name not in SYSTEM_COLUMNS] + system


def _new_field(column: Column, next_id: Callable[[], int]) -> ice.NestedField:
    field_id = next_id()
    return ice.NestedField(
        field_id=field_id,
        name=column.name,
        field_type=iceberg_type(column.type, column=column.name, next_id=next_id),
        # Rows that are there have no value, whatever the table promises of new ones.
        required=False,
        doc=column.comment,
    )


def _updated(field: ice.NestedField, column: Column, spec: LakeTableSpec) -> ice.NestedField:
    may_be_null = column.type.nullable and column.name not in spec.schema.primary_key
    required = field.required and not may_be_null
    return field.model_copy(update={"name": column.name, "required": required})


def _shape(kind: ice.IcebergType) -> object:
    """Return a type without the ids and comments inside."""
    match kind:
        case ice.ListType():
            return "list", _shape(kind.element_type)
        case ice.MapType():
            return "map", _shape(kind.key_type), _shape(kind.value_type)
        case ice.StructType():
            return "struct", *((field.name, _shape(field.field_type)) for field in kind.fields)
        case _:
            return kind


def _differs(spec: LakeTableSpec, faults: Sequence[str]) -> LakeTableDiffersError:
    return LakeTableDiffersError(
        f"The Iceberg table {spec.path} is not that of the table: {'; '.join(faults)}."
    )
