"""Telling from manifests which data files cannot hold a row that passes filters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater.lake.paimon.binary_row import from_binary_row
from headwater.lake.paimon.manifests import DataFile, Record
from headwater.lake.paimon.schema import LakeSchema
from headwater.lake.paimon.types import file_type
from headwater.lake.spi import FilterAnswer
from headwater.lake.table import LakeTableSpec
from headwater.model.predicate import And, Literal, Predicate, columns_of
from headwater.rows.pruning import may_match
from headwater.rows.statistics import BatchStatistics, ColumnStatistics

_UNKNOWN_TYPE = pa.null()


def answer_to(filters: Sequence[Predicate], spec: LakeTableSpec) -> FilterAnswer:
    """Say which filters leave files out; rows are never looked at."""
    usable = _usable_columns(spec)
    accepted = tuple(each for each in filters if set(columns_of(each)) <= usable)
    return FilterAnswer(accepted=accepted, remaining=tuple(filters))


def _usable_columns(spec: LakeTableSpec) -> set[int]:
    """Return the ids of columns by which files may be left out.

    Of rows by key only the key: an older row must not come back because the file with its
    newer values was left out.
    """
    keys = {*spec.schema.primary_key, *spec.partition_keys}
    return {
        column.column_id
        for column in spec.schema.columns
        if not spec.is_keyed or column.name in keys
    }


@dataclass(frozen=True, slots=True)
class FileFilter:
    """Decide for each data file whether to read it."""

    filters: tuple[Predicate, ...]
    spec: LakeTableSpec
    schema: LakeSchema
    """The newest schema, which knows the field of each column."""

    def may_hold(self, file: DataFile, written: LakeSchema, partition: Sequence[Literal]) -> bool:
        """Return False only if no row of the file passes; `written`: the schema of the file."""
        if not self.filters:
            return True
        wanted = And(self.filters)
        ids = set(columns_of(wanted))
        fields = {
            column.column_id: self.schema.field_id_of(column)
            for column in self.spec.schema.columns
            if column.column_id in ids
        }
        absent = frozenset(
            column
            for column, field in fields.items()
            if field is None or written.field(field) is None
        )
        known = self._bounds(file, written, fields)
        known.update(self._of_partition(partition))
        return may_match(wanted, BatchStatistics(known), record_count=file.row_count, absent=absent)

    def _bounds(
        self, file: DataFile, written: LakeSchema, fields: Mapping[int, int | None]
    ) -> dict[int, ColumnStatistics]:
        by_field = {field: column for column, field in fields.items() if field is not None}
        types = {column.column_id: file_type(column.type) for column in self.spec.schema.columns}
        order = [
            by_field.get(field.field_id)
            for field in written.fields
            if field.name in _named(file, written)
        ]
        return _read_bounds(file.bounds_record("_VALUE_STATS"), order, types)

    def _of_partition(self, partition: Sequence[Literal]) -> dict[int, ColumnStatistics]:
        columns = [self.spec.schema.column(key) for key in self.spec.partition_keys]
        return {
            column.column_id: ColumnStatistics(0, value, value)
            for column, value in zip(columns, partition, strict=True)
        }


def _named(file: DataFile, written: LakeSchema) -> set[str]:
    """Return the names of the fields that a file has bounds of."""
    names = file.record.get("_VALUE_STATS_COLS")
    if isinstance(names, list):
        return {str(name) for name in names}
    return {field.name for field in written.fields}


def _read_bounds(
    record: Record, order: Sequence[int | None], types: Mapping[int, pa.DataType]
) -> dict[int, ColumnStatistics]:
    """Read the bounds of wanted columns; `order` names the column in each place, if any."""
    nulls = record.get("_NULL_COUNTS")
    low, high = record["_MIN_VALUES"], record["_MAX_VALUES"]
    if not order or not isinstance(nulls, list) or len(nulls) != len(order):
        return {}
    assert isinstance(low, bytes)
    assert isinstance(high, bytes)
    kinds = [_UNKNOWN_TYPE if column is None else types[column] for column in order]
    minima, maxima = from_binary_row(kinds, low), from_binary_row(kinds, high)
    return {
        column: ColumnStatistics(count, minimum, maximum)
        for column, count, minimum, maximum in zip(order, nulls, minima, maxima, strict=True)
        if column is not None and isinstance(count, int)
    }
