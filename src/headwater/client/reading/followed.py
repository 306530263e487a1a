"""A bucket that is followed: how far it was asked for, how far it was given to the caller."""

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.client.reading.log_batch import Place
from headwater.client.reading.log_reader import StoredBatch
from headwater.errors import HeadwaterError
from headwater.model.bucket import TableBucket
from headwater.model.lineage import NO_LINEAGE, Lineage, Start, lineage_of

BEFORE_ALL = -1
Lane = tuple[int, bool]
"""A server, and whether it is asked to cut columns: what one request can hold."""


@dataclass(slots=True, eq=False, kw_only=True)
class Followed:
    """Hold where a reader is in one bucket."""

    place: Place
    bucket: TableBucket
    position: int
    """What the caller is given next."""
    next_offset: int
    """What is asked for next."""
    end: int | None = None
    projects: bool
    node: int | None = None
    is_busy: bool = False
    """Whether a request for it, or for its leader, is under way."""
    failures: int = 0
    lineage: Lineage = NO_LINEAGE
    """Who wrote what was read, as far as the server told."""
    ready_at: float = 0.0

    @property
    def lane(self) -> Lane | None:
        """Return the lane in which the bucket is asked for, if its leader is known."""
        return None if self.node is None else (self.node, self.projects)

    def learn(self, incarnation: int, starts: Sequence[int]) -> None:
        """Take note of who wrote the row before what is asked for, and who those behind it."""
        if not self.lineage.starts:
            self.lineage = Lineage((Start(incarnation, BEFORE_ALL),))
        for start in lineage_of(starts).starts:
            self.lineage = self.lineage.continued(start.incarnation, start.offset)

    @property
    def is_asked_up(self) -> bool:
        """Tell whether everything up to the end was asked for."""
        return self.end is not None and self.next_offset >= self.end

    @property
    def is_done(self) -> bool:
        """Tell whether the caller has everything up to the end."""
        return self.end is not None and self.position >= self.end


@dataclass(frozen=True, slots=True, eq=False)
class Arrived:
    """Hold what came of one bucket and is not decoded yet."""

    followed: Followed
    batches: list[StoredBatch]
    start: int
    end: int
    """The offset up to which the server looked; the last record may lie before it."""
    is_projected: bool

    @property
    def size(self) -> int:
        """Return the bytes that have to be decoded."""
        return sum(len(batch.data) for batch in self.batches)


@dataclass(frozen=True, slots=True, eq=False)
class BucketFault:
    """Hold what went wrong with one bucket."""

    followed: Followed
    fault: HeadwaterError
