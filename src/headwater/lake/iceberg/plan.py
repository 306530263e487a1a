"""Plan a snapshot's live files: their deletes, partitions, buckets, columns and bounds."""

import re
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import ResolveError, ValidationError
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import NestedField, PrimitiveType

from headwater.errors import CorruptFileError, LakeTableDiffersError, UnsupportedError
from headwater.lake.files import decoded, is_castable
from headwater.lake.iceberg.files import HeldFile, PartitionField, held_to_json, packed
from headwater.lake.iceberg.layout import column_ids_of
from headwater.lake.iceberg.manifests import listed_manifests, whole
from headwater.lake.iceberg.types import iceberg_type, parquet_field
from headwater.lake.options import AllowedPlaces
from headwater.lake.spi import BUCKET_COLUMN, LakeTableSpec, PartitionValues
from headwater.lake.split import UNKNOWN_BUCKET, ColumnBounds, LakeFile
from headwater.model import Column, types
from headwater.model.arrow import arrow_type
from headwater.model.partition_values import partition_texts
from headwater.model.predicate import Literal

# Which Iceberg fields hold the columns of a table, under any of its schemas.

_NAMED_SCHEMA = re.compile(r"-s(\d+)-\d+\.parquet\Z")
_FIRST_SCHEMA_ID = 0
# Other writers encode names with special characters differently.
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def field_ids(metadata: TableMetadata, spec: LakeTableSpec) -> Mapping[int, int]:
    """Field ids by column id; by name in a table that others created.

    Includes columns that were dropped in the lake, but not those that it never had.
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
    """The columns that the table dropped and no schema of the lake ever had."""
    ids = column_ids_of(metadata.properties)
    columns = [] if ids is None else spec.schema.columns
    return frozenset(
        column.column_id
        for column in columns
        if ids is not None and column.column_id <= ids.highest and column.column_id not in fields
    )


def _former(metadata: TableMetadata, column: Column, *, taken: frozenset[int]) -> int | None:
    """Find the field that a dropped column was, by name and type, if only one matches."""
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
    """Finds the schemas that files were written under."""

    schemas: Mapping[int, Schema]
    current_id: int

    @classmethod
    def of(cls, metadata: TableMetadata) -> "WrittenSchemas":
        """Collect the schemas of a table."""
        return cls({each.schema_id: each for each in metadata.schemas}, metadata.current_schema_id)

    def of_file(self, held: HeldFile) -> Schema | None:
        """The schema of a file; None if unknown.

        Our files have it in their names. Files of others were written under the only schema there
        ever was, if they have all of its fields.
        """
        named = _NAMED_SCHEMA.search(held.file.file_path)
        if named is not None:
            return self.schemas.get(int(named.group(1)))
        only = self.schemas.get(_FIRST_SCHEMA_ID)
        if only is None or len(self.schemas) > 1:
            return None
        recorded = {*(held.file.column_sizes or ()), *(held.file.value_counts or ())}
        leaves = {each for each, field in index_by_id(only).items() if _is_leaf(field)}
        has_plain_names = all(_PLAIN_NAME.match(field.name) for field in only.fields)
        return only if leaves <= recorded and has_plain_names else None

    def is_before(self, schema: Schema, field_id: int) -> bool:
        """Tell whether a schema is older than a field."""
        having = [
            each.schema_id for each in self.schemas.values() if _field(each, field_id) is not None
        ]
        return bool(having) and schema.schema_id < min(having)

    def newest(self, field_id: int) -> NestedField | None:
        """The latest version of a field."""
        for _, schema in sorted(self.schemas.items(), reverse=True):
            if (found := _field(schema, field_id)) is not None:
                return found
        return None


def _is_leaf(field: NestedField) -> bool:
    return field.field_type.is_primitive


def _field(schema: Schema, field_id: int) -> NestedField | None:
    return next((each for each in schema.fields if each.field_id == field_id), None)


# The live files of a snapshot, each with its deletes, partition and bucket.

Bucket = tuple[PartitionValues, int]
# What pyiceberg also raises for manifests with wrong bytes.
_STUMBLES = (ResolveError, ValidationError, AttributeError, AssertionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """A live file, and where its rows belong."""

    held: HeldFile
    partition: PartitionValues
    bucket: int


def planned_files(
    table: Table,
    spec: LakeTableSpec,
    snapshot_id: int,
    *,
    only: BooleanExpression | None = None,
) -> list[PlannedFile]:
    """List the files of a snapshot, except those that cannot pass a filter."""
    scan = table.scan(row_filter=only or AlwaysTrue(), snapshot_id=snapshot_id)
    try:
        with decoded(f"the Iceberg table {spec.path}", *_STUMBLES):
            snapshot = scan.snapshot()
            if snapshot is not None:
                scan.io = whole(table.io, listed_manifests(snapshot, table.io))
            tasks = list(scan.plan_files())
    except CorruptFileError as fault:
        if "equality deletes" not in str(fault):
            raise
        raise UnsupportedError(
            f"Others deleted rows of {spec.path} with equality deletes, which Headwater "
            "cannot read.",
            hint="Compact the Iceberg table with the engine that deletes from it.",
        ) from fault
    places = _Places(table.metadata, spec)
    found = []
    for task in tasks:
        partition, bucket = places.of(task.file)
        deletes = tuple(sorted(task.delete_files, key=lambda file: file.file_path))
        held = HeldFile(task.file, deletes)
        found.append(PlannedFile(held=held, partition=partition, bucket=bucket))
    return sorted(found, key=lambda each: (each.partition, each.bucket, each.held.file.file_path))


def check_places(table: Table, files: Sequence[PlannedFile], config: Mapping[str, str]) -> None:
    """Raise if a snapshot lists files at places that are not allowed."""
    places = AllowedPlaces.of(config, location=table.location())
    for planned in files:
        for each in (planned.held.file, *planned.held.deletes):
            if not places.allow(each.file_path):
                places.check(each.file_path, what=f"The Iceberg table {'.'.join(table.name())}")


def planned_by_bucket(
    table: Table, spec: LakeTableSpec, snapshot_id: int
) -> dict[Bucket, list[PlannedFile]]:
    """Group the files of a snapshot by partition and bucket."""
    found: dict[Bucket, list[PlannedFile]] = defaultdict(list)
    for each in planned_files(table, spec, snapshot_id):
        found[each.partition, each.bucket].append(each)
    return found


class _Places:
    """Finds the partition and bucket of files; many files share them."""

    def __init__(self, metadata: TableMetadata, spec: LakeTableSpec) -> None:
        self._specs = metadata.specs()
        self._types = {
            field.field_id: parquet_field(field).type for field in metadata.schema().fields
        }
        self._spec = spec
        ids = field_ids(metadata, spec)
        columns = [spec.schema.column(name) for name in spec.partition_keys]
        self._keys = {ids[column.column_id]: column for column in columns}
        self._known: dict[tuple[int, tuple[PartitionField, ...]], Bucket] = {}

    def of(self, file: DataFile) -> Bucket:
        values = tuple(file.partition[at] for at in range(len(file.partition)))
        key = (file.spec_id, values)
        if key not in self._known:
            self._known[key] = self._found(file, self._specs[file.spec_id], values)
        return self._known[key]

    def _found(
        self, file: DataFile, parted: PartitionSpec, values: tuple[PartitionField, ...]
    ) -> Bucket:
        bucket = UNKNOWN_BUCKET
        texts: dict[str, str] = {}
        for part, value in zip(parted.fields, values, strict=True):
            is_bucket = isinstance(part.transform, BucketTransform) or part.name == BUCKET_COLUMN
            if is_bucket and isinstance(value, int):
                bucket = value
            elif isinstance(part.transform, IdentityTransform) and part.source_id in self._keys:
                column = self._keys[part.source_id]
                typed = _typed(value, self._types[part.source_id]).cast(arrow_type(column.type))
                texts[column.name] = partition_texts(typed, column.type)[0]
        if texts.keys() != set(self._spec.partition_keys):
            raise LakeTableDiffersError(
                f"The file {file.file_path} is partitioned by {parted}, unlike {self._spec.path}."
            )
        return tuple((key, texts[key]) for key in self._spec.partition_keys), bucket


def _typed(value: PartitionField, kind: pa.DataType) -> pa.Array:
    """Convert a metadata value to Arrow's: metadata has dates and times as whole numbers."""
    if pa.types.is_date(kind):
        return pa.array([value], pa.int32()).cast(kind)
    if pa.types.is_temporal(kind):
        return pa.array([value], pa.int64()).cast(kind)
    return pa.array([value], kind)


