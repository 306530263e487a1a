"""The table that a cursor reads."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from headwater.client.cluster import Cluster
from headwater.client.reading.fetch_request import FetchSize
from headwater.client.reading.fetcher import Fetcher
from headwater.client.reading.filters import Where
from headwater.client.reading.log_batch import LogBatch, Place
from headwater.client.reading.offsets import list_ends
from headwater.client.reading.places import buckets_of
from headwater.client.reading.starts import Start, start_offsets
from headwater.client.reading.view import View
from headwater.errors import OffsetOutOfRangeError
from headwater.model.bucket import TableBucket
from headwater.model.lineage import UNKNOWN, Lineage
from headwater.model.table import TableInfo


class Source(Protocol):
    """Be the table that is read."""

    async def places(self) -> dict[TableBucket, Place]:
        """Return the buckets that the table has now."""
        ...

    async def offsets(self, start: Start) -> dict[TableBucket, int]:
        """Return where each bucket begins, ends, or was at some time."""
        ...

    async def lineages(self) -> dict[TableBucket, Lineage]:
        """Return who wrote the log of each bucket, as far as the server tells."""
        ...

    async def assign(self, positions: Mapping[TableBucket, int]) -> None:
        """Read these buckets from here on, and no others; one that is read already goes on."""
        ...

    async def poll(self, timeout_s: float) -> list[LogBatch]:
        """Return what is there, waiting for the first batch no longer than this."""
        ...

    @property
    def position(self) -> Mapping[TableBucket, int]:
        """Return where each bucket is read next."""
        ...

    def written_by(self, bucket: TableBucket, position: int) -> int:
        """Return who wrote the row before a position, as far as the server told."""
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
        view = View.of(table, columns=columns, where=where)
        # A partition that is dropped while it is read ends there; the next listing lacks it.
        self._fetcher = Fetcher(cluster, view, size=size, forgets_dropped=True)
        self._places: dict[TableBucket, Place] = {}

    async def places(self) -> dict[TableBucket, Place]:
        """Return the buckets that the table has now."""
        buckets = await buckets_of(self._cluster, self._table)
        self._places = {bucket: place for place, bucket in buckets.items()}
        return dict(self._places)

    async def offsets(self, start: Start) -> dict[TableBucket, int]:
        """Return where each bucket begins, ends, or was at some time."""
        buckets = await buckets_of(self._cluster, self._table)
        offsets = await start_offsets(self._cluster, self._table, start, buckets=buckets)
        return {buckets[place]: offset for place, offset in offsets.items()}

    async def lineages(self) -> dict[TableBucket, Lineage]:
        """Return who wrote the log of each bucket, as far as the server tells."""
        buckets = await buckets_of(self._cluster, self._table)
        ends = await list_ends(self._cluster, self._table, buckets=buckets)
        return {buckets[place]: each.lineage for place, each in ends.items()}

    async def assign(self, positions: Mapping[TableBucket, int]) -> None:
        """Read these buckets from here on, and no others; one that is read already goes on."""
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
        """Return what is there, waiting for the first batch no longer than this."""
        try:
            return await self._fetcher.poll(timeout_s)
        except OffsetOutOfRangeError as fault:
            raise OffsetOutOfRangeError(
                f"The rows at the position of the cursor are gone: {fault.message}",
                hint="Reset the cursor, to the earliest rows or to others.",
            ) from fault

    @property
    def position(self) -> Mapping[TableBucket, int]:
        """Return where each bucket is read next."""
        return {each.bucket: each.position for each in self._fetcher.followed.values()}

    def written_by(self, bucket: TableBucket, position: int) -> int:
        """Return who wrote the row before a position, as far as the server told."""
        for followed in self._fetcher.followed.values():
            if followed.bucket == bucket:
                return followed.lineage.writer_before(position)
        return UNKNOWN

    async def close(self) -> None:
        """Stop reading."""
        await self._fetcher.close()
