"""The rows of primary-key tables: all buckets now, or one bucket at an offset of its log.

Servers tell the rows as they are now. What happened since the wanted offset stands in the
changelog, with the row before each change, so that it can be taken back.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater import errors
from headwater.cluster.cluster import Cluster
from headwater.config.options import CHANGELOG_IMAGE, ChangelogImage
from headwater.model import OffsetRange, TableBucket, TableInfo
from headwater.read.filters import RowView, Where
from headwater.read.log_ranges import LogRanges
from headwater.read.offsets import Buckets, LogBatch, Offsets, Place, buckets_of, list_offsets
from headwater.read.prune import pruned
from headwater.read.sources import Rows, side_by_side, up_to
from headwater.read.split import LogRange, StateAt
from headwater.read.values import BucketScan, ValueReader
from headwater.rows.compacted.coders import KeyEncoder
from headwater.rows.compute import pc
from headwater.rows.log_batch import ChangeType
from headwater.rows.row_bytes import RowBytes

# The first or the last change of each key in a part of a changelog.

# So many changes are looked through together, as that takes little more time than for a few.
ROWS_TOGETHER = 65_536

Which = Literal["first", "last"]


class RowKeys:
    """Write the keys of rows as bytes, which tell rows of a bucket apart as servers do."""

    def __init__(self, table: TableInfo) -> None:
        self.names = table.descriptor.physical_primary_key
        self._encoder = KeyEncoder.of([table.schema.column(name).type for name in self.names])

    def of(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return the key of each row."""
        return self._encoder.encode([rows.column(name) for name in self.names]).to_arrow()


@dataclass(frozen=True, slots=True, eq=False)
class Changed:
    """Hold one change for each key."""

    keys: pa.BinaryArray
    changes: npt.NDArray[np.uint8]
    rows: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.keys)

    def where(self, mask: npt.NDArray[np.bool_]) -> "Changed":
        """Return the changes for which a mask holds."""
        wanted = pa.array(mask)
        return Changed(self.keys.filter(wanted), self.changes[mask], self.rows.filter(wanted))


class KeyChanges:
    """Take the changes of a log in their order, and keep the first or the last of each key.

    It holds about twice as many changes as there are keys, however many come.
    """

    def __init__(self, keys: RowKeys, schema: pa.Schema, *, which: Which) -> None:
        self._keys = keys
        self._which = which
        self._waiting: list[Changed] = []
        self._waiting_rows = 0
        self._kept = Changed(
            pa.array([], pa.binary()),
            np.empty(0, np.uint8),
            pa.RecordBatch.from_pylist([], schema=schema),
        )

    def add(self, batch: LogBatch) -> None:
        """Take the changes of a batch, which come after those of all batches before it."""
        assert batch.changes is not None
        self._waiting.append(Changed(self._keys.of(batch.rows), batch.changes, batch.rows))
        self._waiting_rows += len(batch.changes)
        if self._waiting_rows >= max(ROWS_TOGETHER, len(self._kept)):
            self._settle()

    def found(self) -> Changed:
        """Return the change that is kept of each key."""
        self._settle()
        return self._kept

    def _settle(self) -> None:
        if not self._waiting:
            return
        parts = [self._kept, *self._waiting]
        self._waiting, self._waiting_rows = [], 0
        keys = pa.concat_arrays([part.keys for part in parts])
        changes = np.concatenate([part.changes for part in parts])
        rows = pa.concat_batches([part.rows for part in parts])
        chosen = _one_of_each(keys, which=self._which)
        places = pa.array(chosen)
        self._kept = Changed(keys.take(places), changes[chosen], rows.take(places))


