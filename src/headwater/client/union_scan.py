"""Scans and counts of a table: through lake and log, or from the servers alone.

Each read of a scan looks up the position again.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa

from headwater import errors
from headwater.client.scan import AsyncScan, BatchSource, ScanExplanation
from headwater.client.view import AsyncView, Partitions, check_limit
from headwater.cluster.cluster import Cluster
from headwater.model import TableInfo
from headwater.model.path import complete_spec, name_of_spec
from headwater.read.filters import RowView, Where
from headwater.read.log_scan import LogScan
from headwater.read.offsets import Offsets, Start, buckets_of, count_rows
from headwater.read.position import has_lake, look_at
from headwater.read.split import Split, rows_max_of
from headwater.read.state import TableStateScan
from headwater.read.token import read_token
from headwater.read.view import PositionQuery

# Scans of a table with a lake.

# Retention, expiry and others can delete what was found a moment before.
ATTEMPTS = 3
LOST = (
    errors.PositionMissingError,
    errors.LakeSnapshotMissingError,
    errors.PartitionMissingError,
    errors.LogGapError,
)


class UnionScan:
    """Read a table at a position; iterate over it."""

    def __init__(  # noqa: PLR0913 - one argument per choice
        self,
        cluster: Cluster,
        table: TableInfo,
        wish: PositionQuery,
        *,
        wanted: RowView,
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
        """The schema of the rows."""
        return self._wanted.schema

    @property
    def offsets(self) -> Offsets:
        """Where the last read ended in each bucket."""
        return self._state.offsets if self._asks_servers else self._offsets

    async def __aiter__(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """Look up the position, and yield its rows."""
        async with aclosing(await self._found()) as rows:
            async for batch in rows:
                yield batch

    async def _found(self) -> "_Begun":
        """Return rows whose first batch is read; what is lost before that is looked up again."""
        attempts = ATTEMPTS if self._wish.is_newest else 1
        for _ in range(1, attempts):
            rows = await self._begun()
            if await rows.begins(may_fail=True):
                return rows
        rows = await self._begun()
        await rows.begins(may_fail=False)
        return rows

    async def _begun(self) -> "_Begun":
        """Look up the position."""
        value = await look_at(self._cluster, self._table, self._wish, renews_columns=False)
        view = AsyncView.of(self._cluster, value)
        needs_view = value.snapshot is not None or not self._wish.is_newest
        self._asks_servers = self._table.is_keyed and not needs_view
        if self._asks_servers:
            # Servers return the newest rows by key at a lower price than rows at a position.
            return _Begun(aiter(self._state))
        self._offsets = view.offsets
        return _Begun(view.rows(self._wanted, partitions=self._partitions, limit=self._limit))


class _Begun:
    """Rows whose first batch shows whether they are all there."""

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


# Which way a scan goes: through lake and log, or to the servers alone.


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanQuery:
    """The arguments of a scan."""

    columns: tuple[str, ...] | None = None
    where: Where | None = None
    limit: int | None = None
    partitions: tuple[Mapping[str, str], ...] | None = None
    start: Start | None = None
    end: Start | None = None
    wish: PositionQuery = field(default_factory=PositionQuery)


def scan_of(cluster: Cluster, table: TableInfo, asked: ScanQuery) -> AsyncScan:
    """Make a scan of a table."""
    return AsyncScan(
        _Scans(cluster, table, asked).source(),
        name=str(table.path),
        explain=lambda: _explained(cluster, table, asked),
    )


def check_columns(table: TableInfo, wish: PositionQuery) -> None:
    """Reject a token of other columns than those of the table: its view has them."""
    if wish.token is None:
        return
    token = read_token(wish.token, path=table.path, table_id=table.table_id)
    if token.schema_id != table.schema_id:
        raise errors.RequestError(
            f"{table.path} had other columns when the token was taken.",
            hint="Scan the view of the token: (await table.view(token=…)).scan()",
        )


async def _explained(cluster: Cluster, table: TableInfo, asked: ScanQuery) -> ScanExplanation:
    value = await look_at(cluster, table, _position(asked), renews_columns=False)
    view = AsyncView.of(cluster, value)
    return await view.explain(columns=asked.columns, where=asked.where, partitions=asked.partitions)


def _position(asked: ScanQuery) -> PositionQuery:
    """Return the position that a scan ends at, which `end` may also give."""
    match asked.end:
        case None | "latest":
            return asked.wish
        case datetime():
            return PositionQuery(as_of=asked.end)
        case "earliest":
            return PositionQuery(mode="log")
        case _:
            return PositionQuery(offsets=asked.end)


class _Scans:
    """Find the source of the rows of a query."""

    def __init__(self, cluster: Cluster, table: TableInfo, asked: ScanQuery) -> None:
        self._cluster = cluster
        self._table = table
        self._asked = asked

    def source(self) -> BatchSource:
        asked, wish = self._asked, self._asked.wish
        if asked.start is not None or asked.end is not None:
            return self._between()
        if wish.is_newest and (wish.mode == "log" or not self._reads_lake):
            return self._alone()
        return self._union(wish)

    @property
    def _reads_lake(self) -> bool:
        return self._asked.wish.mode == "lake" or has_lake(self._table)

    def _between(self) -> BatchSource:
        """Return the rows between two positions of a log; by default from its start."""
        asked = self._asked
        if self._table.is_keyed:
            raise errors.RequestError(
                f"{self._table.path} has a primary key, so it is scanned at one position, "
                "without bounds.",
                hint=f"Use 'as_of' or 'offsets', or scan {self._table.path}$changelog between"
                " offsets.",
            )
        if not asked.wish.is_newest or asked.wish.mode == "lake":
            raise errors.RequestError(
                "'start' and 'end' bound the log, so they cannot be combined with another "
                "position.",
                hint="Leave them out, or give the position by 'end' alone.",
            )
        if asked.wish.mode == "log" or not has_lake(self._table):
            return self._log()
        if asked.start not in (None, "earliest"):
            return self._log(is_after_lake=True)
        return self._log() if asked.end == "earliest" else self._union(_position(asked))

    def _union(self, wish: PositionQuery) -> UnionScan:
        asked = self._asked
        check_columns(self._table, wish)
        return UnionScan(
            self._cluster,
            self._table,
            wish,
            wanted=RowView.of(self._table, columns=asked.columns, where=asked.where),
            partitions=asked.partitions,
            limit=asked.limit,
            state=self._alone(),
        )

    def _alone(self) -> BatchSource:
        """Return the rows as the servers have them."""
        asked = self._asked
        if not self._table.is_keyed:
            return self._log()
        return TableStateScan(
            self._cluster,
            self._table,
            columns=asked.columns,
            where=asked.where,
            limit=asked.limit,
            partitions=self._names(),
        )

    def _log(self, *, is_after_lake: bool = False) -> LogScan:
        asked = self._asked
        return LogScan(
            self._cluster,
            self._table,
            start=asked.start or "earliest",
            end=asked.end or "latest",
            columns=asked.columns,
            where=asked.where,
            limit=asked.limit,
            partitions=self._names(),
            is_after_lake=is_after_lake,
        )

    def _names(self) -> tuple[str, ...] | None:
        if self._asked.partitions is None:
            return None
        keys = self._table.descriptor.partition_keys
        return tuple(name_of_spec(complete_spec(each, keys)) for each in self._asked.partitions)


# Counts of lake and log, from their metadata.


async def count_union(cluster: Cluster, table: TableInfo) -> int:
    """Count the rows of a table with a lake."""
    if table.is_keyed and not table.is_partitioned:
        return await _by_servers(cluster, table)
    value = await look_at(cluster, table, PositionQuery(), renews_columns=False)
    if value.snapshot is None:
        return await _by_servers(cluster, table)
    view = AsyncView.of(cluster, value)
    counted: list[Split] = []
    others: list[Split] = []
    for split in (await view.plan()).splits:
        # By key, the lake may show rows of dropped partitions, even if others have their names.
        (others if table.is_keyed or not _is_counted(split) else counted).append(split)
    return sum(map(rows_max_of, counted)) + await _read(view, others)


async def _by_servers(cluster: Cluster, table: TableInfo) -> int:
    buckets = await buckets_of(cluster, table)
    return await count_rows(cluster, table, buckets=buckets)


async def _read(view: AsyncView, splits: list[Split]) -> int:
    if not splits:
        return 0
    table, count = view.value.table, 0
    first = (*table.schema.primary_key, *table.schema.names)[0]
    async with aclosing(view.read(splits, columns=[first])) as batches:
        async for batch in batches:
            count += batch.num_rows
    return count


def _is_counted(split: Split) -> bool:
    """Tell whether every file row and every offset of a split of a log table is a row."""
    if split.lake is None:
        return True
    return all(file.stands_alone and not file.deletes for file in split.lake.files)
