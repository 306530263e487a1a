"""Manage cursors without being a member: list, describe, reset, delete."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headwater.client.cursors.cursor import MakeTable, member_name
from headwater.client.cursors.ledger import (
    CursorMark,
    Ledger,
    TableStore,
    all_groups,
    ensure_cursors,
    find_cursors,
)
from headwater.client.cursors.rows import GroupKey, GroupView, view_of
from headwater.client.cursors.source import Source, TableSource, check_cursor_name
from headwater.cluster.cluster import Cluster
from headwater.cluster.paths import table_path
from headwater.errors import ConflictError, MissingError, TableMissingError, TimedOutError
from headwater.model import TableBucket, TableInfo, TablePath
from headwater.read.offsets import Offsets, Place, Start
from headwater.read.polls import FetchSize
from headwater.runtime.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceState:
    """Who reads one bucket, and how far behind."""

    place: Place
    owner: str | None
    position: int
    """The offset to read next."""
    end: int
    lag_rows: int
    lag_s: float
    """The age of the first unread row; 0 if there is none."""
    committed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberState:
    """Where one member runs, when it last sent a heartbeat, and what it reads."""

    name: str
    note: str
    seen_at: datetime
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorState:
    """Everything known of one cursor."""

    name: str
    table: TablePath
    places: tuple[PlaceState, ...]
    members: tuple[MemberState, ...]

    @property
    def positions(self) -> Offsets:
        """The offset to read next in each bucket, which a tail can start from."""
        return {state.place: state.position for state in self.places}

    @property
    def lag_rows(self) -> int:
        """How many rows are unread."""
        return sum(place.lag_rows for place in self.places)

    @property
    def lag_s(self) -> float:
        """The age of the oldest unread row."""
        return max((place.lag_s for place in self.places), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorSummary:
    """A cursor in one line."""

    name: str
    table: TablePath
    members: int
    lag_rows: int | None
    """How many rows are unread; None if the table was dropped."""


# Lag: in rows, and in time.

POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class Distance:
    """Where a bucket is read next, and where it ends."""

    position: int
    end: int

    @property
    def rows(self) -> int:
        """How many rows are in between."""
        return max(0, self.end - self.position)


async def distances(view: GroupView, source: Source) -> dict[TableBucket, Distance]:
    """Compute how far each bucket of a table is read."""
    earliest, latest = await source.offsets("earliest"), await source.offsets("latest")
    return {
        # What retention deleted can no longer be read, so it does not count.
        bucket: Distance(max(view.slot(bucket).position or 0, earliest.get(bucket, 0)), end)
        for bucket, end in latest.items()
    }


async def ages_s(
    behind: Mapping[TableBucket, Distance], source: Source, *, clock: Clock, timeout_s: float
) -> dict[TableBucket, float]:
    """Fetch the age of the first unread row of each bucket that has one."""
    waiting = {bucket: each.position for bucket, each in behind.items() if each.rows}
    written_ms: dict[TableBucket, int] = {}
    deadline_s = clock.monotonic() + timeout_s
    await source.assign(waiting)
    while waiting:
        if clock.monotonic() >= deadline_s:
            raise TimedOutError("The first unread rows could not be read in time.")
        for batch in await source.poll(POLL_S):
            written_ms.setdefault(batch.bucket, batch.first_timestamp_ms)
        positions = source.position
        waiting = {
            bucket: start
            for bucket, start in waiting.items()
            # A read may return no rows, if everything there was empty.
            if bucket not in written_ms and positions.get(bucket, start) < behind[bucket].end
        }
        await source.assign({bucket: positions.get(bucket, at) for bucket, at in waiting.items()})
    now_ms = clock.now_ms()
    return {bucket: max(0, now_ms - each) / 1000 for bucket, each in written_ms.items()}


CLAIMS_MAX = 5
WATCH_INTERVAL_S = 0.25
# The first batch of a bucket is enough to know its age; a server sends at least one.
_FIRST_BATCH = FetchSize(bytes_max=1024 * 1024, bucket_bytes_max=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CursorAdmin:
    """List, describe, reset and delete the cursors of a storage."""

    def __init__(self, cluster: Cluster, make_table: MakeTable) -> None:
        self._cluster = cluster
        self._make_table = make_table
        self._clock = cluster.clock

    async def list(self) -> list[CursorSummary]:
        """List all cursors, sorted by name and table."""
        info = await find_cursors(self._cluster)
        if info is None:
            return []
        groups = await all_groups(self._make_table(info))
        ordered = sorted(groups, key=lambda group: (group.cursor, group.table_path))
        return [await self._summary(group, view_of(groups[group])) for group in ordered]

    async def describe(self, name: str, table: str | TablePath) -> CursorState:
        """Describe who reads what of a table, and how far behind."""
        path, source, ledger = await self._open(name, table)
        try:
            view = _existing(await ledger.read(), name, path)
            behind = await distances(view, source)
            ages = await ages_s(
                behind,
                source,
                clock=self._clock,
                timeout_s=self._cluster.settings.request_timeout_s,
            )
            return _state(name, path, view, places=await source.places(), behind=behind, ages=ages)
        finally:
            await source.close()

    async def reset(
        self, name: str, table: str | TablePath, *, to: Start, force: bool = False
    ) -> None:
        """Move a cursor to other positions, creating it if necessary.

        Offsets are set for the buckets that are named, anything else for all. While members are
        reading that is an error, unless forced; then they lose their buckets and continue from the
        new positions.
        """
        _, source, ledger = await self._open(name, table)
        try:
            await self._refuse_members(ledger, name, force=force)
            offsets = await source.offsets(to)
            named = _named(to, await source.places())
        finally:
            await source.close()
        if not (await ledger.read()).is_begun:
            await ledger.begin({})
        await _move(ledger, {b: at for b, at in offsets.items() if named is None or b in named})

    async def delete(self, name: str, table: str | TablePath, *, force: bool = False) -> None:
        """Delete a cursor with all its positions; while members are reading only if forced."""
        path = table_path(table)
        ledger = await self._ledger(name, path)
        _existing(await ledger.read(), name, path)
        await self._refuse_members(ledger, name, force=force)
        await ledger.forget_all()

    # ---- steps

    async def _open(
        self, name: str, table: str | TablePath
    ) -> tuple[TablePath, TableSource, Ledger]:
        path = table_path(table)
        info = await self._cluster.table(path)
        ledger = await self._ledger(name, path)
        return path, self._source(info), ledger

    async def _ledger(self, name: str, path: TablePath) -> Ledger:
        cursors = self._make_table(await ensure_cursors(self._cluster))
        store = TableStore(cursors, GroupKey(check_cursor_name(name), str(path)))
        return Ledger(store, f"admin-{member_name()}", self._clock)

    def _source(self, info: TableInfo) -> TableSource:
        # One column is enough to know the age of a batch.
        return TableSource(self._cluster, info, columns=info.schema.names[:1], size=_FIRST_BATCH)

    async def _summary(self, group: GroupKey, view: GroupView) -> CursorSummary:
        path = table_path(group.table_path)
        try:
            source = self._source(await self._cluster.table(path))
            behind = await distances(view, source)
            lag_rows = sum(each.rows for each in behind.values())
        except TableMissingError:
            lag_rows = None
        return CursorSummary(
            name=group.cursor, table=path, members=len(view.members), lag_rows=lag_rows
        )

    async def _refuse_members(self, ledger: Ledger, name: str, *, force: bool) -> None:
        """Raise if a heartbeat moves; dead members are waited out."""
        if force:
            return
        first = (await ledger.read()).members
        lease_s = max((member.lease_ms / 1000 for member in first.values()), default=0.0)
        deadline_s = self._clock.monotonic() + lease_s
        while first and self._clock.monotonic() <= deadline_s:
            await self._clock.sleep(WATCH_INTERVAL_S)
            members = (await ledger.read()).members
            live = [
                each
                for each, member in members.items()
                if each not in first or first[each].heartbeat != member.heartbeat
            ]
            if live:
                raise ConflictError(
                    f"The cursor '{name}' is being read by {', '.join(sorted(live))}.",
                    hint="Stop its members first, or force it.",
                )
            if not members:
                return


async def _move(ledger: Ledger, offsets: Mapping[TableBucket, int]) -> None:
    """Claim new generations, record positions in them and release them, as a member does."""
    left = dict(offsets)
    for _ in range(CLAIMS_MAX):
        if not left:
            return
        view = await ledger.read()
        claims = {bucket: view.slot(bucket).generation + 1 for bucket in left}
        view = await ledger.claim(claims)
        marks = {
            bucket: CursorMark(generation, left[bucket])
            for bucket, generation in claims.items()
            if view.slot(bucket).is_held_by(ledger.member, generation)
        }
        lost = await ledger.commit(marks, releases=True) if marks else frozenset()
        left = {b: at for b, at in left.items() if b not in marks or b in lost}
    if left:
        raise ConflictError(
            "Members took the cursor back while it was reset.", hint="Stop its members first."
        )


def _existing(view: GroupView, name: str, path: TablePath) -> GroupView:
    if not view.is_begun:
        raise MissingError(
            f"There is no cursor '{name}' over {path}.",
            hint="A cursor is created when it is first used.",
        )
    return view


def _named(to: Start, places: Mapping[TableBucket, Place]) -> frozenset[TableBucket] | None:
    if not isinstance(to, Mapping):
        return None
    keys: set[Place | int] = set(to)
    return frozenset(b for b, place in places.items() if place in keys or _number(place) in keys)


def _number(place: Place) -> int | None:
    return place.bucket if place.partition is None else None


def _state(
    name: str,
    path: TablePath,
    view: GroupView,
    *,
    places: Mapping[TableBucket, Place],
    behind: Mapping[TableBucket, Distance],
    ages: Mapping[TableBucket, float],
) -> CursorState:
    owned = {bucket: view.slot(bucket).owner for bucket in places if not view.slot(bucket).released}
    found = [
        PlaceState(
            place=place,
            owner=owned.get(bucket),
            position=behind[bucket].position,
            end=behind[bucket].end,
            lag_rows=behind[bucket].rows,
            lag_s=ages.get(bucket, 0.0),
            committed_at=_time(view.slot(bucket).committed_ms),
        )
        for bucket, place in places.items()
        if bucket in behind
    ]
    members = [
        MemberState(
            name=each,
            note=member.note,
            seen_at=_EPOCH + timedelta(milliseconds=member.written_ms),
            places=_sorted(places[bucket] for bucket, owner in owned.items() if owner == each),
        )
        for each, member in sorted(view.members.items())
    ]
    ordered = sorted(found, key=lambda each: _order(each.place))
    return CursorState(name=name, table=path, places=tuple(ordered), members=tuple(members))


def _sorted(places: Iterable[Place]) -> tuple[Place, ...]:
    return tuple(sorted(places, key=_order))


def _order(place: Place) -> tuple[str, int]:
    return place.partition or "", place.bucket


def _time(written_ms: int | None) -> datetime | None:
    return None if written_ms is None else _EPOCH + timedelta(milliseconds=written_ms)
