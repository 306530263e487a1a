"""Find the position that a caller asks for: which lake snapshot, and how far of each log."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from headwater import errors
from headwater.cluster.admin import newest_table
from headwater.cluster.cluster import Cluster
from headwater.cluster.lake import LakeCoordinator, ReportedSnapshot
from headwater.config.options import DATALAKE_ENABLED
from headwater.lake.lakes import lake_format
from headwater.lake.spi import LakeSnapshot, check_kept, rows_deleted
from headwater.model import LakeBucket, Lineage, OffsetRange, TableInfo
from headwater.model.boundary import BOUNDARY_PROPERTY
from headwater.model.bucket import UNKNOWN
from headwater.model.path import complete_spec, name_of_spec
from headwater.read.lake import LakePlans
from headwater.read.offsets import (
    Buckets,
    Place,
    buckets_of,
    list_ends,
    list_offsets,
    moment_ms,
    partitions_of,
)
from headwater.read.token import Token, read_token
from headwater.read.view import (
    NamedOffsets,
    PositionQuery,
    Sought,
    TableView,
    ViewedSnapshot,
    check_image,
    check_not_ahead,
    check_reached,
    choose_snapshot,
    gap,
    log_alone_serves,
    missing_position,
    missing_snapshot,
    serves,
)

# A snapshot can expire, a log move on and a partition be dropped while they are looked at.
_ATTEMPTS = 3
_RACES = (
    errors.LakeAheadError,
    errors.LakeSnapshotMissingError,
    errors.LogGapError,
    errors.PartitionMissingError,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
T = TypeVar("T")


async def look_at(
    cluster: Cluster, table: TableInfo, wish: PositionQuery, *, renews_columns: bool
) -> TableView:
    """Return a table at a position.

    With `renews_columns` it has all the columns that rows before the position can have, whatever
    is known of the table so far.
    """
    attempts = _ATTEMPTS if wish.snapshot_id is None else 1
    for attempt in range(1, attempts + 1):
        try:
            view = await _Look(cluster, table, wish, renews_columns=renews_columns).view()
        except _RACES:
            if attempt == attempts:
                raise
            continue
        if attempt == attempts or has_lake(view.table) == has_lake(table):
            return view
        # It was turned on or off since the table was got.
        table = view.table
    raise AssertionError(attempts)


def has_lake(table: TableInfo) -> bool:
    """Tell whether rows of a table go to a lake."""
    return bool(DATALAKE_ENABLED.of(table.descriptor.properties))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Logs:
    """Hold how far the logs of a table reach."""

    buckets: Buckets
    starts: Mapping[LakeBucket, int]
    ends: Mapping[LakeBucket, int]
    lineages: Mapping[LakeBucket, Lineage]

    def holds(self, ends: Mapping[LakeBucket, int], written_by: Mapping[LakeBucket, int]) -> bool:
        """Tell whether these are the logs that ended here when those wrote them."""
        return all(
            self.lineages[bucket].holds(ends[bucket], incarnation)
            for bucket, incarnation in written_by.items()
            if bucket in ends and bucket in self.lineages
        )

    def written_by(self, ends: Mapping[LakeBucket, int]) -> dict[LakeBucket, int]:
        """Return who wrote the row before each end, as far as that is known."""
        found = {
            bucket: self.lineages[bucket].writer_before(end)
            for bucket, end in ends.items()
            if bucket in self.lineages
        }
        return {bucket: written for bucket, written in found.items() if written != UNKNOWN}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lake:
    """Hold what is known of the lake of a table before anything is chosen."""

    reported: ReportedSnapshot | None = None
    newest: ViewedSnapshot | None = None
    """The reported one, as the lake tells it."""
    taken: str = ""
    """What others took of its rows."""
    notes: tuple[str, ...] = field(default=())
    withheld: errors.AccessError | None = None
    """Why the server does not tell of the lake."""


class _Look:
    """Look once."""

    def __init__(
        self, cluster: Cluster, table: TableInfo, wish: PositionQuery, *, renews_columns: bool
    ) -> None:
        self._cluster = cluster
        self._table = table
        self._wish = wish
        self._renews_columns = renews_columns
        self._plans = LakePlans.of(cluster)

    async def view(self) -> TableView:
        """Return the view.

        1. Find the newest snapshot, before the ends of the logs, so that none of it is behind
        them. 2. Find the logs and the position in them. 3. Choose the snapshot that serves it.
        4. Find the columns, after the ends, so that no row before them has others.
        """
        wish = self._wish
        if wish.snapshot_id is not None or wish.mode == "lake":
            return await self._snapshot_alone()
        token = self._token()
        lake = await self._lake()
        logs = await self._logs()
        if token is not None and not logs.holds(token.ends, token.written_by):
            raise errors.LogDivergedError(
                f"The token is of rows of {self._table.path} that it no longer holds."
            )
        sought = await self._sought(logs, token)
        if lake.withheld is not None:
            self._check_withheld(lake.withheld, sought)
        snapshot = await self._chosen(lake, sought, logs)
        if token is None:
            await self._check_not_overtaken(lake, snapshot, logs)
        if snapshot is None and not wish.is_newest:
            check_image(self._table)
        return TableView(
            table=await self._columns(token),
            snapshot=snapshot,
            logs=_ranges(sought),
            partitions=partitions_of(logs.buckets) if token is None else token.partitions,
            written_by=logs.written_by(sought.ends),
            read_ms=self._cluster.clock.now_ms(),
            is_newest=wish.is_newest,
            as_of_ms=_milliseconds(wish.as_of),
            notes=(*lake.notes, *_of_log_alone(lake, snapshot)),
        )

    def _token(self) -> Token | None:
        text, table = self._wish.token, self._table
        return None if text is None else read_token(text, path=table.path, table_id=table.table_id)

    # ---- the lake

    async def _lake(self) -> _Lake:
        """Find the newest snapshot that the server knows of, which costs the lake nothing."""
        if self._wish.mode == "log":
            return _Lake(notes=("The lake is left out: mode='log'.",))
        if not has_lake(self._table):
            return _Lake(notes=("The table has no lake: 'table.datalake.enabled' is off.",))
        try:
            reported = await self._reported()
        except errors.AccessError as fault:
            # Whoever may not read all rows is not told of files that hold all.
            return _Lake(
                notes=("The lake is left out: you may READ only a part of the table.",),
                withheld=fault,
            )
        if reported is None:
            return _Lake(notes=("Nothing was tiered yet.",))
        if reported.table_id != self._table.table_id:
            return _Lake(notes=("The lake holds rows of an earlier table of this name only.",))
        found = await self._plans.snapshot(self._table, reported.snapshot_id)
        newest = None if found is None else self._viewed(found, reported)
        return _Lake(reported=reported, newest=newest, taken="" if found is None else found.taken)

    async def _reported(self) -> ReportedSnapshot | None:
        coordinator, path = LakeCoordinator(self._cluster), self._table.path
        reported = await coordinator.snapshot(path, readable=True)
        if reported is None:
            # One that cannot be read yet still tells that rows were tiered.
            reported = await coordinator.snapshot(path)
            if reported is not None:
                reported = replace(reported, ends={})
        return reported

    async def _check_not_overtaken(
        self, lake: _Lake, snapshot: ViewedSnapshot | None, logs: _Logs
    ) -> None:
        """Refuse a view of logs whose first rows may have gone to the lake since that was asked.

        Where a log begins later and the lake knows nothing of its bucket, its rows expired without
        a lake; or they were tiered, and expired, between the two looks, which a third one tells.
        """
        table, held = self._table, {} if snapshot is None else snapshot.ranges
        cut = [bucket for bucket, start in logs.starts.items() if start and bucket not in held]
        if not cut or table.is_keyed or self._wish.mode == "log" or not has_lake(table):
            return
        now = await self._reported()
        if now is None or now.table_id != table.table_id:
            return
        if lake.reported is None or now.snapshot_id != lake.reported.snapshot_id:
            raise errors.LogGapError(
                f"Rows of {table.path} were tiered while the position was taken."
            )

    def _viewed(
        self, found: LakeSnapshot, reported: ReportedSnapshot | None
    ) -> ViewedSnapshot | None:
        """Return a snapshot with its boundary: its own, or where it has none, what was reported."""
        if found.taken:
            # Its boundary tells of rows that it no longer holds.
            return None
        is_reported = reported is not None and reported.snapshot_id == found.snapshot_id
        boundary = found.boundary
        ranges: Mapping[LakeBucket, OffsetRange] = {}
        partitions: Mapping[int, str] = {}
        written_by: Mapping[LakeBucket, int] = {}
        if BOUNDARY_PROPERTY not in found.properties and is_reported and reported is not None:
            ranges = {bucket: OffsetRange(0, end) for bucket, end in reported.ends.items()}
        elif boundary is None or boundary.table.table_id != self._table.table_id:
            return None
        else:
            ranges, partitions = boundary.ranges, boundary.partitions
            written_by = boundary.written_by
        return ViewedSnapshot(
            format=lake_format(self._table),
            snapshot_id=found.snapshot_id,
            committed_ms=found.committed_ms,
            ranges=ranges,
            partitions=partitions,
            written_by=written_by,
        )

    async def _chosen(self, lake: _Lake, sought: Sought, logs: _Logs) -> ViewedSnapshot | None:
        """Return the snapshot to read with, looking for others only if the newest does not do."""
        newest, reported = lake.newest, lake.reported
        if reported is None:
            if not self._wish.is_newest and not log_alone_serves(sought, origins={}):
                raise missing_position(self._table, sought, [])
            return None
        if newest is not None and not _is_of(newest, logs):
            newest = None
        if newest is not None and self._wish.is_newest:
            check_not_ahead(self._table, newest, logs.ends)
        is_preferred = sought.preferred in (None, reported.snapshot_id)
        if newest is not None and is_preferred and serves(newest, sought):
            return newest
        found = [self._viewed(each, reported) for each in await self._plans.kept(self._table)]
        # One that was made after the copy from which the storage was restored has other rows.
        kept = [each for each in found if each is not None and _is_of(each, logs)]
        chosen = choose_snapshot(sought, kept)
        if chosen is None and lake.taken:
            raise rows_deleted(self._table.path, lake.taken)
        if chosen is None:
            await self._check_log_alone(sought, kept, logs)
        return chosen

    def _check_withheld(self, fault: errors.AccessError, sought: Sought) -> None:
        """Refuse rows that may be in the lake only, to those who are not told of it."""
        if log_alone_serves(sought, origins=dict.fromkeys(sought.ends, 0)):
            return
        raise errors.AccessError(
            f"The oldest rows of {self._table.path} are no longer in its log. They may be in the"
            f" lake, but {fault.message[:1].lower()}{fault.message[1:]}",
            hint="Read what the log holds with mode='log', or ask an operator for READ on all of"
            " the table.",
        )

    async def _check_log_alone(
        self, sought: Sought, kept: list[ViewedSnapshot], logs: _Logs
    ) -> None:
        """Refuse a position of a table that was tiered, if the logs do not hold it alone."""
        is_held = log_alone_serves(sought, origins=dict.fromkeys(sought.ends, 0))
        if self._wish.is_newest:
            # What the lake holds beside the log must not vanish without a word.
            if kept or not is_held:
                raise gap(self._table, sought, kept)
        elif not is_held or await self._shows_dropped(sought, kept, logs):
            raise missing_position(self._table, sought, kept)

    async def _shows_dropped(self, sought: Sought, kept: list[ViewedSnapshot], logs: _Logs) -> bool:
        """Tell whether the lake may hold partitions that were dropped, which only it can show."""
        if not self._table.is_partitioned:
            return False
        if sought.preferred is not None or not kept:
            # Made anew since, a partition hides that there was another of its name; only the
            # snapshot of the token could tell what it showed.
            return sought.preferred is not None
        plan = await self._plans.plan(self._table, kept[0].snapshot_id)
        keys = self._table.descriptor.partition_keys
        held = {name_of_spec(complete_spec(dict(each.partition), keys)) for each in plan.splits}
        return not held <= set(partitions_of(logs.buckets).values())

    async def _snapshot_alone(self) -> TableView:
        """Return the rows of one snapshot: the position is where it ends."""
        table, wanted = self._table, self._wish.snapshot_id
        coordinator = LakeCoordinator(self._cluster)
        reported = await coordinator.snapshot(table.path, wanted, readable=wanted is None)
        if wanted is not None:
            found = await self._plans.snapshot(table, wanted)
        else:
            found = await self._plans.newest(table)
        if found is None:
            kept = [] if wanted is None else await self._plans.kept(table)
            raise missing_snapshot(table, wanted, kept)
        if wanted is None:
            check_kept(found, table.path)
        viewed = self._viewed(found, reported)
        if viewed is None:
            viewed = ViewedSnapshot(
                format=lake_format(table),
                snapshot_id=found.snapshot_id,
                committed_ms=found.committed_ms,
                ranges={},
            )
        partitions = await self._partitions(viewed)
        return TableView(
            table=await self._columns(None),
            snapshot=viewed,
            logs=_logs_of_snapshot(table, viewed, partitions),
            partitions=partitions,
            read_ms=self._cluster.clock.now_ms(),
            is_newest=False,
            notes=("The lake is read alone.",),
        )

    async def _partitions(self, snapshot: ViewedSnapshot) -> Mapping[int, str]:
        """Return the partitions of a snapshot; where its tierer names none, those there are."""
        if snapshot.partitions or not self._table.is_partitioned:
            return snapshot.partitions
        return partitions_of(await buckets_of(self._cluster, self._table))

    # ---- the logs

    async def _logs(self) -> _Logs:
        buckets = await buckets_of(self._cluster, self._table)
        starts, ends = await asyncio.gather(
            list_offsets(self._cluster, self._table, "earliest", buckets=buckets),
            list_ends(self._cluster, self._table, buckets=buckets),
        )
        return _Logs(
            buckets=buckets,
            starts=_by_id(starts, buckets),
            ends=_by_id({place: each.offset for place, each in ends.items()}, buckets),
            lineages=_by_id({place: each.lineage for place, each in ends.items()}, buckets),
        )

    async def _sought(self, logs: _Logs, token: Token | None) -> Sought:
        sought = Sought(ends=logs.ends, starts=logs.starts, is_keyed=self._table.is_keyed)
        if token is not None:
            return replace(
                sought,
                ends=token.ends,
                held_from={bucket: token.starts.get(bucket, 0) for bucket in token.ends},
                is_closed=True,
                preferred=token.snapshot_id,
            )
        if self._wish.as_of is not None:
            return replace(sought, ends=await self._ends_at(self._wish.as_of, logs))
        if self._wish.offsets is not None:
            return replace(sought, ends=self._named_ends(self._wish.offsets, logs))
        return sought

    async def _ends_at(self, as_of: datetime | int, logs: _Logs) -> dict[LakeBucket, int]:
        """Return the first offset of each bucket that was written at a moment or later."""
        moment = as_of if isinstance(as_of, datetime) else _EPOCH + timedelta(milliseconds=as_of)
        found = await list_offsets(self._cluster, self._table, moment, buckets=logs.buckets)
        # After the ends: a log that is cut meanwhile answers a moment with its new first offset.
        begins = await list_offsets(self._cluster, self._table, "earliest", buckets=logs.buckets)
        ends, starts = _by_id(found, logs.buckets), _by_id(begins, logs.buckets)
        check_reached(self._table, moment, ends=ends, starts=starts)
        return ends

    def _named_ends(self, offsets: NamedOffsets, logs: _Logs) -> dict[LakeBucket, int]:
        """Return the offsets that were named, and the latest of the other buckets."""
        ends = dict(logs.ends)
        for key, offset in offsets.items():
            place = key if isinstance(key, Place) else Place(None, key)
            bucket = logs.buckets.get(place)
            if bucket is None:
                raise self._no_bucket(place)
            at = LakeBucket(bucket.partition_id, bucket.bucket)
            if not 0 <= offset <= ends[at]:
                raise errors.OffsetOutOfRangeError(
                    f"Bucket {place.bucket} of {self._table.path} has no offset {offset}.",
                    hint=f"Its log ends at {ends[at]}.",
                )
            ends[at] = offset
        return ends

    def _no_bucket(self, place: Place) -> errors.RequestError:
        table, of = self._table, "" if place.partition is None else f" of {place.partition}"
        return errors.RequestError(
            f"{table.path} has no bucket {place.bucket}{of}.",
            hint=f"Its buckets are 0 to {table.bucket_count - 1}"
            f"{' of each partition' if table.is_partitioned else ''}.",
        )

    # ---- the columns

    async def _columns(self, token: Token | None) -> TableInfo:
        """Return the table under the schema of the position."""
        table = self._table
        if token is not None:
            schema = await self._cluster.schema(table, token.schema_id)
            descriptor = replace(table.descriptor, schema=schema)
            return replace(table, descriptor=descriptor, schema_id=token.schema_id)
        return await newest_table(self._cluster, table) if self._renews_columns else table


def _of_log_alone(lake: _Lake, chosen: ViewedSnapshot | None) -> tuple[str, ...]:
    """Say why the lake is not read, though it holds the table."""
    if lake.reported is None or chosen is not None:
        return ()
    return ("No snapshot of the lake ends at or before this position: all comes from the log.",)


def _milliseconds(as_of: datetime | int | None) -> int | None:
    return moment_ms(as_of) if isinstance(as_of, datetime) else as_of


def _is_of(snapshot: ViewedSnapshot, logs: _Logs) -> bool:
    """Tell whether a snapshot holds rows of these logs, and not of others that they were once."""
    ends = {bucket: held.end for bucket, held in snapshot.ranges.items()}
    return logs.holds(ends, snapshot.written_by)


def _by_id(found: Mapping[Place, T], buckets: Buckets) -> dict[LakeBucket, T]:
    return {
        LakeBucket(buckets[place].partition_id, place.bucket): each for place, each in found.items()
    }


def _ranges(sought: Sought) -> dict[LakeBucket, OffsetRange]:
    """Return what the logs hold of a position; of what they do not, the lake holds all."""
    return {
        bucket: OffsetRange(min(sought.starts.get(bucket, end), end), end)
        for bucket, end in sought.ends.items()
    }


def _logs_of_snapshot(
    table: TableInfo, snapshot: ViewedSnapshot, partitions: Mapping[int, str]
) -> dict[LakeBucket, OffsetRange]:
    """Return where a snapshot ends in the logs; those of partitions without a name are gone."""
    ends = {
        bucket: held.end
        for bucket, held in snapshot.ranges.items()
        if bucket.partition_id is None or bucket.partition_id in partitions
    }
    if not table.is_partitioned:
        ends = {LakeBucket(None, each): 0 for each in range(table.bucket_count)} | ends
    return {bucket: OffsetRange(end, end) for bucket, end in ends.items()}
