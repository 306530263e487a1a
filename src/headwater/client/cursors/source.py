"""The table a cursor reads, and its options: start, commits, leases."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from headwater.cluster.cluster import Cluster
from headwater.errors import InvalidNameError, OffsetOutOfRangeError, RequestError
from headwater.model import Lineage, TableBucket, TableInfo
from headwater.model.bucket import UNKNOWN
from headwater.model.path import NAME_LENGTH_MAX
from headwater.read.fetcher import Fetcher
from headwater.read.filters import RowView, Where
from headwater.read.offsets import LogBatch, Place, Start, buckets_of, list_ends, start_offsets
from headwater.read.polls import FetchSize

_NAME_MARKS = frozenset("_-.")
LEASE_S_MIN = 0.5
BEATS_PER_LEASE = 3
ROUND_INTERVAL_S_MAX = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorOptions:
    """How one member takes part in a cursor."""

    start: Start = "earliest"
    """Where a new cursor starts."""
    auto_commit: bool = True
    commit_interval_s: float = 1.0
    lease_s: float = 10.0
    """A member without heartbeats for this long loses its buckets."""
    idle_s: float = 300.0
    """A member that does not poll for this long stops sending heartbeats."""

    def __post_init__(self) -> None:
        if self.lease_s < LEASE_S_MIN:
            raise RequestError(f"A lease of {self.lease_s:g} s is too short.", hint=_LEASE_HINT)
        if self.commit_interval_s < 0:
            raise RequestError("The commit interval is negative.")
        if self.idle_s < self.lease_s:
            raise RequestError("The idle time must be at least as long as the lease.")

    @property
    def beat_interval_s(self) -> float:
        """How often a member sends a heartbeat."""
        return self.lease_s / BEATS_PER_LEASE

    @property
    def round_interval_s(self) -> float:
        """How often a member runs a round."""
        return min(ROUND_INTERVAL_S_MAX, self.beat_interval_s)

    @property
    def listing_interval_s(self) -> float:
        """How often a member looks for new and dropped partitions."""
        return self.beat_interval_s


_LEASE_HINT = f"Use at least {LEASE_S_MIN} s."


def check_cursor_name(name: str) -> str:
    """Check that a name is allowed for a cursor, and return it."""
    is_plain = all(mark in _NAME_MARKS or (mark.isascii() and mark.isalnum()) for mark in name)
    if not name or len(name) > NAME_LENGTH_MAX or not is_plain:
        raise InvalidNameError(
            f"{name[:40]!r} is not a valid cursor name.",
            hint=f"Use up to {NAME_LENGTH_MAX} ASCII letters, digits, '_', '-' and '.'.",
        )
    return name


# The table that a cursor reads.


class Source(Protocol):
    """A table that can be read by bucket."""

    async def places(self) -> dict[TableBucket, Place]:
        """List the buckets of the table now."""
        ...

    async def offsets(self, start: Start) -> dict[TableBucket, int]:
        """Find where each bucket starts, ends, or was at some time."""
        ...

    async def lineages(self) -> dict[TableBucket, Lineage]:
        """Fetch the lineage of each bucket's log, if the server has it."""
        ...

    async def assign(self, positions: Mapping[TableBucket, int]) -> None:
        """Read exactly these buckets; one that is already read continues."""
        ...

    async def poll(self, timeout_s: float) -> list[LogBatch]:
        """Return what is available, waiting at most this long for the first batch."""
        ...

    @property
    def position(self) -> Mapping[TableBucket, int]:
        """Where each bucket is read next."""
        ...

    def written_by(self, bucket: TableBucket, position: int) -> int:
        """Look up who wrote the row before a position, if the server said so."""
        ...

    async def close(self) -> None:
        """Stop reading."""
        ...


class TableSource:
    """Read a table of a storage."""

    def __init__(
        self,
        cluster: Cluster,
        table: TableInfo,
        *,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
        size: FetchSize | None = None,
    ) -> None:
        self._cluster = cluster
        self._table = table
        view = RowView.of(table, columns=columns, where=where)
        # A partition that is dropped while it is read ends there; the next listing lacks it.
        self._fetcher = Fetcher(cluster, view, size=size, forgets_dropped=True)
        self._places: dict[TableBucket, Place] = {}

    async def places(self) -> dict[TableBucket, Place]:
        """List the buckets of the table now."""
        buckets = await buckets_of(self._cluster, self._table)
        self._places = {bucket: place for place, bucket in buckets.items()}
        return dict(self._places)

    async def offsets(self, start: Start) -> dict[TableBucket, int]:
        """Find where each bucket starts, ends, or was at some time."""
        buckets = await buckets_of(self._cluster, self._table)
        offsets = await start_offsets(self._cluster, self._table, start, buckets=buckets)
        return {buckets[place]: offset for place, offset in offsets.items()}

    async def lineages(self) -> dict[TableBucket, Lineage]:
        """Fetch the lineage of each bucket's log, if the server has it."""
        buckets = await buckets_of(self._cluster, self._table)
        ends = await list_ends(self._cluster, self._table, buckets=buckets)
        return {buckets[place]: each.lineage for place, each in ends.items()}

    async def assign(self, positions: Mapping[TableBucket, int]) -> None:
        """Read exactly these buckets; one that is already read continues."""
        known = positions.keys() - self._places.keys()
        places = await self.places() if known else self._places
        wanted = {places[bucket]: bucket for bucket in positions if bucket in places}
        for place in [each for each in self._fetcher.followed if each not in wanted]:
            self._fetcher.drop(place)
        for place, bucket in wanted.items():
            followed = self._fetcher.followed.get(place)
            if followed is None or (followed.bucket, followed.position) != (
                bucket,
                positions[bucket],
            ):
                self._fetcher.follow(place, bucket, offset=positions[bucket])

    async def poll(self, timeout_s: float) -> list[LogBatch]:
        """Return what is available, waiting at most this long for the first batch."""
        try:
            return await self._fetcher.poll(timeout_s)
        except OffsetOutOfRangeError as fault:
            raise OffsetOutOfRangeError(
                f"The rows at the cursor's position no longer exist: {fault.message}",
                hint="Reset the cursor, for example to the earliest rows.",
            ) from fault

    @property
    def position(self) -> Mapping[TableBucket, int]:
        """Where each bucket is read next."""
        return {each.bucket: each.position for each in self._fetcher.followed.values()}

    def written_by(self, bucket: TableBucket, position: int) -> int:
        """Look up who wrote the row before a position, if the server said so."""
        for followed in self._fetcher.followed.values():
            if followed.bucket == bucket:
                return followed.lineage.writer_before(position)
        return UNKNOWN

    async def close(self) -> None:
        """Stop reading."""
        await self._fetcher.close()
