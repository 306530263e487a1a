"""The aggregate functions, on two values and on two columns, and the fold of a column by them."""

import math
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import RecordTooLargeError, ValueOverflowError
from headwater.kv.merge.batch import Turns
from headwater.kv.merge.bitmaps import union32, union64
from headwater.model.aggregate import AggregateFunction, AggregateKind
from headwater.model.types import DECIMAL_PRECISION_MAX
from headwater.rows.compute import pc

# The aggregate functions on two values of one column, neither of them missing.

Value = bool | int | float | str | bytes | Decimal
Fold = Callable[..., Value | None]

# Twice the 38 digits of the widest decimal, so that no product is rounded before its scale.
_EXACT: Final = Context(prec=80, rounding=ROUND_HALF_UP)
_COMPACT_PRECISION_MAX: Final = 18


def scalar_form(function: AggregateFunction, arrow_type: pa.DataType) -> Fold:
    """Return the function of the held and the written value; None stands for a missing one."""
    match function.kind:
        case AggregateKind.SUM:
            return _sum_of(arrow_type)
        case AggregateKind.PRODUCT:
            return _product_of(arrow_type)
        case AggregateKind.MAX | AggregateKind.MIN:
            return _extreme_of(function.kind, arrow_type)
        case AggregateKind.LISTAGG | AggregateKind.STRING_AGG:
            separator = function.separator
            return lambda held, written: f"{held}{separator}{written}"
        case _:
            return _PLAIN[function.kind]


def _sum_of(arrow_type: pa.DataType) -> Fold:
    if pa.types.is_decimal(arrow_type):
        return _decimal_sum(arrow_type.precision)
    return _wrapped(operator.add, arrow_type)


def _product_of(arrow_type: pa.DataType) -> Fold:
    if pa.types.is_decimal(arrow_type):
        return _decimal_product(arrow_type.precision, arrow_type.scale)
    return _wrapped(operator.mul, arrow_type)


def _wrapped(operation: Fold, arrow_type: pa.DataType) -> Fold:
    """Compute as Java does: integers wrap around, floats keep the width of their type."""
    if pa.types.is_float64(arrow_type):
        return operation
    if pa.types.is_float32(arrow_type):
        # Two floats added or multiplied as doubles and then rounded once give the same float.
        return lambda held, written: float(np.float32(operation(held, written)))
    half = 1 << (arrow_type.bit_width - 1)
    mask = 2 * half - 1
    return lambda held, written: ((operation(held, written) + half) & mask) - half


def _decimal_sum(precision: int) -> Fold:
    def add(held: Decimal, written: Decimal) -> Decimal | None:
        total = _EXACT.add(held, written)
        if _digit_count(total) <= precision:
            return total
        if precision <= _COMPACT_PRECISION_MAX:
            raise ValueOverflowError(f"The sum {total} has over {precision} digits.")
        return None

    return add


def _decimal_product(precision: int, scale: int) -> Fold:
    unit = Decimal(1).scaleb(-scale)

    def multiply(held: Decimal, written: Decimal) -> Decimal | None:
        product = _EXACT.multiply(held, written)
        rounded = _EXACT.quantize(product, unit)
        return rounded if _digit_count(rounded) <= precision else None

    return multiply


def _digit_count(number: Decimal) -> int:
    return len(number.as_tuple().digits)


def _extreme_of(kind: AggregateKind, arrow_type: pa.DataType) -> Fold:
    pick: Callable[..., Value] = max if kind is AggregateKind.MAX else min
    if pa.types.is_floating(arrow_type):
        return lambda held, written: pick(held, written, key=_java_order)
    if pa.types.is_string(arrow_type):
        return lambda held, written: pick(held, written, key=str.encode)
    return pick


def _java_order(number: float) -> tuple[bool, float, float]:
    """Order floats as Java does: -0.0 before 0.0, and NaN after everything."""
    if math.isnan(number):
        return True, 0.0, 0.0
    return False, number, math.copysign(1.0, number)


_PLAIN: Final[dict[AggregateKind, Fold]] = {
    AggregateKind.BOOL_AND: operator.and_,
    AggregateKind.BOOL_OR: operator.or_,
    AggregateKind.RBM32: union32,
    AggregateKind.RBM64: union64,
}


# The aggregate functions on two columns of equal length, where a missing value is neutral.

VectorFold = Callable[[pa.Array, pa.Array], pa.Array]


