"""The order of keys, and rows that ascend by key, taken up to a limit at a time.

It is the order in which lakes keep rows: texts by their bytes, NaN last. Of 0.0 and -0.0, which
are different keys, neither comes before the other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from headwater.read.merge.keys import Columns, Mask, Numbers, TableKey, comparable, joined
from headwater.rows.compute import pc

# The order of keys: columns of whole numbers, bytes or decimals that ascend as keys do.
#
# It is the order in which lakes keep rows: texts by their bytes, NaN last. Of 0.0 and -0.0, which
# are different keys, neither comes before the other.

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


# Rows that ascend by key, and runs of them that are taken up to a limit at a time.

Limit = Sequence[pa.Scalar]
"""A key, as keys are ordered by."""


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """Hold rows that ascend by key."""

    rows: pa.RecordBatch
    is_deleted: Mask
    order: Columns
    """The columns of the keys, as they are ordered by."""

    @classmethod
    def of(cls, key: TableKey, rows: pa.RecordBatch, is_deleted: Mask | None = None) -> "Stretch":
        """Hold rows, none of which is deleted unless that is said."""
        if is_deleted is None:
            is_deleted = np.zeros(rows.num_rows, np.bool_)
        return cls(rows, is_deleted, order_of(key, rows))

    def __len__(self) -> int:
        return len(self.is_deleted)

    @property
    def last(self) -> Limit:
        """The highest key, which is in the last row."""
        return [column[len(column) - 1] for column in self.order]

    def is_up_to(self, limit: Limit) -> bool:
        """Tell whether the highest key is not above a limit."""
        last = [column.slice(len(column) - 1) for column in self.order]
        return count_below(last, limit, with_equal=True) == 1

    def cut(self, at: int) -> tuple["Stretch", "Stretch"]:
        """Divide the rows at a place."""
        return self._between(0, at), self._between(at, len(self))

    def _between(self, start: int, end: int) -> "Stretch":
        order = tuple(column.slice(start, end - start) for column in self.order)
        return Stretch(self.rows.slice(start, end - start), self.is_deleted[start:end], order)


def one_after_the_other(stretches: Sequence[Stretch]) -> Stretch:
    """Put rows together, which ascend only if the stretches do."""
    if len(stretches) == 1:
        return stretches[0]
    return Stretch(
        pa.concat_batches([each.rows for each in stretches]),
        np.concatenate([each.is_deleted for each in stretches]),
        joined([each.order for each in stretches]),
    )


class StretchRun:
    """Give rows that ascend by key up to a limit at a time, and look one stretch ahead."""

    def __init__(self, stretches: Iterator[Stretch]) -> None:
        self._coming = (each for each in stretches if len(each))
        self.head = next(self._coming, None)
        self._following = None if self.head is None else next(self._coming, None)

    @property
    def limit(self) -> Limit | None:
        """Return a key below which nothing comes any more but what is here; None at the end."""
        return None if self.head is None or self._following is None else self.head.last

    def take(self, limit: Limit | None, *, with_equal: bool) -> Stretch | None:
        """Give away what comes before a limit, or all that is here without one."""
        if self.head is None:
            return None
        count = len(self.head)
        if limit is not None:
            count = count_below(self.head.order, limit, with_equal=with_equal)
        taken, self.head = self.head.cut(count)
        return taken if count else None

    def go_on(self, limit: Limit | None) -> None:
        """Bring the next rows, if none that is here is above the limit."""
        head, following = self.head, self._following
        if head is None or limit is None or following is None:
            self.head = head if head is not None and len(head) else None
            return
        if not len(head) or head.is_up_to(limit):
            self.head = one_after_the_other([head, following] if len(head) else [following])
            self._following = next(self._coming, None)
