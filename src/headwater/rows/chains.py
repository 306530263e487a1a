"""Records that each tell where the next one begins, found together instead of one by one."""

import numpy as np

from headwater.rows.row_bytes import Longs

_SWEEPS_MAX = 8


def follow_chain(places: Longs, nexts: Longs, *, start: int, end: int) -> Longs | None:
    """Return which of these places the chain passes that leads from `start` to `end`.

    `places` are all positions, in order, that may begin a record, and `nexts` tells where that
    record would end, always further on. Bytes inside of a record that look like the start of
    one are swept out, as hardly ever does another point to them. Where looks deceive too often,
    or the chain is broken, the answer is None, and the records have to be walked.
    """
    kept = np.arange(len(places))
    for _ in range(_SWEEPS_MAX):
        if _is_whole(places[kept], nexts[kept], start=start, end=end):
            return kept
        is_target = np.zeros(end + 1, np.bool_)
        is_target[nexts[kept]] = True
        is_target[start] = True
        kept = kept[is_target[places[kept]]]
    return None


def _is_whole(places: Longs, nexts: Longs, *, start: int, end: int) -> bool:
    """Tell whether every place is a record that leads to the next."""
    if not len(places):
        return start == end
    return bool(places[0] == start and nexts[-1] == end and np.array_equal(places[1:], nexts[:-1]))
