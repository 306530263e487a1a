"""The order of keys: columns of whole numbers, bytes or decimals that ascend as keys do.

It is the order in which lakes keep rows: texts by their bytes, NaN last. Of 0.0 and -0.0, which
are different keys, neither comes before the other.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.client.union.merge.changed_keys import Numbers
from headwater.client.union.merge.keys import Columns, TableKey, comparable
from headwater.client.union.merge.masks import Mask

NAN = np.iinfo(np.int64).max
"""What stands for NaN among the numbers that stand for floats."""
_MAGNITUDE = np.int64(NAN)


def orderable(column: pa.Array) -> pa.Array:
    """Return a column that ascends as keys do."""
    if pa.types.is_decimal(column.type):
        return column
    if pa.types.is_floating(column.type):
        return pa.array(float_ranks(column.to_numpy()))
    return comparable(column)


def order_of(key: TableKey, rows: pa.RecordBatch) -> Columns:
    """Return the keys of rows as columns that ascend as they do."""
    return tuple(orderable(column) for column in key.values(rows))


def float_ranks(values: np.typing.NDArray[np.floating]) -> Numbers:
    """Return whole numbers in the order of floats."""
    doubles = values.astype(np.float64)
    bits = doubles.view(np.int64)
    # The bits of negative floats ascend as the floats go down.
    ranks: Numbers = np.where(bits >= 0, bits, bits ^ _MAGNITUDE)
    ranks[doubles == 0] = 0
    ranks[np.isnan(doubles)] = NAN
    return ranks


def ascending(columns: Sequence[pa.Array]) -> Numbers:
    """Return the places of keys in ascending order; equal ones stay as they are."""
    if len(columns) == 1 and pa.types.is_signed_integer(columns[0].type):
        # Where the numbers are a few runs that ascend already, this only merges them.
        return np.argsort(columns[0].to_numpy(), kind="stable")
    names = [f"k{index}" for index in range(len(columns))]
    order = pc.sort_indices(
        pa.table(list(columns), names=names), sort_keys=[(name, "ascending") for name in names]
    )
    places: Numbers = order.to_numpy().astype(np.int64)
    return places


def count_below(
    columns: Sequence[pa.Array], limit: Sequence[pa.Scalar], *, with_equal: bool
) -> int:
    """Return how many of ascending keys come before a limit, or are as high as it."""
    if len(columns) == 1 and pa.types.is_signed_integer(columns[0].type):
        side: Literal["left", "right"] = "right" if with_equal else "left"
        return int(np.searchsorted(columns[0].to_numpy(), limit[0].as_py(), side=side))
    is_below, is_equal = _compared(columns, limit)
    return int(np.count_nonzero(is_below | is_equal if with_equal else is_below))


def is_ascending(columns: Sequence[pa.Array]) -> bool:
    """Tell whether no key is below the one before it."""
    count = len(columns[0])
    is_below, is_equal = _compared(
        [column.slice(0, count - 1) for column in columns],
        [column.slice(1) for column in columns],
    )
    return bool((is_below | is_equal).all())


def _compared(
    columns: Sequence[pa.Array], others: Sequence[pa.Array | pa.Scalar]
) -> tuple[Mask, Mask]:
    """Tell of each key whether it is below another one, and whether neither is below."""
    is_below = np.zeros(len(columns[0]), np.bool_)
    is_equal = np.ones(len(columns[0]), np.bool_)
    for column, other in zip(columns, others, strict=True):
        is_below |= is_equal & pc.less(column, other).to_numpy(zero_copy_only=False)
        is_equal &= pc.equal(column, other).to_numpy(zero_copy_only=False)
    return is_below, is_equal
