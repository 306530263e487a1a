"""One change for each of some keys, in memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.client.union.merge.changed_keys import Find, finder
from headwater.client.union.merge.keys import Columns, TableKey, joined
from headwater.client.union.merge.last import last_places
from headwater.client.union.merge.masks import Mask, as_filter
from headwater.rows.log_batch import ChangeType

_BATCH_ROWS = 131_072


@dataclass(frozen=True, eq=False)
class Part:
    """Hold the last change of each of some keys; no key is in it twice."""

    rows: pa.RecordBatch
    is_deleted: Mask
    """Whether the last change of each key took its row away."""
    keys: Columns
    """The keys of the rows, in comparable form."""

    def __len__(self) -> int:
        return len(self.is_deleted)

    @cached_property
    def byte_count(self) -> int:
        """Return the bytes that the changes take in memory."""
        return self.rows.nbytes + self.is_deleted.nbytes

    @cached_property
    def find(self) -> Find:
        """Return what tells of rows whether their key is in this part."""
        return finder(self.keys)

    def where(self, mask: Mask) -> "Part":
        """Return the changes for which a mask holds."""
        if mask.all():
            return self
        wanted = as_filter(mask)
        keys = tuple(each.filter(wanted) for each in self.keys)
        return Part(self.rows.filter(wanted), self.is_deleted[mask], keys)

    def without(self, later: "Part") -> "Part":
        """Return the changes whose key is not in a later part."""
        return self.where(~later.find(self.keys))

    def narrowed(self, columns: Sequence[str]) -> "Part":
        """Return the changes with some of their columns."""
        return Part(self.rows.select(list(columns)), self.is_deleted, self.keys)

    def live_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are there after the changes, some at a time."""
        rows = self.live()
        for start in range(0, rows.num_rows, _BATCH_ROWS):
            yield rows.slice(start, _BATCH_ROWS)

    def live(self) -> pa.RecordBatch:
        """Return the rows that are there after the changes."""
        if not self.is_deleted.any():
            return self.rows
        return self.rows.filter(as_filter(~self.is_deleted))


def part_of(
    key: TableKey, batches: Sequence[pa.RecordBatch], changes: npt.NDArray[np.uint8]
) -> Part:
    """Keep the last change of each key.

    The row before an update is passed over: an update happens where the row after it stands. So
    where an offset lies between the two, the row is still the one that it was.
    """
    rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    keys = key.columns(rows)
    is_counted = changes != ChangeType.UPDATE_BEFORE
    counted = np.flatnonzero(is_counted)
    if len(counted) < len(changes):
        some = as_filter(is_counted)
        keys = tuple(each.filter(some) for each in keys)
    last = last_places(keys)
    is_last = np.zeros(len(changes), np.bool_)
    is_last[counted[last]] = True
    if is_last.all():
        return Part(rows, changes == ChangeType.DELETE, keys)
    wanted = pa.array(last)
    return Part(
        rows.filter(as_filter(is_last)),
        changes[is_last] == ChangeType.DELETE,
        tuple(each.take(wanted) for each in keys),
    )


def part_of_none(key: TableKey, schema: pa.Schema) -> Part:
    """Return a part without changes."""
    rows = pa.RecordBatch.from_pylist([], schema=schema)
    return Part(rows, np.zeros(0, np.bool_), key.columns(rows))


def latest(parts: Sequence[Part]) -> Part:
    """Make one of parts, of which later ones replace what earlier ones say of their keys."""
    found = together(parts)
    is_last = np.zeros(len(found), np.bool_)
    is_last[last_places(found.keys)] = True
    return found.where(is_last)


def together(parts: Sequence[Part]) -> Part:
    """Put parts one after the other, which have no key in common unless one is chosen later."""
    if len(parts) == 1:
        return parts[0]
    return Part(
        pa.concat_batches([part.rows for part in parts]),
        np.concatenate([part.is_deleted for part in parts]),
        joined([part.keys for part in parts]),
    )
