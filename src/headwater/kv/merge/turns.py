"""The records of a batch grouped by key, so that each key's records follow each other."""

from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt

from headwater.kv.merge.writes import Writes

_T = TypeVar("_T", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Turns:
    """Hold the counted records key by key, in order within each key.

    A turn is a place in this grouping. `places` puts turns back into record order.
    """

    records: npt.NDArray[np.int64]
    keys: npt.NDArray[np.int64]
    is_delete: npt.NDArray[np.bool_]
    starts: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64] | None

    @classmethod
    def of(cls, writes: Writes, records: npt.NDArray[np.int64]) -> Self:
        """Group those records of a batch that count."""
        places, keys = None, writes.key_of
        if len(records) != writes.record_count:
            keys = keys[records]
        # Every key is written, so with as many records as keys none is written twice.
        if writes.record_count != writes.key_count:
            places = np.argsort(keys, kind="stable")
            records, keys = records[places], keys[places]
        is_delete = writes.is_delete[records]
        return cls(records, keys, is_delete, _starts(keys, is_distinct=places is None), places)

    @property
    def is_first(self) -> npt.NDArray[np.bool_]:
        """Tell which turns are the first of their key."""
        return self.starts == np.arange(len(self.starts))

    @property
    def is_plain(self) -> bool:
        """Tell whether every record counts, no key has two of them, and none is a delete."""
        if self.places is not None or self.is_delete.any():
            return False
        return np.array_equal(self.records, np.arange(len(self.records)))

    def latest(self, marks: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Return for each turn the last marked turn of its key up to it, or -1."""
        turns = np.arange(len(marks))
        found = np.maximum.accumulate(np.where(marks, turns, -1))
        return np.where(found >= self.starts, found, -1)

    def earlier(self, marks: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Return for each turn the last marked turn of its key before it, or -1."""
        if self.places is None:
            return np.full(len(marks), -1, dtype=np.int64)
        turns = np.arange(len(marks))
        found = np.full(len(marks), -1, dtype=np.int64)
        np.maximum.accumulate(np.where(marks, turns, -1)[:-1], out=found[1:])
        return np.where(found >= self.starts, found, -1)

    def in_record_order(self, by_turn: npt.NDArray[_T]) -> npt.NDArray[_T]:
        """Return what was found turn by turn in the order of the records."""
        if self.places is None:
            return by_turn
        by_record = np.empty_like(by_turn)
        by_record[self.places] = by_turn
        return by_record


def _starts(keys: npt.NDArray[np.int64], *, is_distinct: bool) -> npt.NDArray[np.int64]:
    turns = np.arange(len(keys))
    if is_distinct or not len(keys):
        return turns
    is_start = np.concatenate(([True], keys[1:] != keys[:-1]))
    return np.maximum.accumulate(np.where(is_start, turns, 0))
