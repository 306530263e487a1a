"""Which rows two heaps of rows do not have in common, told from the hashes of the rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headwater.rows.row_bytes import Words


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """Hold the hashes of rows that one heap has more often than the other."""

    missing: Words
    missing_count: int
    extra: Words
    extra_count: int


def difference(
    wanted: Sequence[Words], found: Sequence[Words], left: Sequence[Words] = ()
) -> Difference:
    """Compare the rows that should be there with those that are, less those that left again."""
    heaps = [_joined(wanted), _joined(found), _joined(left)]
    values, places = np.unique(np.concatenate(heaps), return_inverse=True)
    signs = np.repeat(np.array([-1, 1, -1], np.int64), [len(heap) for heap in heaps])
    # Weights are floats, which are exact up to 2^53.
    more = np.bincount(places.ravel(), weights=signs, minlength=len(values)).astype(np.int64)
    return Difference(
        missing=values[more < 0],
        missing_count=-int(more[more < 0].sum()),
        extra=values[more > 0],
        extra_count=int(more[more > 0].sum()),
    )


def _joined(parts: Sequence[Words]) -> Words:
    return np.concatenate([np.empty(0, np.uint64), *parts])
