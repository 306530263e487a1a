"""What the rows of a group say: who owns which bucket, from where, and who is a member."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headwater.client.cursors.rows import CursorRow
from headwater.client.cursors.slots import GROUP, bucket_of, member_of
from headwater.model.bucket import TableBucket


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotView:
    """Tell of one bucket what its newest generation is, and where reading goes on."""

    generation: int
    owner: str | None
    released: bool
    position: int | None
    """Committed by the newest owner that did so, or where the group began; None: the start."""
    committed_ms: int | None
    generations: tuple[int, ...]
    """All that have rows."""
    needed: int
    """The oldest generation that anybody may still ask for."""

    @property
    def outdated(self) -> tuple[int, ...]:
        """Return the generations that nobody will ask for again."""
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
    """Tell of one member what it wrote last."""

    heartbeat: int
    lease_ms: int
    note: str
    written_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """Tell the state of a group as one answer of the server showed it."""

    is_begun: bool
    slots: Mapping[TableBucket, SlotView]
    members: Mapping[str, MemberView]

    def slot(self, bucket: TableBucket) -> SlotView:
        """Return the state of a bucket, which may have no rows yet."""
        return self.slots.get(bucket, UNCLAIMED)


def view_of(rows: Iterable[CursorRow]) -> GroupView:
    """Read the rows of a group."""
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
