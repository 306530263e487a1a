"""Which keys begin with a prefix: hashes of prefixes beside the hashes of their keys.

A key never changes its prefix, so only new keys are noted here. A key that was removed stays
until the next rebuild; whoever reads a candidate sees that it is gone.
"""

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]

TAIL_COUNT_MAX = 4096
_Parts = tuple[Hashes, Hashes, list[tuple[Hashes, Hashes]]]


class PrefixIndex:
    """Map the hash of a prefix to the hashes of keys: a sorted part and an unsorted tail."""

    def __init__(self, prefixes: Hashes | None = None, keys: Hashes | None = None) -> None:
        nothing = np.empty(0, np.uint64)
        # Put in place together, since they are merged in a thread while others read.
        self._parts: _Parts = (nothing, nothing, [])
        self._tail_count = 0
        if prefixes is not None and keys is not None:
            self.add(prefixes, keys)
            self._merge()

    @property
    def size_bytes(self) -> int:
        """Return the memory that the index takes."""
        return 2 * 8 * (len(self._parts[0]) + self._tail_count)

    def add(self, prefixes: Hashes, keys: Hashes) -> None:
        """Note keys that were not there."""
        _, merged, tail = self._parts
        tail.append((prefixes, keys))
        self._tail_count += len(keys)
        if self._tail_count > max(TAIL_COUNT_MAX, len(merged) // 8):
            self._merge()

    def candidates(self, prefix: int) -> Hashes:
        """Return the distinct hashes of keys that may begin with a prefix."""
        hashed = np.uint64(prefix)
        merged, merged_keys, tail = self._parts
        start = int(np.searchsorted(merged, hashed))
        end = int(np.searchsorted(merged, hashed, side="right"))
        found = [merged_keys[start:end]]
        found += [keys[prefixes == hashed] for prefixes, keys in tail]
        return np.unique(np.concatenate(found))

    def arrays(self) -> tuple[Hashes, Hashes]:
        """Return the hashes of prefixes and of their keys, as sorted arrays."""
        self._merge()
        prefixes, keys, _ = self._parts
        return prefixes, keys

    def _merge(self) -> None:
        merged, merged_keys, tail = self._parts
        prefixes = np.concatenate([merged, *(prefixes for prefixes, _ in tail)])
        keys = np.concatenate([merged_keys, *(keys for _, keys in tail)])
        order = np.lexsort((keys, prefixes))
        prefixes, keys = prefixes[order], keys[order]
        # A key that went and came back was noted twice.
        is_new = np.ones(len(keys), np.bool_)
        is_new[1:] = (prefixes[1:] != prefixes[:-1]) | (keys[1:] != keys[:-1])
        self._parts = (prefixes[is_new], keys[is_new], [])
        self._tail_count = 0
