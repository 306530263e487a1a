"""The Iceberg table of a table: its schema, partitions, properties, and how they evolve."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from pyiceberg import types as ice
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.transforms import BucketTransform, IdentityTransform

from headwater.errors import CorruptFileError, LakeTableDiffersError, UnsupportedError
from headwater.lake.iceberg.options import ALLOWED
from headwater.lake.iceberg.types import iceberg_type
from headwater.lake.spi import BUCKET_COLUMN, SYSTEM_COLUMNS, LakeTableSpec
from headwater.model import Column
from headwater.model.types import DoubleType, FloatType, TimeType
from headwater.rows.keys import IcebergKeys

# How the Iceberg table is laid out.

COLUMN_IDS = "headwater.column-ids"
Parted = tuple[str, IdentityTransform[str] | BucketTransform[str]]
"""A column and its transform; value types do not matter here."""

_FIRST_PARTITION_FIELD_ID = 1000
_MILLIS_PRECISION_MAX = 3
_PROPERTIES = {
    "format-version": "2",
    # Compaction by others should fail on changed files, not on every append of a tierer.
    "write.delete.isolation-level": "snapshot",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "write.parquet.compression-codec": "zstd",
}


@dataclass(frozen=True, slots=True)
class ColumnIds:
    """Which field of the Iceberg schema holds which column, whatever their names."""

    fields: Mapping[int, int]
    """Field id by column id."""
    highest: int
    """The highest column id ever used: anything above is new."""
    dropped: Mapping[int, int] = field(default_factory=dict)
    """The same for dropped columns: older files hold their values."""

    def to_json(self) -> str:
        """Encode it for the properties of the Iceberg table."""
        fields = {str(column): each for column, each in sorted(self.fields.items())}
        dropped = {str(column): each for column, each in sorted(self.dropped.items())}
        node = {"highest": self.highest, "fields": fields} | (
            {"dropped": dropped} if dropped else {}
        )
        return json.dumps(node, separators=(",", ":"))


def column_ids_of(properties: Mapping[str, str]) -> ColumnIds | None:
    """Decode it from the properties of an Iceberg table; None if others created the table."""
    text = properties.get(COLUMN_IDS)
    if text is None:
        return None
    try:
        node = json.loads(text)
        fields, dropped = (
            {int(column): int(each) for column, each in ids.items()}
            for ids in (node["fields"], node.get("dropped", {}))
        )
        return ColumnIds(fields, int(node["highest"]), dropped)
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        raise CorruptFileError(
            f"The property '{COLUMN_IDS}' of an Iceberg table cannot be read: {text[:200]}"
        ) from fault


def highest_id(spec: LakeTableSpec) -> int:
    """The highest column id that the table ever had."""
    return max(spec.schema.highest_field_id, *(each.column_id for each in spec.schema.columns))


def new_schema(spec: LakeTableSpec) -> Schema:
    """The schema of a new Iceberg table, its fields numbered as catalogs number them."""
    fields = [
        ice.NestedField(
            field_id=at + 1,
            name=column.name,
            field_type=iceberg_type(column.type, column=column.name),
            required=is_required(spec, column),
            doc=column.comment,
        )
        for at, column in enumerate(spec.schema.columns)
    ]
    numbered = assign_fresh_schema_ids(schema_of(spec, fields))
    keys = [numbered.find_field(name).field_id for name in identifier_names(spec)]
    return schema_of(spec, numbered.fields, keys=keys)


def schema_of(
    spec: LakeTableSpec,
    fields: Sequence[ice.NestedField],
    *,
    schema_id: int = 0,
    keys: Sequence[int] = (),
) -> Schema:
    """Make a schema; to Iceberg a column `a.b` and a field `b` of a row `a` are the same."""
    try:
        return Schema(*fields, schema_id=schema_id, identifier_field_ids=list(keys))
    except ValueError as fault:
        raise UnsupportedError(
            f"Iceberg cannot distinguish columns of {spec.path} by their names: {fault}",
            hint="Rename the column that has a dot in its name.",
        ) from fault


def is_required(spec: LakeTableSpec, column: Column) -> bool:
    """Tell whether a column of a new table is NOT NULL."""
    return not column.type.nullable or column.name in spec.schema.primary_key


def identifier_names(spec: LakeTableSpec) -> tuple[str, ...]:
    """The primary key; empty if Iceberg does not allow its types as identifiers."""
    keys = spec.schema.primary_key
    types = [spec.schema.column(name).type for name in keys]
    return () if any(isinstance(each, FloatType | DoubleType) for each in types) else keys


def transforms(spec: LakeTableSpec) -> tuple[Parted, ...]:
    """How rows are partitioned into files: each column with its transform."""
    for name in spec.partition_keys:
        _check_partition_key(spec, name)
    parted: list[Parted] = [(name, IdentityTransform()) for name in spec.partition_keys]
    if spec.bucket_keys:
        parted.append((_bucket_key(spec), BucketTransform(spec.bucket_count)))
    elif BUCKET_COLUMN in spec.schema.names:
        # As Apache Fluss before 1.0 partitions a log table whose rows go to any bucket.
        parted.append((BUCKET_COLUMN, IdentityTransform()))
    return tuple(parted)


def partition_spec(spec: LakeTableSpec, schema: Schema) -> PartitionSpec:
    """The partition spec of a new Iceberg table."""
    fields = [
        PartitionField(
            source_id=schema.find_field(name).field_id,
            field_id=_FIRST_PARTITION_FIELD_ID + at,
            transform=transform,
            name=_partition_name(name, transform, schema),
        )
        for at, (name, transform) in enumerate(transforms(spec))
    ]
    return PartitionSpec(*fields)


def new_properties(spec: LakeTableSpec, schema: Schema) -> dict[str, str]:
    """The properties of a new Iceberg table; raises for one that is not allowed."""
    ALLOWED.check(spec.properties)
    fields = {
        column.column_id: schema.find_field(column.name).field_id for column in spec.schema.columns
    }
    ids = ColumnIds(fields, highest_id(spec))
    comment = {"comment": spec.comment} if spec.comment else {}
    return {**_PROPERTIES, **comment, **spec.properties, COLUMN_IDS: ids.to_json()}


def _partition_name(name: str, transform: object, schema: Schema) -> str:
    if isinstance(transform, IdentityTransform):
        return name
    taken = {field.name for field in schema.fields}
    bucket = f"{name}_bucket"
    while bucket in taken:
        bucket += "_"
    return bucket


def _check_partition_key(spec: LakeTableSpec, name: str) -> None:
    match spec.schema.column(name).type:
        case TimeType(precision=precision) if precision > _MILLIS_PRECISION_MAX:
            raise UnsupportedError(
                f"The partition column '{name}' has a finer precision than milliseconds.",
                hint=f"Iceberg needs a TIME({_MILLIS_PRECISION_MAX}) there.",
            )
        case _:
            return


def _bucket_key(spec: LakeTableSpec) -> str:
    types = [spec.schema.column(name).type for name in spec.bucket_keys]
    # The server finds buckets by these types; others have no bucket in the lake either.
    IcebergKeys.of(types)
    (name,) = spec.bucket_keys
    if not BucketTransform(spec.bucket_count).can_transform(iceberg_type(types[0], column=name)):
        raise UnsupportedError(
            f"Iceberg cannot bucket rows by the column '{name}' of type {types[0]}.",
            hint="Use INT, BIGINT, DATE, TIME, TIMESTAMP, DECIMAL, STRING or BYTES.",
        )
    return name


# How an Iceberg table's columns become those of a table: decided, not done.

FORMAT_VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergTableState:
    """What an Iceberg table consists of."""

    schema: Schema
    parted: PartitionSpec
    ids: ColumnIds | None
    column_id_last: int
    schema_id_last: int = 0
    format_version: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True)
class Evolution:
    """What an Iceberg table has to become."""

    schema: Schema
    ids: ColumnIds


def evolved(held: IcebergTableState, spec: LakeTableSpec) -> Evolution | None:
    """Decide what the Iceberg table has to become; None if it can stay as it is.

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


