"""One member of a group: its heartbeat, the buckets it holds, and the rounds that divide them.

A member is dead if its heartbeat did not move for a lease, by the clock of the observer. No clock
of another machine is read, so none has to be right. A wrong verdict costs rows that are read twice
but never a position: that is protected by generations.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from headwater.client.cursors.ledger import CursorMark, Ledger
from headwater.client.cursors.rows import GroupView, SlotView, bucket_order
from headwater.model import TableBucket
from headwater.model.bucket import UNKNOWN
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events

# Who is alive.

_NO_HEARTBEAT = -1


@dataclass(frozen=True, slots=True)
class _Sighting:
    heartbeat: int
    since_s: float
    lease_s: float


class Liveness:
    """Remember when each heartbeat last moved."""

    def __init__(self, lease_s: float) -> None:
        self._lease_s = lease_s
        self._seen: dict[str, _Sighting] = {}

    def observe(self, view: GroupView, now_s: float) -> None:
        """Record the heartbeats of a view."""
        owners = {slot.owner for slot in view.slots.values() if slot.owner is not None}
        self._seen = {
            name: self._sighting(name, view, now_s) for name in owners | view.members.keys()
        }

    def is_alive(self, name: str, now_s: float) -> bool:
        """Tell whether a member may still be alive; one that was never seen is not."""
        seen = self._seen.get(name)
        return seen is not None and now_s - seen.since_s <= seen.lease_s

    def _sighting(self, name: str, view: GroupView, now_s: float) -> _Sighting:
        member, before = view.members.get(name), self._seen.get(name)
        if member is None:
            # An owner whose row is gone sends no heartbeat; one that was never seen gets a lease.
            return before or _Sighting(_NO_HEARTBEAT, now_s, self._lease_s)
        if before is not None and before.heartbeat == member.heartbeat:
            return replace(before, lease_s=member.lease_ms / 1000)
        return _Sighting(member.heartbeat, now_s, member.lease_ms / 1000)


# Which buckets a member gives up and which it claims: a pure function that all members share.


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Which live member has one bucket, and whether it may be claimed now."""

    owner: str | None
    is_free: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatPlan:
    """What one member should do next."""

    release: tuple[TableBucket, ...]
    claim: tuple[TableBucket, ...]


def plan(me: str, live: Collection[str], seats: Mapping[TableBucket, Seat]) -> SeatPlan:
    """Decide what to give up and what to claim, so that shares differ by at most one."""
    mine = divide({*live, me}, seats)[me]
    held = {bucket for bucket, seat in seats.items() if seat.owner == me}
    return SeatPlan(
        release=tuple(sorted(held - mine, key=bucket_order)),
        claim=tuple(
            sorted((bucket for bucket in mine - held if seats[bucket].is_free), key=bucket_order)
        ),
    )


def divide(
    live: Collection[str], seats: Mapping[TableBucket, Seat]
) -> dict[str, frozenset[TableBucket]]:
    """Divide buckets among members; a bucket moves only for balance."""
    held = _held(live, seats)
    # Members with more may keep more: the remainder stays where it is.
    by_load = sorted(live, key=lambda name: (-len(held[name]), name))
    share, odd = divmod(len(seats), len(by_load))
    shares = {name: share + (place < odd) for place, name in enumerate(by_load)}
    given = {name: _kept(held[name], shares[name]) for name in by_load}
    kept = {bucket for buckets in given.values() for bucket in buckets}
    loose = sorted(seats.keys() - kept, key=bucket_order)
    for bucket, name in zip(loose, _openings(given, shares), strict=True):
        given[name].append(bucket)
    return {name: frozenset(buckets) for name, buckets in given.items()}


def _held(live: Collection[str], seats: Mapping[TableBucket, Seat]) -> dict[str, list[TableBucket]]:
    held: dict[str, list[TableBucket]] = {name: [] for name in live}
    for bucket in sorted(seats, key=bucket_order):
        owner = seats[bucket].owner
        if owner in held:
            held[owner].append(bucket)
    return held


