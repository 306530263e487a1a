"""The steps by which one member changes the rows of its group.

Every row of a group lies in one bucket, so its writes have one order, and a read that begins after
a write was acknowledged shows that write and all before it. Two steps rest on that:

- a claim is written, then the rows are read: whatever was committed before it is seen;
- a commit is written, then the rows are read: a claim that came before it is seen, and the commit
  is reported as lost; a claim that comes after it sees the commit.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from headwater.client.cursors.rows import CursorRow
from headwater.client.cursors.slots import GROUP, bucket_slot, member_slot
from headwater.client.cursors.view import GroupView, view_of
from headwater.model.bucket import TableBucket
from headwater.runtime.clock import Clock


class GroupStore(Protocol):
    """Read and write the rows of one group; a write returns when it is durable."""

    async def upsert(self, rows: Sequence[CursorRow]) -> None:
        """Fold rows into those that are there."""
        ...

    async def delete(self, keys: Sequence[tuple[str, int]]) -> None:
        """Remove rows by slot and generation."""
        ...

    async def rows(self) -> list[CursorRow]:
        """Return all rows of the group."""
        ...


@dataclass(frozen=True, slots=True)
class Mark:
    """Say up to where the owner of a generation has read."""

    generation: int
    position: int


class Ledger:
    """Claim, commit and release buckets in the name of one member."""

    def __init__(self, store: GroupStore, member: str, clock: Clock) -> None:
        self.member = member
        self._store = store
        self._clock = clock

    async def read(self) -> GroupView:
        """Return the state of the group."""
        return view_of(await self._store.rows())

    async def begin(self, starts: Mapping[TableBucket, int]) -> None:
        """Note where the group begins; what another member noted before stays."""
        now = self._clock.now_ms()
        rows = [
            CursorRow(slot=bucket_slot(bucket), start=offset, written_ms=now)
            for bucket, offset in starts.items()
        ]
        if rows:
            await self._store.upsert(rows)
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
        await self._store.upsert(rows)
        return await self.read()

    async def commit(
        self, marks: Mapping[TableBucket, Mark], *, releases: bool = False
    ) -> frozenset[TableBucket]:
        """Write positions and return the buckets for which that may have been too late."""
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
        await self._store.upsert(rows)
        view = await self.read()
        return frozenset(
            bucket
            for bucket, mark in marks.items()
            if not view.slot(bucket).is_held_by(self.member, mark.generation)
        )

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
