"""The order of keys: columns of whole numbers, bytes or decimals that ascend as keys do.

It is the order in which lakes keep rows: texts by their bytes, NaN last. Of 0.0 and -0.0, which
are different keys, neither comes before the other.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.client.union.merge.changed_keys import Numbers
from headwater.client.union.merge.keys import comparable

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
