"""Which records of a batch belong to the same key."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headwater.kv.hashing import equal_keys
from headwater.rows.row_bytes import RowBytes

Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class KeyGroups:
    """Hold the distinct keys of a batch, and which of them each record has."""

    keys: RowBytes
    hashes: Hashes
    key_of: npt.NDArray[np.int64]
    # The first record of each key.
    first: npt.NDArray[np.int64]
    # Whether two of the keys have the same hash.
    share_hashes: bool = False


def group_keys(keys: RowBytes, hashes: Hashes) -> KeyGroups:
    """Number the distinct keys, in the order of records where none occurs twice."""
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    starts = np.ones(len(keys), np.bool_)
    starts[1:] = ordered[1:] != ordered[:-1]
    if starts.all():
        # In the order of records the rows are read and written from start to end.
        numbers = np.arange(len(keys))
        return KeyGroups(keys, hashes, numbers, numbers)
    first = order[starts]
    key_of = np.empty(len(keys), np.int64)
    key_of[order] = np.cumsum(starts) - 1
    if not equal_keys(keys, keys.take(first[key_of])).all():
        return _group_one_by_one(keys, hashes)
    return KeyGroups(keys.take(first), ordered[starts], key_of, first)


def _group_one_by_one(keys: RowBytes, hashes: Hashes) -> KeyGroups:
    """Group where two keys of one batch share a hash."""
    numbers: dict[bytes, int] = {}
    firsts: list[int] = []
    key_of = np.empty(len(keys), np.int64)
    for row, key in enumerate(keys.to_list()):
        if key not in numbers:
            numbers[key] = len(firsts)
            firsts.append(row)
        key_of[row] = numbers[key]
    first = np.array(firsts, np.int64)
    return KeyGroups(keys.take(first), hashes[first], key_of, first, share_hashes=True)
