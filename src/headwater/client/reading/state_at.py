"""The rows of one bucket of a primary-key table, as they were at an offset of its log.

Servers tell the rows as they are now. What happened since the wanted offset stands in the
changelog, with the row before each change, so that it can be taken back.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.client.cluster import Cluster
from headwater.client.reading.bucket_scan import BucketScan
from headwater.client.reading.draining import drained
from headwater.client.reading.fetcher import Fetcher
from headwater.client.reading.key_changes import Changed, KeyChanges, RowKeys, Which
from headwater.client.reading.log_batch import Place
from headwater.client.reading.offsets import list_offsets
from headwater.client.reading.value_reader import ValueReader
from headwater.client.reading.view import View
from headwater.config.choices import ChangelogImage
from headwater.config.options import CHANGELOG_IMAGE
from headwater.errors import OffsetOutOfRangeError, UnsupportedError
from headwater.model.bucket import OffsetRange, TableBucket
from headwater.rows.log_batch import ChangeType
from headwater.rows.row_bytes import RowBytes

_BEFORE = (ChangeType.UPDATE_BEFORE, ChangeType.DELETE)


@dataclass(frozen=True, slots=True, eq=False)
class Correction:
    """Say which rows of a scan are not those of the wanted offset, and which stand for them."""

    left_out: pa.BinaryArray
    """The keys of rows that the scan gives and that are not wanted."""
    added: pa.RecordBatch


class StateAt:
    """Read the rows of a bucket as they were at one offset, between two writes; iterate over it.

    Every read gives the same rows, in any order. The changelog of a table whose changelog image
    is WAL does not tell what a row was before an update. A row that was updated since is then
    given as it is now, or with `keeps_unknown=False` left out, for those who read on in the log
    and meet it there, or with `refuses_unknown` an error.

    An offset can lie between the two halves of an update: the row is the old one then.
    """

    def __init__(  # noqa: PLR0913 - one argument per choice
        self,
        cluster: Cluster,
        view: View,
        *,
        place: Place,
        bucket: TableBucket,
        at: int,
        keeps_unknown: bool,
        refuses_unknown: bool = False,
    ) -> None:
        self._cluster = cluster
        self._view = view
        self._place, self._bucket = place, bucket
        self._at = at
        self._keeps_unknown = keeps_unknown
        self._refuses_unknown = refuses_unknown
        self._keys = RowKeys(view.table)
        read = {*(column.name for column in view.read_columns), *self._keys.names}
        # Without the filter: whether a row is wanted is told by what it was, not by what it is.
        self._whole = View.of(
            view.table, columns=[name for name in view.table.schema.names if name in read]
        )

    async def __aiter__(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the rows.

        1. Begin a scan, which tells the offset of its rows. 2. Read what happened between that
        and the wanted offset. 3. Yield the rows to which nothing happened, and those that the
        others were.
        """
        scan = BucketScan(self._cluster, self._bucket, limit=None)
        async with aclosing(scan.parts()) as parts:
            try:
                first = await anext(parts, None)
            except UnsupportedError:
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

    def _unknown(self) -> UnsupportedError:
        return UnsupportedError(
            f"The rows of {self._view.table.path} at offset {self._at} of {self._bucket} are not"
            f" known any more: rows were updated since, and as its '{CHANGELOG_IMAGE.name}' is"
            f" {ChangelogImage.WAL}, the log does not tell what they were before.",
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
            raise UnsupportedError(
                f"The servers of {table.path} cannot be asked for all rows, and the changelog of"
                f" {self._bucket} begins at {earliest[self._place]} only.",
                hint="Use servers of a newer version, or read $changelog.",
            )
        correction = await self._redone(OffsetRange(0, self._at))
        return self._view.filtered(correction.added)

    async def _changes(self, wanted: OffsetRange, *, which: Which) -> Changed:
        found = KeyChanges(self._keys, self._whole.schema, which=which)
        fetcher = Fetcher(self._cluster, self._whole)
        fetcher.follow(self._place, self._bucket, offset=wanted.start, end=wanted.end)
        try:
            async for batch in drained(fetcher, self._cluster, table=self._view.table.path):
                found.add(batch)
        except OffsetOutOfRangeError as fault:
            raise OffsetOutOfRangeError(
                f"The rows of {self._view.table.path} at offset {self._at} of {self._bucket} are"
                f" not known any more: {fault.message}",
                hint="Its log keeps no changes that are so old. Read a later moment, or give"
                " 'table.log.ttl' a longer time.",
            ) from fault
        finally:
            await fetcher.close()
        return found.found()