def vector_form(function: AggregateFunction, arrow_type: pa.DataType) -> VectorFold:
    """Return the function of the held and the written column."""
    match function.kind:
        case AggregateKind.MAX | AggregateKind.MIN:
            return _column_extreme(function.kind, arrow_type)
        case AggregateKind.LISTAGG | AggregateKind.STRING_AGG:
            return _neutral(_joined_with(function.separator))
        case AggregateKind.BOOL_AND:
            return _neutral(pc.and_)
        case AggregateKind.BOOL_OR:
            return _neutral(pc.or_)
        case _:
            return _number_form(function, arrow_type)


def _number_form(function: AggregateFunction, arrow_type: pa.DataType) -> VectorFold:
    if pa.types.is_decimal(arrow_type):
        is_sum = function.kind is AggregateKind.SUM
        # Arrow's sum is one digit longer, which the widest decimal cannot be.
        if is_sum and arrow_type.precision < DECIMAL_PRECISION_MAX:
            return _column_decimal_sum(function, arrow_type)
    elif function.kind is AggregateKind.SUM:
        return _neutral(pc.add)
    elif function.kind is AggregateKind.PRODUCT:
        return _neutral(pc.multiply)
    return _one_by_one(function, arrow_type)


def _neutral(operation: VectorFold) -> VectorFold:
    """Let a missing value give way to the other."""

    def fold(held: pa.Array, written: pa.Array) -> pa.Array:
        result = operation(held, written)
        return pc.coalesce(result, held, written) if result.null_count else result

    return fold


def _joined_with(separator: str) -> VectorFold:
    return lambda held, written: pc.binary_join_element_wise(held, written, separator)


def _column_extreme(kind: AggregateKind, arrow_type: pa.DataType) -> VectorFold:
    compare = pc.less if kind is AggregateKind.MAX else pc.greater
    is_float = pa.types.is_floating(arrow_type)

    def pick(held: pa.Array, written: pa.Array) -> pa.Array:
        left, right = (
            (_column_java_order(held), _column_java_order(written)) if is_float else (held, written)
        )
        return pc.if_else(compare(left, right), written, held)

    return _neutral(pick)


def _column_java_order(column: pa.Array) -> npt.NDArray[np.int64]:
    """Map floats to integers in the order of Java: -0.0 before 0.0, and NaN after everything."""
    floats = column.to_numpy(zero_copy_only=False).astype(np.float64)
    floats[np.isnan(floats)] = np.nan
    bits = floats.view(np.int64)
    return bits ^ ((bits >> 63) & np.iinfo(np.int64).max)


def _column_decimal_sum(function: AggregateFunction, arrow_type: pa.DataType) -> VectorFold:
    add = _neutral(lambda held, written: pc.add(held, written).cast(arrow_type))
    exact = _one_by_one(function, arrow_type)

    def fold(held: pa.Array, written: pa.Array) -> pa.Array:
        try:
            return add(held, written)
        except pa.ArrowInvalid:
            # A sum is too long; what becomes of it is said in one place only.
            return exact(held, written)

    return fold


def _one_by_one(function: AggregateFunction, arrow_type: pa.DataType) -> VectorFold:
    """Apply the form for single values where Arrow has no kernel that is exact."""
    scalar = scalar_form(function, arrow_type)

    def fold(held: pa.Array, written: pa.Array) -> pa.Array:
        pairs = zip(held.to_pylist(), written.to_pylist(), strict=True)
        merged = [
            (right if left is None else left)
            if left is None or right is None
            else scalar(left, right)
            for left, right in pairs
        ]
        return pa.array(merged, type=arrow_type)

    return fold


# The fold of one column, record by record for each key but for many keys at a time.
#
# Round r takes the r-th record of every key that has so many. Once few keys are left, their records
# are folded value by value, so that a hot key does not cost one vector operation for each record.

# Below so many keys a round costs more as vectors than value by value.
ROUND_KEYS_MIN: Final = 64
# Each record of a key shows the whole value, so a long text on a hot key grows quadratically.
COLUMN_BYTES_MAX: Final = 128 << 20


