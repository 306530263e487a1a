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
from headwater.model.table import TableInfo


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
        without_lake: BatchSource,
    ) -> None:
        check_limit(limit)
        self._cluster = cluster
        self._table = table
        self._wish = wish
        self._wanted = wanted
        self._partitions = partitions
        self._limit = limit
        self._without_lake = without_lake
        self._reads_lake = True
        self._offsets: Offsets = {}

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the rows."""
        return self._wanted.schema

    @property
    def offsets(self) -> Offsets:
        """Return where the last read ended in each bucket."""
        return self._offsets if self._reads_lake else self._without_lake.offsets

    async def __aiter__(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """Look for the position, and yield its rows."""
        value = await look_at(self._cluster, self._table, self._wish, renews_columns=False)
        view = AsyncView.of(self._cluster, value)
        self._reads_lake = value.snapshot is not None or not self._wish.is_newest
        if self._reads_lake:
            self._offsets = view.offsets
            rows = view.rows(self._wanted, partitions=self._partitions, limit=self._limit)
        else:
            # Servers tell the newest rows by themselves, at a lower price than at a position.
            rows = aiter(self._without_lake)
        async with aclosing(rows) as batches:
            async for batch in batches:
                yield batch