def _one_of_each(keys: pa.BinaryArray, *, which: Which) -> npt.NDArray[np.int64]:
    """Return the place at which each key comes first or last, in the order of the places."""
    encoded = keys.dictionary_encode()
    numbers = encoded.indices.to_numpy(zero_copy_only=False)
    places = np.arange(len(numbers))
    if which == "first":
        numbers, places = numbers[::-1], places[::-1]
    chosen = np.empty(len(encoded.dictionary), np.int64)
    # Where a number comes several times, NumPy keeps what is assigned last.
    chosen[numbers] = places
    chosen.sort()
    return chosen


# The rows of one bucket of a primary-key table, as they were at an offset of its log.
#
# Servers tell the rows as they are now. What happened since the wanted offset stands in the
# changelog, with the row before each change, so that it can be taken back.

_BEFORE = (ChangeType.UPDATE_BEFORE, ChangeType.DELETE)


@dataclass(frozen=True, slots=True, eq=False)
class Correction:
    """Say which rows of a scan are not those of the wanted offset, and which stand for them."""

    left_out: pa.BinaryArray
    """The keys of rows that the scan gives and that are not wanted."""
    added: pa.RecordBatch


class StateReader:
    """Read the rows of a bucket as they were at one offset, between two writes; iterate over it.

    Every read gives the same rows, in any order. The changelog of a table whose changelog image
    is WAL does not tell what a row was before an update. A row that was updated since is then
    given as it is now, or with `keeps_unknown=False` left out, for those who read on in the log
    and meet it there, or with `refuses_unknown` an error.

    An offset can lie between the two halves of an update: the row is the old one then.
    """

    def __init__(
        self,
        cluster: Cluster,
        view: RowView,
        state: StateAt,
        *,
        keeps_unknown: bool,
        refuses_unknown: bool = False,
    ) -> None:
        self._cluster = cluster
        self._view = view
        self._place, self._bucket = state.place, state.bucket_of(view.table)
        self._at = state.at
        self._keeps_unknown = keeps_unknown
        self._refuses_unknown = refuses_unknown
        self._keys = RowKeys(view.table)
        read = {*(column.name for column in view.read_columns), *self._keys.names}
        # Without the filter: whether a row is wanted is told by what it was, not by what it is.
        self._whole = RowView.of(
            view.table, columns=[name for name in view.table.schema.names if name in read]
        )

    async def __aiter__(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the rows.

        1. Begin a scan, which tells the offset of its rows. 2. Read what happened between that
        and the wanted offset. 3. Yield the rows to which nothing happened, and those that the
        others were.
        """
        columns = self._whole.column_ids
        scan = BucketScan(self._cluster, self._bucket, limit=None, columns=columns)
        async with aclosing(scan.parts()) as parts:
            try:
                first = await anext(parts, None)
            except errors.UnsupportedError:
                yield await self._folded()
                return
            assert scan.log_offset is not None
            correction = await self._correction(scan.log_offset)
            async for rows in self._unchanged(first, parts, left_out=correction.left_out):
                yield self._view.filtered(rows)
        yield self._view.filtered(correction.added)

    # ---- the rows that there are

    async def _unchanged(
        self,
        first: RowBytes | None,
        parts: AsyncIterator[RowBytes],
        *,
        left_out: pa.BinaryArray,
    ) -> AsyncIterator[pa.RecordBatch]:
        """Yield the rows of a scan but those that are left out."""
        reader = ValueReader(self._cluster, self._whole)
        waiting: list[pa.RecordBatch] = []
        part = first
        while part is not None:
            versions = await reader.prepare(part)
            waiting.append(await asyncio.to_thread(reader.read, part, versions))
            # Looking for a few rows takes as long as preparing the look among many.
            if sum(rows.num_rows for rows in waiting) * 4 >= len(left_out):
                yield await asyncio.to_thread(self._without, waiting, left_out)
                waiting = []
            part = await anext(parts, None)
        if waiting:
            yield await asyncio.to_thread(self._without, waiting, left_out)

    def _without(self, batches: list[pa.RecordBatch], left_out: pa.BinaryArray) -> pa.RecordBatch:
        rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        if not len(left_out):
            return rows
        return rows.filter(pc.invert(pc.is_in(self._keys.of(rows), value_set=left_out)))

    # ---- what happened meanwhile

    async def _correction(self, scanned_at: int) -> Correction:
        if scanned_at >= self._at:
            return await self._undone(scanned_at)
        return await self._redone(OffsetRange(scanned_at, self._at))

    async def _undone(self, scanned_at: int) -> Correction:
        """Return what takes back all changes since the wanted offset."""
        first = await self._changes(OffsetRange(self._at, scanned_at), which="first")
        # The row before this one is not told, in a log that has no rows before updates.
        is_unknown = first.changes == ChangeType.UPDATE_AFTER
        if is_unknown.any() and await self._is_cut():
            first = await self._changes(OffsetRange(self._at - 1, scanned_at), which="first")
            is_unknown = first.changes == ChangeType.UPDATE_AFTER
        if is_unknown.any() and self._refuses_unknown:
            raise self._unknown()
        left_out = first.where(~is_unknown).keys if self._keeps_unknown else first.keys
        return Correction(left_out, first.where(np.isin(first.changes, _BEFORE)).rows)

    async def _is_cut(self) -> bool:
        """Tell whether the first half of an update stands right before the wanted offset."""
        image = CHANGELOG_IMAGE.required(self._view.table.descriptor.properties)
        if image is ChangelogImage.WAL or self._at == 0:
            return False
        half = await self._changes(OffsetRange(self._at - 1, self._at), which="first")
        return ChangeType.UPDATE_BEFORE in half.changes

    def _unknown(self) -> errors.UnsupportedError:
        return errors.UnsupportedError(
            f"The rows of {self._view.table.path} at offset {self._at} of {self._bucket} are no"
            f" longer known: rows were updated since, and as its '{CHANGELOG_IMAGE.name}' is"
            f" {ChangelogImage.WAL}, the log does not have the rows before updates.",
            hint="Read the newest rows.",
        )

    async def _redone(self, missing: OffsetRange) -> Correction:
        """Return what makes up for changes that a scan does not have yet."""
        last = await self._changes(missing, which="last")
        # Where it is only the first half of an update, the row is still the old one.
        return Correction(last.keys, last.where(last.changes != ChangeType.DELETE).rows)

    async def _folded(self) -> pa.RecordBatch:
        """Return the rows as the changelog makes them, where servers cannot be asked for them."""
        buckets = {self._place: self._bucket}
        table = self._view.table
        earliest = await list_offsets(self._cluster, table, "earliest", buckets=buckets)
        if earliest[self._place] > 0:
            raise errors.UnsupportedError(
                f"The servers of {table.path} cannot be asked for all rows, and the changelog of"
                f" {self._bucket} begins only at {earliest[self._place]}.",
                hint="Use servers of a newer version, or read $changelog.",
            )
        correction = await self._redone(OffsetRange(0, self._at))
        return self._view.filtered(correction.added)

    async def _changes(self, wanted: OffsetRange, *, which: Which) -> Changed:
        found = KeyChanges(self._keys, self._whole.schema, which=which)
        log = LogRange.of(self._place, self._bucket, wanted)
        try:
            async with aclosing(LogRanges(self._cluster, self._whole).read([log])) as batches:
                async for batch in batches:
                    found.add(batch)
        except errors.OffsetOutOfRangeError as fault:
            raise errors.OffsetOutOfRangeError(
                f"The rows of {self._view.table.path} at offset {self._at} of {self._bucket} are"
                f" no longer known: {fault.message}",
                hint="Its log does not go back that far. Read a later moment, or give"
                " 'table.log.ttl' a longer time.",
            ) from fault
        return found.found()


def inserted(
    rows: pa.RecordBatch, state: StateAt, *, bucket: TableBucket, timestamp_ms: int = 0
) -> LogBatch:
    """Return rows of a state as changes: inserts, all at the last offset that the state has."""
    return LogBatch(
        rows=rows,
        changes=np.full(rows.num_rows, ChangeType.INSERT, np.uint8),
        offsets=np.full(rows.num_rows, state.at - 1, np.int64),
        timestamp_ms=timestamp_ms,
        bucket=bucket,
        partition=state.partition,
    )


# All rows of a primary-key table.

BUCKETS_AT_ONCE = 4


class TableStateScan:
    """Read the rows of a primary-key table as they are now; iterate over it.

    Each bucket is read as it is at one offset of its log. Those offsets are known when the scan
    has ended, and a tail that begins there sees every later change and no earlier one.
    """

    def __init__(
        self,
        cluster: Cluster,
        table: TableInfo,
        *,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
        limit: int | None = None,
        partitions: Collection[str] | None = None,
    ) -> None:
        if not table.is_keyed:
            raise errors.NotPrimaryKeyTableError(
                f"{table.path} has no primary key, so it has no state."
            )
        if limit is not None and limit < 0:
            raise errors.RequestError(f"The limit is {limit}; it must not be negative.")
        self._cluster = cluster
        self._table = table
        self._limit = limit
        self._partitions = partitions
        self._offsets: dict[Place, int] = {}
        self.view = RowView.of(table, columns=columns, where=where)
        self._reader = ValueReader(cluster, self.view)

    @property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema of the rows."""
        return self.view.schema

    @property
    def offsets(self) -> Offsets:
        """Return the log offset of each bucket that was begun; of all when the scan has ended."""
        return dict(self._offsets)

    async def __aiter__(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the rows, some buckets at a time, until there are as many as wanted."""
        if self._limit == 0:
            return
        buckets = await self._find_buckets()
        sources = [partial(self._scan, place, bucket) for place, bucket in buckets.items()]
        rows = side_by_side(sources, at_once=BUCKETS_AT_ONCE)
        async with aclosing(up_to(rows, self._limit)) as found:
            async for batch in found:
                yield batch

    async def _find_buckets(self) -> Buckets:
        """Return the buckets to read, and note of the others where a tail goes on."""
        found = await buckets_of(self._cluster, self._table, partitions=self._partitions)
        read = pruned(found, self.view)
        others = {place: bucket for place, bucket in found.items() if place not in read}
        if others:
            self._offsets |= await list_offsets(
                self._cluster, self._table, "latest", buckets=others
            )
        return read

    async def _scan(self, place: Place, bucket: TableBucket) -> Rows:
        limit = self._limit if self.view.filter is None else None
        columns = self.view.column_ids
        scan = BucketScan(self._cluster, bucket, limit=limit, columns=columns)
        async with aclosing(scan.parts()) as values:
            try:
                part = await anext(values, None)
            except errors.UnsupportedError:
                folded = await self._folded(place, bucket)
                async for rows in folded:
                    yield rows
                return
            while part is not None:
                self._note(place, scan)
                versions = await self._reader.prepare(part)
                yield await asyncio.to_thread(self._rows, part, versions)
                part = await anext(values, None)
            self._note(place, scan)

    async def _folded(self, place: Place, bucket: TableBucket) -> StateReader:
        """Return rows made up from the changelog, where servers cannot be asked for them."""
        buckets = {place: bucket}
        end = (await list_offsets(self._cluster, self._table, "latest", buckets=buckets))[place]
        self._offsets[place] = end
        state = StateAt.of(place, bucket, end)
        return StateReader(self._cluster, self.view, state, keeps_unknown=True)

    def _note(self, place: Place, scan: BucketScan) -> None:
        if scan.log_offset is not None:
            self._offsets[place] = scan.log_offset

    def _rows(self, values: RowBytes, versions: list[int]) -> pa.RecordBatch:
        return self.view.filtered(self._reader.read(values, versions))