def _matched_by_name(held: IcebergTableState, spec: LakeTableSpec) -> ColumnIds:
    """Match the columns of a table that others created."""
    by_name = {field.name: field.field_id for field in held.schema.fields}
    names = set(spec.schema.names)
    faults = [f"it has no column '{name}'" for name in spec.schema.names if name not in by_name]
    faults += [f"it has an extra column '{name}'" for name in by_name if name not in names]
    if faults:
        raise _differs(spec, faults)
    fields = {column.column_id: by_name[column.name] for column in spec.schema.columns}
    return ColumnIds(fields, highest_id(spec))


def _is_later(ids: ColumnIds, spec: LakeTableSpec) -> bool:
    """Tell whether the Iceberg table has added or dropped columns that the spec does not know."""
    return ids.highest > highest_id(spec) or any(
        column.column_id <= ids.highest and column.column_id not in ids.fields
        for column in spec.schema.columns
    )


def _faults(held: IcebergTableState, spec: LakeTableSpec, ids: ColumnIds) -> list[str]:
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


def _layout_faults(held: IcebergTableState, spec: LakeTableSpec, ids: ColumnIds) -> list[str]:
    faults = []
    if held.format_version != FORMAT_VERSION:
        faults.append(f"it has format version {held.format_version}, not {FORMAT_VERSION}")
    by_name = {column.name: ids.fields.get(column.column_id) for column in spec.schema.columns}
    wanted = [(by_name[name], str(transform)) for name, transform in transforms(spec)]
    found = [(field.source_id, str(field.transform)) for field in held.parted.fields]
    if found != wanted:
        faults.append(
            f"its files are partitioned by {held.parted.fields or 'nothing'}, not by "
            f"{[(name, str(each)) for name, each in transforms(spec)] or 'nothing'}"
        )
    keys = {by_name[name] for name in identifier_names(spec)}
    if set(held.schema.identifier_field_ids) != keys:
        names = ", ".join(sorted(held.schema.identifier_field_names()))
        faults.append(f"its primary key is {names or 'missing'}")
    return faults


