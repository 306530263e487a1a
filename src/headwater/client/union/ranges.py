"""Scans that begin within the log of a table whose older rows are in the lake."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime

import pyarrow as pa

from headwater.client.cluster import Cluster
from headwater.client.reading.log_batch import Offsets
from headwater.client.reading.log_scan import LogScan
from headwater.client.reading.offsets import list_offsets
from headwater.client.reading.places import buckets_of
from headwater.client.reading.starts import Start, start_offsets
from headwater.errors import PositionMissingError
from headwater.model.table import TableInfo


class RangeScan:
    """Read a part of a log, after a check that the log holds all of that part."""

    def __init__(self, cluster: Cluster, table: TableInfo, log: LogScan, *, start: Start) -> None:
        self._cluster = cluster
        self._table = table
        self._log = log
        self._start = start

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the rows."""
        return self._log.schema

    @property
    def offsets(self) -> Offsets:
        """Return where the last read ended in each bucket."""
        return self._log.offsets

    async def __aiter__(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the rows."""
        await self._check()
        async with aclosing(aiter(self._log)) as batches:
            async for batch in batches:
                yield batch

    async def _check(self) -> None:
        """Refuse a start that only the lake reaches back to: its rows have no offsets or times."""
        cluster, table = self._cluster, self._table
        buckets = await buckets_of(cluster, table)
        begins = await list_offsets(cluster, table, "earliest", buckets=buckets)
        starts = await start_offsets(cluster, table, self._start, buckets=buckets)
        # A moment before the first row of a log is answered with that row.
        is_vague = isinstance(self._start, datetime)
        for place, start in starts.items():
            begin = begins[place]
            if start < begin or (is_vague and start == begin > 0):
                raise PositionMissingError(
                    f"The log of bucket {place.bucket} of {table.path} begins at offset {begin}:"
                    " what came before is in the lake, whose rows have no offsets and no times.",
                    hint="Begin later, or leave 'start' out to read the lake, too.",
                )
