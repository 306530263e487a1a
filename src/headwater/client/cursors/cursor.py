"""A cursor: read a table together with others, and continue where any of them stopped."""

import asyncio
import os
import platform
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from headwater import errors
from headwater.client.cursors.ledger import (
    CursorTable,
    GroupStore,
    Ledger,
    TableStore,
    ensure_cursors,
)
from headwater.client.cursors.membership import Listing, Membership
from headwater.client.cursors.rows import GroupKey
from headwater.client.cursors.source import CursorOptions, Source, TableSource, check_cursor_name
from headwater.cluster.cluster import Cluster
from headwater.model import TableBucket, TableInfo
from headwater.read.offsets import LogBatch, Offsets, Place
from headwater.rows.columns import shown
from headwater.runtime.clock import Clock, random_bytes
from headwater.runtime.events import Events
from headwater.runtime.tasks import Tasks, repeat

# How far a member has read, and how much of that its caller was given.


class Progress:
    """Distinguish what was read, what the caller was given, and what it has processed.

    Positions are those of the reader and not of the last row: rows may have been filtered out.
    """

    def __init__(self) -> None:
        self.given: dict[TableBucket, int] = {}
        """Every row before these positions was given to the caller."""
        self.done: dict[TableBucket, int] = {}
        """The same, when the caller last came back for more."""
        self.committed: dict[TableBucket, int] = {}
        """Where a member that takes over would start."""
        self._read: dict[TableBucket, int] = {}
        self._waiting: deque[LogBatch] = deque()

    @property
    def read(self) -> Mapping[TableBucket, int]:
        """The position of the reader."""
        return self._read

    @property
    def is_waiting(self) -> bool:
        """Tell whether there are batches that the caller has not seen."""
        return bool(self._waiting)

    def begin(self, bucket: TableBucket, position: int) -> None:
        """Start a bucket."""
        for positions in self._all():
            positions[bucket] = position

    def end(self, bucket: TableBucket) -> None:
        """Drop a bucket and what the caller has not seen of it."""
        for positions in self._all():
            positions.pop(bucket, None)
        self._waiting = deque(batch for batch in self._waiting if batch.bucket != bucket)

    def is_uncommitted(self, bucket: TableBucket) -> bool:
        """Tell whether the caller was given rows that others would read again."""
        return self.given.get(bucket) != self.committed.get(bucket)

    def came_back(self) -> None:
        """Record that the caller has processed what it was given."""
        self.done = dict(self.given)

    def add(self, batches: Sequence[LogBatch], positions: Mapping[TableBucket, int]) -> None:
        """Add what was read, and the position of the reader after it."""
        self._waiting.extend(batch for batch in batches if batch.bucket in self._read)
        self._read |= {b: position for b, position in positions.items() if b in self._read}
        self._give_quiet()

    def take_all(self) -> list[LogBatch]:
        """Give the caller everything that was read."""
        batches = list(self._waiting)
        self._waiting.clear()
        self._give_quiet()
        return batches

    def take_one(self) -> LogBatch:
        """Give the caller the oldest batch."""
        batch = self._waiting.popleft()
        if len(batch.offsets):
            self.given[batch.bucket] = int(batch.offsets[-1]) + 1
        self._give_quiet()
        return batch

    def _all(self) -> tuple[dict[TableBucket, int], ...]:
        return self._read, self.given, self.done, self.committed

    def _give_quiet(self) -> None:
        """Advance buckets without waiting batches to the position of the reader."""
        waiting = {batch.bucket for batch in self._waiting}
        self.given |= {b: position for b, position in self._read.items() if b not in waiting}


_events = Events("cursors")
ITERATION_TIMEOUT_S = 1.0


