"""The ledger of a group: how one member changes its rows, and the table that stores them.

All rows of a group are in one bucket, so its writes have one order, and a read that starts after a
write was acknowledged sees that write and all before it. Two steps rely on that. A claim is
written, then the rows are read: whatever was committed before it is seen. A commit is written, then
the rows are read: a claim that came before it is seen, and the commit is reported as lost; a claim
that comes after it sees the commit.

A commit reads two rows of each bucket, not the whole group: its own generation, which must still
have its owner, and the next one, which must not exist. A claim is always for the generation after
the newest. So whoever took the bucket has either left the row of the next generation, or that row
was cleaned up, and with it, or before it, the row of this generation: the commit then wrote to a
row without an owner. Only a late claim of this member could bring such an owner back. After a claim
whose outcome is unknown, commits read the whole group.
"""

from collections import defaultdict
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Protocol

import pyarrow as pa

from headwater.client.cursors.rows import (
    CURSORS,
    GROUP,
    GROUP_KEY,
    SLOT_KEY,
    CursorRow,
    GroupKey,
    GroupView,
    bucket_slot,
    cursors_descriptor,
    member_slot,
    view_of,
)
from headwater.cluster.admin import ensure_table, find_table
from headwater.cluster.cluster import Cluster
from headwater.model import Lineage, LogPosition, TableBucket, TableInfo
from headwater.model.bucket import UNKNOWN
from headwater.runtime.clock import Clock

# The rows of cursors, in a primary-key table of the storage itself.

_FIELDS = tuple(field.name for field in fields(CursorRow))


class CursorTable(Protocol):
    """A primary-key table."""

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        ...

    async def upsert_if(self, rows: pa.RecordBatch, only_if: Sequence[LogPosition]) -> object:
        """Write rows if the storage still has these logs; when this returns, readers see them."""
        ...

    async def delete(self, keys: pa.RecordBatch) -> object:
        """Delete rows by key."""
        ...

    async def lookup(self, keys: pa.RecordBatch) -> pa.Table:
        """Look up rows by key."""
        ...

    async def prefix_lookup(self, prefixes: pa.RecordBatch) -> pa.Table:
        """Look up rows whose keys start with one of these."""
        ...

    def scan(self) -> AsyncIterable[pa.RecordBatch]:
        """Read all rows."""
        ...


class TableStore:
    """The rows of one group in a table."""

    def __init__(self, table: CursorTable, group: GroupKey) -> None:
        self._table = table
        self._group = asdict(group)

    async def upsert(
        self, rows: Sequence[CursorRow], *, only_if: Sequence[LogPosition] = ()
    ) -> None:
        """Merge rows into the existing ones, if the storage still has these logs."""
        listed = [{**self._group, **asdict(row)} for row in rows]
        batch = pa.RecordBatch.from_pylist(listed, self._table.schema)
        await self._table.upsert_if(batch, only_if)

    async def delete(self, keys: Sequence[tuple[str, int]]) -> None:
        """Remove rows by slot and generation."""
        await self._table.delete(self._keys(keys))

    async def rows(self) -> list[CursorRow]:
        """Read all rows of the group."""
        schema = pa.schema([self._table.schema.field(name) for name in GROUP_KEY])
        prefix = pa.RecordBatch.from_pylist([self._group], schema)
        found = await self._table.prefix_lookup(prefix)
        return [row for _, row in _rows_of(found)]

    async def find(self, keys: Sequence[tuple[str, int]]) -> list[CursorRow]:
        """Read the existing rows among these, by slot and generation."""
        return [row for _, row in _rows_of(await self._table.lookup(self._keys(keys)))]

    def _keys(self, keys: Sequence[tuple[str, int]]) -> pa.RecordBatch:
        listed = [{**self._group, "slot": slot, "generation": number} for slot, number in keys]
        schema = pa.schema([self._table.schema.field(name) for name in (*GROUP_KEY, *SLOT_KEY)])
        return pa.RecordBatch.from_pylist(listed, schema)


