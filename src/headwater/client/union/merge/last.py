"""Where each key comes last."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.client.union.merge.changed_keys import Numbers
from headwater.client.union.merge.keys import Columns, hashes_of, numbers_of
from headwater.lake.folding import last_of_each


def last_places(keys: Columns) -> Numbers:
    """Return the place at which each key comes last, ascending.

    Hashes are sorted with their places in one word each, which is several times quicker than a
    hash table. Where two keys are alike in all bits that are left for hashes, it takes that one.
    """
    count = len(keys[0])
    if numbers_of(keys) is not None or not count:
        return last_of_each(keys)
    bits = np.uint64(count.bit_length())
    words = hashes_of(keys) >> bits << bits
    words |= np.arange(count, dtype=np.uint64)
    words.sort()
    places: Numbers = (words & np.uint64((1 << int(bits)) - 1)).view(np.int64)
    words >>= bits
    comes_again = words[1:] == words[:-1]
    if not _are_equal(keys, places[:-1][comes_again], places[1:][comes_again]):
        return last_of_each(keys)
    last = places[np.append(~comes_again, [True])]
    last.sort()
    return last


def _are_equal(keys: Columns, places: Numbers, others: Numbers) -> bool:
    """Tell whether all keys are the same as those in other places."""
    these, those = pa.array(places), pa.array(others)
    return all(
        pc.all(pc.equal(column.take(these), column.take(those)), min_count=0).as_py()
        for column in keys
    )
