"""The aggregate functions on two values of one column, neither of them missing."""

import math
import operator
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final

import numpy as np
import pyarrow as pa

from headwater.errors import ValueOverflowError
from headwater.kv.merge.bitmaps import union32, union64
from headwater.model.aggregate import AggregateFunction, AggregateKind

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
