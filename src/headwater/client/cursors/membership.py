"""One member of a group: its heartbeat, the buckets it holds, and the rounds that divide them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headwater.client.cursors.ledger import Ledger, Mark
from headwater.client.cursors.liveness import Liveness
from headwater.client.cursors.plan import Seat, plan
from headwater.client.cursors.view import GroupView, SlotView
from headwater.model.bucket import TableBucket
from headwater.model.lineage import UNKNOWN
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events

_events = Events("cursors")
WrittenBy = Callable[[TableBucket, int], int]
"""Return who wrote the row before a position, as far as the reader was told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Own a bucket in one generation; the position is the one that is committed."""

    generation: int
    position: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """Hold the buckets that a table had when it was asked; each asking makes another listing."""

    buckets: frozenset[TableBucket]


class Membership:
    """Take part in a group under a name that nobody else has."""

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
        """Return the name of this member."""
        return self._ledger.member

    def is_fresh(self) -> bool:
        """Tell whether the others must still take this member for alive."""
        return (
            self._beaten_s is not None and self._clock.monotonic() - self._beaten_s <= self._lease_s
        )

    async def beat(self) -> None:
        """Show the others that this member lives."""
        self._beats += 1
        sent_s = self._clock.monotonic()
        await self._ledger.beat(self._beats, lease_ms=int(self._lease_s * 1000), note=self._note)
        # From when it was sent: the others may have seen it long before the answer came.
        self._beaten_s = sent_s

    async def round(self, listing: Listing, read: Mapping[TableBucket, int]) -> None:
        """Take stock of the group and move towards a fair share of its buckets.

        1. Read the rows, and let go of what others own by now.
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
        """Give buckets up, with the positions that were read."""
        leaving = {bucket: self.held.pop(bucket) for bucket in buckets if bucket in self.held}
        marks = {
            bucket: self._mark(hold, bucket, read[bucket])
            for bucket, hold in leaving.items()
            if bucket in read
        }
        if marks:
            # Position and release in one write: who sees one sees the other.
            await self._ledger.commit(marks, releases=True)
        if rest := {b: hold.generation for b, hold in leaving.items() if b not in marks}:
            await self._ledger.release(rest)

    async def leave(self, read: Mapping[TableBucket, int]) -> None:
        """Give everything up, so that others need not wait for a lease to end."""
        await self.release(frozenset(self.held), read)
        await self._ledger.forget_members([self.name])

    def _mark(self, hold: Hold, bucket: TableBucket, position: int) -> Mark:
        return Mark(hold.generation, position, self._written_by(bucket, position))

    def _follow(self, view: GroupView, listing: Listing) -> None:
        taken = frozenset(
            bucket
            for bucket, hold in self.held.items()
            if not view.slot(bucket).is_held_by(self.name, hold.generation)
        )
        self._drop(taken, reason="taken by another member")
        self._drop(frozenset(self.held) - listing.buckets, reason="the bucket is gone")

    def _drop(self, buckets: frozenset[TableBucket], *, reason: str) -> None:
        for bucket in buckets & self.held.keys():
            del self.held[bucket]
            _events.warning("bucket lost", member=self.name, bucket=str(bucket), reason=reason)

    def _adopt(self, view: GroupView, listing: Listing, *, without: frozenset[TableBucket]) -> None:
        """Hold what the rows say is mine, be it won now or by a claim whose answer was lost."""
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
        """Delete rows of dropped partitions and tables, once two listings in a row lack them.

        The second listing was asked for after the rows were seen, so a bucket that is missing from
        it is gone, and not too new for the first one.
        """
        absent = view.slots.keys() - listing.buckets
        gone = absent & self._absent
        self._absent, self._listing = frozenset(absent), listing
        await self._ledger.forget({bucket: view.slot(bucket).generations for bucket in gone})
