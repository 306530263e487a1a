"""Digests of parts of a log, and of the rows that its changes leave."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headwater.audit.digest import NOTHING, Digest, RowHasher, digest_of
from headwater.audit.lakes.looked import Looked
from headwater.client.reading.draining import drained
from headwater.client.reading.fetcher import Fetcher
from headwater.client.reading.log_batch import LogBatch, Place
from headwater.client.reading.view import View
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange, TableBucket
from headwater.rows.log_batch import ChangeType
from headwater.rows.row_bytes import Words
from headwater.runtime.aside import aside

TAKEN = (ChangeType.UPDATE_BEFORE, ChangeType.DELETE)
"""Changes that tell of a row which is not there any more."""


@dataclass(frozen=True, slots=True, eq=False)
class HashedBatch:
    """Hold the hashes of rows of a log, with their offsets and changes."""

    batch: LogBatch
    hashes: Words

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Return the offset of each row."""
        return self.batch.offsets

    @property
    def taken(self) -> npt.NDArray[np.bool_]:
        """Tell of each row whether it went by its change."""
        changes = self.batch.changes
        return np.zeros(len(self.hashes), np.bool_) if changes is None else np.isin(changes, TAKEN)


class LogReading:
    """Read the logs of one table as hashes."""

    def __init__(self, looked: Looked, hasher: RowHasher) -> None:
        self._looked = looked
        self._hasher = hasher
        self._places: Mapping[LakeBucket, tuple[Place, TableBucket]] = {
            LakeBucket(bucket.partition_id, bucket.bucket): (place, bucket)
            for place, bucket in looked.buckets.items()
        }

    def place_of(self, bucket: LakeBucket) -> tuple[Place, TableBucket]:
        """Return how people and servers name a bucket."""
        return self._places[bucket]

    async def hashed(self, bucket: LakeBucket, wanted: OffsetRange) -> AsyncIterator[HashedBatch]:
        """Yield the rows of a part of a log; ends when all of its offsets were read."""
        if wanted.start >= wanted.end:
            return
        looked = self._looked
        fetcher = Fetcher(looked.cluster, View.of(looked.table))
        fetcher.follow(*self._places[bucket], offset=wanted.start, end=wanted.end)
        try:
            async for batch in drained(fetcher, looked.cluster, table=looked.table.path):
                yield HashedBatch(batch, await aside(self._hasher.hashes, batch.rows))
        finally:
            await fetcher.close()

    async def parts(self, bucket: LakeBucket, cuts: Sequence[int]) -> "LogParts":
        """Read a log once, and return what it adds up to between the cuts, which ascend."""
        sums = [NOTHING] * max(len(cuts) - 1, 0)
        halves: dict[int, Digest] = {}
        edges = np.asarray(cuts, np.int64)
        if len(cuts) > 1:
            async for each in self.hashed(bucket, OffsetRange(cuts[0], cuts[-1])):
                _add_up(each, edges, sums)
                halves |= _cut_updates(each, edges)
        return LogParts(tuple(cuts), tuple(sums), halves)


@dataclass(frozen=True, slots=True)
class LogParts:
    """Hold what a log adds up to between cuts: rows that came less rows that went."""

    cuts: tuple[int, ...]
    sums: tuple[Digest, ...]
    halves: Mapping[int, Digest]
    """The row before an update whose halves lie before and behind a cut: it is still there."""

    def between(self, start: int, end: int) -> Digest:
        """Return what the log adds up to between two of the cuts."""
        low, high = self.cuts.index(start), self.cuts.index(end)
        return sum(self.sums[low:high], NOTHING)


def _add_up(each: HashedBatch, edges: npt.NDArray[np.int64], sums: list[Digest]) -> None:
    parts = np.searchsorted(edges, each.offsets, side="right") - 1
    taken = each.taken
    for part in np.unique(parts).tolist():
        is_in = parts == part
        came, went = each.hashes[is_in & ~taken], each.hashes[is_in & taken]
        sums[part] = sums[part] + digest_of(came) - digest_of(went)


def _cut_updates(each: HashedBatch, edges: npt.NDArray[np.int64]) -> dict[int, Digest]:
    changes = each.batch.changes
    if changes is None:
        return {}
    is_last = np.isin(each.offsets + 1, edges) & (changes == ChangeType.UPDATE_BEFORE)
    return {
        int(each.offsets[at]) + 1: digest_of(each.hashes[at : at + 1])
        for at in np.flatnonzero(is_last).tolist()
    }
