"""The statistics block of a batch: null count, minimum and maximum of chosen columns.

Layout, little endian: version u8 | count i16 | column index i16 each | null count i32 each |
length i32, aligned row of minima | length i32, aligned row of maxima.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import CorruptBatchError
from headwater.model.arrow import arrow_type
from headwater.model.predicate import Literal
from headwater.model.schema import Schema
from headwater.rows.aligned_row import NANOS_PER_MILLI, decode_row, encode_row, holds

_VERSION = 1
_HEAD = struct.Struct("<Bh")
_LENGTH = struct.Struct("<i")
_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
_NANOS = {"s": 1_000_000_000, "ms": NANOS_PER_MILLI, "us": 1_000, "ns": 1}

_Bounds = tuple[Literal, Literal]
_NO_BOUNDS: _Bounds = (None, None)


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Bound the values of one column; without a minimum or maximum that bound is unknown."""

    null_count: int
    minimum: Literal = None
    maximum: Literal = None


@dataclass(frozen=True, slots=True)
class BatchStatistics:
    """Hold the statistics of a batch by column id."""

    columns: Mapping[int, ColumnStatistics] = field(default_factory=dict)


def encode_statistics(
    batch: pa.RecordBatch, schema: Schema, columns: Sequence[int]
) -> bytes | None:
    """Write the statistics of the columns at these positions, or None if there are none."""
    if not columns or not batch.num_rows:
        return None
    types = [arrow_type(schema.columns[index].type) for index in columns]
    arrays = [batch.column(index) for index in columns]
    bounds = [_bounds(array, data_type) for array, data_type in zip(arrays, types, strict=True)]
    minima = encode_row(types, [low for low, _ in bounds])
    maxima = encode_row(types, [high for _, high in bounds])
    return b"".join(
        (
            _HEAD.pack(_VERSION, len(columns)),
            struct.pack(f"<{len(columns)}h", *columns),
            struct.pack(f"<{len(columns)}i", *(array.null_count for array in arrays)),
            _LENGTH.pack(len(minima)),
            minima,
            _LENGTH.pack(len(maxima)),
            maxima,
        )
    )


def decode_statistics(data: bytes | memoryview, schema: Schema) -> BatchStatistics:
    """Read the statistics of a batch that was written under a schema."""
    types = [arrow_type(column.type) for column in schema.columns]
    by_index = parse_statistics(data, types)
    return BatchStatistics(
        {schema.columns[index].column_id: column for index, column in by_index.items()}
    )


def statistics_columns(data: bytes | memoryview) -> tuple[int, ...]:
    """Return the positions of the columns that a statistics block tells of."""
    try:
        return _parse_head(data)[0]
    except struct.error:
        raise CorruptBatchError("A statistics block ends early.") from None


def parse_statistics(
    data: bytes | memoryview, types: Sequence[pa.DataType]
) -> dict[int, ColumnStatistics]:
    """Read and check a statistics block; return it by the position of the column."""
    try:
        indexes, null_counts, position = _parse_head(data)
    except struct.error:
        raise CorruptBatchError("A statistics block ends early.") from None
    if any(not 0 <= index < len(types) for index in indexes):
        raise CorruptBatchError(f"Statistics name columns {indexes} of {len(types)}.")
    if any(count < 0 for count in null_counts):
        raise CorruptBatchError("Statistics count fewer than no nulls.")
    chosen = [types[index] for index in indexes]
    minima, position = _parse_row(data, position, chosen)
    maxima, position = _parse_row(data, position, chosen)
    if position != len(data):
        raise CorruptBatchError(f"A statistics block has {len(data) - position} bytes too many.")
    return {
        index: ColumnStatistics(null_count, low, _widened(high, data_type))
        for index, null_count, low, high, data_type in zip(
            indexes, null_counts, minima, maxima, chosen, strict=True
        )
    }


def _parse_head(data: bytes | memoryview) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    version, count = _HEAD.unpack_from(data)
    if version != _VERSION or count < 0:
        raise CorruptBatchError(f"Statistics of version {version} for {count} columns.")
    indexes = struct.Struct(f"<{count}h")
    null_counts = struct.Struct(f"<{count}i")
    rows_start = _HEAD.size + indexes.size + null_counts.size
    return (
        indexes.unpack_from(data, _HEAD.size),
        null_counts.unpack_from(data, _HEAD.size + indexes.size),
        rows_start,
    )


def _parse_row(
    data: bytes | memoryview, position: int, types: Sequence[pa.DataType]
) -> tuple[tuple[Literal, ...], int]:
    start = position + _LENGTH.size
    if start > len(data):
        raise CorruptBatchError("A statistics block ends before its bounds.")
    (length,) = _LENGTH.unpack_from(data, position)
    if not 0 <= length <= len(data) - start:
        raise CorruptBatchError(f"Statistics claim {length} bytes of bounds.")
    # A writer that knows no bounds may leave the row out.
    if length == 0:
        return (None,) * len(types), start
    return decode_row(types, memoryview(data)[start : start + length]), start + length


def _widened(maximum: Literal, data_type: pa.DataType) -> Literal:
    """Return an upper bound that holds at the resolution of the column as well."""
    # Times are cut down to milliseconds, so the largest may lie up to one above its bound.
    if pa.types.is_time64(data_type) and isinstance(maximum, int):
        return maximum + 1
    return maximum


def _bounds(array: pa.Array, data_type: pa.DataType) -> _Bounds:
    assert array.type == data_type, "the batch does not have the types of its schema"
    if array.null_count == len(array) or not holds(data_type):
        return _NO_BOUNDS
    if pa.types.is_floating(data_type):
        return _float_bounds(array.drop_null().to_numpy())
    if pa.types.is_temporal(data_type):
        return _temporal_bounds(array, data_type)
    found = pc.min_max(array)
    return found["min"].as_py(), found["max"].as_py()


def _temporal_bounds(array: pa.Array, data_type: pa.DataType) -> _Bounds:
    # Whole numbers, because datetime objects end at microseconds and at year 9999.
    found = pc.min_max(array.view(pa.int32() if data_type.bit_width == 32 else pa.int64()))  # noqa: PLR2004
    low, high = found["min"].as_py(), found["max"].as_py()
    if pa.types.is_date(data_type):
        return low, high
    nanos = _NANOS[data_type.unit]
    if pa.types.is_time(data_type):
        return low * nanos // NANOS_PER_MILLI, high * nanos // NANOS_PER_MILLI
    return _fitting(low * nanos), _fitting(high * nanos)


def _fitting(nanos: int) -> int | None:
    """Return the bound, or None when its milliseconds do not fit into a slot."""
    return nanos if _LONG_MIN <= nanos // NANOS_PER_MILLI <= _LONG_MAX else None


def _float_bounds(values: npt.NDArray[np.floating]) -> _Bounds:
    """Order floats as Java does: -0.0 below 0.0, and every NaN above infinity."""
    is_nan = np.isnan(values)
    numbers = values[~is_nan]
    if not numbers.size:
        return float(values[0]), float(values[0])
    low, high = numbers.min(), numbers.max()
    if low == 0 and np.signbit(numbers[numbers == 0]).any():
        low = -0.0
    if high == 0 and not np.signbit(numbers[numbers == 0]).all():
        high = 0.0
    if is_nan.any():
        high = values[is_nan.argmax()]
    return float(low), float(high)
