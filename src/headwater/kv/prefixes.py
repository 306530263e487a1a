"""Which keys begin with a prefix: hashes of prefixes beside the hashes of their keys.

A key never changes its prefix, so only new keys are noted here. A key that was removed stays
until the next rebuild; whoever reads a candidate sees that it is gone.
"""

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]

TAIL_COUNT_MAX = 4096


class PrefixIndex:
    """Map the hash of a prefix to the hashes of keys: a sorted part and an unsorted tail."""

    def __init__(self, prefixes: Hashes | None = None, keys: Hashes | None = None) -> None:
        nothing = np.empty(0, np.uint64)
        self._prefixes, self._keys = nothing, nothing
        self._tail: list[tuple[Hashes, Hashes]] = []
        self._tail_count = 0
        if prefixes is not None and keys is not None:
            self.add(prefixes, keys)
            self._merge()

    @property
    def size_bytes(self) -> int:
        """Return the memory that the index takes."""
        return 2 * 8 * (len(self._prefixes) + self._tail_count)

    def add(self, prefixes: Hashes, keys: Hashes) -> None:
        """Note keys that were not there."""
        self._tail.append((prefixes, keys))
        self._tail_count += len(keys)
        if self._tail_count > max(TAIL_COUNT_MAX, len(self._keys) // 8):
            self._merge()

    def candidates(self, prefix: int) -> Hashes:
        """Return the distinct hashes of keys that may begin with a prefix."""
        hashed = np.uint64(prefix)
        start = int(np.searchsorted(self._prefixes, hashed))
        end = int(np.searchsorted(self._prefixes, hashed, side="right"))
        found = [self._keys[start:end]]
        found += [keys[prefixes == hashed] for prefixes, keys in self._tail]
        return np.unique(np.concatenate(found))

    def arrays(self) -> tuple[Hashes, Hashes]:
        """Return the hashes of prefixes and of their keys, as sorted arrays."""
        self._merge()
        return self._prefixes, self._keys

    def _merge(self) -> None:
        prefixes = np.concatenate([self._prefixes, *(prefixes for prefixes, _ in self._tail)])
        keys = np.concatenate([self._keys, *(keys for _, keys in self._tail)])
        order = np.lexsort((keys, prefixes))
        prefixes, keys = prefixes[order], keys[order]
        # A key that went and came back was noted twice.
        is_new = np.ones(len(keys), np.bool_)
        is_new[1:] = (prefixes[1:] != prefixes[:-1]) | (keys[1:] != keys[:-1])
        self._prefixes, self._keys = prefixes[is_new], keys[is_new]
        self._tail, self._tail_count = [], 0
