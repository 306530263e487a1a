"""Follow many buckets at once, and join small batches to large ones."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

from headwater.cluster.cluster import Cluster
from headwater.errors import HeadwaterError, PartitionMissingError
from headwater.model import OffsetRange, TableBucket
from headwater.read.filters import RowView
from headwater.read.log import BatchOrigin, LogReader
from headwater.read.offsets import LogBatch, Place
from headwater.read.polls import Arrived, FetchFault, FetchSize, Followed, LogPolls

# Following many buckets at once, as the caller sees it.

_NO_END = 2**63 - 1
# Below this size, decoding takes less time than handing it to a thread.
THREAD_BYTES_MIN = 128 * 1024
IDLE_S = 1.0

Decoded = tuple[Arrived, list[LogBatch] | HeadwaterError]


class Fetcher:
    """Read the logs of many buckets; one that fails does not hold up the others.

    Every server has at most one request under way and one answer waiting for the caller. The
    next request leaves when the caller takes an answer, before that is decoded.
    """

    def __init__(
        self,
        cluster: Cluster,
        view: RowView,
        *,
        size: FetchSize | None = None,
        forgets_dropped: bool = False,
    ) -> None:
        self._cluster = cluster
        self._view = view
        self._lanes = LogPolls(cluster, view, size or FetchSize.of(cluster.settings))
        self._reader = LogReader(cluster, view)
        self._forgets_dropped = forgets_dropped
        self._decoding: asyncio.Task[list[Decoded]] | None = None

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
    def progress_at(self) -> float:
        """Return when something new came last, on the clock that never goes back."""
        return self._lanes.progress_at

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
            left_s = max(deadline - clock.monotonic(), 0.0)
            if batches := await self._decoded(left_s):
                return batches
            if (self.followed and self.is_done) or clock.monotonic() >= deadline:
                return []
            if not lanes.answers and not lanes.faults:
                await self._wait(min(left_s, self._pause_s()))

    async def close(self) -> None:
        """Stop reading."""
        if self._decoding is not None:
            self._decoding.cancel()
        await self._lanes.close()

    def _raise_faults(self) -> None:
        while self._lanes.faults:
            found = self._lanes.faults.popleft()
            if not isinstance(found, FetchFault):
                raise found
            place = found.followed.place
            if self.followed.get(place) is not found.followed:
                continue
            if self._forgets_dropped and isinstance(found.fault, PartitionMissingError):
                self.drop(place)
                continue
            raise found.fault

    # ---- decoding

    async def _decoded(self, timeout_s: float) -> list[LogBatch]:
        """Return the rows of the oldest answer, which stays with us if the caller goes away."""
        if self._decoding is None:
            if not self._lanes.answers:
                return []
            lane, arrived = self._lanes.answers.popleft()
            self._lanes.taken(lane)
            if self._is_quick(arrived):
                return self._given(self._decode(arrived))
            self._decoding = asyncio.get_running_loop().create_task(self._decode_aside(arrived))
        done, _ = await asyncio.wait({self._decoding}, timeout=timeout_s)
        if not done:
            return []
        (finished,), self._decoding = done, None
        return self._given(finished.result())

    def _is_quick(self, arrived: Sequence[Arrived]) -> bool:
        return sum(each.size for each in arrived) < THREAD_BYTES_MIN and all(
            self._reader.knows(each.batches) for each in arrived
        )

    async def _decode_aside(self, arrived: Sequence[Arrived]) -> list[Decoded]:
        for each in arrived:
            await self._reader.prepare(each.batches)
        return await asyncio.to_thread(self._decode, arrived)

    def _decode(self, arrived: Sequence[Arrived]) -> list[Decoded]:
        return [(each, self._decode_one(each)) for each in arrived if self._is_current(each)]

    def _decode_one(self, arrived: Arrived) -> list[LogBatch] | HeadwaterError:
        followed = arrived.followed
        source = BatchOrigin(
            followed.bucket, followed.place.partition, arrived.is_projected, arrived.has_holes
        )
        end = _NO_END if followed.end is None else followed.end
        wanted = OffsetRange(arrived.start, end)
        try:
            return self._reader.read(arrived.batches, wanted, source=source)
        except HeadwaterError as fault:
            return fault

    def _given(self, decoded: Sequence[Decoded]) -> list[LogBatch]:
        """Move the positions past what the caller is given now."""
        batches: list[LogBatch] = []
        for arrived, found in decoded:
            if isinstance(found, HeadwaterError):
                self._lanes.read_again(arrived, found)
            elif self._is_current(arrived):
                arrived.followed.position = arrived.end
                arrived.followed.failures = 0
                batches += found
        return batches

    def _is_current(self, arrived: Arrived) -> bool:
        """Tell whether what arrived was not overtaken by a seek."""
        return self.followed.get(arrived.followed.place) is arrived.followed

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._lanes.wake.wait()

    def _pause_s(self) -> float:
        """Return how long until a bucket that failed is tried again."""
        now = self._cluster.clock.monotonic()
        pauses = [each.ready_at - now for each in self.followed.values() if each.ready_at > now]
        return min(pauses, default=IDLE_S)
