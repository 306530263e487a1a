"""Fold the changes of one bucket's log: of each key, the last one stays, for a reader to merge.

What is left has two forms, `FoldedInMemory` and `FoldedInFiles`. Both have the same methods, and
neither changes when its fold goes on:

- `key_count`, `byte_count`, `is_spilled`: the changed keys, what they take, whether in files.
- `live(columns)`: the rows that are there after the changes, in no order.
- `without_changed(rows)`: the rows of a lake whose key was not changed; in their order in memory.
- `changed_keys()`: the primary key of every changed row that the lake can hold, each once, all in
  memory at once. A key that the changes themselves inserted first is not in the lake.
- `may_touch(file)`: whether such a row may be in a file of the lake; True if not known.
- `parts()`: the changes themselves, no key twice, as many at a time as memory should hold.

Live rows and rows that were not changed, together, are the rows of the table.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from headwater.lake.split import LakeFile
from headwater.model.table import TableInfo
from headwater.read.merge.bounds import KeyExtent, KeyRanges
from headwater.read.merge.keys import (
    Columns,
    Find,
    Mask,
    Sieve,
    TableKey,
    Words,
    as_filter,
    finder,
    hashes_of,
    joined,
)
from headwater.read.merge.parts import (
    PARTITION_COUNT,
    Part,
    SpillFiles,
    SpillPlace,
    SpillRun,
    by_partition,
    latest,
    part_of,
    part_of_none,
    part_read,
    part_written,
    partitions_of,
    together,
)
from headwater.read.offsets import LogBatch

# The last change of each key where memory holds them all.


@dataclass(frozen=True, eq=False)
class FoldedInMemory:
    """Hold the last change of each key in memory."""

    table: TableInfo
    key: TableKey
    schema: pa.Schema
    held: tuple[Part, ...]
    """No two of them have a key in common."""
    is_spilled: bool = False

    @cached_property
    def key_count(self) -> int:
        """Keys that the log changed, each counted once."""
        return sum(map(len, self.held))

    @cached_property
    def byte_count(self) -> int:
        """Memory that the changes take."""
        return sum(part.byte_count for part in self.held)

    def changed_keys(self) -> pa.Table:
        """Return the primary key of every changed row that the lake can hold, each once."""
        names = list(self.key.names)
        batches = [part.rows.select(names) for part in self._in_lake]
        return pa.Table.from_batches(batches, self._schema_of(names))

    def live(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are there after the changes, in no order."""
        for part in self.held:
            wanted = part if columns is None else part.narrowed(columns)
            yield from wanted.live_batches()

    def without_changed(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows of a lake whose key was not changed, in their order."""
        if not self._in_lake:
            yield from rows
            return
        for batch in rows:
            is_changed = self._find(self.key.columns(batch))
            if not is_changed.any():
                yield batch
            elif not is_changed.all():
                yield batch.filter(as_filter(~is_changed))

    def may_touch(self, file: LakeFile) -> bool:
        """Tell whether a changed row may be in a file; True if that is not known."""
        return bool(self._in_lake) and self._ranges.may_meet(file)

    def parts(self) -> Iterator[Part]:
        """Yield the changes."""
        return iter(self.held)

    @cached_property
    def _in_lake(self) -> tuple[Part, ...]:
        """Return the changes of keys that the lake can hold."""
        return tuple(found for part in self.held if len(found := part.in_lake()))

    @cached_property
    def _find(self) -> Find:
        return finder(joined([part.keys for part in self._in_lake]))

    @cached_property
    def _ranges(self) -> KeyRanges:
        return KeyRanges.of(self.table, self.changed_keys())

    def _schema_of(self, names: Sequence[str]) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in names])


# Rows that cannot be told to be unchanged yet, which are put into files by partition.


class HeldBack:
    """Gather rows and put them into files by partition."""

    def __init__(self, files: SpillFiles, bytes_max: int) -> None:
        self._files, self._bytes_max = files, bytes_max
        self._rows: list[pa.RecordBatch] = []
        self._hashes: list[Words] = []
        self._bytes = 0
        self._runs: list[SpillRun] = []

    def add(self, rows: pa.RecordBatch, hashes: Words) -> None:
        """Take rows with the hashes of their keys."""
        if not rows.num_rows:
            return
        self._rows.append(rows)
        self._hashes.append(hashes)
        self._bytes += rows.nbytes
        if self._bytes > self._bytes_max:
            self._write()

    def done(self) -> Sequence[SpillRun]:
        """Return where the rows are."""
        if self._rows:
            self._write()
        return self._runs

    def _write(self) -> None:
        rows = pa.concat_batches(self._rows)
        partitions = partitions_of(np.concatenate(self._hashes))
        self._rows, self._hashes, self._bytes = [], [], 0
        self._runs.append(self._files.write(rows.schema, by_partition(rows, partitions)))


# The last change of each key where the changes are in files, since they are too many.

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
        """Bytes of the files of all runs."""
        return sum(sum(run.byte_counts) for run in self.runs)

    def changed_keys(self) -> pa.Table:
        """Return the primary key of every changed row that the lake can hold, each once."""
        names = list(self.key.names)
        schema = pa.schema([self.schema.field(name) for name in names])
        batches = [part.in_lake().rows.select(names) for part in self.parts()]
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
            keys = part.in_lake().rows.select(names)
            if not keys.num_rows:
                continue
            extent = extent.with_keys(keys)
            size += keys.nbytes
            if size > self.memory_bytes_max // SHARE:
                kept = None
            if kept is not None:
                kept.append(keys)
        return KeyRanges.of(self.table, pa.Table.from_batches(kept)) if kept else extent

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


Folded: TypeAlias = FoldedInMemory | FoldedInFiles


# Folding the changes of one bucket's log: of each key, the last one stays.

# So many changes are folded together, as that takes little more time than for a few.
ROWS_TOGETHER = 262_144
# Arrow cannot put more than 2 GiB of texts together.
_TOGETHER_BYTES_MAX = 512 * 1024 * 1024
_GROWTH = 2
# Folding takes three times what waits, and twice what was folded before.
_WAITING_SHARE, _FOLDED_SHARE = 8, 3


class TailFold:
    """Take the changes of a bucket's log in their order, and keep the last one of each key.

    Their rows hold the whole primary key. Where the changes are more than the limit allows, they
    are moved to files in the place that is given, or where the system keeps temporary files.
    With `tells_new`, the lake holds exactly the rows before the first change, and the log tells
    inserts from updates: keys that were inserted first are not looked for in the lake.
    """

    def __init__(
        self,
        table: TableInfo,
        schema: pa.Schema,
        *,
        memory_bytes_max: int,
        tells_new: bool = False,
        spill: SpillPlace | None = None,
    ) -> None:
        self._tells_new = tells_new
        self._table, self._schema = table, schema
        self._key = TableKey.of(table)
        self._memory_bytes_max = memory_bytes_max
        self._waiting_bytes_max = min(memory_bytes_max // _WAITING_SHARE, _TOGETHER_BYTES_MAX)
        self._place = spill
        self._waiting: list[LogBatch] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._parts: list[Part] = []
        self._files: SpillFiles | None = None
        self._runs: list[SpillRun] = []

    def add(self, batch: LogBatch) -> None:
        """Take the changes of a batch, which come after those of all batches before it."""
        assert batch.changes is not None
        if not batch.rows.num_rows:
            return
        self._waiting.append(batch)
        self._waiting_rows += batch.rows.num_rows
        self._waiting_bytes += batch.rows.nbytes
        is_many = self._waiting_rows >= max(ROWS_TOGETHER, sum(map(len, self._parts)))
        if is_many or self._waiting_bytes > self._waiting_bytes_max:
            self._settle()

    def folded(self) -> Folded:
        """Return what the changes that came so far leave; the fold can go on."""
        self._settle()
        if not self._runs:
            held = tuple(self._parts)
            return FoldedInMemory(self._table, self._key, self._schema, held)
        self._spill()
        return FoldedInFiles(
            self._table,
            self._key,
            self._schema,
            tuple(self._runs),
            self._place,
            self._memory_bytes_max,
        )

    def _settle(self) -> None:
        """Fold what waits, and leave its keys out of what was folded before."""
        if not self._waiting:
            return
        rows = [batch.rows for batch in self._waiting]
        changes = [batch.changes for batch in self._waiting if batch.changes is not None]
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
        later = part_of(self._key, rows, np.concatenate(changes), tells_new=self._tells_new)
        if not len(later):
            return
        kept: list[Part] = []
        for part in self._parts:
            left, replaced = part.divided(later)
            later = later.after(replaced)
            if len(left):
                kept.append(left)
        self._parts = _fewer([*kept, later])
        if sum(part.byte_count for part in self._parts) > self._memory_bytes_max // _FOLDED_SHARE:
            self._spill()

    def _spill(self) -> None:
        """Move what is folded to files."""
        if self._files is None:
            self._files = SpillFiles(self._place)
        for part in self._parts:
            self._runs.append(part_written(self._files, part))
        self._parts = []


def _fewer(parts: list[Part]) -> list[Part]:
    """Put parts together until each is larger than all after it, by far, or very large."""
    while len(parts) > 1 and len(parts[-2]) < _GROWTH * len(parts[-1]):
        if parts[-2].byte_count + parts[-1].byte_count > _TOGETHER_BYTES_MAX:
            break
        parts = [*parts[:-2], together(parts[-2:])]
    return parts