# Column bounds of data files, decoded to values that filters compare with.

_MICROS_PER_MILLI = 1_000
_NANOS_PER_MICRO = 1_000


def column_bounds(
    file: DataFile, *, column_id: int, data_type: types.DataType, field: tuple[int, PrimitiveType]
) -> ColumnBounds | None:
    """Decode the bounds of a column; `field` is its id and type in the file."""
    field_id, kind = field
    nulls = (file.null_value_counts or {}).get(field_id)
    lower = upper = None
    if not _may_hold_nan(file, field_id, data_type):
        lower = _literal((file.lower_bounds or {}).get(field_id), kind, data_type)
        upper = _literal((file.upper_bounds or {}).get(field_id), kind, data_type, is_upper=True)
    if lower is None and upper is None and nulls is None:
        return None
    return ColumnBounds(column_id=column_id, lower=lower, upper=upper, null_count=nulls)


def _may_hold_nan(file: DataFile, field_id: int, data_type: types.DataType) -> bool:
    if not isinstance(data_type, types.FloatType | types.DoubleType):
        return False
    return (file.nan_value_counts or {}).get(field_id) != 0


def _literal(
    raw: bytes | None, kind: PrimitiveType, data_type: types.DataType, *, is_upper: bool = False
) -> Literal:
    if raw is None:
        return None
    try:
        value: Literal = from_bytes(kind, raw)
    except (struct.error, ValueError, TypeError):
        # Metadata of others in an unknown form is ignored.
        return None
    match value, data_type:
        case int(), types.TimeType():
            return -(-value // _MICROS_PER_MILLI) if is_upper else value // _MICROS_PER_MILLI
        case int(), types.TimestampType() | types.TimestampLtzType():
            return value * _NANOS_PER_MICRO
        case float(), _ if value == 0:
            return 0.0 if is_upper else -0.0
        case _:
            return value


# Data files as engines see them: their column names and bounds.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """How the columns of a table appear in files of one schema."""

    names: tuple[tuple[int, str], ...] | None
    is_current: bool
    lost: tuple[int, ...]
    """Columns that were dropped before, or that may have been."""
    absent: tuple[int, ...]
    """Columns that were added later."""
    bounded: tuple[tuple[Column, tuple[int, PrimitiveType]], ...]


class IcebergLakeFiles:
    """Describes the data files of one table; files of one schema share the description."""

    def __init__(self, metadata: TableMetadata, spec: LakeTableSpec) -> None:
        self._columns = spec.schema.columns
        self._schemas = WrittenSchemas.of(metadata)
        self.fields = field_ids(metadata, spec)
        self._never = lost_columns(metadata, spec, self.fields)
        self._current = {each.field_id: each.name for each in metadata.schema().fields}
        self._seen: dict[int | None, _Seen] = {}

    def of(self, planned: PlannedFile) -> LakeFile:
        """Describe a file for engines and for the reader of a split."""
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
        """Column names in files; None if one of them needs more than a cast."""
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
        """Tell whether reading such files by name gives the columns of the table."""
        names = [self._current.get(self._field_id(each)) for each in self._columns]
        return (
            schema is not None
            and schema.schema_id == self._schemas.current_id
            and names == [each.name for each in self._columns]
        )

    def _bounded(self, schema: Schema | None) -> Iterator[tuple[Column, tuple[int, PrimitiveType]]]:
        """Yield the columns that can have bounds, each with its field."""
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
