"""The live files of a snapshot, each with its deletes, its partition and its bucket."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.exceptions import ResolveError, ValidationError
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import BucketTransform, IdentityTransform

from headwater.errors import CorruptFileError, LakeTableDiffersError, UnsupportedError
from headwater.lake.allowed import Places
from headwater.lake.damage import decoded
from headwater.lake.iceberg.fields import field_ids
from headwater.lake.iceberg.listing import listed_manifests, whole
from headwater.lake.iceberg.tasks import HeldFile
from headwater.lake.iceberg.types import parquet_field
from headwater.lake.iceberg.values import PartitionField
from headwater.lake.spi import PartitionValues
from headwater.lake.split import UNKNOWN_BUCKET
from headwater.lake.table import BUCKET_COLUMN, LakeTableSpec
from headwater.model.arrow import arrow_type
from headwater.model.partition_values import partition_texts

Bucket = tuple[PartitionValues, int]
# What pyiceberg says, beside the usual, of manifests whose bytes are others.
_STUMBLES = (ResolveError, ValidationError, AttributeError, AssertionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Name a live file, and where its rows belong."""

    held: HeldFile
    partition: PartitionValues
    bucket: int


def planned_files(
    table: Table,
    spec: LakeTableSpec,
    snapshot_id: int,
    *,
    only: BooleanExpression | None = None,
) -> list[Planned]:
    """Return the files of a snapshot, but for those that cannot pass a filter."""
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
            f"Others deleted rows of {spec.path} by equality, which cannot be read here.",
            hint="Compact the Iceberg table with the engine that deletes from it.",
        ) from fault
    places = _Places(table.metadata, spec)
    found = []
    for task in tasks:
        partition, bucket = places.of(task.file)
        deletes = tuple(sorted(task.delete_files, key=lambda file: file.file_path))
        held = HeldFile(task.file, deletes)
        found.append(Planned(held=held, partition=partition, bucket=bucket))
    return sorted(found, key=lambda each: (each.partition, each.bucket, each.held.file.file_path))


def check_places(table: Table, files: Sequence[Planned], config: Mapping[str, str]) -> None:
    """Refuse a snapshot that lists files at places which are not allowed."""
    places = Places.of(config, location=table.location())
    for planned in files:
        for each in (planned.held.file, *planned.held.deletes):
            if not places.allow(each.file_path):
                places.check(each.file_path, what=f"The Iceberg table {'.'.join(table.name())}")


def planned_by_bucket(
    table: Table, spec: LakeTableSpec, snapshot_id: int
) -> dict[Bucket, list[Planned]]:
    """Return the files of a snapshot by partition and bucket."""
    found: dict[Bucket, list[Planned]] = defaultdict(list)
    for each in planned_files(table, spec, snapshot_id):
        found[each.partition, each.bucket].append(each)
    return found


class _Places:
    """Find the partition and bucket of files; many files share them."""

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
                f"The file {file.file_path} is parted by {parted}, and not as {self._spec.path} is."
            )
        return tuple((key, texts[key]) for key in self._spec.partition_keys), bucket


def _typed(value: PartitionField, kind: pa.DataType) -> pa.Array:
    """Return a value of the metadata as Arrow has it: dates and times are whole numbers there."""
    if pa.types.is_date(kind):
        return pa.array([value], pa.int32()).cast(kind)
    if pa.types.is_temporal(kind):
        return pa.array([value], pa.int64()).cast(kind)
    return pa.array([value], kind)
