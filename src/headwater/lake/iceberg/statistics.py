"""What a table's metadata says of a Parquet file, taken from the footer as it was written."""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow.parquet as pq
from pyiceberg import types as ice
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    StatisticsCollector,
    compute_statistics_plan,
    parquet_path_to_id_mapping,
)
from pyiceberg.schema import Schema
from pyiceberg.utils.truncate import (
    truncate_upper_bound_binary_string,
    truncate_upper_bound_text_string,
)

Raw = bool | int | float | bytes
_INTS = (ice.IntegerType, ice.DateType)
_LONGS = (ice.LongType, ice.TimeType, ice.TimestampType, ice.TimestamptzType)


@dataclass(slots=True)
class FileStatistics:
    """Count the values of a file, and say between which they lie, each by the id of its field."""

    record_count: int
    column_sizes: dict[int, int] = field(default_factory=dict)
    value_counts: dict[int, int] = field(default_factory=dict)
    null_value_counts: dict[int, int] = field(default_factory=dict)
    lower_bounds: dict[int, bytes] = field(default_factory=dict)
    upper_bounds: dict[int, bytes] = field(default_factory=dict)
    split_offsets: list[int] = field(default_factory=list)


def file_statistics(
    footer: pq.FileMetaData, schema: Schema, properties: Mapping[str, str]
) -> FileStatistics:
    """Return the statistics of a file as far as the properties of its table ask for them.

    Bounds are taken as the file stores them, since Python's dates end where Iceberg's do not.
    """
    plan = compute_statistics_plan(schema, dict(properties))
    ids = parquet_path_to_id_mapping(schema)
    found = FileStatistics(footer.num_rows)
    for position in range(footer.num_columns):
        collector = plan[ids[footer.schema.column(position).path]]
        _add_column(found, footer, position, collector)
    for group in range(footer.num_row_groups):
        found.split_offsets.append(_start_of(footer.row_group(group)))
    found.split_offsets.sort()
    return found


def _start_of(group: pq.RowGroupMetaData) -> int:
    column = group.column(0)
    first = column.data_page_offset
    return min(first, column.dictionary_page_offset) if column.has_dictionary_page else first


def _add_column(
    found: FileStatistics, footer: pq.FileMetaData, position: int, collector: StatisticsCollector
) -> None:
    chunks = [footer.row_group(at).column(position) for at in range(footer.num_row_groups)]
    field_id, mode = collector.field_id, collector.mode
    found.column_sizes[field_id] = sum(chunk.total_compressed_size for chunk in chunks)
    if mode.type is MetricModeTypes.NONE:
        return
    found.value_counts[field_id] = sum(chunk.num_values for chunk in chunks)
    if not all(chunk.is_stats_set for chunk in chunks):
        return
    statistics = [chunk.statistics for chunk in chunks]
    if all(each.has_null_count for each in statistics):
        found.null_value_counts[field_id] = sum(each.null_count for each in statistics)
    if mode.type is MetricModeTypes.COUNTS:
        return
    # A group without bounds holds nothing but nulls; of floats, nothing but NaN, in no bounds.
    ranged = [each for each in statistics if each.has_min_max]
    if ranged:
        kind, length = collector.iceberg_type, mode.length
        order = _order_of(kind)
        lowest = min((each.min_raw for each in ranged), key=order)
        highest = max((each.max_raw for each in ranged), key=order)
        found.lower_bounds[field_id] = _lower(lowest, kind, length)
        if (upper := _upper(highest, kind, length)) is not None:
            found.upper_bounds[field_id] = upper


def _order_of(kind: ice.PrimitiveType) -> Callable[[Raw], Raw]:
    return _unscaled if isinstance(kind, ice.DecimalType) else lambda value: value


def _unscaled(value: Raw) -> int:
    """Return the digits of a decimal, which a file keeps as a number or as its bytes."""
    return int.from_bytes(value, "big", signed=True) if isinstance(value, bytes) else int(value)


def _lower(value: Raw, kind: ice.PrimitiveType, length: int | None) -> bytes:
    if isinstance(value, bytes) and length is not None:
        if isinstance(kind, ice.StringType):
            return value.decode()[:length].encode()
        if isinstance(kind, ice.BinaryType):
            return value[:length]
    return bound_bytes(value, kind)


def _upper(value: Raw, kind: ice.PrimitiveType, length: int | None) -> bytes | None:
    """Return a bound that is not below the value; None if a shortened one cannot be."""
    if isinstance(value, bytes) and length is not None:
        if isinstance(kind, ice.StringType):
            text = truncate_upper_bound_text_string(value.decode(), length)
            return None if text is None else text.encode()
        if isinstance(kind, ice.BinaryType):
            return truncate_upper_bound_binary_string(value, length)
    return bound_bytes(value, kind)


def bound_bytes(value: Raw, kind: ice.PrimitiveType) -> bytes:
    """Return a value in the form in which Iceberg writes single values."""
    if isinstance(kind, ice.DecimalType):
        digits = _unscaled(value)
        size = (digits if digits >= 0 else ~digits).bit_length() // 8 + 1
        return digits.to_bytes(size, "big", signed=True)
    if isinstance(value, bytes):
        return value
    if isinstance(kind, ice.BooleanType):
        return b"\x01" if value else b"\x00"
    if isinstance(kind, _INTS):
        return struct.pack("<i", value)
    if isinstance(kind, _LONGS):
        return struct.pack("<q", value)
    return struct.pack("<f" if isinstance(kind, ice.FloatType) else "<d", value)
