"""How lake tables stand: what logs hold, what the lake holds, and how far it lags behind."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headwater import errors
from headwater.client.client import AsyncClient
from headwater.client.view import oldest_ms
from headwater.cluster.lake import TieringState
from headwater.cluster.paths import wire_path
from headwater.lake.lakes import Lakes, lake_format, lake_spec
from headwater.lake.spi import LakeSnapshot
from headwater.model import LakeBucket, OffsetRange, TableBucket, TableInfo, TablePath
from headwater.model.boundary import BOUNDARY_PROPERTY
from headwater.read.offsets import Place, buckets_of, list_ends, list_offsets, partitions_of
from headwater.read.position import has_lake
from headwater.runtime.tasks import aside
from headwater.tiering.plan import LogsSeen
from headwater.tiering.progress import TieringTurn
from headwater.tiering.target import ends_of
from headwater.wire import fluss_pb2 as pb

# What a round looks at before it plans: the logs of a table, and what its server was told.


async def look_at(client: AsyncClient, table: TableInfo, *, turn: TieringTurn) -> LogsSeen:
    """Look at a table; after the lake's head, so that nothing in there can be news to the logs."""
    buckets = await buckets_of(client.cluster, table)
    known = await client.lake.snapshot(table.path)
    if known is not None and known.table_id != table.table_id:
        known = None
    starts = await list_offsets(client.cluster, table, "earliest", buckets=buckets)
    ends = await list_ends(client.cluster, table, buckets=buckets)
    return LogsSeen(
        path=table.path,
        identity=turn.identity(table),
        is_keyed=table.is_keyed,
        logs={
            LakeBucket(bucket.partition_id, bucket.bucket): OffsetRange(
                starts[place], ends[place].offset
            )
            for place, bucket in buckets.items()
        },
        lineages={
            LakeBucket(bucket.partition_id, bucket.bucket): ends[place].lineage
            for place, bucket in buckets.items()
        },
        partitions=partitions_of(buckets),
        reported={} if known is None else known.ends,
        reported_id=None if known is None else known.snapshot_id,
        unsettled=turn.assignment.unsettled,
    )


async def check_columns(client: AsyncClient, table: TableInfo) -> None:
    """Refuse to go on with columns that are not the newest, asked for after the ends of the logs.

    A row before those ends may have a column that came meanwhile, and would lose it.
    """
    # The coordinator, as others may take a while to hear of a change.
    request = pb.GetTableInfoRequest(table_path=wire_path(table.path))
    newest = await client.cluster.ask(request, pb.GetTableInfoResponse, coordinator=True)
    if (newest.table_id, newest.schema_id) != (table.table_id, table.schema_id):
        raise errors.BoundaryMovedError(
            f"The columns of {table.path} changed while a round was planned."
        )


async def log_ranges(
    client: AsyncClient, table: TableInfo, buckets: dict[Place, TableBucket]
) -> dict[LakeBucket, OffsetRange]:
    """Return what the log of each bucket holds."""
    starts = await list_offsets(client.cluster, table, "earliest", buckets=buckets)
    ends = await list_offsets(client.cluster, table, "latest", buckets=buckets)
    return {
        LakeBucket(bucket.partition_id, bucket.bucket): OffsetRange(starts[place], ends[place])
        for place, bucket in buckets.items()
    }


# Tables whose lake does not hold yet what their logs held when somebody looked.

Logs = Mapping[LakeBucket, OffsetRange]
_GONE = (errors.TableMissingError, errors.DatabaseMissingError)


@dataclass(slots=True)
class Behind:
    """Tell of tables which are behind, where the server does not: Apache Fluss tells no states."""

    client: AsyncClient
    _noted: dict[TablePath, tuple[TableInfo, Logs]] = field(default_factory=dict)

    async def note(self, tables: Sequence[TablePath] = ()) -> set[TablePath]:
        """Note where logs end now, of all tables or of some, and return those with a lake."""
        for path in tables or await self._all_tables():
            try:
                table = (await self.client.table(path)).info
                if has_lake(table):
                    self._noted[path] = (table, await self._logs(table))
            except _GONE:
                continue
        return set(self._noted)

    async def of(self, tables: Iterable[TablePath]) -> set[TablePath]:
        """Return those of some tables that are behind what was noted, and can still come up."""
        return {path for path in tables if await self._is_behind(path)}

    async def _is_behind(self, path: TablePath) -> bool:
        table, noted = self._noted[path]
        try:
            known = await self.client.lake.snapshot(path)
            if known is not None and known.table_id != table.table_id:
                return False
            now = await self._logs(table)
        except _GONE:
            return False
        return is_behind(noted, now=now, held={} if known is None else known.ends)

    async def _logs(self, table: TableInfo) -> Logs:
        cluster = self.client.cluster
        try:
            return await log_ranges(self.client, table, await buckets_of(cluster, table))
        except errors.PartitionMissingError:  # Dropped after it was listed.
            return await log_ranges(self.client, table, await buckets_of(cluster, table))

    async def _all_tables(self) -> list[TablePath]:
        return [
            TablePath(database, name)
            for database in await self.client.list_databases()
            for name in await self.client.list_tables(database)
        ]