class AsyncCursor:
    """Read the buckets of a table that are assigned to this member, and commit positions.

    Rows are delivered at least once: what a member read after its last commit is read again by the
    one that takes over. Use it with `async with`, which joins and leaves.
    """

    def __init__(  # noqa: PLR0913 - one argument per part
        self,
        source: Source,
        open_store: Callable[[], Awaitable[GroupStore]],
        *,
        group: GroupKey,
        member: str,
        note: str = "",
        clock: Clock,
        options: CursorOptions,
    ) -> None:
        self.member = member
        self._group = group
        self._note = note
        self._source = source
        self._open_store = open_store
        self._clock = clock
        self._options = options
        self._progress = Progress()
        self._reading: dict[TableBucket, int] = {}
        self._is_assigned = True
        self._lost: set[TableBucket] = set()
        self._places: dict[TableBucket, Place] = {}
        self._listing = Listing(frozenset())
        self._tasks = Tasks()
        self._turn = asyncio.Lock()
        self._joined: Membership | None = None
        self._polled_s = self._listed_s = self._rounded_s = self._committed_s = clock.monotonic()

    def __repr__(self) -> str:
        return self.shown(self)

    def shown(self, thing: object) -> str:
        """Format a cursor for display: this one, or one that wraps it."""
        group = self._group
        return shown(thing, group.cursor, table=group.table_path, buckets=len(self.assigned))

    # ---- what the caller sees

    @property
    def assigned(self) -> tuple[Place, ...]:
        """The buckets that this member reads at the moment."""
        held = () if self._joined is None else self._joined.held
        return tuple(sorted(map(self._place, held), key=lambda p: (p.partition or "", p.bucket)))

    @property
    def positions(self) -> Offsets:
        """The offset up to which the caller was given each bucket."""
        return {self._place(bucket): offset for bucket, offset in self._progress.given.items()}

    async def poll(self, timeout_s: float = 1.0) -> list[LogBatch]:
        """Return the available batches, waiting at most `timeout_s` for the first.

        With auto-commit, the next call commits the batches of this one.
        """
        async with self._turn:
            self._come_back()
            await self._read(timeout_s)
            return self._progress.take_all()

    def __aiter__(self) -> AsyncIterator[LogBatch]:
        """Yield batch after batch, forever."""
        return self

    async def __anext__(self) -> LogBatch:
        async with self._turn:
            self._come_back()
            await self._read(ITERATION_TIMEOUT_S)
            while not self._progress.is_waiting:
                await self._read(ITERATION_TIMEOUT_S)
            return self._progress.take_one()

    async def commit(self, positions: Offsets | None = None) -> None:
        """Commit everything delivered so far, or positions within that.

        If other members own some of the buckets by now, they read them again from their last
        commit on: the other buckets are committed, and `CursorLostError` is raised.
        """
        async with self._turn:
            wanted = self._progress.given if positions is None else self._checked(positions)
            await self._commit(dict(wanted))
            lost, self._lost = self._lost, set()
        if lost:
            named = ", ".join(sorted(map(self._named, lost)))
            raise errors.CursorLostError(f"Other members of the group have taken over {named}.")

    # ---- joining and leaving

    async def join(self) -> Self:
        """Join the group and take a share of the buckets."""
        if self._joined is not None:
            return self
        ledger = Ledger(await self._open_store(), self.member, self._clock)
        options = self._options
        member = Membership(
            ledger,
            self._clock,
            lease_s=options.lease_s,
            note=self._note,
            written_by=self._source.written_by,
        )
        await member.beat()
        await self._list_places()
        if not (await ledger.read()).is_begun:
            # Fetched before the offsets: if the log is replaced in between, the offsets are
            # rejected.
            lineages = await self._source.lineages()
            await ledger.begin(await self._source.offsets(options.start), lineages=lineages)
        self._joined, self._polled_s = member, self._clock.monotonic()
        beats = repeat(
            self._beat, every_s=options.beat_interval_s, clock=self._clock, name="heartbeat"
        )
        self._tasks.start(beats, name=f"heartbeat of {self.member}")
        try:
            await self._round()
        except BaseException:
            self._joined = None
            await self._tasks.stop()
            raise
        return self

    async def leave(self, *, is_done: bool = True) -> None:
        """Give all buckets to the others; `is_done` says that the last rows are processed."""
        member, self._joined = self._joined, None
        if member is None:
            return
        await self._tasks.stop()
        progress = self._progress.given if is_done else self._progress.done
        try:
            # Later than this, the others have taken over.
            async with asyncio.timeout(self._options.lease_s):
                await member.leave(progress if self._options.auto_commit else {})
        except TimeoutError:
            raise errors.TimedOutError(
                "The last positions could not be committed in time."
            ) from None
        finally:
            await self._source.close()

    async def __aenter__(self) -> Self:
        return await self.join()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.leave(is_done=fault is None)
        except errors.HeadwaterError as failed:
            if fault is None:
                raise
            # The caller's error matters more; the others wait for the lease to expire.
            _events.warning("leaving failed", member=self.member, cause=str(failed))

    # ---- steps

    async def _beat(self) -> None:
        if self._clock.monotonic() - self._polled_s <= self._options.idle_s:
            await self._member.beat()

    def _come_back(self) -> None:
        """Record that the caller wants more, so what it was given is processed."""
        self._polled_s = self._clock.monotonic()
        self._progress.came_back()

    async def _read(self, timeout_s: float) -> None:
        deadline_s = self._clock.monotonic() + timeout_s
        await self._keep_up()
        while not self._progress.is_waiting:
            now_s = self._clock.monotonic()
            pause_s = min(deadline_s, self._rounded_s + self._options.round_interval_s) - now_s
            if self._member.held:
                batches = await self._source.poll(max(pause_s, 0.0))
                self._progress.add(batches, self._source.position)
            else:
                await self._clock.sleep(max(pause_s, 0.0))
            if self._clock.monotonic() >= deadline_s:
                return
            await self._keep_up()

    async def _keep_up(self) -> None:
        """Commit and take part in rounds when due.

        Reads nothing unless the others must still consider this member alive.
        """
        options, now_s = self._options, self._clock.monotonic()
        if options.auto_commit and now_s - self._committed_s >= options.commit_interval_s:
            await self._commit(self._progress.done)
            self._lost.clear()
        is_fresh = self._member.is_fresh()
        if not is_fresh:
            await self._member.beat()
        if not is_fresh or now_s - self._rounded_s >= options.round_interval_s:
            await self._round()

    async def _round(self) -> None:
        if self._clock.monotonic() - self._listed_s >= self._options.listing_interval_s:
            await self._list_places()
        given = self._progress.done if self._options.auto_commit else {}
        await self._member.round(self._listing, given)
        self._rounded_s = self._clock.monotonic()
        await self._settle()

    async def _commit(self, positions: Mapping[TableBucket, int]) -> None:
        lost = await self._member.commit(positions)
        self._committed_s = self._clock.monotonic()
        held = self._member.held
        kept = {bucket: offset for bucket, offset in positions.items() if bucket in held}
        self._progress.committed |= kept
        await self._settle()
        self._lost |= lost

    async def _settle(self) -> None:
        """Read exactly the buckets held now; this also repairs steps that failed half-way."""
        held = self._member.held
        for bucket, generation in tuple(self._reading.items()):
            if bucket not in held or held[bucket].generation != generation:
                if self._progress.is_uncommitted(bucket):
                    self._lost.add(bucket)
                self._progress.end(bucket)
                del self._reading[bucket]
                self._is_assigned = False
        begun = [bucket for bucket in held if bucket not in self._reading]
        for bucket, position in (await self._starts(begun)).items():
            self._progress.begin(bucket, position)
            self._reading[bucket] = held[bucket].generation
            self._is_assigned = False
        if not self._is_assigned:
            await self._source.assign(self._progress.read)
            self._is_assigned = True

    async def _starts(self, buckets: Sequence[TableBucket]) -> dict[TableBucket, int]:
        known = {bucket: self._member.held[bucket].position for bucket in buckets}
        starts = {bucket: offset for bucket, offset in known.items() if offset is not None}
        if len(starts) < len(known):
            # These were created after the cursor, so none of their rows were ever read.
            earliest = await self._source.offsets("earliest")
            starts |= {b: earliest.get(b, 0) for b, offset in known.items() if offset is None}
        return starts

    async def _list_places(self) -> None:
        self._places = await self._source.places()
        self._listing = Listing(frozenset(self._places))
        self._listed_s = self._clock.monotonic()

    # ---- messages

    @property
    def _member(self) -> Membership:
        if self._joined is None:
            raise errors.ClosedError(
                "The cursor is not open.", hint="Use it inside `with`, or call join()."
            )
        return self._joined

    def _checked(self, positions: Offsets) -> dict[TableBucket, int]:
        buckets = {place: bucket for bucket, place in self._places.items()}
        checked = {}
        for place, offset in positions.items():
            bucket = buckets.get(place)
            given = None if bucket is None else self._progress.given.get(bucket)
            if bucket is None or given is None:
                raise errors.CursorLostError(f"This member does not own {_words(place)}.")
            committed = self._progress.committed[bucket]
            if not committed <= offset <= given:
                raise errors.RequestError(
                    f"Offset {offset} of {_words(place)} cannot be committed.",
                    hint=f"Commit an offset between {committed} and {given}; to go back, reset "
                    "the cursor.",
                )
            checked[bucket] = offset
        return checked

    def _place(self, bucket: TableBucket) -> Place:
        return self._places.get(bucket, Place(None, bucket.bucket))

    def _named(self, bucket: TableBucket) -> str:
        return _words(self._place(bucket))


def _words(place: Place) -> str:
    where = "" if place.partition is None else f" of partition {place.partition}"
    return f"bucket {place.bucket}{where}"


MakeTable = Callable[[TableInfo], CursorTable]


def open_cursor(
    name: str,
    source: TableSource,
    *,
    table: TableInfo,
    cluster: Cluster,
    make_table: MakeTable,
    options: CursorOptions,
) -> AsyncCursor:
    """Make a cursor that joins its group when it is entered."""
    group = GroupKey(check_cursor_name(name), str(table.path))

    async def open_store() -> GroupStore:
        return TableStore(make_table(await ensure_cursors(cluster)), group)

    return AsyncCursor(
        source,
        open_store,
        group=group,
        member=member_name(),
        note=f"{platform.node()} pid {os.getpid()}",
        clock=cluster.clock,
        options=options,
    )


def member_name() -> str:
    """Make a name that no other member ever has."""
    return f"{platform.node()}-{os.getpid()}-{random_bytes(6).hex()}"
