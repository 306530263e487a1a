"""Scans of a table that has a lake: each read looks for the position anew."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import pyarrow as pa

from headwater.client.cluster import Cluster
from headwater.client.reading.log_batch import Offsets
from headwater.client.reading.view import View
from headwater.client.scan import BatchSource
from headwater.client.union.looking import look_at
from headwater.client.union.positions import Wish
from headwater.client.union.viewing import AsyncView, Partitions, check_limit
from headwater.errors import (
    LakeSnapshotMissingError,
    LogGapError,
    PartitionMissingError,
    PositionMissingError,
)
from headwater.model.table import TableInfo

# Retention, expiry and others can take away what was found a moment before.
ATTEMPTS = 3
LOST = (PositionMissingError, LakeSnapshotMissingError, PartitionMissingError, LogGapError)


class UnionScan:
    """Read a table at the position that a caller wishes; iterate over it."""

    def __init__(  # noqa: PLR0913 - one argument per choice
        self,
        cluster: Cluster,
        table: TableInfo,
        wish: Wish,
        *,
        wanted: View,
        partitions: Partitions | None,
        limit: int | None,
        state: BatchSource,
    ) -> None:
        check_limit(limit)
        self._cluster = cluster
        self._table = table
        self._wish = wish
        self._wanted = wanted
        self._partitions = partitions
        self._limit = limit
        self._state = state
        self._asks_servers = False
        self._offsets: Offsets = {}

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the rows."""
        return self._wanted.schema

    @property
    def offsets(self) -> Offsets:
        """Return where the last read ended in each bucket."""
        return self._state.offsets if self._asks_servers else self._offsets

    async def __aiter__(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """Look for the position, and yield its rows."""
        async with aclosing(await self._found()) as rows:
            async for batch in rows:
                yield batch

    async def _found(self) -> "_Begun":
        """Return rows that have begun; what is lost before the first of them is mended."""
        attempts = ATTEMPTS if self._wish.is_newest else 1
        for _ in range(1, attempts):
            rows = await self._begun()
            if await rows.begins(may_fail=True):
                return rows
        rows = await self._begun()
        await rows.begins(may_fail=False)
        return rows

    async def _begun(self) -> "_Begun":
        """Look for the position."""
        value = await look_at(self._cluster, self._table, self._wish, renews_columns=False)
        view = AsyncView.of(self._cluster, value)
        needs_view = value.snapshot is not None or not self._wish.is_newest
        self._asks_servers = self._table.is_keyed and not needs_view
        if self._asks_servers:
            # They tell the newest rows by key at a lower price than those at a position.
            return _Begun(aiter(self._state))
        self._offsets = view.offsets
        return _Begun(view.rows(self._wanted, partitions=self._partitions, limit=self._limit))


class _Begun:
    """Read rows whose first batch tells whether they are all there."""

    def __init__(self, rows: AsyncGenerator[pa.RecordBatch, None]) -> None:
        self._rows = rows
        self._first: pa.RecordBatch | None = None

    async def begins(self, *, may_fail: bool) -> bool:
        """Read the first batch; tell whether it was there, or raise that it was not."""
        try:
            self._first = await anext(self._rows, None)
        except LOST:
            if not may_fail:
                raise
            return False
        return True

    async def __aiter__(self) -> AsyncGenerator[pa.RecordBatch, None]:
        if self._first is not None:
            yield self._first
        async for batch in self._rows:
            yield batch

    async def aclose(self) -> None:
        await self._rows.aclose()
