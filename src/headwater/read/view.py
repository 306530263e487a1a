"""A table at one position: which lake snapshot serves it, and why some positions cannot be read.

Deciding only, from what `read.position` found.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from headwater import errors
from headwater.config.options import CHANGELOG_IMAGE, ChangelogImage
from headwater.lake.spi import LakeSnapshot
from headwater.model import LakeBucket, OffsetRange, TableInfo
from headwater.read.offsets import Place

# A table at one position: the lake snapshot that is read, and how far the logs are.


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewedSnapshot:
    """Name a lake snapshot with the boundary that stands in it."""

    format: str
    snapshot_id: int
    committed_ms: int
    ranges: Mapping[LakeBucket, OffsetRange]
    """Which offsets of each bucket it holds."""
    partitions: Mapping[int, str] = field(default_factory=dict)
    """The names of the partitions that have ranges."""
    written_by: Mapping[LakeBucket, int] = field(default_factory=dict)
    """Which start of the storage wrote the last row of each range, as far as that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableView:
    """Hold what a read is planned from. Two reads of one view give the same rows."""

    table: TableInfo
    """Under the schema of the position, which may be older than the newest one."""
    snapshot: ViewedSnapshot | None
    """None where the table has no lake, or nothing of it is needed for the position."""
    logs: Mapping[LakeBucket, OffsetRange]
    """For every bucket there is: the first offset that the log still holds, and the position."""
    partitions: Mapping[int, str] = field(default_factory=dict)
    """Id and name of every partition that the storage has."""
    written_by: Mapping[LakeBucket, int] = field(default_factory=dict)
    """Which start of the storage wrote the row before the position, as far as that is known."""
    read_ms: int = 0
    """When the view was taken, by the clock of the reader."""
    is_newest: bool = True
    """Whether the position is where the logs ended then, not one that was asked for."""
    as_of_ms: int | None = None
    """The moment that was asked for; None where the position was named in another way."""
    notes: tuple[str, ...] = ()
    """What a person who asks for an explanation should know, e.g. why the lake is not read."""


# Which lake snapshot serves a position of a table; deciding only, from what others found.

MODES = ("union", "lake", "log")
"""Read lake and log, the newest lake snapshot alone, or what the storage holds alone."""

NamedOffsets = Mapping[Place, int] | Mapping[int, int] | Mapping[Place | int, int]
"""Offsets of buckets, which are named by number where there are no partitions."""


