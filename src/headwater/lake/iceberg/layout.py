"""The Iceberg table that belongs to a table: its schema, how files are parted, its properties."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyiceberg import types as ice
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.transforms import BucketTransform, IdentityTransform

from headwater.errors import CorruptFileError, UnsupportedError
from headwater.lake.iceberg.options import ALLOWED
from headwater.lake.iceberg.types import iceberg_type
from headwater.lake.table import BUCKET_COLUMN, LakeTableSpec
from headwater.model.schema import Column
from headwater.model.types import DoubleType, FloatType, TimeType
from headwater.rows.lake_keys import IcebergKeys

COLUMN_IDS = "headwater.column-ids"
Parted = tuple[str, IdentityTransform[str] | BucketTransform[str]]
"""A column, and what is taken of it; types of values do not matter here."""

_FIRST_PARTITION_FIELD_ID = 1000
_MILLIS_PRECISION_MAX = 3
_PROPERTIES = {
    "format-version": "2",
    # Compaction elsewhere is to fail on files that changed, not on every append of a tierer.
    "write.delete.isolation-level": "snapshot",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "write.parquet.compression-codec": "zstd",
}


@dataclass(frozen=True, slots=True)
class ColumnIds:
    """Say which field of the Iceberg schema holds which column, whatever both are called."""

    fields: Mapping[int, int]
    """The id of the field by that of the column."""
    highest: int
    """The highest id of a column that there ever was: what is above it is new."""
    dropped: Mapping[int, int] = field(default_factory=dict)
    """The same of columns that were dropped: older files hold their values."""

    def to_json(self) -> str:
        """Write it as it stands in the properties of the Iceberg table."""
        fields = {str(column): each for column, each in sorted(self.fields.items())}
        dropped = {str(column): each for column, each in sorted(self.dropped.items())}
        node = {"highest": self.highest, "fields": fields} | (
            {"dropped": dropped} if dropped else {}
        )
        return json.dumps(node, separators=(",", ":"))


def column_ids_of(properties: Mapping[str, str]) -> ColumnIds | None:
    """Read it from the properties of an Iceberg table; None if others made that table."""
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
    """Return the highest id of a column that the table ever had."""
    return max(spec.schema.highest_field_id, *(each.column_id for each in spec.schema.columns))


def new_schema(spec: LakeTableSpec) -> Schema:
    """Return the schema of a new Iceberg table, its fields numbered as catalogs number them."""
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
    """Return fields as a schema; a column `a.b` and a field `b` of a row `a` are one to Iceberg."""
    try:
        return Schema(*fields, schema_id=schema_id, identifier_field_ids=list(keys))
    except ValueError as fault:
        raise UnsupportedError(
            f"Iceberg cannot tell columns of {spec.path} apart by their names: {fault}",
            hint="Rename the column that has a dot in its name.",
        ) from fault


def is_required(spec: LakeTableSpec, column: Column) -> bool:
    """Tell whether a column of a new table holds no nulls."""
    return not column.type.nullable or column.name in spec.schema.primary_key


def identifier_names(spec: LakeTableSpec) -> tuple[str, ...]:
    """Return the primary key; nothing if Iceberg cannot tell rows apart by its types."""
    keys = spec.schema.primary_key
    types = [spec.schema.column(name).type for name in keys]
    return () if any(isinstance(each, FloatType | DoubleType) for each in types) else keys


def transforms(spec: LakeTableSpec) -> tuple[Parted, ...]:
    """Return by what rows are parted into files: each column with what is taken of it."""
    for name in spec.partition_keys:
        _check_partition_key(spec, name)
    parted: list[Parted] = [(name, IdentityTransform()) for name in spec.partition_keys]
    if spec.bucket_keys:
        parted.append((_bucket_key(spec), BucketTransform(spec.bucket_count)))
    elif BUCKET_COLUMN in spec.schema.names:
        # As Apache Fluss before 1.0 parts a log table whose rows go to any bucket.
        parted.append((BUCKET_COLUMN, IdentityTransform()))
    return tuple(parted)


def partition_spec(spec: LakeTableSpec, schema: Schema) -> PartitionSpec:
    """Return the partition spec of a new Iceberg table."""
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
    """Return the properties of a new Iceberg table, or say which one is not passed on."""
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
                f"The column '{name}' parts the table by milliseconds but holds finer times.",
                hint=f"Iceberg needs a TIME({_MILLIS_PRECISION_MAX}) there.",
            )
        case _:
            return


def _bucket_key(spec: LakeTableSpec) -> str:
    types = [spec.schema.column(name).type for name in spec.bucket_keys]
    # The server finds buckets by these; what it cannot spread has no bucket in the lake either.
    IcebergKeys.of(types)
    (name,) = spec.bucket_keys
    if not BucketTransform(spec.bucket_count).can_transform(iceberg_type(types[0], column=name)):
        raise UnsupportedError(
            f"Iceberg cannot spread rows by the column '{name}' of type {types[0]}.",
            hint="Use INT, BIGINT, DATE, TIME, TIMESTAMP, DECIMAL, STRING or BYTES.",
        )
    return name
