"""How far the lake lags behind the logs."""

from collections.abc import Mapping

from headwater.client.cluster import Cluster
from headwater.client.reading.draining import drained
from headwater.client.reading.fetch_request import FetchSize
from headwater.client.reading.fetcher import Fetcher
from headwater.client.reading.log_batch import Place
from headwater.client.reading.view import View
from headwater.client.union.view import TableView
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange, TableBucket
from headwater.model.table import TableInfo

# One row is wanted of each bucket; servers send the whole batch that it is in.
_PEEK = FetchSize(1024**2, 16 * 1024)
_MS = 1000


async def lag_s(cluster: Cluster, view: TableView) -> float:
    """Return the seconds since the oldest row was written that the lake does not hold."""
    oldest = await oldest_ms(cluster, view.table, _waiting(view), partitions=view.partitions)
    return 0.0 if oldest is None else max(cluster.clock.now_ms() - oldest, 0) / _MS


async def oldest_ms(
    cluster: Cluster,
    table: TableInfo,
    waiting: Mapping[LakeBucket, OffsetRange],
    *,
    partitions: Mapping[int, str],
) -> int | None:
    """Return when the first of the rows was written that wait in logs; None if there are none."""
    fetcher = Fetcher(cluster, View.of(table), size=_PEEK, forgets_dropped=True)
    for each, offsets in waiting.items():
        name = None if each.partition_id is None else partitions[each.partition_id]
        bucket = TableBucket(table.table_id, each.bucket, each.partition_id)
        place = Place(name, each.bucket)
        fetcher.follow(place, bucket, offset=offsets.start, end=offsets.start + 1)
    times = []
    try:
        async for batch in drained(fetcher, cluster, table=table.path):
            times.append(batch.first_timestamp_ms)  # noqa: PERF401 - the loop awaits
    finally:
        await fetcher.close()
    return min(times, default=None)


def _waiting(view: TableView) -> dict[LakeBucket, OffsetRange]:
    held = {} if view.snapshot is None else view.snapshot.ranges
    waiting: dict[LakeBucket, OffsetRange] = {}
    for bucket, log in view.logs.items():
        start = max(held[bucket].end, log.start) if bucket in held else log.start
        if start < log.end:
            waiting[bucket] = OffsetRange(start, log.end)
    return waiting
