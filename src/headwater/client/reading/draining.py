"""Reading followed buckets to their ends, as long as that makes progress."""

from collections.abc import AsyncIterator

from headwater.client.cluster import Cluster
from headwater.client.reading.fetcher import Fetcher
from headwater.client.reading.log_batch import LogBatch
from headwater.errors import TimedOutError
from headwater.model.path import TablePath

_POLL_S = 1.0


async def drained(
    fetcher: Fetcher, cluster: Cluster, *, table: TablePath
) -> AsyncIterator[LogBatch]:
    """Yield what a fetcher reads until all of its buckets are read to their ends."""
    clock, deadline_s = cluster.clock, cluster.settings.deadline_s
    waits_from = clock.monotonic()
    while not fetcher.is_done:
        batches = await fetcher.poll(_POLL_S)
        for batch in batches:
            yield batch
        if batches:
            # However long the caller took for them.
            waits_from = clock.monotonic()
        elif clock.monotonic() - max(waits_from, fetcher.progress_at) > deadline_s:
            fault = fetcher.last_fault
            why = f" The last attempt failed: {fault}" if fault else ""
            raise TimedOutError(
                f"Reading {table} made no progress for {deadline_s:g} s.{why}"
            ) from fault