def _kept(held: list[TableBucket], share: int) -> list[TableBucket]:
    """Drop buckets at even distances: neighbours, such as a busy partition, are split."""
    surplus = max(0, len(held) - share)
    leaving = {step * len(held) // surplus for step in range(surplus)} if surplus else set()
    return [bucket for place, bucket in enumerate(held) if place not in leaving]


def _openings(given: Mapping[str, list[TableBucket]], shares: Mapping[str, int]) -> list[str]:
    """Name members with room in turns, once for each bucket that they lack."""
    turns = [
        (turn, name) for name, share in shares.items() for turn in range(share - len(given[name]))
    ]
    return [name for _, name in sorted(turns)]


_events = Events("cursors")
WrittenBy = Callable[[TableBucket, int], int]
"""Look up who wrote the row before a position, if the reader knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A bucket owned in one generation, with its committed position."""

    generation: int
    position: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """The buckets of a table at one time; every request makes a new listing."""

    buckets: frozenset[TableBucket]


class Membership:
    """Take part in a group under a unique name."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        *,
        lease_s: float,
        note: str = "",
        written_by: WrittenBy = lambda _, __: UNKNOWN,
    ) -> None:
        self.held: dict[TableBucket, Hold] = {}
        self._ledger = ledger
        self._clock = clock
        self._lease_s = lease_s
        self._note = note
        self._written_by = written_by
        self._beats = 0
        self._beaten_s: float | None = None
        self._liveness = Liveness(lease_s)
        self._listing: Listing | None = None
        self._absent: frozenset[TableBucket] = frozenset()

    @property
    def name(self) -> str:
        """The name of this member."""
        return self._ledger.member

    def is_fresh(self) -> bool:
        """Tell whether the others must still consider this member alive."""
        return (
            self._beaten_s is not None and self._clock.monotonic() - self._beaten_s <= self._lease_s
        )

    async def beat(self) -> None:
        """Send a heartbeat."""
        self._beats += 1
        sent_s = self._clock.monotonic()
        await self._ledger.beat(self._beats, lease_ms=int(self._lease_s * 1000), note=self._note)
        # Counted from when it was sent: the others may have seen it long before the response
        # arrived.
        self._beaten_s = sent_s

    async def round(self, listing: Listing, read: Mapping[TableBucket, int]) -> None:
        """Read the state of the group and move towards a fair share of its buckets.

        1. Read the rows, and drop what others own by now.
        2. Give up what is too much, with the positions that were read so far.
        3. Claim what is free and due, and read again to see what was won.
        4. Clean up what nobody needs.
        """
        view = await self._ledger.read()
        now_s = self._clock.monotonic()
        self._liveness.observe(view, now_s)
        self._follow(view, listing)
        live = self._live(view, now_s)
        next_steps = plan(self.name, live, self._seats(view, listing, live=live, now_s=now_s))
        await self.release(frozenset(next_steps.release), read)
        if next_steps.claim:
            claims = {bucket: view.slot(bucket).generation + 1 for bucket in next_steps.claim}
            view = await self._ledger.claim(claims)
        self._adopt(view, listing, without=frozenset(next_steps.release))
        await self._clean(view, listing, live)

    async def commit(self, positions: Mapping[TableBucket, int]) -> frozenset[TableBucket]:
        """Commit positions of held buckets; return those that were lost to another member."""
        marks = {
            bucket: self._mark(self.held[bucket], bucket, position)
            for bucket, position in positions.items()
            if bucket in self.held and position != self.held[bucket].position
        }
        if not marks:
            return frozenset()
        lost = await self._ledger.commit(marks)
        for bucket, mark in marks.items():
            self.held[bucket] = Hold(generation=mark.generation, position=mark.position)
        self._drop(lost, reason="taken by another member")
        return lost

    async def release(
        self, buckets: frozenset[TableBucket], read: Mapping[TableBucket, int]
    ) -> None:
        """Give up buckets, with the positions that were read."""
        leaving = {bucket: self.held.pop(bucket) for bucket in buckets if bucket in self.held}
        marks = {
            bucket: self._mark(hold, bucket, read[bucket])
            for bucket, hold in leaving.items()
            if bucket in read
        }
        if marks:
            # Position and release in one write: whoever sees one sees the other.
            await self._ledger.commit(marks, releases=True)
        if rest := {b: hold.generation for b, hold in leaving.items() if b not in marks}:
            await self._ledger.release(rest)

    async def leave(self, read: Mapping[TableBucket, int]) -> None:
        """Give up everything, so that others need not wait for a lease to expire."""
        await self.release(frozenset(self.held), read)
        await self._ledger.forget_members([self.name])

    def _mark(self, hold: Hold, bucket: TableBucket, position: int) -> CursorMark:
        return CursorMark(hold.generation, position, self._written_by(bucket, position))

    def _follow(self, view: GroupView, listing: Listing) -> None:
        taken = frozenset(
            bucket
            for bucket, hold in self.held.items()
            if not view.slot(bucket).is_held_by(self.name, hold.generation)
        )
        self._drop(taken, reason="taken by another member")
        self._drop(frozenset(self.held) - listing.buckets, reason="the bucket was dropped")

    def _drop(self, buckets: frozenset[TableBucket], *, reason: str) -> None:
        for bucket in buckets & self.held.keys():
            del self.held[bucket]
            _events.warning("bucket lost", member=self.name, bucket=str(bucket), reason=reason)

    def _adopt(self, view: GroupView, listing: Listing, *, without: frozenset[TableBucket]) -> None:
        """Hold what the rows say is ours, won now or by a claim whose response was lost."""
        for bucket in listing.buckets - self.held.keys() - without:
            slot = view.slot(bucket)
            if slot.owner == self.name and not slot.released:
                self.held[bucket] = Hold(generation=slot.generation, position=slot.position)

    def _live(self, view: GroupView, now_s: float) -> frozenset[str]:
        alive = {name for name in view.members if self._liveness.is_alive(name, now_s)}
        return frozenset(alive | {self.name})

    def _seats(
        self, view: GroupView, listing: Listing, *, live: frozenset[str], now_s: float
    ) -> dict[TableBucket, Seat]:
        return {
            bucket: self._seat(view.slot(bucket), live=live, now_s=now_s)
            for bucket in listing.buckets
        }

    def _seat(self, slot: SlotView, *, live: frozenset[str], now_s: float) -> Seat:
        if slot.owner is None or slot.released:
            return Seat(owner=None, is_free=True)
        if slot.owner in live:
            return Seat(owner=slot.owner, is_free=False)
        return Seat(owner=None, is_free=not self._liveness.is_alive(slot.owner, now_s))

    async def _clean(self, view: GroupView, listing: Listing, live: frozenset[str]) -> None:
        await self._ledger.forget(
            {bucket: view.slot(bucket).outdated for bucket in self.held if bucket in view.slots}
        )
        # One is enough, and the same one for all who see the same members.
        if self.name != min(live):
            return
        await self._ledger.forget_members(view.members.keys() - live)
        if listing is not self._listing:
            await self._clean_absent(view, listing)

    async def _clean_absent(self, view: GroupView, listing: Listing) -> None:
        """Delete rows of dropped partitions and tables, once two consecutive listings lack them.

        The second listing was requested after the rows were seen, so a bucket that is missing from
        it was dropped, and not too new for the first one.
        """
        absent = view.slots.keys() - listing.buckets
        gone = absent & self._absent
        self._absent, self._listing = frozenset(absent), listing
        await self._ledger.forget({bucket: view.slot(bucket).generations for bucket in gone})
