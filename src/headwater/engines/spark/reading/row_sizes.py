"""How large the rows of each bucket are, about, judged by a few of them."""

from collections.abc import Mapping

from headwater.client.cluster import Cluster
from headwater.client.reading.fetch_request import FetchSize
from headwater.client.reading.fetcher import Fetcher
from headwater.client.reading.log_batch import Place
from headwater.client.reading.places import Buckets
from headwater.client.reading.view import View
from headwater.errors import OffsetOutOfRangeError

# The first batch of a bucket is enough to tell; a server sends at least one.
_FIRST_BATCH = FetchSize(bytes_max=1024 * 1024, bucket_bytes_max=1)
SAMPLED_MAX = 8
SAMPLED_EVERY_S = 60.0
_WITHIN_S = 2.0


class RowSizes:
    """Read a batch of the fullest buckets now and then, and keep what it told."""

    def __init__(self, cluster: Cluster, view: View) -> None:
        self._cluster = cluster
        self._view = view
        self._sampled_at: float | None = None
        self._sizes: dict[Place, float] = {}

    async def of(
        self, positions: Mapping[Place, int], unread: Mapping[Place, int], *, buckets: Buckets
    ) -> Mapping[Place, float]:
        """Return the bytes of a row in each bucket that was looked at."""
        clock = self._cluster.clock
        is_due = self._sampled_at is None or clock.monotonic() - self._sampled_at >= SAMPLED_EVERY_S
        if is_due or not any(unread.get(place) for place in self._sizes):
            fullest = sorted((place for place in unread if unread[place]), key=lambda p: -unread[p])
            await self._sample(
                {place: positions[place] for place in fullest[:SAMPLED_MAX]}, buckets
            )
            self._sampled_at = clock.monotonic()
        return self._sizes

    async def _sample(self, positions: Mapping[Place, int], buckets: Buckets) -> None:
        fetcher = Fetcher(self._cluster, self._view, size=_FIRST_BATCH, forgets_dropped=True)
        for place, offset in positions.items():
            fetcher.follow(place, buckets[place], offset=offset)
        waiting = set(positions)
        deadline = self._cluster.clock.monotonic() + _WITHIN_S
        try:
            while waiting and (left_s := deadline - self._cluster.clock.monotonic()) > 0:
                for batch in await fetcher.poll(left_s):
                    place = Place(batch.partition, batch.bucket.bucket)
                    self._sizes[place] = batch.rows.nbytes / max(batch.rows.num_rows, 1)
                    waiting.discard(place)
                    fetcher.drop(place)
        except OffsetOutOfRangeError:
            # What is gone is noticed by those who read it.
            return
        finally:
            await fetcher.close()
