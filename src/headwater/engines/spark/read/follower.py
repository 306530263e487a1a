"""Follow a table: where its logs end, how far a stream reads next, and what has gone missing."""

from collections.abc import Mapping

from headwater.client.client import AsyncClient
from headwater.cluster.cluster import Cluster
from headwater.engines.spark.options import StartupMode
from headwater.engines.spark.read.progress import Unread, next_offset, rows_allowed, unread
from headwater.engines.spark.read.selection import Reading, place_text, selected_still
from headwater.engines.spark.read.stream_offset import StreamOffset
from headwater.engines.spark.read.task import lost_offsets, lost_partition
from headwater.engines.spark.source_options import SourceOptions
from headwater.errors import HeadwaterError, OffsetOutOfRangeError, PartitionMissingError
from headwater.model import TableBucket
from headwater.read.fetcher import Fetcher
from headwater.read.filters import RowView
from headwater.read.log_ranges import cut_offsets
from headwater.read.offsets import Buckets, Place, count_rows, list_offsets
from headwater.read.polls import FetchSize
from headwater.runtime.events import Events

# How large the rows of each bucket are, about, judged by a few of them.

# The first batch of a bucket is enough to tell; a server sends at least one.
_FIRST_BATCH = FetchSize(bytes_max=1024 * 1024, bucket_bytes_max=1)
SAMPLED_MAX = 8
SAMPLED_EVERY_S = 60.0
_WITHIN_S = 2.0


class RowSizes:
    """Read a batch of the fullest buckets now and then, and keep what it told."""

    def __init__(self, cluster: Cluster, view: RowView) -> None:
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


# The buckets of a followed table and where their logs end, as they change.


class LogEnds:
    """Keep track of buckets, and ask for the ends of their logs."""

    def __init__(self, cluster: Cluster, reading: Reading, options: SourceOptions) -> None:
        self._cluster = cluster
        self._reading = reading
        self._options = options
        self._found_at: float | None = None
        self._checked_at: float | None = None
        self.buckets: Buckets = {}

    async def list(self) -> dict[Place, int]:
        """Return where the logs end now, those of new partitions too once they are found."""
        if self._is_due(self._found_at) and (self._found_at is None or self._can_change):
            await self._find()
        try:
            return await self._listed(self.buckets)
        except PartitionMissingError:
            await self._find()
            return await self._listed(self.buckets)

    async def earliest(self, buckets: Buckets) -> dict[Place, int]:
        """Return where logs begin."""
        return await list_offsets(self._cluster, self._reading.table, "earliest", buckets=buckets)

    async def check_kept(self, start: StreamOffset) -> None:
        """Say when rows that come next are gone; asked for now and then, as it is rare."""
        if not self._reading.fails_on_loss or not self._is_due(self._checked_at):
            return
        self._checked_at = self._cluster.clock.monotonic()
        if not self.buckets:
            await self._find()
        try:
            await self._check(start)
        except PartitionMissingError:
            await self._find()
            await self._check(start)

    async def _check(self, start: StreamOffset) -> None:
        positions = {
            place: at
            for place, at in start.positions.items()
            if at is not None and place in self.buckets and start.knows(place, self.buckets[place])
        }
        earliest = await self.earliest({place: self.buckets[place] for place in positions})
        if lost := cut_offsets(positions, earliest):
            raise lost_offsets(self._reading.table, lost)

    @property
    def _can_change(self) -> bool:
        return self._reading.table.is_partitioned

    def _is_due(self, last: float | None) -> bool:
        now = self._cluster.clock.monotonic()
        return last is None or now - last >= self._options.discovery_s

    async def _find(self) -> None:
        self.buckets = await selected_still(self._cluster, self._reading, self._options)
        self._found_at = self._cluster.clock.monotonic()

    async def _listed(self, buckets: Buckets) -> dict[Place, int]:
        return await list_offsets(self._cluster, self._reading.table, "latest", buckets=buckets)


# Following a table: where a stream is, what there is to read, and what has gone missing.

# How long to wait for rows before Spark is told that there are none.
WAIT_S = 0.3
PAUSE_FIRST_S = 0.002
PAUSE_MAX_S = 0.05
_events = Events("spark")


