"""How lake tables stand: what they hold, how far they lag behind, and what went wrong."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from headwater.client.client import AsyncClient
from headwater.client.lake.values import TieringState
from headwater.client.reading.places import buckets_of, partitions_of
from headwater.client.union.lag import oldest_ms
from headwater.config.options import DATALAKE_ENABLED
from headwater.errors import HeadwaterError
from headwater.lake.lakes import Lakes, lake_format, lake_spec
from headwater.lake.spi import LakeSnapshot
from headwater.model.boundary import BOUNDARY_PROPERTY, LakeBucket
from headwater.model.bucket import OffsetRange
from headwater.model.path import TablePath
from headwater.model.table import TableInfo
from headwater.runtime.aside import aside
from headwater.tiering.looking import log_ranges
from headwater.tiering.reporting import ends_of

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
    fault: HeadwaterError | None = None
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
            is_enabled=bool(DATALAKE_ENABLED.of(table.descriptor.properties)),
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
    except HeadwaterError as fault:
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
