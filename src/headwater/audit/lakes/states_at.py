"""What the rows of a bucket by key add up to at offsets of its log."""

from collections.abc import AsyncIterator, Collection, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from headwater.audit.digest import NOTHING, Digest, RowHasher
from headwater.audit.lakes.log_reading import LogReading
from headwater.audit.lakes.looked import Looked
from headwater.client.reading.key_changes import RowKeys
from headwater.client.reading.state_at import StateAt
from headwater.client.reading.view import View
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange
from headwater.runtime.aside import aside


class StatesAt:
    """Tell the rows of buckets at offsets: by the log alone, or back from the rows of now."""

    def __init__(self, looked: Looked, log: LogReading, hasher: RowHasher) -> None:
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
        """Yield the rows of a bucket at an offset, or say that they are not known any more."""
        place, named = self._log.place_of(bucket)
        state = StateAt(
            self._looked.cluster,
            View.of(self._looked.table),
            place=place,
            bucket=named,
            at=at,
            keeps_unknown=True,
            refuses_unknown=True,
        )
        async for rows in state:
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
