"""Why a position of a table cannot be read, told so that the next step is clear."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from headwater.client.union.positions import Sought
from headwater.client.union.view import ViewedSnapshot
from headwater.config.choices import ChangelogImage
from headwater.config.options import CHANGELOG_IMAGE
from headwater.errors import (
    HeadwaterError,
    LakeAheadError,
    LakeSnapshotMissingError,
    LogGapError,
    PositionMissingError,
    UnsupportedError,
)
from headwater.lake.spi import LakeSnapshot
from headwater.model.boundary import LakeBucket
from headwater.model.table import TableInfo

_SHOWN_MAX = 5
_MS = 1000


def gap(table: TableInfo, sought: Sought, kept: Sequence[ViewedSnapshot]) -> LogGapError:
    """Tell that rows are in no log any more and in no snapshot that can be read."""
    bucket = max(sought.starts, key=lambda each: sought.starts[each])
    held = [each.ranges[bucket].end for each in kept if bucket in each.ranges]
    end = f"ends at {max(held)}" if held else "does not hold it"
    return LogGapError(
        f"Rows of {table.path} are in neither lake nor log: the log of bucket {bucket.bucket}"
        f" begins at {sought.starts[bucket]}, and the lake {end}.",
        hint="Read what the lake holds with mode='lake', or what the log holds with mode='log'.",
    )


def missing_position(
    table: TableInfo, sought: Sought, kept: Sequence[ViewedSnapshot]
) -> PositionMissingError:
    """Tell that neither log nor snapshots reach back to a position."""
    starts = ", ".join(
        f"{_named(bucket)}: {start}" for bucket, start in sorted(sought.starts.items())[:_SHOWN_MAX]
    )
    return PositionMissingError(
        f"{table.path} cannot be read any more as it was at that position: its log begins at"
        f" {starts or 'no offset'}, and no snapshot of the lake ends at or before the position and"
        " reaches the log.",
        hint=_there(kept),
    )


def missing_snapshot(
    table: TableInfo, snapshot_id: int | None, kept: Sequence[LakeSnapshot]
) -> LakeSnapshotMissingError:
    """Tell that the lake does not have a snapshot, and which it has."""
    if snapshot_id is None:
        return LakeSnapshotMissingError(
            f"The lake holds nothing of {table.path} yet.",
            hint=f"Tier it first: headwater tier {table.path} --once",
        )
    return LakeSnapshotMissingError(
        f"The lake has no snapshot {snapshot_id} of {table.path}.", hint=_there(kept)
    )


def lost_rows(table: TableInfo, fault: HeadwaterError) -> PositionMissingError:
    """Tell that rows of a view left the log, or a partition the table, before they were read."""
    return PositionMissingError(
        f"Rows of {table.path} are gone since the position was taken: {fault.message}",
        hint="Take a new view. Rows of the log stay as long as 'table.log.ttl' says.",
    )


def lost_values(table: TableInfo, column: str) -> PositionMissingError:
    """Tell that rows were written anew without a column, whose values at a position are gone."""
    return PositionMissingError(
        f"The values of '{column}' of {table.path} at that position are gone: the column was"
        " dropped since, rows were changed after that, and no lake snapshot serves the position.",
        hint="Read other columns.",
    )


def lost_snapshot(table: TableInfo, snapshot_id: int) -> PositionMissingError:
    """Tell that a lake snapshot expired, or its table was dropped, before all of it was read."""
    return PositionMissingError(
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
        raise PositionMissingError(
            f"The log of {table.path} does not reach back to {moment}: that of"
            f" {_named(unknown[0])} begins at offset {starts[unknown[0]]}, and when the rows before"
            " it were written is not known any more.",
            hint="Read a later moment, or a lake snapshot by its id.",
        )


def check_not_ahead(
    table: TableInfo, newest: ViewedSnapshot, ends: Mapping[LakeBucket, int]
) -> None:
    """Refuse a lake that holds offsets which the log has not: it went on from an older copy."""
    held = {bucket: offsets.end for bucket, offsets in newest.ranges.items()}
    ahead = [bucket for bucket, end in ends.items() if held.get(bucket, 0) > end]
    if ahead:
        raise LakeAheadError(
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
        raise UnsupportedError(
            f"The rows of {table.path} at an earlier position cannot be told: no lake snapshot"
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