async def all_groups(table: CursorTable) -> dict[GroupKey, list[CursorRow]]:
    """Read the rows of all groups."""
    groups: defaultdict[GroupKey, list[CursorRow]] = defaultdict(list)
    async for batch in table.scan():
        for group, row in _rows_of(batch):
            groups[group].append(row)
    return groups


def _rows_of(rows: pa.Table | pa.RecordBatch) -> list[tuple[GroupKey, CursorRow]]:
    found = []
    for row in rows.to_pylist():
        group = GroupKey(*(row.pop(name) for name in GROUP_KEY))
        # A newer version may have added columns, which are ignored.
        found.append((group, CursorRow(**{name: row[name] for name in _FIELDS})))
    return found


async def find_cursors(cluster: Cluster) -> TableInfo | None:
    """Return the table of cursors if it exists."""
    return await find_table(cluster, CURSORS)


async def ensure_cursors(cluster: Cluster) -> TableInfo:
    """Return the table of cursors, creating it on first use."""
    return await ensure_table(cluster, CURSORS, cursors_descriptor(), whose="Cursors")


# The steps of one member.


class GroupStore(Protocol):
    """Read and write the rows of one group; a write returns when it is durable."""

    async def upsert(
        self, rows: Sequence[CursorRow], *, only_if: Sequence[LogPosition] = ()
    ) -> None:
        """Merge rows into the existing ones, if the storage still has these logs."""
        ...

    async def delete(self, keys: Sequence[tuple[str, int]]) -> None:
        """Remove rows by slot and generation."""
        ...

    async def rows(self) -> list[CursorRow]:
        """Read all rows of the group."""
        ...

    async def find(self, keys: Sequence[tuple[str, int]]) -> list[CursorRow]:
        """Read the existing rows among these, by slot and generation, in one request."""
        ...


@dataclass(frozen=True, slots=True)
class CursorMark:
    """How far the owner of a generation has read."""

    generation: int
    position: int
    incarnation: int = UNKNOWN
    """The incarnation that wrote the row before the position."""


class Ledger:
    """Claim, commit and release buckets on behalf of one member."""

    def __init__(self, store: GroupStore, member: str, clock: Clock) -> None:
        self.member = member
        self._store = store
        self._clock = clock
        self._has_unknown_claim = False

    async def read(self) -> GroupView:
        """Read the state of the group."""
        return view_of(await self._store.rows())

    async def begin(
        self,
        starts: Mapping[TableBucket, int],
        *,
        lineages: Mapping[TableBucket, Lineage] | None = None,
    ) -> None:
        """Record where the group starts; what another member recorded before stays."""
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
        # Last, so that a group that is marked as started has all its start positions.
        await self._store.upsert([CursorRow(slot=GROUP, written_ms=now)])

    async def beat(self, count: int, *, lease_ms: int, note: str) -> None:
        """Send a heartbeat; each has all fields, since the row may have been deleted."""
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
        self, marks: Mapping[TableBucket, CursorMark], *, releases: bool = False
    ) -> frozenset[TableBucket]:
        """Write positions and return the buckets for which that may have been too late.

        Nothing is written to a storage that was restored in the meantime and lacks what was read:
        others would miss what it writes instead.
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

    async def _look_back(self, marks: Mapping[TableBucket, CursorMark]) -> GroupView:
        """Read as much of the group as shows whether a commit came too late."""
        if self._has_unknown_claim:
            return await self.read()
        keys = [
            (bucket_slot(bucket), generation)
            for bucket, mark in marks.items()
            # The next one first, so that this holds even if rows are read one by one.
            for generation in (mark.generation + 1, mark.generation)
        ]
        return view_of(await self._store.find(keys))

    async def release(self, generations: Mapping[TableBucket, int]) -> None:
        """Release buckets without a new position."""
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
