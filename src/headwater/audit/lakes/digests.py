"""Digests of the rows of lake snapshots, of parts of a log, and of states at offsets."""

from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.audit.digest import NOTHING, Digest, RowHasher, digest_of
from headwater.audit.lakes.view import Group, Grouping, LakeView
from headwater.errors import CorruptFileError, HeadwaterError
from headwater.lake.spi import LakeSource
from headwater.lake.split import LakeSplit
from headwater.model import LakeBucket, OffsetRange, TableBucket
from headwater.read.filters import RowView
from headwater.read.log_ranges import LogRanges
from headwater.read.offsets import LogBatch, Place
from headwater.read.split import LogRange, StateAt
from headwater.read.state import RowKeys, StateReader
from headwater.rows.log_batch import ChangeType
from headwater.rows.row_bytes import Words
from headwater.runtime.tasks import aside

# Digests of the rows of lake snapshots; a file is read once, however many of them hold it.

_Key = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class GroupRows:
    """Hold what the rows of a group in one snapshot add up to."""

    digest: Digest = NOTHING
    fault: HeadwaterError | None = None
    """Why some of the rows could not be read."""


@dataclass(slots=True)
class LakeReading:
    """Read the rows of one lake table as digests."""

    source: LakeSource
    hasher: RowHasher
    is_keyed: bool
    _known: dict[_Key, GroupRows] = field(default_factory=dict)

    async def of(self, splits: Sequence[LakeSplit], grouping: Grouping) -> dict[Group, GroupRows]:
        """Return what the rows of a snapshot add up to, by group."""
        found: dict[Group, GroupRows] = {}
        for split in splits:
            group = grouping.of_split(split)
            for part in self.parts(split):
                rows = await self._part(part)
                held = found.get(group, GroupRows())
                found[group] = GroupRows(held.digest + rows.digest, held.fault or rows.fault)
        return found

    def parts(self, split: LakeSplit) -> Iterator[LakeSplit]:
        """Yield the smallest pieces of a split that can be read alone."""
        if self.is_keyed:
            yield split
            return
        for file in split.files:
            yield replace(split, files=(file,))

    def batches(self, part: LakeSplit) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a piece; what is wrong with its files is an error of ours."""
        try:
            yield from self.source.read(part)
        except (pa.ArrowException, OSError) as fault:
            names = ", ".join(file.path for file in part.files[:3])
            said = " ".join(str(fault).split())
            raise CorruptFileError(
                f"The lake file {names} cannot be read: {said}.",
                hint="Restore it from a copy, or tier the table again.",
            ) from fault

    async def _part(self, part: LakeSplit) -> GroupRows:
        key = tuple((file.path, file.deletes) for file in part.files)
        if key not in self._known:
            self._known[key] = await aside(self._read, part)
        return self._known[key]

    def _read(self, part: LakeSplit) -> GroupRows:
        digest = NOTHING
        try:
            for rows in self.batches(part):
                digest = digest + self.hasher.digest(rows)
        except HeadwaterError as fault:
            return GroupRows(digest, fault)
        return GroupRows(digest)


# Digests of parts of a log, and of the rows that its changes leave.

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

    def __init__(self, looked: LakeView, hasher: RowHasher) -> None:
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
        looked = self._looked
        place, named = self._places[bucket]
        reader = LogRanges(looked.cluster, RowView.of(looked.table))
        async with aclosing(reader.read([LogRange.of(place, named, wanted)])) as batches:
            async for batch in batches:
                yield HashedBatch(batch, await aside(self._hasher.hashes, batch.rows))

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


# What the rows of a bucket by key add up to at offsets of its log.


class StatesAt:
    """Tell the rows of buckets at offsets: by the log alone, or back from the rows of now."""

    def __init__(self, looked: LakeView, log: LogReading, hasher: RowHasher) -> None:
        self._looked = looked
        self._log = log
        self._hasher = hasher
        self._keys = RowKeys(looked.table)

    async def digests(self, bucket: LakeBucket, ends: Collection[int]) -> Mapping[int, Digest]:
        """Return what the rows add up to at each of some offsets that the log reaches back to.

        Every change of a key takes its row away and puts another in its place, so that rows add
        up to what came less what went. That needs a log which tells what rows were before.
        """
        if not ends:
            return {}
        log = self._looked.logs[bucket]
        if log.start == 0:
            parts = await self._log.parts(bucket, sorted({0, *ends}))
            return {
                end: parts.between(0, end) + parts.halves.get(end, NOTHING) for end in set(ends)
            }
        # One offset earlier, to see an update whose halves lie before and behind an end.
        first = max(log.start, min(ends) - 1)
        parts = await self._log.parts(bucket, sorted({first, *ends, log.end}))
        now = NOTHING
        async for rows in self.rows(bucket, log.end):
            now = now + await aside(self._hasher.digest, rows)
        return {
            end: now - parts.between(end, log.end) + parts.halves.get(end, NOTHING)
            for end in set(ends)
        }

    async def rows(self, bucket: LakeBucket, at: int) -> AsyncIterator[pa.RecordBatch]:
        """Yield the rows of a bucket at an offset, or say that they are no longer known."""
        place, named = self._log.place_of(bucket)
        reader = StateReader(
            self._looked.cluster,
            RowView.of(self._looked.table),
            StateAt.of(place, named, at),
            keeps_unknown=True,
            refuses_unknown=True,
        )
        async for rows in reader:
            if rows.num_rows:
                yield rows

    def without(self, rows: pa.RecordBatch, keys: pa.BinaryArray) -> pa.RecordBatch:
        """Return the rows that have none of some keys."""
        return rows.filter(pc.invert(pc.is_in(self._keys.of(rows), value_set=keys)))

    async def changed(self, bucket: LakeBucket, since: int) -> pa.BinaryArray:
        """Return the keys of all rows that changed since an offset."""
        wanted = OffsetRange(since, self._looked.logs[bucket].end)
        found = [
            self._keys.of(each.batch.rows).unique()
            async for each in self._log.hashed(bucket, wanted)
        ]
        return pa.concat_arrays([pa.array([], pa.binary()), *found]).unique()
