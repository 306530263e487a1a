"""The last change of every key, kept as fingerprints of keys and rows."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]
ROWS_WAITING_MIN = 1 << 20


def _nothing() -> Words:
    return np.empty(0, np.uint64)


@dataclass(slots=True)
class Fold:
    """Apply changes in their order; what is deleted is forgotten."""

    keys: Words = field(default_factory=_nothing)
    rows: Words = field(default_factory=_nothing)
    _waiting: list[tuple[Words, Words, Mask]] = field(default_factory=list)
    _waiting_count: int = 0

    def take(self, keys: Words, rows: Words, is_delete: Mask) -> None:
        """Apply changes; they wait until it is worth the while to sort them in."""
        self._waiting.append((keys, rows, is_delete))
        self._waiting_count += len(keys)
        if self._waiting_count > max(ROWS_WAITING_MIN, len(self.keys)):
            self._settle()

    def result(self) -> tuple[Words, Words]:
        """Return the keys that are left, in the order of their fingerprints, and their rows."""
        self._settle()
        return self.keys, self.rows

    def _settle(self) -> None:
        keys = np.concatenate([self.keys, *(each for each, _, _ in self._waiting)])
        rows = np.concatenate([self.rows, *(each for _, each, _ in self._waiting)])
        held = np.zeros(len(self.keys), np.bool_)
        is_delete = np.concatenate([held, *(each for _, _, each in self._waiting)])
        order = np.argsort(keys, kind="stable")
        is_last = np.ones(len(keys), np.bool_)
        is_last[:-1] = keys[order][1:] != keys[order][:-1]
        left = order[is_last]
        left = left[~is_delete[left]]
        self.keys, self.rows = keys[left], rows[left]
        self._waiting, self._waiting_count = [], 0


@dataclass(frozen=True, slots=True)
class Difference:
    """Count how two sets of rows differ."""

    missing: int
    extra: int
    other: int

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra or self.other)


def difference(expected: tuple[Words, Words], found: tuple[Words, Words]) -> Difference:
    """Compare rows that are sorted by their keys."""
    (keys, rows), (found_keys, found_rows) = expected, found
    common, at, found_at = np.intersect1d(keys, found_keys, return_indices=True)
    return Difference(
        missing=len(keys) - len(common),
        extra=len(found_keys) - len(common),
        other=int((rows[at] != found_rows[found_at]).sum()),
    )