_KINDS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "token": (str, "a text that view.token() returned"),
    "snapshot_id": (int, "the number of a lake snapshot"),
    "as_of": ((datetime, int), "a datetime with a time zone, or milliseconds since 1970"),
    "offsets": (Mapping, "an offset for each bucket, such as {0: 120}"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionQuery:
    """Hold the position that a caller asks for: at most one way to name it, else the newest."""

    token: str | None = None
    snapshot_id: int | None = None
    as_of: datetime | int | None = None
    """A moment, as a datetime with a time zone or in milliseconds since 1970."""
    offsets: NamedOffsets | None = None
    mode: str = "union"

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise errors.RequestError(
                f"There is no mode '{self.mode}'.",
                hint=f"The modes are {', '.join(MODES)}.",
            )
        self._check_kinds()
        named = self._named()
        if len(named) > 1:
            raise errors.RequestError(
                f"A position is named in {len(named)} ways: {', '.join(named)}.",
                hint="Name one of them.",
            )
        if self.mode == "lake" and named and self.snapshot_id is None:
            raise errors.RequestError(
                f"mode='lake' reads the newest snapshot, which '{named[0]}' does not name.",
                hint="Leave one of them out, or name a 'snapshot_id'.",
            )
        if self.mode == "log" and self.snapshot_id is not None:
            raise errors.RequestError(
                "mode='log' does not read the lake, but a 'snapshot_id' is given."
            )

    def _check_kinds(self) -> None:
        """Refuse what is no position, whatever types the caller's program promises."""
        given: dict[str, object] = {
            "token": self.token,
            "snapshot_id": self.snapshot_id,
            "as_of": self.as_of,
            "offsets": self.offsets,
        }
        for name, value in given.items():
            kinds, wanted = _KINDS[name]
            if value is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
                raise errors.RequestError(f"'{name}' is {value!r}.", hint=f"Give {wanted}.")
        if isinstance(self.as_of, datetime) and self.as_of.tzinfo is None:
            raise errors.RequestError(
                f"'as_of' is {self.as_of}, which has no time zone.",
                hint="Give one, such as datetime(2026, 11, 16, 12, tzinfo=UTC).",
            )

    @property
    def is_newest(self) -> bool:
        """Tell whether the newest rows are asked for."""
        return not self._named()

    def _named(self) -> list[str]:
        ways = {
            "token": self.token,
            "snapshot_id": self.snapshot_id,
            "as_of": self.as_of,
            "offsets": self.offsets,
        }
        return [name for name, value in ways.items() if value is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """Hold a position, and what the logs can still tell of it."""

    ends: Mapping[LakeBucket, int]
    """The first offset of each bucket that the position does not hold."""
    starts: Mapping[LakeBucket, int]
    """The first offset that each log holds; buckets that are not here were dropped."""
    held_from: Mapping[LakeBucket, int] = field(default_factory=dict)
    """Where the logs began when the position was taken, as far as that is known."""
    is_keyed: bool = False
    is_closed: bool = False
    """Whether the position names every bucket that had rows, so that none came later."""
    preferred: int | None = None
    """The snapshot that the position was taken with."""


def choose_snapshot(sought: Sought, kept: Sequence[ViewedSnapshot]) -> ViewedSnapshot | None:
    """Return the snapshot to read a position with: the preferred one, else the newest that serves.

    `kept` are those that the lake still has, newest first. None if no snapshot serves.
    """
    origins = origins_of(kept)
    preferred = [each for each in kept if each.snapshot_id == sought.preferred]
    return next(
        (each for each in (*preferred, *kept) if serves(each, sought, origins=origins)), None
    )


def origins_of(kept: Iterable[ViewedSnapshot]) -> dict[LakeBucket, int]:
    """Return the first offset of each bucket that ever came to the lake."""
    origins: dict[LakeBucket, int] = {}
    for snapshot in kept:
        for bucket, held in snapshot.ranges.items():
            origins[bucket] = min(held.start, origins.get(bucket, held.start))
    return origins


def serves(
    snapshot: ViewedSnapshot, sought: Sought, *, origins: Mapping[LakeBucket, int] | None = None
) -> bool:
    """Tell whether a snapshot and the logs hold together every row of a position, and no other.

    `origins` are the first offsets that ever came to the lake; without, what the snapshot tells.
    """
    known = origins_of([snapshot]) if origins is None else origins
    if snapshot.snapshot_id != sought.preferred and sought.is_closed:
        later = snapshot.ranges.keys() - sought.ends.keys()
        if any(snapshot.ranges[bucket].end for bucket in later):
            return False
    return all(
        _serves_bucket(snapshot, sought, bucket=bucket, origin=known.get(bucket))
        for bucket in sought.ends
    )


def _serves_bucket(
    snapshot: ViewedSnapshot, sought: Sought, *, bucket: LakeBucket, origin: int | None
) -> bool:
    end, start = sought.ends[bucket], sought.starts.get(bucket)
    held = snapshot.ranges.get(bucket)
    if held is None:
        return _log_serves(sought, bucket, origin=origin)
    return held.end == end or (start is not None and start <= held.end < end)


def log_alone_serves(sought: Sought, *, origins: Mapping[LakeBucket, int]) -> bool:
    """Tell whether the logs hold every row of a position without the lake."""
    return all(_log_serves(sought, bucket, origin=origins.get(bucket)) for bucket in sought.ends)


def _log_serves(sought: Sought, bucket: LakeBucket, *, origin: int | None) -> bool:
    """Tell whether the log holds all of a bucket; by key, whether its state can be worked out."""
    end, start = sought.ends[bucket], sought.starts.get(bucket)
    if end == 0:
        return True
    if start is None:
        return False
    if sought.is_keyed:
        # Servers know the rows as they are now; what happened since must still be in the log.
        return start <= end
    known = origin if origin is not None else sought.held_from.get(bucket)
    return start <= end and (known is None or start <= known)


# Why a position of a table cannot be read, told so that the next step is clear.

_SHOWN_MAX = 5
_MS = 1000


def gap(table: TableInfo, sought: Sought, kept: Sequence[ViewedSnapshot]) -> errors.LogGapError:
    """The rows are no longer in the log, nor in a snapshot that can be read."""
    bucket = max(sought.starts, key=lambda each: sought.starts[each])
    held = [each.ranges[bucket].end for each in kept if bucket in each.ranges]
    end = f"ends at {max(held)}" if held else "does not hold it"
    return errors.LogGapError(
        f"Rows of {table.path} are in neither lake nor log: the log of bucket {bucket.bucket}"
        f" begins at {sought.starts[bucket]}, and the lake {end}.",
        hint="Read what the lake holds with mode='lake', or what the log holds with mode='log'.",
    )


def missing_position(
    table: TableInfo, sought: Sought, kept: Sequence[ViewedSnapshot]
) -> errors.PositionMissingError:
    """Tell that neither log nor snapshots reach back to a position."""
    starts = ", ".join(
        f"{_named(bucket)}: {start}" for bucket, start in sorted(sought.starts.items())[:_SHOWN_MAX]
    )
    return errors.PositionMissingError(
        f"{table.path} can no longer be read as it was at that position: its log begins at"
        f" {starts or 'no offset'}, and no snapshot of the lake ends at or before the position and"
        " reaches the log.",
        hint=_there(kept),
    )


def missing_snapshot(
    table: TableInfo, snapshot_id: int | None, kept: Sequence[LakeSnapshot]
) -> errors.LakeSnapshotMissingError:
    """Tell that the lake does not have a snapshot, and which it has."""
    if snapshot_id is None:
        return errors.LakeSnapshotMissingError(
            f"The lake holds nothing of {table.path} yet.",
            hint=f"Tier it first: headwater tier {table.path} --once",
        )
    return errors.LakeSnapshotMissingError(
        f"The lake has no snapshot {snapshot_id} of {table.path}.", hint=_there(kept)
    )


def lost_rows(table: TableInfo, fault: errors.HeadwaterError) -> errors.PositionMissingError:
    """Tell that rows of a view left the log, or a partition the table, before they were read."""
    return errors.PositionMissingError(
        f"Rows of {table.path} are gone since the position was taken: {fault.message}",
        hint="Take a new view. Rows of the log stay as long as 'table.log.ttl' says.",
    )


def lost_values(table: TableInfo, column: str) -> errors.PositionMissingError:
    """The rows were rewritten without a column, so its values at the position are gone."""
    return errors.PositionMissingError(
        f"The values of '{column}' of {table.path} at that position are gone: the column was"
        " dropped since, rows were changed after that, and no lake snapshot serves the position.",
        hint="Read other columns.",
    )


def lost_snapshot(table: TableInfo, snapshot_id: int) -> errors.PositionMissingError:
    """Tell that a lake snapshot expired, or its table was dropped, before all of it was read."""
    return errors.PositionMissingError(
        f"Snapshot {snapshot_id} of the lake table of {table.path} is gone since the position was"
        " taken.",
        hint="Take a new view, or let the lake keep its snapshots longer.",
    )


def check_reached(
    table: TableInfo,
    moment: datetime,
    *,
    ends: Mapping[LakeBucket, int],
    starts: Mapping[LakeBucket, int],
) -> None:
    """Refuse a moment before the beginning of a log, which does not tell what was written then."""
    unknown = [bucket for bucket, end in ends.items() if 0 < starts[bucket] >= end]
    if unknown:
        raise errors.PositionMissingError(
            f"The log of {table.path} does not reach back to {moment}: that of"
            f" {_named(unknown[0])} begins at offset {starts[unknown[0]]}, and when the rows before"
            " it were written is no longer known.",
            hint="Read a later moment, or a lake snapshot by its id.",
        )


def check_not_ahead(
    table: TableInfo, newest: ViewedSnapshot, ends: Mapping[LakeBucket, int]
) -> None:
    """Refuse a lake that holds offsets which the log has not: it went on from an older copy."""
    held = {bucket: offsets.end for bucket, offsets in newest.ranges.items()}
    ahead = [bucket for bucket, end in ends.items() if held.get(bucket, 0) > end]
    if ahead:
        raise errors.LakeAheadError(
            f"The lake holds {_named(ahead[0])} of {table.path} up to offset"
            f" {held[ahead[0]]}, but its log ends at {ends[ahead[0]]}: the log was"
            " restored from an older copy.",
            hint="Read what the lake holds with mode='lake', or what the log holds with"
            " mode='log'.",
        )


def check_image(table: TableInfo) -> None:
    """Refuse rows as they were where the log does not tell what updates replaced."""
    if not table.is_keyed:
        return
    image = CHANGELOG_IMAGE.required(table.descriptor.properties)
    if image is ChangelogImage.WAL:
        raise errors.UnsupportedError(
            f"The rows of {table.path} at an earlier position are unknown: no lake snapshot"
            f" serves it, and the log has no rows before updates, as '{CHANGELOG_IMAGE.name}' is"
            f" {image}.",
            hint="Read the newest rows, or a lake snapshot by its id.",
        )


def _named(bucket: LakeBucket) -> str:
    if bucket.partition_id is None:
        return f"bucket {bucket.bucket}"
    return f"bucket {bucket.bucket} of the partition with id {bucket.partition_id}"


def _there(kept: Sequence[LakeSnapshot] | Sequence[ViewedSnapshot]) -> str:
    """Say which snapshots can be had, newest first."""
    shown = [f"{each.snapshot_id} ({_moment(each.committed_ms)})" for each in kept[:_SHOWN_MAX]]
    if not shown:
        return "The lake has no snapshots of it."
    more = ", …" if len(kept) > _SHOWN_MAX else ""
    return f"The lake has {', '.join(shown)}{more}."


def _moment(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / _MS, UTC).isoformat(timespec="milliseconds")
