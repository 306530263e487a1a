"""The statistics block of a batch, and whether any row of the batch can match a filter."""

import math
import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import CorruptBatchError
from headwater.model import Schema
from headwater.model.arrow import arrow_type
from headwater.model.predicate import And, Leaf, LeafFunction, Literal, Or, Predicate
from headwater.rows.aligned_row import NANOS_PER_MILLI, decode_row, encode_row, holds
from headwater.rows.compute import pc

# The statistics block: null count, minimum and maximum of selected columns.
# Layout, little endian: version u8 | count i16 | column index i16 each | null count i32 each |
# length i32, aligned row of minima | length i32, aligned row of maxima.

_VERSION = 1
_HEAD = struct.Struct("<Bh")
_LENGTH = struct.Struct("<i")
_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
_NANOS = {"s": 1_000_000_000, "ms": NANOS_PER_MILLI, "us": 1_000, "ns": 1}

_Bounds = tuple[Literal, Literal]
_NO_BOUNDS: _Bounds = (None, None)


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Bounds on the values of one column; None means that the bound is unknown."""

    null_count: int
    minimum: Literal = None
    maximum: Literal = None


@dataclass(frozen=True, slots=True)
class BatchStatistics:
    """The statistics of a batch by column id."""

    columns: Mapping[int, ColumnStatistics] = field(default_factory=dict)


def encode_statistics(
    batch: pa.RecordBatch, schema: Schema, columns: Sequence[int]
) -> bytes | None:
    """Encode the statistics of the columns at these positions; None if there are none."""
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
    """Decode the statistics of a batch that was written under a schema."""
    types = [arrow_type(column.type) for column in schema.columns]
    by_index = parse_statistics(data, types)
    return BatchStatistics(
        {schema.columns[index].column_id: column for index, column in by_index.items()}
    )


def statistics_columns(data: bytes | memoryview) -> tuple[int, ...]:
    """Return the positions of the columns in a statistics block."""
    try:
        return _parse_head(data)[0]
    except struct.error:
        raise CorruptBatchError("A statistics block ends early.") from None


def parse_statistics(
    data: bytes | memoryview, types: Sequence[pa.DataType]
) -> dict[int, ColumnStatistics]:
    """Parse and check a statistics block; return it by the position of the column."""
    try:
        indexes, null_counts, position = _parse_head(data)
    except struct.error:
        raise CorruptBatchError("A statistics block ends early.") from None
    if any(not 0 <= index < len(types) for index in indexes):
        raise CorruptBatchError(
            f"Statistics name the columns {indexes}, but there are {len(types)}."
        )
    if any(count < 0 for count in null_counts):
        raise CorruptBatchError("Statistics have a negative null count.")
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
        raise CorruptBatchError(
            f"Statistics of version {version} for {count} columns are not supported."
        )
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
        raise CorruptBatchError(f"Statistics declare {length} bytes of bounds.")
    # A writer that knows no bounds may leave out the row.
    if length == 0:
        return (None,) * len(types), start
    return decode_row(types, memoryview(data)[start : start + length]), start + length


def _widened(maximum: Literal, data_type: pa.DataType) -> Literal:
    """Return an upper bound that is also valid at the resolution of the column."""
    # Times are truncated to milliseconds, so the largest may be up to one above its bound.
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
    # Integers, because datetime objects end at microseconds and at year 9999.
    found = pc.min_max(array.view(pa.int32() if data_type.bit_width == 32 else pa.int64()))  # noqa: PLR2004
    low, high = found["min"].as_py(), found["max"].as_py()
    if pa.types.is_date(data_type):
        return low, high
    nanos = _NANOS[data_type.unit]
    if pa.types.is_time(data_type):
        return low * nanos // NANOS_PER_MILLI, high * nanos // NANOS_PER_MILLI
    return _fitting(low * nanos), _fitting(high * nanos)


def _fitting(nanos: int) -> int | None:
    """Return the bound, or None if its milliseconds do not fit into a slot."""
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


# Whether the statistics rule out that any row of a batch matches a filter.

# A bound of None is unknown: values may be anywhere on that side.
_Check: TypeAlias = Callable[[Literal, Literal, Literal], bool]

_NONE_ABSENT: frozenset[int] = frozenset()


def may_match(
    predicate: Predicate,
    statistics: BatchStatistics,
    *,
    record_count: int,
    absent: frozenset[int] = _NONE_ABSENT,
) -> bool:
    """Return False only if no row matches; columns in `absent` are null in every row."""
    match predicate:
        case And(children=children):
            return all(
                may_match(child, statistics, record_count=record_count, absent=absent)
                for child in children
            )
        case Or(children=children):
            return any(
                may_match(child, statistics, record_count=record_count, absent=absent)
                for child in children
            )
        case Leaf(column_id=column_id):
            column = statistics.columns.get(column_id)
            if column_id in absent:
                column = ColumnStatistics(null_count=record_count)
            return column is None or _leaf_may_match(predicate, column, record_count=record_count)


def _leaf_may_match(leaf: Leaf, column: ColumnStatistics, *, record_count: int) -> bool:
    if leaf.function == LeafFunction.IS_NULL:
        return column.null_count > 0
    # Every other comparison is false for a null.
    if column.null_count >= record_count:
        return False
    if leaf.function not in _CHECKS or not all(map(_is_comparable, leaf.literals)):
        return True
    low, high = _number_bounds(column)
    check = _CHECKS[leaf.function]
    outcomes = (check(low, high, literal) for literal in leaf.literals)
    try:
        # Not being in a list means being different from each of its items.
        return all(outcomes) if leaf.function == LeafFunction.NOT_IN else any(outcomes)
    except TypeError:
        # A literal of another type says nothing about the order.
        return True


def _number_bounds(column: ColumnStatistics) -> tuple[Literal, Literal]:
    # NaN sorts last: a minimum of NaN leaves no numbers, a maximum of NaN hides the largest.
    if _is_nan(column.minimum):
        return None, None
    return column.minimum, None if _is_nan(column.maximum) else column.maximum


def _is_comparable(literal: Literal) -> bool:
    return literal is not None and not _is_nan(literal)


def _is_nan(literal: Literal) -> bool:
    match literal:
        case float():
            return math.isnan(literal)
        case Decimal():
            return literal.is_nan()
        case _:
            return False


def _is_float_zero(literal: Literal) -> bool:
    return isinstance(literal, float) and literal == 0


def _at_most(left: Literal, right: Literal) -> bool:
    return left is None or right is None or bool(operator.le(left, right))


def _below(left: Literal, right: Literal) -> bool:
    # In Java -0.0 is less than 0.0, in Python they are equal: allow both.
    if _is_float_zero(left) or _is_float_zero(right):
        return _at_most(left, right)
    return left is None or right is None or bool(operator.lt(left, right))


def _may_equal(low: Literal, high: Literal, literal: Literal) -> bool:
    return _at_most(low, literal) and _at_most(literal, high)


def _may_differ(low: Literal, high: Literal, literal: Literal) -> bool:
    return not low == high == literal or _is_float_zero(low)


def _may_be_less(low: Literal, _: Literal, literal: Literal) -> bool:
    return _below(low, literal)


def _may_be_at_most(low: Literal, _: Literal, literal: Literal) -> bool:
    return _at_most(low, literal)


def _may_be_greater(_: Literal, high: Literal, literal: Literal) -> bool:
    return _below(literal, high)


def _may_be_at_least(_: Literal, high: Literal, literal: Literal) -> bool:
    return _at_most(literal, high)


def _may_start_with(low: Literal, high: Literal, literal: Literal) -> bool:
    if not isinstance(literal, str) or not isinstance(low, str):
        return True
    return low[: len(literal)] <= literal and _at_most(literal, high)


_CHECKS: Mapping[LeafFunction, _Check] = {
    LeafFunction.EQUAL: _may_equal,
    LeafFunction.NOT_EQUAL: _may_differ,
    LeafFunction.LESS_THAN: _may_be_less,
    LeafFunction.LESS_OR_EQUAL: _may_be_at_most,
    LeafFunction.GREATER_THAN: _may_be_greater,
    LeafFunction.GREATER_OR_EQUAL: _may_be_at_least,
    LeafFunction.STARTS_WITH: _may_start_with,
    LeafFunction.IN: _may_equal,
    LeafFunction.NOT_IN: _may_differ,
}