@dataclass(frozen=True, slots=True)
class Rounds:
    """Hold which turns each round takes; keys with more turns come first.

    `steps` are the rounds done as vectors, `tail` the turns left of each key after them, and
    `places` brings the results back into the order of turns.
    """

    keys: npt.NDArray[np.int64]
    steps: tuple[npt.NDArray[np.int64], ...]
    tail: tuple[range, ...]
    places: npt.NDArray[np.int64] | None
    is_delete: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, turns: Turns) -> Self:
        """Arrange turns in rounds."""
        starts = np.flatnonzero(turns.is_first)
        lengths = np.diff(starts, append=len(turns.keys))
        longest_first = np.argsort(-lengths, kind="stable")
        starts, lengths = starts[longest_first], lengths[longest_first]
        steps: list[npt.NDArray[np.int64]] = []
        count = len(starts)
        while count and count >= ROUND_KEYS_MIN:
            steps.append(starts[:count] + len(steps))
            count = int(np.searchsorted(-lengths, -len(steps), side="left"))
        tail = tuple(
            range(int(start) + len(steps), int(start) + int(length))
            for start, length in zip(starts[:count], lengths[:count], strict=True)
        )
        return cls(turns.keys[starts], tuple(steps), tail, _places(steps, tail), turns.is_delete)

    def fold(self, function: AggregateFunction, *, held: pa.Array, written: pa.Array) -> pa.Array:
        """Return the value after each turn, given those held by key and those written by turn."""
        shown, stored = written.type, _stored_type(written.type)
        held, written = held.view(stored).take(pa.array(self.keys)), written.view(stored)
        folded = self._by_vector(vector_form(function, stored), held=held, written=written)
        if self.tail:
            last = folded[-1] if folded else held
            scalar = scalar_form(function, stored)
            with np.errstate(over="ignore"):  # a float that is too large is infinite, as in Java
                folded.append(self._by_value(scalar, last=last, written=written))
        joined = pa.concat_arrays(folded) if len(folded) > 1 else folded[0]
        return _taken(joined, self.places).view(shown)

    def _by_vector(self, fold: VectorFold, *, held: pa.Array, written: pa.Array) -> list[pa.Array]:
        folded: list[pa.Array] = []
        is_single = not self.tail and len(self.steps) == 1 and self.places is None
        has_deletes, size = bool(self.is_delete.any()), 0
        for step in self.steps:
            last = folded[-1].slice(0, len(step)) if folded else held
            result = fold(last, _taken(written, None if is_single else step))
            if has_deletes:
                gone = pa.array(self.is_delete[step])
                result = pc.if_else(gone, pa.scalar(None, result.type), result)
            folded.append(result)
            size += result.nbytes
            _check_size(size)
        return folded

    def _by_value(self, fold: Fold, *, last: pa.Array, written: pa.Array) -> pa.Array:
        values: list[Value | None] = []
        size, first = 0, last.slice(0, len(self.tail)).to_pylist()
        for value, turns in zip(first, self.tail, strict=True):
            news = written.slice(turns.start, len(turns)).to_pylist()
            gone = self.is_delete[turns.start : turns.stop].tolist()
            for after in _accumulated(fold, value, zip(news, gone, strict=True)):
                values.append(after)
                if isinstance(after, str | bytes):
                    size += len(after)
                    _check_size(size)
        return pa.array(values, type=written.type)


def _accumulated(
    fold: Fold, value: Value | None, turns: Iterable[tuple[Value | None, bool]]
) -> Iterator[Value | None]:
    """Yield the value after each turn; what a delete writes is missing, like its row."""
    for new, is_gone in turns:
        if is_gone or value is None:
            value = new
        elif new is not None:
            value = fold(value, new)
        yield value


def _check_size(byte_count: int) -> None:
    if byte_count > COLUMN_BYTES_MAX:
        raise RecordTooLargeError(
            f"The merged values take over {COLUMN_BYTES_MAX} bytes.",
            hint="Each record of a key shows the whole value; write smaller batches.",
        )


def _stored_type(shown: pa.DataType) -> pa.DataType:
    """Return the type to compute in: a point in time is a number."""
    if not pa.types.is_temporal(shown):
        return shown
    return pa.int64() if shown.bit_width == 64 else pa.int32()  # noqa: PLR2004


def _taken(column: pa.Array, rows: npt.NDArray[np.int64] | None) -> pa.Array:
    return column if rows is None else column.take(pa.array(rows))


def _places(
    steps: list[npt.NDArray[np.int64]], tail: tuple[range, ...]
) -> npt.NDArray[np.int64] | None:
    taken = np.concatenate([*steps, *(np.array(turns, dtype=np.int64) for turns in tail)])
    places = np.empty_like(taken)
    places[taken] = np.arange(len(taken))
    return None if np.array_equal(places, np.arange(len(taken))) else places
