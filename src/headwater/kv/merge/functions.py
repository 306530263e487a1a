"""The aggregate functions on two columns of equal length, where a missing value is neutral."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.kv.merge.scalar import scalar_form
from headwater.model.aggregate import AggregateFunction, AggregateKind
from headwater.model.types import DECIMAL_PRECISION_MAX

VectorFold = Callable[[pa.Array, pa.Array], pa.Array]


def vector_form(function: AggregateFunction, arrow_type: pa.DataType) -> VectorFold:
    """Return the function of the held and the written column."""
    match function.kind:
        case AggregateKind.MAX | AggregateKind.MIN:
            return _extreme_of(function.kind, arrow_type)
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
            return _decimal_sum(function, arrow_type)
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


def _extreme_of(kind: AggregateKind, arrow_type: pa.DataType) -> VectorFold:
    compare = pc.less if kind is AggregateKind.MAX else pc.greater
    is_float = pa.types.is_floating(arrow_type)

    def pick(held: pa.Array, written: pa.Array) -> pa.Array:
        left, right = (_java_order(held), _java_order(written)) if is_float else (held, written)
        return pc.if_else(compare(left, right), written, held)

    return _neutral(pick)


def _java_order(column: pa.Array) -> npt.NDArray[np.int64]:
    """Map floats to integers in the order of Java: -0.0 before 0.0, and NaN after everything."""
    floats = column.to_numpy(zero_copy_only=False).astype(np.float64)
    floats[np.isnan(floats)] = np.nan
    bits = floats.view(np.int64)
    return bits ^ ((bits >> 63) & np.iinfo(np.int64).max)


def _decimal_sum(function: AggregateFunction, arrow_type: pa.DataType) -> VectorFold:
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
