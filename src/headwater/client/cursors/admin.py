"""Looking after cursors without being a member: list, describe, reset, delete."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from headwater.client.cluster import Cluster
from headwater.client.cursors.lag import Distance, ages_s, distances
from headwater.client.cursors.ledger import Ledger, Mark
from headwater.client.cursors.opening import MakeTable, member_name
from headwater.client.cursors.options import check_cursor_name
from headwater.client.cursors.rows import GroupKey
from headwater.client.cursors.source import TableSource
from headwater.client.cursors.states import CursorState, CursorSummary, MemberState, PlaceState
from headwater.client.cursors.store import (
    TableStore,
    all_groups,
    ensure_cursors,
    find_cursors,
)
from headwater.client.cursors.view import GroupView, view_of
from headwater.client.paths import table_path
from headwater.client.reading.fetch_request import FetchSize
from headwater.client.reading.log_batch import Place
from headwater.client.reading.starts import Start
from headwater.errors import ConflictError, MissingError, TableMissingError
from headwater.model.bucket import TableBucket
from headwater.model.path import TablePath
from headwater.model.table import TableInfo

CLAIMS_MAX = 5
WATCH_INTERVAL_S = 0.25
# The first batch of a bucket is enough to tell its age; a server sends at least one.
_FIRST_BATCH = FetchSize(bytes_max=1024 * 1024, bucket_bytes_max=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CursorAdmin:
    """Look at the cursors of a storage, and set them back."""

    def __init__(self, cluster: Cluster, make_table: MakeTable) -> None:
        self._cluster = cluster
        self._make_table = make_table
        self._clock = cluster.clock

    async def list(self) -> list[CursorSummary]:
        """Return all cursors, sorted by name and table."""
        info = await find_cursors(self._cluster)
        if info is None:
            return []
        groups = await all_groups(self._make_table(info))
        ordered = sorted(groups, key=lambda group: (group.cursor, group.table_path))
        return [await self._summary(group, view_of(groups[group])) for group in ordered]

    async def describe(self, name: str, table: str | TablePath) -> CursorState:
        """Return who reads what of a table, and how far behind."""
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
        """Set a cursor to other positions, and make it if there is none.

        Offsets are set for the buckets that are named, everything else for all. While members
        are at work that is refused, unless forced; then they lose their buckets and go on from
        the new positions.
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
        """Delete a cursor with all its positions; while members are at work only if forced."""
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
        # One column tells as much of a batch's age as all of them.
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
        """Refuse if a heartbeat moves; members that died without leaving are waited out."""
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
                    f"The cursor '{name}' is read by {', '.join(sorted(live))}.",
                    hint="Stop its members first, or force it.",
                )
            if not members:
                return


async def _move(ledger: Ledger, offsets: Mapping[TableBucket, int]) -> None:
    """Take generations of its own, note positions in them and release them, as a member does."""
    left = dict(offsets)
    for _ in range(CLAIMS_MAX):
        if not left:
            return
        view = await ledger.read()
        claims = {bucket: view.slot(bucket).generation + 1 for bucket in left}
        view = await ledger.claim(claims)
        marks = {
            bucket: Mark(generation, left[bucket])
            for bucket, generation in claims.items()
            if view.slot(bucket).is_held_by(ledger.member, generation)
        }
        lost = await ledger.commit(marks, releases=True) if marks else frozenset()
        left = {b: at for b, at in left.items() if b not in marks or b in lost}
    if left:
        raise ConflictError(
            "Members took the cursor back while it was set.", hint="Stop its members first."
        )


def _existing(view: GroupView, name: str, path: TablePath) -> GroupView:
    if not view.is_begun:
        raise MissingError(
            f"There is no cursor '{name}' over {path}.", hint="It is made when it is first used."
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
