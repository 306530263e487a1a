"""Ranges of logs, read to their ends, or on from what is left of them."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence

from headwater.client.cluster import Cluster
from headwater.client.reading.draining import drained
from headwater.client.reading.fetch_request import FetchSize
from headwater.client.reading.fetcher import Fetcher
from headwater.client.reading.log_batch import LogBatch, Place
from headwater.client.reading.log_scan import LIMITED_BYTES_MAX
from headwater.client.reading.offsets import list_offsets
from headwater.client.reading.view import View
from headwater.engines.spark.reading.losses import lost_offsets, lost_partition
from headwater.engines.spark.reading.splits import LogSplit
from headwater.errors import OffsetOutOfRangeError, PartitionMissingError
from headwater.runtime.events import Events

# A task reads few buckets, so that each may fill more of an answer.
BUCKET_BYTES_MAX = 8 * 1024 * 1024
_events = Events("spark")


class LogRows:
    """Read ranges of logs at the same time, each in its order."""

    def __init__(
        self, cluster: Cluster, view: View, *, fails_on_loss: bool, reads_few: bool
    ) -> None:
        self._cluster = cluster
        self._view = view
        self._fails_on_loss = fails_on_loss
        bucket_bytes = LIMITED_BYTES_MAX if reads_few else BUCKET_BYTES_MAX
        self._size = FetchSize(cluster.settings.fetch_bytes_max, bucket_bytes)

    async def read(self, splits: Sequence[LogSplit]) -> AsyncGenerator[LogBatch, None]:
        """Yield what the ranges hold; rows that are gone are an error, or passed over."""
        fetcher = Fetcher(
            self._cluster,
            self._view,
            size=self._size,
            forgets_dropped=not self._fails_on_loss,
        )
        for split in splits:
            fetcher.follow(split.place, split.bucket, offset=split.start, end=split.end)
        try:
            async for batch in self._read(fetcher):
                yield batch
        except PartitionMissingError as fault:
            raise lost_partition(self._view.table, str(fault)) from fault
        finally:
            await fetcher.close()

    async def _read(self, fetcher: Fetcher) -> AsyncIterator[LogBatch]:
        while not fetcher.is_done:
            try:
                async for batch in drained(fetcher, self._cluster, table=self._view.table.path):
                    yield batch
            except OffsetOutOfRangeError as fault:
                await self._pass_over(fetcher, fault)

    async def _pass_over(self, fetcher: Fetcher, fault: OffsetOutOfRangeError) -> None:
        """Go on at the first rows that are left, in each log that has lost some."""
        table = self._view.table
        unread = {place: each for place, each in fetcher.followed.items() if not each.is_done}
        buckets = {place: each.bucket for place, each in unread.items()}
        earliest = await list_offsets(self._cluster, table, "earliest", buckets=buckets)
        positions = {place: each.position for place, each in unread.items()}
        lost = gone(positions, earliest)
        if not lost:
            # Not before the log, but behind it: nothing of that can be passed over.
            raise fault
        if self._fails_on_loss:
            raise lost_offsets(table, positions, earliest) from fault
        for place, offset in lost.items():
            each = unread[place]
            end = offset if each.end is None else each.end
            _events.warning(
                "rows are gone", table=str(table.path), bucket=str(each.bucket), until=offset
            )
            fetcher.follow(place, each.bucket, offset=min(offset, end), end=end)


def gone(positions: Mapping[Place, int], earliest: Mapping[Place, int]) -> dict[Place, int]:
    """Return where reading can go on in each log that begins behind a position."""
    return {place: earliest[place] for place, at in positions.items() if earliest[place] > at}
