"""The steps by which one member changes the rows of its group.

Every row of a group lies in one bucket, so its writes have one order, and a read that begins after
a write was acknowledged shows that write and all before it. Two steps rest on that:

- a claim is written, then the rows are read: whatever was committed before it is seen;
- a commit is written, then the rows are read: a claim that came before it is seen, and the commit
  is reported as lost; a claim that comes after it sees the commit.

A commit reads two rows of each bucket, not the whole group: its own generation, which has to have
its owner still, and the next one, which must not be there. A claim is always for the generation
after the newest. So whoever took the bucket away has either left the row of the next generation, or
that row was cleaned up, and with it, or before it, the row of this generation: what the commit
wrote then stands in a row without an owner. Only a claim of this member that happens late could
bring such an owner back. After a claim whose outcome is not known, commits read the whole group.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from headwater.client.cursors.rows import CursorRow
from headwater.client.cursors.slots import GROUP, bucket_slot, member_slot
from headwater.client.cursors.view import GroupView, view_of
from headwater.model.bucket import TableBucket
from headwater.model.lineage import UNKNOWN, Lineage, LogPosition
from headwater.runtime.clock import Clock


class GroupStore(Protocol):
    """Read and write the rows of one group; a write returns when it is durable."""

    async def upsert(
        self, rows: Sequence[CursorRow], *, only_if: Sequence[LogPosition] = ()
    ) -> None:
        """Fold rows into those that are there, if the storage has these logs still."""
        ...

    async def delete(self, keys: Sequence[tuple[str, int]]) -> None:
        """Remove rows by slot and generation."""
        ...

    async def rows(self) -> list[CursorRow]:
        """Return all rows of the group."""
        ...

    async def find(self, keys: Sequence[tuple[str, int]]) -> list[CursorRow]:
        """Return those rows that there are of these, by slot and generation, in one look."""
        ...


@dataclass(frozen=True, slots=True)
class Mark:
    """Say up to where the owner of a generation has read."""

    generation: int
    position: int
    incarnation: int = UNKNOWN
    """Who wrote the row before the position."""


class Ledger:
    """Claim, commit and release buckets in the name of one member."""

    def __init__(self, store: GroupStore, member: str, clock: Clock) -> None:
        self.member = member
        self._store = store
        self._clock = clock
        self._has_unknown_claim = False

    async def read(self) -> GroupView:
        """Return the state of the group."""
        return view_of(await self._store.rows())

    async def begin(
        self,
        starts: Mapping[TableBucket, int],
        *,
        lineages: Mapping[TableBucket, Lineage] | None = None,
    ) -> None:
        """Note where the group begins; what another member noted before stays."""
        now = self._clock.now_ms()
        rows = [
            CursorRow(slot=bucket_slot(bucket), start=offset, written_ms=now)
            for bucket, offset in starts.items()
        ]
        if rows:
            known = lineages or {}
            found = [
                LogPosition(b, at, known[b].writer_before(at))
                for b, at in starts.items()
                if b in known
            ]
            await self._store.upsert(rows, only_if=found)
        # Last, so that a group that is marked as begun has all its starts.
        await self._store.upsert([CursorRow(slot=GROUP, written_ms=now)])

    async def beat(self, count: int, *, lease_ms: int, note: str) -> None:
        """Show that this member lives; every beat tells all, since the row may be gone."""
        row = CursorRow(
            slot=member_slot(self.member),
            heartbeat=count,
            lease_ms=lease_ms,
            note=note,
            written_ms=self._clock.now_ms(),
        )
        await self._store.upsert([row])

    async def claim(self, generations: Mapping[TableBucket, int]) -> GroupView:
        """Claim generations and return the state after, which says who got them."""
        rows = [
            CursorRow(slot=bucket_slot(bucket), generation=generation, owner=self.member)
            for bucket, generation in generations.items()
        ]
        unknown, self._has_unknown_claim = self._has_unknown_claim, True
        await self._store.upsert(rows)
        self._has_unknown_claim = unknown
        return await self.read()

    async def commit(
        self, marks: Mapping[TableBucket, Mark], *, releases: bool = False
    ) -> frozenset[TableBucket]:
        """Write positions and return the buckets for which that may have been too late.

        Nothing is written to a storage that was restored meanwhile and lacks what was read: others
        would miss what it writes in the place of that.
        """
        now = self._clock.now_ms()
        rows = [
            CursorRow(
                slot=bucket_slot(bucket),
                generation=mark.generation,
                position=mark.position,
                released=releases or None,
                written_ms=now,
            )
            for bucket, mark in marks.items()
        ]
        read = [LogPosition(b, mark.position, mark.incarnation) for b, mark in marks.items()]
        await self._store.upsert(rows, only_if=read)
        view = await self._look_back(marks)
        return frozenset(
            bucket
            for bucket, mark in marks.items()
            if not view.slot(bucket).is_held_by(self.member, mark.generation)
        )

    async def _look_back(self, marks: Mapping[TableBucket, Mark]) -> GroupView:
        """Return as much of the group as tells whether a commit came too late."""
        if self._has_unknown_claim:
            return await self.read()
        keys = [
            (bucket_slot(bucket), generation)
            for bucket, mark in marks.items()
            # The next one first, so that this holds even where rows are read one by one.
            for generation in (mark.generation + 1, mark.generation)
        ]
        return view_of(await self._store.find(keys))

    async def release(self, generations: Mapping[TableBucket, int]) -> None:
        """Give buckets up without a new position."""
        await self._store.upsert(
            [
                CursorRow(slot=bucket_slot(bucket), generation=generation, released=True)
                for bucket, generation in generations.items()
            ]
        )

    async def forget(self, generations: Mapping[TableBucket, Iterable[int]]) -> None:
        """Delete generations of buckets."""
        keys = [
            (bucket_slot(bucket), generation)
            for bucket, listed in generations.items()
            for generation in listed
        ]
        if keys:
            await self._store.delete(keys)

    async def forget_members(self, names: Iterable[str]) -> None:
        """Delete the rows of members."""
        if keys := [(member_slot(name), 0) for name in names]:
            await self._store.delete(keys)

    async def forget_all(self) -> None:
        """Delete everything the group has."""
        if keys := [row.key for row in await self._store.rows()]:
            await self._store.delete(keys)
