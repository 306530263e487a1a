"""Following many buckets at once, as the caller sees it."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

from headwater.client.cluster import Cluster
from headwater.client.reading.fetch_request import FetchSize
from headwater.client.reading.followed import Arrived, BucketFault, Followed
from headwater.client.reading.lanes import Lanes
from headwater.client.reading.log_batch import LogBatch, Place
from headwater.client.reading.log_reader import LogReader, Source
from headwater.client.reading.view import View
from headwater.errors import HeadwaterError, PartitionMissingError
from headwater.model.bucket import OffsetRange, TableBucket

_NO_END = 2**63 - 1
# Below this size, decoding takes less time than handing it to a thread.
THREAD_BYTES_MIN = 128 * 1024
IDLE_S = 1.0


class Fetcher:
    """Read the logs of many buckets; one that fails does not hold up the others.

    Every server has at most one request under way and one answer waiting for the caller. The
    next request leaves when the caller takes an answer, before that is decoded.
    """

    def __init__(
        self,
        cluster: Cluster,
        view: View,
        *,
        size: FetchSize | None = None,
        forgets_dropped: bool = False,
    ) -> None:
        self._cluster = cluster
        self._view = view
        self._lanes = Lanes(cluster, view, size or FetchSize.of(cluster.settings))
        self._reader = LogReader(cluster, view)
        self._forgets_dropped = forgets_dropped

    # ---- what is followed

    @property
    def followed(self) -> Mapping[Place, Followed]:
        """Return where the reader is in each bucket."""
        return self._lanes.followed

    def follow(
        self, place: Place, bucket: TableBucket, *, offset: int, end: int | None = None
    ) -> None:
        """Read a bucket from an offset on, whatever was read of it before."""
        self._lanes.followed[place] = Followed(
            place=place,
            bucket=bucket,
            position=offset,
            next_offset=offset,
            end=end,
            projects=self._view.positions is not None,
        )
        self._lanes.wake.set()

    def drop(self, place: Place) -> None:
        """Follow a bucket no longer."""
        self._lanes.followed.pop(place, None)

    @property
    def is_done(self) -> bool:
        """Tell whether every bucket was read up to its end."""
        return all(each.is_done for each in self.followed.values())

    @property
    def stalled_s(self) -> float:
        """Return for how long nothing new has come."""
        return self._cluster.clock.monotonic() - self._lanes.progress_at

    @property
    def last_fault(self) -> HeadwaterError | None:
        """Return what went wrong last, if anything has."""
        return self._lanes.last_fault

    # ---- reading

    async def poll(self, timeout_s: float) -> list[LogBatch]:
        """Return what came, waiting no longer than the timeout for the first of it.

        1. Ask every server that has nothing under way. 2. Raise what cannot be mended.
        3. Decode the oldest answer; if it has no wanted rows, wait for the next.
        """
        clock, lanes = self._cluster.clock, self._lanes
        deadline = clock.monotonic() + timeout_s
        while True:
            lanes.wake.clear()
            lanes.send()
            self._raise_faults()
            if lanes.answers and (batches := await self._take()):
                return batches
            left_s = deadline - clock.monotonic()
            if left_s <= 0 or self.is_done:
                return []
            if not lanes.answers:
                await self._wait(min(left_s, self._pause_s()))

    async def close(self) -> None:
        """Stop reading."""
        await self._lanes.close()

    def _raise_faults(self) -> None:
        while self._lanes.faults:
            found = self._lanes.faults.popleft()
            if not isinstance(found, BucketFault):
                raise found
            place = found.followed.place
            if self.followed.get(place) is not found.followed:
                continue
            if self._forgets_dropped and isinstance(found.fault, PartitionMissingError):
                self.drop(place)
                continue
            raise found.fault

    async def _take(self) -> list[LogBatch]:
        lane, arrived = self._lanes.answers[0]
        self._lanes.taken(lane)
        current = [each for each in arrived if self._is_current(each)]
        for each in current:
            await self._reader.prepare(each.batches)
        if sum(each.size for each in current) < THREAD_BYTES_MIN:
            batches = self._decode(current)
        else:
            batches = await asyncio.to_thread(self._decode, current)
        # Only now, so that nothing is lost when the caller is cancelled while it waits.
        self._lanes.answers.popleft()
        for each in current:
            each.followed.position = each.end
        return batches

    def _is_current(self, arrived: Arrived) -> bool:
        """Tell whether what arrived was not overtaken by a seek."""
        return self.followed.get(arrived.followed.place) is arrived.followed

    def _decode(self, arrived: Sequence[Arrived]) -> list[LogBatch]:
        return [batch for each in arrived for batch in self._decode_one(each)]

    def _decode_one(self, arrived: Arrived) -> list[LogBatch]:
        followed = arrived.followed
        source = Source(followed.bucket, followed.place.partition, arrived.is_projected)
        end = _NO_END if followed.end is None else followed.end
        return self._reader.read(arrived.batches, OffsetRange(arrived.start, end), source=source)

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._lanes.wake.wait()

    def _pause_s(self) -> float:
        """Return how long until a bucket that failed is tried again."""
        now = self._cluster.clock.monotonic()
        pauses = [each.ready_at - now for each in self.followed.values() if each.ready_at > now]
        return min(pauses, default=IDLE_S)
