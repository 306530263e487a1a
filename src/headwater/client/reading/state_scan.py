"""All rows of a primary-key table."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing

import pyarrow as pa

from headwater.client.cluster import Cluster
from headwater.client.reading.bucket_scan import BucketScan
from headwater.client.reading.filters import Where
from headwater.client.reading.log_batch import Offsets, Place
from headwater.client.reading.offsets import list_offsets
from headwater.client.reading.places import Buckets, buckets_of
from headwater.client.reading.pruning import pruned
from headwater.client.reading.state_at import StateAt
from headwater.client.reading.value_reader import ValueReader
from headwater.client.reading.view import View
from headwater.errors import NotPrimaryKeyTableError, RequestError, UnsupportedError
from headwater.model.bucket import TableBucket
from headwater.model.table import TableInfo
from headwater.rows.row_bytes import RowBytes
from headwater.runtime.tasks import Tasks

BUCKETS_AT_ONCE = 4
PARTS_WAITING_MAX = 4


class StateScan:
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
            raise NotPrimaryKeyTableError(f"{table.path} has no primary key, and so no state.")
        if limit is not None and limit < 0:
            raise RequestError(f"The limit is {limit}, below 0.")
        self._cluster = cluster
        self._table = table
        self._limit = limit
        self._partitions = partitions
        self._offsets: dict[Place, int] = {}
        self.view = View.of(table, columns=columns, where=where)
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
        parts, tasks = _Parts(), Tasks()
        waiting = deque(buckets.items())
        left = self._limit
        try:
            for number in range(min(BUCKETS_AT_ONCE, len(waiting))):
                parts.sources += 1
                tasks.start(self._work(waiting, parts), name=f"scan {number}")
            while (rows := await parts.next()) is not None:
                rows = rows if left is None else rows.slice(0, left)
                left = None if left is None else left - rows.num_rows
                if rows.num_rows:
                    yield rows
                if left == 0:
                    return
        finally:
            await tasks.stop()

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

    async def _work(self, waiting: deque[tuple[Place, TableBucket]], parts: "_Parts") -> None:
        """Scan one bucket after another while there are any."""
        try:
            while waiting:
                place, bucket = waiting.popleft()
                await self._scan(place, bucket, parts=parts)
        except Exception as fault:  # noqa: BLE001 - the outer edge of a task; the caller is told
            await parts.queue.put(fault)
        else:
            await parts.queue.put(None)

    async def _scan(self, place: Place, bucket: TableBucket, *, parts: "_Parts") -> None:
        limit = self._limit if self.view.filter is None else None
        scan = BucketScan(self._cluster, bucket, limit=limit)
        async with aclosing(scan.parts()) as values:
            try:
                part = await anext(values, None)
            except UnsupportedError:
                await self._fold(place, bucket, parts=parts)
                return
            while part is not None:
                self._note(place, scan)
                versions = await self._reader.prepare(part)
                rows = await asyncio.to_thread(self._rows, part, versions)
                await parts.queue.put(rows)
                part = await anext(values, None)
            self._note(place, scan)

    async def _fold(self, place: Place, bucket: TableBucket, *, parts: "_Parts") -> None:
        """Make rows up from the changelog, where servers cannot be asked for them."""
        buckets = {place: bucket}
        end = (await list_offsets(self._cluster, self._table, "latest", buckets=buckets))[place]
        self._offsets[place] = end
        folded = StateAt(
            self._cluster, self.view, place=place, bucket=bucket, at=end, keeps_unknown=True
        )
        async with aclosing(aiter(folded)) as batches:
            async for rows in batches:
                await parts.queue.put(rows)

    def _note(self, place: Place, scan: BucketScan) -> None:
        if scan.log_offset is not None:
            self._offsets[place] = scan.log_offset

    def _rows(self, values: RowBytes, versions: list[int]) -> pa.RecordBatch:
        return self.view.filtered(self._reader.read(values, versions))


class _Parts:
    """Pass rows from several scans to one reader."""

    def __init__(self) -> None:
        self.sources = 0
        self.queue: asyncio.Queue[pa.RecordBatch | Exception | None] = asyncio.Queue(
            PARTS_WAITING_MAX
        )

    async def next(self) -> pa.RecordBatch | None:
        """Return more rows, None when all scans have ended, or raise why one failed."""
        while self.sources:
            part = await self.queue.get()
            if part is None:
                self.sources -= 1
                continue
            if isinstance(part, Exception):
                raise part
            return part
        return None