class Follower:
    """Tell how far to read next; it waits a little for rows where there are none."""

    def __init__(self, client: AsyncClient, reading: Reading, options: SourceOptions) -> None:
        self._cluster = client.cluster
        self._reading = reading
        self._options = options
        self._ends = LogEnds(self._cluster, reading, options)
        self._sizes = RowSizes(self._cluster, reading.view())
        self._target: Mapping[Place, int] | None = None
        self._late: frozenset[Place] = frozenset()
        self._noted: Buckets = {}
        # By ids, as another partition may come in the place of one that is gone.
        self._seen: dict[TableBucket, int] = {}
        self.last: StreamOffset | None = None

    @property
    def seen(self) -> Mapping[Place, int]:
        """Return where the logs ended when they were last looked at."""
        buckets = self._ends.buckets
        return {place: self._seen[b] for place, b in buckets.items() if b in self._seen}

    @property
    def rows_behind(self) -> int:
        """Return how many rows the last offset is behind the ends of the logs."""
        if self.last is None:
            return 0
        return self._unread(self.last, self.seen).total

    async def pin(self) -> None:
        """Read no further than the logs reach now."""
        self._target = await self._list()

    async def check_kept(self, start: StreamOffset) -> None:
        """Say when rows that come next are gone."""
        await self._ends.check_kept(start)

    async def advance(self, start: StreamOffset, *, is_limited: bool) -> StreamOffset:
        """Return how far to read now, which is the start where there is nothing to read.

        1. Check that what comes next is still there. 2. Look at the ends of the logs, again and
        again for a while. 3. Share the rows that are allowed out among the buckets.
        """
        await self._ends.check_kept(start)
        clock = self._cluster.clock
        deadline, pause_s = clock.monotonic() + WAIT_S, PAUSE_FIRST_S
        while True:
            ends = self._pinned(await self._list())
            self._check_dropped(start)
            left = self._unread(start, ends)
            if not left.is_empty or self._has_gone(start):
                break
            if self._target is not None or clock.monotonic() >= deadline:
                break
            await clock.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_MAX_S)
        self.last = await self._next(start, left, is_limited=is_limited)
        return self.last

    # ---- what there is

    async def _list(self) -> Mapping[Place, int]:
        ends = await self._ends.list()
        await self._note_late()
        self._seen |= {self._ends.buckets[place]: end for place, end in ends.items()}
        return ends

    def _pinned(self, ends: Mapping[Place, int]) -> Mapping[Place, int]:
        if self._target is None:
            return ends
        return {place: end for place, end in self._target.items() if place in ends}

    def _unread(self, start: StreamOffset, ends: Mapping[Place, int]) -> Unread:
        buckets = self._ends.buckets
        known = {place: end for place, end in ends.items() if place in buckets}
        return unread(start, known, buckets=buckets, begun_late=self._late)

    async def _note_late(self) -> None:
        """Find new buckets whose first changes are gone, and whose rows are read by key then."""
        table = self._reading.table
        reads_states = self._options.mode is StartupMode.FULL and table.is_keyed
        new = {place: b for place, b in self._ends.buckets.items() if self._noted.get(place) != b}
        if not reads_states or not new or not table.is_partitioned:
            return
        earliest = await self._ends.earliest(new)
        self._noted = dict(self._ends.buckets)
        self._late |= {place for place, offset in earliest.items() if offset > 0}

    # ---- what is gone

    def _has_gone(self, start: StreamOffset) -> bool:
        return any(place not in self._ends.buckets for place in start.positions)

    def _check_dropped(self, start: StreamOffset) -> None:
        """Say when a partition was dropped of which there were rows to read, as far as known."""
        table, buckets = self._reading.table, self._ends.buckets
        for place, at in start.positions.items():
            if place in buckets and start.knows(place, buckets[place]):
                continue
            gone = start.bucket(place, table.table_id)
            name = place_text(place, table.descriptor.partition_keys)
            if self._seen.pop(gone, 0) > (at or 0) and self._reading.fails_on_loss:
                raise lost_partition(table, name)
            _events.warning("bucket is gone", table=str(table.path), bucket=name)

    # ---- how much of it

    async def _next(self, start: StreamOffset, left: Unread, *, is_limited: bool) -> StreamOffset:
        rows_max = await self._rows_max(left) if is_limited else None
        state_rows = left.states
        if rows_max is not None:
            state_rows = {
                place: await self._state_rows(place, end) for place, end in left.states.items()
            }
        return next_offset(
            start,
            left,
            buckets=self._ends.buckets,
            rows_max=rows_max,
            state_rows=state_rows,
            now_ms=self._cluster.clock.now_ms(),
        )

    async def _rows_max(self, left: Unread) -> int | None:
        options = self._options
        sizes: Mapping[Place, float] = {}
        if options.bytes_max is not None:
            positions = {place: at for place, at in left.positions.items() if at is not None}
            sizes = await self._sizes.of(positions, left.rows, buckets=self._ends.buckets)
        return rows_allowed(
            left.rows, sizes, rows_max=options.rows_max, bytes_max=options.bytes_max
        )

    async def _state_rows(self, place: Place, end: int) -> int:
        """Return how many rows a bucket holds by key, at most if servers do not tell."""
        buckets = {place: self._ends.buckets[place]}
        try:
            return await count_rows(self._cluster, self._reading.table, buckets=buckets)
        except HeadwaterError:
            return end