def is_behind(noted: Logs, *, now: Logs, held: Mapping[LakeBucket, int]) -> bool:
    """Tell whether a lake is still to get rows that were noted and that the logs still have."""
    return any(
        max(held.get(bucket, 0), now[bucket].start) < log.end
        for bucket, log in noted.items()
        if bucket in now  # A partition that was dropped has nothing left to tier.
    )


# How lake tables stand: what they hold, how far they lag behind, and what went wrong.

_MS = 1000

Waiting = dict[LakeBucket, OffsetRange]
"""The offsets of each bucket that the lake does not hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLakeStatus:
    """Tell how the lake table of a table stands."""

    path: TablePath
    table_id: int
    format: str
    is_enabled: bool
    """Whether tiering goes on; what was tiered before stays."""
    state: TieringState | None = None
    """What the server tells of rounds and failures; Apache Fluss tells nothing."""
    snapshot: LakeSnapshot | None = None
    """The newest one, with files, rows and bytes; None if there is none, or `fault` says why."""
    snapshot_age_s: float | None = None
    lag_rows: int | None = None
    """Offsets that the logs hold and the lake does not; None if the lake cannot be asked."""
    lag_s: float | None = None
    """Time since the oldest row was written that the lake does not hold; 0 without such rows."""
    fault: errors.HeadwaterError | None = None
    """Why the lake cannot be asked."""


async def lake_status(
    client: AsyncClient, paths: Iterable[TablePath], *, lakes: Lakes | None = None
) -> list[TableLakeStatus]:
    """Return how the lake tables of some tables stand; a lake out of reach is told, not raised."""
    answer = await client.lake.heartbeat(list_states=True)
    states = {state.table_id: state for state in answer.states}
    found = []
    for path in paths:
        table = (await client.table(path)).info
        status = TableLakeStatus(
            path=path,
            table_id=table.table_id,
            format=lake_format(table),
            is_enabled=has_lake(table),
            state=states.get(table.table_id),
        )
        found.append(await _completed(status, client, table, lakes=lakes or Lakes()))
    return found


async def _completed(
    status: TableLakeStatus, client: AsyncClient, table: TableInfo, *, lakes: Lakes
) -> TableLakeStatus:
    """Add what the lake and the logs tell."""
    try:
        head = await aside(_head, table, lakes)
    except errors.HeadwaterError as fault:
        return replace(status, fault=fault)
    now_ms = client.cluster.clock.now_ms()
    buckets = await buckets_of(client.cluster, table)
    logs = await log_ranges(client, table, buckets)
    waiting = waiting_offsets(logs, await _tiered_ends(client, table, head))
    oldest = await oldest_ms(client.cluster, table, waiting, partitions=partitions_of(buckets))
    return replace(
        status,
        snapshot=head,
        snapshot_age_s=None if head is None else max(now_ms - head.committed_ms, 0) / _MS,
        lag_rows=sum(offsets.end - offsets.start for offsets in waiting.values()),
        lag_s=0.0 if oldest is None else max(now_ms - oldest, 0) / _MS,
    )


async def _tiered_ends(
    client: AsyncClient, table: TableInfo, head: LakeSnapshot | None
) -> Mapping[LakeBucket, int]:
    """Return where the rows of the lake end, as it says, or as another tierer told the server."""
    if head is None:
        return {}
    if BOUNDARY_PROPERTY not in head.properties:
        known = await client.lake.snapshot(table.path)
        if known is not None and known.snapshot_id == head.snapshot_id:
            return known.ends
    return {} if head.boundary is None else ends_of(head.boundary)


def waiting_offsets(
    logs: Mapping[LakeBucket, OffsetRange], tiered: Mapping[LakeBucket, int]
) -> Waiting:
    """Return what logs hold and the lake does not."""
    waiting: Waiting = {}
    for bucket, log in logs.items():
        start = max(tiered.get(bucket, 0), log.start)
        if start < log.end:
            waiting[bucket] = OffsetRange(start, log.end)
    return waiting


def _head(table: TableInfo, lakes: Lakes) -> LakeSnapshot | None:
    lake = lakes.of(table)
    if not lake.catalog().exists(table.path):
        return None
    return lake.committer(lake_spec(table)).head()
