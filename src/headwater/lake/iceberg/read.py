"""Plan and read a snapshot of an Iceberg table: prune files, apply deletes, yield rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import groupby
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg import expressions as ice
from pyiceberg.expressions import BooleanExpression, literals
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.table import Table

from headwater.errors import LakeSnapshotMissingError, UnsupportedError
from headwater.lake.files import (
    check_count,
    decoded,
    picked,
    picked_schema,
    read_whole,
    values_gone,
)
from headwater.lake.iceberg.catalog import load_table, open_catalog, reached
from headwater.lake.iceberg.files import (
    HeldFile,
    held_from_json,
    lent,
    opened_io,
    packed,
    scoped_path,
    texts_of,
    unpacked,
)
from headwater.lake.iceberg.manifests import checked_snapshot, head_of
from headwater.lake.iceberg.plan import (
    IcebergLakeFiles,
    PlannedFile,
    check_places,
    field_ids,
    planned_files,
)
from headwater.lake.iceberg.types import FIELD_ID, fitted
from headwater.lake.spi import ColumnPath, FilterAnswer, LakeSnapshot, LakeTableSpec
from headwater.lake.split import LakeSplit
from headwater.model import type_json, types
from headwater.model.arrow import arrow_schema
from headwater.model.predicate import And, Leaf, LeafFunction, Literal, Or, Predicate

# Filters translated to Iceberg, as far as they skip files without losing a row.

_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
_MICROS_PER_MILLI = 1_000
_NANOS_PER_MICRO = 1_000
_MILLIS_PRECISION_MAX = 3

_WHOLE = (types.TinyIntType, types.SmallIntType, types.IntType, types.BigIntType, types.DateType)
_FLOATS = (types.FloatType, types.DoubleType)
_EQUALITY = (LeafFunction.EQUAL, LeafFunction.IN)
_BELOW = (LeafFunction.LESS_THAN, LeafFunction.LESS_OR_EQUAL)
_Value = (
    literals.BooleanLiteral
    | literals.LongLiteral
    | literals.DoubleLiteral
    | literals.DecimalLiteral
    | literals.StringLiteral
    | literals.BinaryLiteral
)
_COMPARISONS: Mapping[LeafFunction, type[ice.BooleanExpression]] = {
    LeafFunction.EQUAL: ice.EqualTo,
    LeafFunction.LESS_THAN: ice.LessThan,
    LeafFunction.LESS_OR_EQUAL: ice.LessThanOrEqual,
    LeafFunction.GREATER_THAN: ice.GreaterThan,
    LeafFunction.GREATER_OR_EQUAL: ice.GreaterThanOrEqual,
}


@dataclass(frozen=True, slots=True)
class NamedColumn:
    """A column as the Iceberg table names it."""

    name: str
    type: types.DataType


def iceberg_filter(
    predicate: Predicate, columns: Mapping[int, NamedColumn]
) -> ice.BooleanExpression | None:
    """Translate to a filter that passes at least the same rows; None if there is none."""
    match predicate:
        case And(children=children):
            found = [iceberg_filter(child, columns) for child in children]
            parts = [part for part in found if part is not None]
            return all_of(parts) if parts else None
        case Or(children=children):
            found = [iceberg_filter(child, columns) for child in children]
            parts = [part for part in found if part is not None]
            return _any_of(parts) if parts and len(parts) == len(found) else None
        case Leaf(column_id=column_id):
            column = columns.get(column_id)
            return None if column is None else _leaf(predicate, column)


def all_of(parts: list[ice.BooleanExpression]) -> ice.BooleanExpression:
    """Combine parts with AND."""
    joined: ice.BooleanExpression = ice.AlwaysTrue()
    for part in parts:
        joined = ice.And(joined, part)
    return joined


def _any_of(parts: list[ice.BooleanExpression]) -> ice.BooleanExpression:
    joined: ice.BooleanExpression = ice.AlwaysFalse()
    for part in parts:
        joined = ice.Or(joined, part)
    return joined


def _leaf(leaf: Leaf, column: NamedColumn) -> ice.BooleanExpression | None:
    if isinstance(column.type, types.NESTED_TYPES):
        return None
    match leaf.function:
        case LeafFunction.IS_NULL:
            return _made(ice.IsNull, column.name)
        case LeafFunction.IS_NOT_NULL:
            return _made(ice.NotNull, column.name)
        case LeafFunction.STARTS_WITH:
            return _starts_with(leaf, column)
        case _:
            return _compared(leaf, column)


def _starts_with(leaf: Leaf, column: NamedColumn) -> ice.BooleanExpression | None:
    match leaf.literals:
        case (str(text),) if text and isinstance(column.type, types.StringType | types.CharType):
            return _made(ice.StartsWith, column.name, literals.StringLiteral(text))
        case _:
            return None


def _compared(leaf: Leaf, column: NamedColumn) -> ice.BooleanExpression | None:
    if not _is_comparable(leaf.function, column.type):
        return None
    found = [_literal(each, column.type) for each in leaf.literals]
    values = [each for each in found if each is not None]
    if not values or len(values) != len(found):
        return None
    if leaf.function is LeafFunction.IN:
        return _any_of([_made(ice.EqualTo, column.name, value) for value in values])
    compare = _COMPARISONS.get(leaf.function)
    return None if compare is None else _made(compare, column.name, values[0])


def _made(kind: type[ice.BooleanExpression], name: str, *values: _Value) -> ice.BooleanExpression:
    """Make an expression; pyiceberg's types describe its fields, not its arguments."""
    return cast("Callable[..., ice.BooleanExpression]", kind)(name, *values)


