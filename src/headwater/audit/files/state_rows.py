"""The rows that a snapshot of a state names, read from their segments and checked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.kv.hashing import hash_keys
from headwater.kv.heap import LEAD, LENGTH_BYTES, HeapView, Records
from headwater.kv.location import Locations, offset_of, segment_of
from headwater.kv.snapshot import Snapshot

CHUNK_ROWS = 65_536
Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class StateRows:
    """Read the rows of a snapshot; `ends` tells where the records of each segment end."""

    snapshot: Snapshot
    view: HeapView
    ends: Longs

    @classmethod
    def of(cls, snapshot: Snapshot, segments: Sequence[memoryview]) -> "StateRows":
        """Take a snapshot, with the bytes of the segments that it names, in its order."""
        numbers = [each.number for each in snapshot.segments]
        count = max(numbers, default=-1) + 1
        buffers, ends = [pa.py_buffer(b"")] * count, np.zeros(count, np.int64)
        for described, data in zip(snapshot.segments, segments, strict=True):
            buffers[described.number] = pa.py_buffer(data)
            ends[described.number] = described.end
        return cls(snapshot, HeapView(tuple(buffers)), ends)

    def fault(self) -> str:
        """Say what is wrong with where the rows are said to be, or nothing."""
        hashes, locations = self.snapshot.hashes, self.locations()
        if len(np.unique(hashes)) != len(hashes):
            return "two rows have the same hash"
        outside = np.flatnonzero(~self._is_inside(locations))
        if len(outside):
            return f"{len(outside)} rows lie outside of the segments"
        return ""

    def chunks(self) -> Iterator[tuple[Records, npt.NDArray[np.bool_]]]:
        """Yield all rows, and for each whether its key is the one that it is found by."""
        hashes, locations = self.snapshot.hashes, self.snapshot.locations
        for first in range(0, len(locations), CHUNK_ROWS):
            part = slice(first, first + CHUNK_ROWS)
            records = self.view.read(locations[part])
            yield records, hash_keys(records.keys, seed=self.snapshot.seed) == hashes[part]
        collided = self.snapshot.collided
        if collided:
            records = self.view.read(np.fromiter(collided.values(), np.int64, len(collided)))
            same = [key == kept for key, kept in zip(records.keys.to_list(), collided, strict=True)]
            yield records, np.array(same)

    def locations(self) -> Locations:
        """Return where all rows are, those that share a hash included."""
        collided = np.fromiter(self.snapshot.collided.values(), np.int64)
        return np.concatenate([self.snapshot.locations, collided])

    def _is_inside(self, locations: Locations) -> npt.NDArray[np.bool_]:
        """Tell which records lie inside of their segment; only then may they be read."""
        numbers, offsets = segment_of(locations), offset_of(locations)
        inside = (locations >= 0) & (numbers < len(self.ends))
        ends = np.where(inside, self.ends[np.where(inside, numbers, 0)] if len(self.ends) else 0, 0)
        inside &= (offsets >= LEAD) & (offsets + LENGTH_BYTES < ends)
        for first in range(0, len(locations), CHUNK_ROWS):
            part = np.flatnonzero(inside[first : first + CHUNK_ROWS]) + first
            lengths = self.view.lengths(locations[part])
            fits = (lengths > 0) & (offsets[part] + LENGTH_BYTES + lengths <= ends[part])
            inside[part] = fits
        return inside
