"""How far a member has read, and how much of that its caller was given."""

from collections import deque
from collections.abc import Mapping, Sequence

from headwater.client.reading.log_batch import LogBatch
from headwater.model.bucket import TableBucket


class Progress:
    """Keep apart what was read, what the caller was given, and what it came back from.

    Positions are those of the reader and not of the last row: rows may have been filtered out.
    """

    def __init__(self) -> None:
        self.given: dict[TableBucket, int] = {}
        """Every row before these positions was handed to the caller."""
        self.done: dict[TableBucket, int] = {}
        """The same, when the caller last came back for more."""
        self.committed: dict[TableBucket, int] = {}
        """What a member that takes over would begin with."""
        self._read: dict[TableBucket, int] = {}
        self._waiting: deque[LogBatch] = deque()

    @property
    def read(self) -> Mapping[TableBucket, int]:
        """Return where the reader stands."""
        return self._read

    @property
    def is_waiting(self) -> bool:
        """Tell whether batches were read that the caller has not seen."""
        return bool(self._waiting)

    def begin(self, bucket: TableBucket, position: int) -> None:
        """Start with a bucket."""
        for positions in self._all():
            positions[bucket] = position

    def end(self, bucket: TableBucket) -> None:
        """Forget a bucket and what the caller has not seen of it."""
        for positions in self._all():
            positions.pop(bucket, None)
        self._waiting = deque(batch for batch in self._waiting if batch.bucket != bucket)

    def is_uncommitted(self, bucket: TableBucket) -> bool:
        """Tell whether the caller was given rows that others would read again."""
        return self.given.get(bucket) != self.committed.get(bucket)

    def came_back(self) -> None:
        """Take note that the caller is through with what it was given."""
        self.done = dict(self.given)

    def add(self, batches: Sequence[LogBatch], positions: Mapping[TableBucket, int]) -> None:
        """Take what was read, and where the reader stands after it."""
        self._waiting.extend(batch for batch in batches if batch.bucket in self._read)
        self._read |= {b: position for b, position in positions.items() if b in self._read}
        self._give_quiet()

    def take_all(self) -> list[LogBatch]:
        """Hand out everything that was read."""
        batches = list(self._waiting)
        self._waiting.clear()
        self._give_quiet()
        return batches

    def take_one(self) -> LogBatch:
        """Hand out the batch that was read first."""
        batch = self._waiting.popleft()
        if len(batch.offsets):
            self.given[batch.bucket] = int(batch.offsets[-1]) + 1
        self._give_quiet()
        return batch

    def _all(self) -> tuple[dict[TableBucket, int], ...]:
        return self._read, self.given, self.done, self.committed

    def _give_quiet(self) -> None:
        """Buckets without a waiting batch are given up to where the reader stands."""
        waiting = {batch.bucket for batch in self._waiting}
        self.given |= {b: position for b, position in self._read.items() if b not in waiting}