def _kept_fields(
    held: IcebergTableState, spec: LakeTableSpec, ids: ColumnIds
) -> list[ice.NestedField]:
    columns = {ids.fields.get(each.column_id): each for each in spec.schema.columns}
    mapped = set(ids.fields.values())
    return [
        _updated(field, columns[field.field_id], spec) if field.field_id in columns else field
        for field in held.schema.fields
        # Unmapped fields were added by others, and rows have values in them.
        if field.field_id in columns or field.field_id not in mapped
    ]


def _added_fields(
    held: IcebergTableState, spec: LakeTableSpec, ids: ColumnIds
) -> dict[int, ice.NestedField]:
    """The fields of new columns, by column id."""
    next_id = count(held.column_id_last + 1).__next__
    return {
        column.column_id: _new_field(column, next_id)
        for column in spec.schema.columns
        if column.column_id not in ids.fields
    }


def _placed(
    kept: Sequence[ice.NestedField], added: Sequence[ice.NestedField]
) -> list[ice.NestedField]:
    """All fields: new ones after the table's and before those of Apache Fluss."""
    fields = [*kept, *added]
    system = [field for field in fields if field.name in SYSTEM_COLUMNS]
    return [field for field in fields if field.name not in SYSTEM_COLUMNS] + system


def _new_field(column: Column, next_id: Callable[[], int]) -> ice.NestedField:
    field_id = next_id()
    return ice.NestedField(
        field_id=field_id,
        name=column.name,
        field_type=iceberg_type(column.type, column=column.name, next_id=next_id),
        # Existing rows have no value, even if the table requires one for new rows.
        required=False,
        doc=column.comment,
    )


def _updated(field: ice.NestedField, column: Column, spec: LakeTableSpec) -> ice.NestedField:
    may_be_null = column.type.nullable and column.name not in spec.schema.primary_key
    required = field.required and not may_be_null
    return field.model_copy(update={"name": column.name, "required": required})


def _shape(kind: ice.IcebergType) -> object:
    """A type without the ids and comments inside."""
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
        f"The Iceberg table {spec.path} does not match the table: {'; '.join(faults)}."
    )
