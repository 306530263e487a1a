"""Rows that ascend by key, and runs of them that are taken up to a limit at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.client.union.merge.keys import Columns, TableKey, joined
from headwater.client.union.merge.masks import Mask
from headwater.client.union.merge.order import count_below, order_of

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
        """Return the highest key."""
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


class Run:
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
