"""The last change of each key where the changes are in files, since they are too many."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from headwater.client.union.merge.bounds import KeyExtent, KeyRanges
from headwater.client.union.merge.changed_keys import Sieve
from headwater.client.union.merge.held_back import HeldBack
from headwater.client.union.merge.keys import Columns, TableKey, hashes_of
from headwater.client.union.merge.masks import Mask, as_filter
from headwater.client.union.merge.part import Part, latest, part_of_none
from headwater.client.union.merge.part_files import part_read
from headwater.client.union.merge.spill import PARTITION_COUNT, SpillFiles, SpillPlace, SpillRun
from headwater.lake.split import LakeFile
from headwater.model.table import TableInfo

_HALF = np.uint64(32)
# What is in memory at once is a few copies of rows; each may take such a share of the limit.
SHARE = 4


@dataclass(frozen=True, eq=False)
class FoldedInFiles:
    """Hold changes in files by the hash of their keys, and fold one partition at a time."""

    table: TableInfo
    key: TableKey
    schema: pa.Schema
    runs: tuple[SpillRun, ...]
    """Changes by partition, older ones first; no key is in a run twice."""
    place: SpillPlace | None
    memory_bytes_max: int
    is_spilled: bool = True

    @cached_property
    def key_count(self) -> int:
        """Return how many keys were changed, after reading all of them once."""
        return sum(map(len, self.parts()))

    @property
    def byte_count(self) -> int:
        """Return the bytes of the files."""
        return sum(sum(run.byte_counts) for run in self.runs)

    def changed_keys(self) -> pa.Table:
        """Return the primary key of every changed row, each once; all of them are in memory."""
        names = list(self.key.names)
        schema = pa.schema([self.schema.field(name) for name in names])
        batches = [part.rows.select(names) for part in self.parts()]
        return pa.Table.from_batches(batches, schema)

    def live(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are there after the changes, in no order."""
        for part in self.parts():
            wanted = part if columns is None else part.narrowed(columns)
            yield from wanted.live_batches()

    def without_changed(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows of a lake whose key was not changed, in no order.

        Most rows that were not changed pass at once, by a few bits of their hash. The others are
        put into files by partition, and compared with the changes of one partition at a time.
        """
        with SpillFiles(self.place) as files:
            held = HeldBack(files, self.memory_bytes_max // SHARE)
            for batch in rows:
                hashes = hashes_of(self.key.columns(batch))
                may_be_changed = self._sieve.passes(hashes)
                held.add(batch.filter(as_filter(may_be_changed)), hashes[may_be_changed])
                if not may_be_changed.all():
                    yield batch.filter(as_filter(~may_be_changed))
            yield from self._unchanged(held.done())

    def may_touch(self, file: LakeFile) -> bool:
        """Tell whether a changed row may be in a file; True if that is not known."""
        return self._ranges.may_meet(file)

    def parts(self) -> Iterator[Part]:
        """Yield the last changes of all keys, as many at a time as memory should hold."""
        for partition in range(PARTITION_COUNT):
            for number in range(self._passes(partition)):
                part = self._part(partition, number)
                if len(part):
                    yield part

    @cached_property
    def _sieve(self) -> Sieve:
        hashes = (
            hashes_of(self.key.columns(rows))
            for run in self.runs
            for partition in range(PARTITION_COUNT)
            for rows in run.read(partition)
        )
        count = sum(run.row_count for run in self.runs)
        return Sieve.over(hashes, count, bytes_max=self.memory_bytes_max // SHARE)

    @cached_property
    def _ranges(self) -> KeyRanges | KeyExtent:
        """Return the keys to compare with bounds, or how far they reach if they are too many."""
        names = list(self.key.distinct)
        kept: list[pa.RecordBatch] | None = []
        size = 0
        extent = KeyExtent.of(self.table)
        for part in self.parts():
            keys = part.rows.select(names)
            extent = extent.with_keys(keys)
            size += keys.nbytes
            if size > self.memory_bytes_max // SHARE:
                kept = None
            if kept is not None:
                kept.append(keys)
        return extent if kept is None else KeyRanges.of(self.table, pa.Table.from_batches(kept))

    # ---- one partition

    def _passes(self, partition: int) -> int:
        """Return in how many passes a partition is read, so that memory holds each of them."""
        size = sum(run.byte_counts[partition] for run in self.runs)
        return -(-size // max(self.memory_bytes_max // SHARE, 1))

    def _part(self, partition: int, number: int) -> Part:
        passes = self._passes(partition)
        found = [
            part_read(self.key, rows).where(_in_pass(self.key.columns(rows), number, passes))
            for run in self.runs
            for rows in run.read(partition)
        ]
        return latest(found) if found else part_of_none(self.key, self.schema)

    def _unchanged(self, runs: Sequence[SpillRun]) -> Iterator[pa.RecordBatch]:
        """Yield those of rows by partition whose keys were not changed."""
        for partition in range(PARTITION_COUNT):
            if not any(run.byte_counts[partition] for run in runs):
                continue
            # Where nothing was changed, one pass finds that.
            passes = max(self._passes(partition), 1)
            for number in range(passes):
                part = self._part(partition, number)
                rows = (rows for run in runs for rows in run.read(partition))
                yield from self._left(rows, part, number, passes)

    def _left(
        self, batches: Iterator[pa.RecordBatch], part: Part, number: int, passes: int
    ) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            keys = self.key.columns(rows)
            is_left = _in_pass(keys, number, passes) & ~part.find(keys)
            if is_left.any():
                yield rows.filter(as_filter(is_left))


def _in_pass(keys: Columns, number: int, passes: int) -> Mask:
    """Tell which keys are looked at in a pass."""
    if passes == 1:
        return np.ones(len(keys[0]), np.bool_)
    # Other bits than those that tell the partition.
    halves = (hashes_of(keys) << _HALF) >> _HALF
    mask: Mask = halves % np.uint64(passes) == number
    return mask
