"""How far a group is behind: in rows, and in time."""

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.client.cursors.source import Source
from headwater.client.cursors.view import GroupView
from headwater.errors import TimedOutError
from headwater.model.bucket import TableBucket
from headwater.runtime.clock import Clock

POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class Distance:
    """Hold where a bucket is read next, and where it ends."""

    position: int
    end: int

    @property
    def rows(self) -> int:
        """Return how many rows lie between."""
        return max(0, self.end - self.position)


async def distances(view: GroupView, source: Source) -> dict[TableBucket, Distance]:
    """Return how far each bucket of a table is read."""
    earliest, latest = await source.offsets("earliest"), await source.offsets("latest")
    return {
        # What retention took away cannot be read any more, so it is not behind.
        bucket: Distance(max(view.slot(bucket).position or 0, earliest.get(bucket, 0)), end)
        for bucket, end in latest.items()
    }


async def ages_s(
    behind: Mapping[TableBucket, Distance], source: Source, *, clock: Clock, timeout_s: float
) -> dict[TableBucket, float]:
    """Return the age of the first unread row of each bucket that has one."""
    waiting = {bucket: each.position for bucket, each in behind.items() if each.rows}
    written_ms: dict[TableBucket, int] = {}
    deadline_s = clock.monotonic() + timeout_s
    await source.assign(waiting)
    while waiting:
        if clock.monotonic() >= deadline_s:
            raise TimedOutError("The first unread rows could not be read in time.")
        for batch in await source.poll(POLL_S):
            written_ms.setdefault(batch.bucket, batch.first_timestamp_ms)
        positions = source.position
        waiting = {
            bucket: start
            for bucket, start in waiting.items()
            # One may be read without giving rows, if all that was there held none.
            if bucket not in written_ms and positions.get(bucket, start) < behind[bucket].end
        }
        await source.assign({bucket: positions.get(bucket, at) for bucket, at in waiting.items()})
    now_ms = clock.now_ms()
    return {bucket: max(0, now_ms - each) / 1000 for bucket, each in written_ms.items()}
