"""The rows of cursors, their table, and what the rows of a group say.

A row belongs to a slot of a group: a bucket that is read (one row per generation of owners), a
member, or the group as a whole. A bucket is written with the ids of its table and partition, not
their names, so that a table or partition that is dropped and recreated starts over. The aggregation
merge engine makes each write safe:

| column | folded by | therefore |
|---|---|---|
| owner | first value | who writes first owns the generation, all others lose |
| start | first value | the first member decides where a group starts |
| position | max | a late write cannot move a position back |
| heartbeat | max | the same |
| released | or | a generation is never reused |
| lease_ms, note, written_ms | last value | informational |
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headwater.config.options import DELETE_BEHAVIOR, LOG_TTL, MERGE_ENGINE
from headwater.model import Column, DataType, Schema, TableBucket, TableDescriptor, TablePath
from headwater.model.aggregate import AggregateFunction, AggregateKind
from headwater.model.schema import with_column_ids
from headwater.model.types import BigIntType, BooleanType, StringType

CURSORS = TablePath("headwater", "cursors")
GROUP_KEY = ("cursor", "table_path")
SLOT_KEY = ("slot", "generation")
BUCKET_COUNT = 4

_FOLDED: tuple[tuple[str, DataType, AggregateKind], ...] = (
    ("owner", StringType(), AggregateKind.FIRST_VALUE_IGNORE_NULLS),
    ("start", BigIntType(), AggregateKind.FIRST_VALUE_IGNORE_NULLS),
    ("position", BigIntType(), AggregateKind.MAX),
    ("released", BooleanType(), AggregateKind.BOOL_OR),
    ("heartbeat", BigIntType(), AggregateKind.MAX),
    ("lease_ms", BigIntType(), AggregateKind.LAST_VALUE_IGNORE_NULLS),
    ("note", StringType(), AggregateKind.LAST_VALUE_IGNORE_NULLS),
    ("written_ms", BigIntType(), AggregateKind.LAST_VALUE_IGNORE_NULLS),
)


@dataclass(frozen=True, slots=True)
class GroupKey:
    """A group: a cursor over one table."""

    cursor: str
    table_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorRow:
    """One row of a group; None in a write keeps the old value."""

    slot: str
    generation: int = 0
    owner: str | None = None
    start: int | None = None
    position: int | None = None
    released: bool | None = None
    heartbeat: int | None = None
    lease_ms: int | None = None
    note: str | None = None
    written_ms: int | None = None

    @property
    def key(self) -> tuple[str, int]:
        """What identifies a row within its group."""
        return self.slot, self.generation


def cursors_descriptor() -> TableDescriptor:
    """Describe the table of all cursors of a storage."""
    key = (*GROUP_KEY, *SLOT_KEY)
    keys = tuple(
        Column(
            name=name,
            type=(BigIntType() if name == "generation" else StringType()).not_null(),
        )
        for name in key
    )
    folded = tuple(
        Column(name=name, type=kind, aggregate=AggregateFunction(function))
        for name, kind, function in _FOLDED
    )
    return TableDescriptor(
        schema=with_column_ids(Schema(columns=(*keys, *folded), primary_key=key)),
        comment="Positions of cursors, and the members that share them.",
        # All rows of a group in one bucket: one order of writes, and one response to a reader.
        bucket_keys=GROUP_KEY,
        bucket_count=BUCKET_COUNT,
        properties={
            MERGE_ENGINE.name: "aggregation",
            DELETE_BEHAVIOR.name: "allow",
            # Nobody follows the changes of heartbeats.
            LOG_TTL.name: "1 d",
        },
    )


# Slots: buckets, members, and the group itself.

GROUP = "group"
_MEMBER = "member/"
_BUCKET = re.compile(r"bucket/(\d+)(?:/(\d+))?/(\d+)\Z")


def bucket_slot(bucket: TableBucket) -> str:
    """Format a bucket as a slot."""
    partition = "" if bucket.partition_id is None else f"{bucket.partition_id}/"
    return f"bucket/{bucket.table_id}/{partition}{bucket.bucket}"


def bucket_of(slot: str) -> TableBucket | None:
    """Parse the bucket of a slot; members and the group have none."""
    found = _BUCKET.match(slot)
    if found is None:
        return None
    table_id, partition_id, bucket = found.groups()
    partition = None if partition_id is None else int(partition_id)
    return TableBucket(int(table_id), int(bucket), partition)


def member_slot(name: str) -> str:
    """Format a member as a slot."""
    return f"{_MEMBER}{name}"


def member_of(slot: str) -> str | None:
    """Parse the member of a slot, or None."""
    return slot.removeprefix(_MEMBER) if slot.startswith(_MEMBER) else None


def bucket_order(bucket: TableBucket) -> tuple[int, int, int]:
    """Sort buckets by table, partition and number."""
    partition = -1 if bucket.partition_id is None else bucket.partition_id
    return bucket.table_id, partition, bucket.bucket


# What the rows of a group say: who owns which bucket, from where, and who is a member.


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotView:
    """The newest generation of one bucket, and where reading continues."""

    generation: int
    owner: str | None
    released: bool
    position: int | None
    """Committed by the newest owner that did so, or where the group started; None: the start."""
    committed_ms: int | None
    generations: tuple[int, ...]
    """All that have rows."""
    needed: int
    """The oldest generation that may still be needed."""

    @property
    def outdated(self) -> tuple[int, ...]:
        """The generations that are no longer needed."""
        return tuple(each for each in self.generations if each < self.needed)

    def is_held_by(self, member: str, generation: int) -> bool:
        """Tell whether a member owns the newest generation, and it is this one."""
        return self.owner == member and self.generation == generation


UNCLAIMED = SlotView(
    generation=0,
    owner=None,
    released=False,
    position=None,
    committed_ms=None,
    generations=(),
    needed=0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """What one member wrote last."""

    heartbeat: int
    lease_ms: int
    note: str
    written_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """The state of a group in one response of the server."""

    is_begun: bool
    slots: Mapping[TableBucket, SlotView]
    members: Mapping[str, MemberView]

    def slot(self, bucket: TableBucket) -> SlotView:
        """Return the state of a bucket, which may have no rows yet."""
        return self.slots.get(bucket, UNCLAIMED)


def view_of(rows: Iterable[CursorRow]) -> GroupView:
    """Interpret the rows of a group."""
    by_bucket: defaultdict[TableBucket, list[CursorRow]] = defaultdict(list)
    members: dict[str, MemberView] = {}
    is_begun = False
    for row in rows:
        if bucket := bucket_of(row.slot):
            by_bucket[bucket].append(row)
        elif name := member_of(row.slot):
            members[name] = _member(row)
        elif row.slot == GROUP:
            is_begun = True
    slots = {bucket: _slot(found) for bucket, found in by_bucket.items()}
    return GroupView(is_begun=is_begun, slots=slots, members=members)


def _member(row: CursorRow) -> MemberView:
    return MemberView(
        heartbeat=row.heartbeat or 0,
        lease_ms=row.lease_ms or 0,
        note=row.note or "",
        written_ms=row.written_ms or 0,
    )


def _slot(rows: list[CursorRow]) -> SlotView:
    newest = max(rows, key=lambda row: row.generation)
    # A row without an owner is what a late commit left after its row was deleted: it never counted.
    committed = [row for row in rows if row.owner is not None and row.position is not None]
    last = max(committed, key=lambda row: row.generation, default=None)
    begun = next((row.start for row in rows if row.generation == 0), None)
    return SlotView(
        generation=newest.generation,
        owner=newest.owner,
        released=bool(newest.released),
        position=begun if last is None else last.position,
        committed_ms=None if last is None else last.written_ms,
        generations=tuple(sorted(row.generation for row in rows)),
        needed=0 if last is None else last.generation,
    )