def _is_comparable(function: LeafFunction, data_type: types.DataType) -> bool:
    if isinstance(data_type, types.BooleanType):
        return function in _EQUALITY
    # NaN is in no bounds, and some readers sort it above everything.
    return not isinstance(data_type, _FLOATS) or function in (*_EQUALITY, *_BELOW)


def _literal(value: Literal, data_type: types.DataType) -> _Value | None:
    """A value as Iceberg compares it; None if that would not be exact."""
    match value, data_type:
        case (bool(), types.BooleanType()):
            return literals.BooleanLiteral(value)
        case (bool(), _) | (None, _):
            return None
        case (str(), types.StringType() | types.CharType()):
            return literals.StringLiteral(value)
        case (bytes(), types.BytesType()):
            return literals.BinaryLiteral(value)
        case (bytes(), types.BinaryType(length=length)) if len(value) == length:
            return literals.BinaryLiteral(value)
        case (int() | float() | Decimal(), _):
            return _number(value, data_type)
        case _:
            return None


def _number(value: float | Decimal, data_type: types.DataType) -> _Value | None:
    match data_type:
        case types.DoubleType() | types.FloatType():
            return _float(float(value), value, data_type)
        case types.DecimalType(precision=precision, scale=scale):
            return _decimal(Decimal(value), precision, scale)
        case types.TimeType(precision=precision) if precision <= _MILLIS_PRECISION_MAX:
            return _long(value * _MICROS_PER_MILLI)
        case types.TimestampType() | types.TimestampLtzType():
            return None if value % _NANOS_PER_MICRO else _long(value // _NANOS_PER_MICRO)
        case _ if isinstance(data_type, _WHOLE):
            return _long(value)
        case _:
            return None


def _long(value: float | Decimal) -> _Value | None:
    is_whole = isinstance(value, int) and _LONG_MIN <= value <= _LONG_MAX
    return literals.LongLiteral(int(value)) if is_whole else None


def _float(number: float, value: float | Decimal, data_type: types.DataType) -> _Value | None:
    is_exact = number == value and (
        isinstance(data_type, types.DoubleType) or float(np.float32(number)) == number
    )
    return literals.DoubleLiteral(number) if is_exact else None


def _decimal(value: Decimal, precision: int, scale: int) -> _Value | None:
    if not value.is_finite():
        return None
    sign, digits, exponent = value.as_tuple()
    shift = int(exponent) + scale
    if shift < 0 or len(digits) + shift > precision:
        return None
    return literals.DecimalLiteral(Decimal((sign, (*digits, *([0] * shift)), -scale)))


# The current rows of data files: columns matched by field id, without deleted rows.

_BATCH_ROWS = 128 * 1024

Positions = npt.NDArray[np.int64]


def read_rows(
    io: FileIO, held: HeldFile, *, schema: pa.Schema, fields: Sequence[int | None]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a data file that are not deleted.

    Each column comes from the field whose id is at its position; a file that was written before the
    field existed has nulls.
    """
    deleted = deleted_positions(io, held)
    start = 0
    for rows in read_columns(io, held.file, schema=schema, fields=fields):
        kept = _without(rows, deleted, start=start)
        start += rows.num_rows
        if kept.num_rows:
            yield kept


def deleted_positions(io: FileIO, held: HeldFile) -> Positions:
    """The deleted positions of a data file, ascending."""
    found = [_positions(io, each, held.file.file_path) for each in held.deletes]
    if len(found) == 1:
        # Deletes of one file are written in order.
        positions = found[0]
        return positions if np.all(np.diff(positions) > 0) else np.unique(positions)
    return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)


def without(positions: Positions, others: Positions) -> Positions:
    """The positions that are not among others; both ascending."""
    if not len(others):
        return positions
    places = np.minimum(np.searchsorted(others, positions), len(others) - 1)
    return positions[others[places] != positions]


def merged(positions: Positions, others: Positions) -> Positions:
    """Merge two ascending lists of positions without common elements."""
    together = np.concatenate((positions, others))
    together.sort(kind="stable")  # merges sorted runs
    return together


def read_columns(
    io: FileIO, file: DataFile, *, schema: pa.Schema, fields: Sequence[int | None]
) -> Iterator[pa.RecordBatch]:
    """Yield columns of a data file, including deleted rows."""
    with _opened(io, file) as parquet:
        with read_whole(file.file_path):
            names = _names_by_id(parquet.schema_arrow)
        if not names:
            raise UnsupportedError(
                f"The columns of the file {file.file_path} have no field ids, so they "
                "cannot be matched.",
                hint="Rewrite it with the engine that added it to the table.",
            )
        sources = [None if field is None else names.get(field) for field in fields]
        wanted = sorted({name for name in sources if name is not None})
        if not wanted:
            yield _nulls(parquet.metadata.num_rows, schema)
            return
        batches, count = parquet.iter_batches(batch_size=_BATCH_ROWS, columns=wanted), 0
        while (rows := _next(batches, file)) is not None:
            count += rows.num_rows
            columns = [
                pa.nulls(rows.num_rows, column.type)
                if name is None
                else fitted(rows.column(name), column.type)
                for column, name in zip(schema, sources, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
        check_count(file.file_path, count, expected=file.record_count)


def held_fields(io: FileIO, file: DataFile) -> frozenset[int]:
    """The field ids that a data file has."""
    with _opened(io, file) as parquet:
        return frozenset(_names_by_id(parquet.schema_arrow))


def _opened(io: FileIO, file: DataFile) -> pq.ParquetFile:
    if file.file_format != FileFormat.PARQUET:
        raise UnsupportedError(
            f"The file {file.file_path} has the format {file.file_format.value}, not Parquet.",
            hint="Rewrite it with the engine that wrote it.",
        )
    try:
        # A file's name can be damaged too, and be invalid.
        with decoded(f"the Iceberg table that names {file.file_path!r}"):
            stream = io.new_input(file.file_path).open()
    except FileNotFoundError as fault:
        raise LakeSnapshotMissingError(
            f"The file {file.file_path} is gone.",
            hint=(
                "If its snapshot has expired, read the latest one. If not, somebody "
                "removed the file: run headwater audit."
            ),
        ) from fault
    with read_whole(file.file_path):
        return pq.ParquetFile(stream, pre_buffer=True, page_checksum_verification=True)


def _next(batches: Iterator[pa.RecordBatch], file: DataFile) -> pa.RecordBatch | None:
    with read_whole(file.file_path):
        return next(batches, None)


def _names_by_id(schema: pa.Schema) -> Mapping[int, str]:
    return {
        int(field.metadata[FIELD_ID]): field.name
        for field in schema
        if field.metadata and FIELD_ID in field.metadata
    }


def _nulls(count: int, schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.nulls(count, column.type) for column in schema]
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    # A batch without columns gets its row count from the original batch.
    return pa.record_batch([pa.nulls(count)], names=["rows"]).select([])


def _without(rows: pa.RecordBatch, deleted: Positions, *, start: int) -> pa.RecordBatch:
    low, high = np.searchsorted(deleted, [start, start + rows.num_rows])
    if low == high:
        return rows
    keep = np.ones(rows.num_rows, np.bool_)
    keep[deleted[low:high] - start] = False
    return rows.take(pa.array(np.flatnonzero(keep)))


def _positions(io: FileIO, file: DataFile, path: str) -> Positions:
    names = ["pos"] if scoped_path(file) == path else ["file_path", "pos"]
    with _opened(io, file) as parquet, read_whole(file.file_path):
        if not {*names} <= {*parquet.schema_arrow.names}:
            raise pa.ArrowInvalid(f"it does not have the columns {names}")
        read = parquet.read(columns=names)
    check_count(file.file_path, read.num_rows, expected=file.record_count)
    if len(names) > 1:
        read = read.filter(pc.equal(read.column("file_path"), path))
    found = read.column("pos")
    positions: Positions = found.to_numpy().astype(np.int64)
    return positions


FORMAT = "iceberg"
_SPLIT_BYTES_MAX = 128 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class IcebergSource:
    """Reads one Iceberg table. A value that travels; asks the catalog whenever it plans."""

    spec: LakeTableSpec
    config: Mapping[str, str] = field(repr=False)
    columns: tuple[ColumnPath, ...] | None = None
    limit: int | None = None
    filters: tuple[Predicate, ...] = ()

    def with_projection(self, columns: Sequence[ColumnPath]) -> "IcebergSource":
        """Read only these columns, in this order."""
        return replace(self, columns=tuple(columns))

    def with_limit(self, rows: int) -> "IcebergSource":
        """Plan no more splits than needed for this many rows."""
        return replace(self, limit=rows)

    def with_filters(self, filters: Sequence[Predicate]) -> "tuple[IcebergSource, FilterAnswer]":
        """Skip files that cannot contain a matching row; the reader filters rows."""
        named = {
            column.column_id: NamedColumn(column.name, column.type)
            for column in self.spec.schema.columns
        }
        used = tuple(each for each in filters if iceberg_filter(each, named) is not None)
        source = replace(self, filters=(*self.filters, *used))
        return source, FilterAnswer(accepted=used, remaining=tuple(filters))

    def snapshot(self, snapshot_id: int | None = None) -> LakeSnapshot | None:
        """A snapshot, by default the newest."""
        table = self._table()
        if snapshot_id is None:
            return head_of(table)
        found = table.metadata.snapshot_by_id(snapshot_id)
        return None if found is None else checked_snapshot(found, table)

    def snapshots(self) -> list[LakeSnapshot]:
        """The snapshots that the table still has, oldest first."""
        table = self._table()
        ordered = sorted(table.metadata.snapshots, key=lambda each: each.sequence_number or 0)
        return [checked_snapshot(each, table) for each in ordered]

    def plan(self, snapshot_id: int) -> list[LakeSplit]:
        """Plan what to read of a snapshot."""
        table = self._table()
        if table.snapshot_by_id(snapshot_id) is None:
            raise LakeSnapshotMissingError(
                f"The Iceberg table of {self.spec.path} has no snapshot {snapshot_id}."
            )
        with reached(f"Planning to read {self.spec.path}"):
            files = planned_files(table, self.spec, snapshot_id, only=self._filter(table))
            # Engines read files by name, without asking anybody.
            check_places(table, files, self.config)
        groups = _groups(files, whole_buckets=self.spec.is_keyed)
        if self.limit is not None and not self.filters:
            groups = _enough(groups, self.limit)
        splits = _Splits(table, self.spec, self.config, snapshot_id)
        return [splits.of(group) for group in groups]

    def read(self, split: LakeSplit, *, in_key_order: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the current rows of a split, under the schema of the spec."""
        if in_key_order:
            raise UnsupportedError("Iceberg tables cannot be read in key order.")
        node = unpacked(split.payload)
        ids = type_json.object_of(node.get("fields"), what="fields")
        io = opened_io(type_json.text_of(node, "location"), self.config, texts_of(node, "io"))
        whole = arrow_schema(self.spec.schema)
        schema = whole if self.columns is None else picked_schema(whole, self.columns)
        columns = [self.spec.schema.column(field.name) for field in schema]
        found = [ids.get(str(column.column_id)) for column in columns]
        fields = [field if isinstance(field, int) else None for field in found]
        read = pa.schema([whole.field(column.name) for column in columns])
        for file in split.files:
            told = unpacked(file.payload)
            lost = {*type_json.list_of(told, "lost")}
            needed = [column for column in columns if column.column_id in lost]
            (held,) = held_from_json(told)
            with reached(f"Reading {self.spec.path}"):
                self._check_held(
                    io, held, {each.name: ids.get(str(each.column_id)) for each in needed}
                )
                for rows in read_rows(io, held, schema=read, fields=fields):
                    yield picked(rows, schema)

    @property
    def is_key_ordered(self) -> bool:
        """Always false: rows do not come in primary-key order."""
        return False

    def _check_held(self, io: FileIO, held: HeldFile, fields: Mapping[str, type_json.Json]) -> None:
        """Raise for a file without values of a column that was dropped before it was written."""
        present = held_fields(io, held.file) if fields else frozenset()
        for name, field_id in fields.items():
            if field_id not in present:
                raise values_gone(self.spec.path, name, held.file.file_path)

    def _table(self) -> Table:
        return load_table(open_catalog(self.config), self.spec.path)

    def _filter(self, table: Table) -> BooleanExpression | None:
        """The filters under the current column names of the Iceberg table."""
        ids = field_ids(table.metadata, self.spec)
        names = {field.field_id: field.name for field in table.schema().fields}
        named = {
            column.column_id: NamedColumn(names[ids[column.column_id]], column.type)
            for column in self.spec.schema.columns
            if ids.get(column.column_id) in names
        }
        found = [iceberg_filter(each, named) for each in self.filters]
        parts = [part for part in found if part is not None]
        return all_of(parts) if parts else None


def _groups(files: Sequence[PlannedFile], *, whole_buckets: bool) -> list[list[PlannedFile]]:
    """Group files of one bucket: all of them, or enough for one task."""
    groups: list[list[PlannedFile]] = []
    for _, alike in groupby(files, key=lambda each: (each.partition, each.bucket)):
        size = 0
        groups.append([])
        for each in alike:
            size += each.held.file.file_size_in_bytes
            if groups[-1] and size > _SPLIT_BYTES_MAX and not whole_buckets:
                groups.append([])
                size = each.held.file.file_size_in_bytes
            groups[-1].append(each)
    return groups


def _enough(groups: Sequence[list[PlannedFile]], limit: int) -> list[list[PlannedFile]]:
    found: list[list[PlannedFile]] = []
    rows = 0
    for group in groups:
        if rows >= limit:
            break
        found.append(group)
        rows += sum(_rows_at_least(each) for each in group)
    return found


def _rows_at_least(planned: PlannedFile) -> int:
    file, deletes = planned.held
    return max(0, file.record_count - sum(each.record_count for each in deletes))


class _Splits:
    """Makes the splits of one snapshot."""

    def __init__(
        self, table: Table, spec: LakeTableSpec, config: Mapping[str, str], snapshot_id: int
    ) -> None:
        self._files = IcebergLakeFiles(table.metadata, spec)
        self._snapshot_id = snapshot_id
        self._payload = packed(
            {
                "location": table.location(),
                "io": dict(lent(table, config)),
                "fields": {str(column): field for column, field in self._files.fields.items()},
            }
        )

    def of(self, files: Sequence[PlannedFile]) -> LakeSplit:
        return LakeSplit(
            format=FORMAT,
            snapshot_id=self._snapshot_id,
            bucket=files[0].bucket,
            partition=files[0].partition,
            files=tuple(map(self._files.of, files)),
            payload=self._payload,
        )
