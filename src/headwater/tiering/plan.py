"""Which offsets a round tiers, decided from what the lake holds and what the logs hold.

The settings of a tierer are here as well, since they bound its rounds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from headwater.config.values import check_positive, integer, seconds, switch
from headwater.errors import LakeAheadError, LakeTableDiffersError, LogGapError, TieringFencedError
from headwater.model import Boundary, LakeBucket, Lineage, OffsetRange, TablePath
from headwater.model.boundary import TableIdentity, TieringEpoch, extended
from headwater.model.bucket import UNKNOWN
from headwater.read.offsets import Place
from headwater.read.split import LogPart, LogRange, StateAt


@dataclass(frozen=True, slots=True, kw_only=True)
class LogsSeen:
    """Tell how far the logs of a table reach, and what its server was told of the lake."""

    path: TablePath
    identity: TableIdentity
    is_keyed: bool
    logs: Mapping[LakeBucket, OffsetRange]
    """First and next offset of the log of every bucket there is, read after the lake's head."""
    lineages: Mapping[LakeBucket, Lineage] = field(default_factory=dict)
    """Who wrote each log, told together with its end."""
    partitions: Mapping[int, str] = field(default_factory=dict)
    """Id and name of every partition there is."""
    reported: Mapping[LakeBucket, int] = field(default_factory=dict)
    """The ends that the server was told last; never a source of offsets, only of doubt."""
    reported_id: int | None = None
    """The snapshot that it was told to hold them."""
    unsettled: int | None = None
    """The last turn whose tierer may still be alive; None where the server does not tell."""

    def place(self, bucket: LakeBucket) -> Place:
        """Return a bucket as people name it."""
        number = bucket.partition_id
        return Place(None if number is None else self.partitions[number], bucket.bucket)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bound a round, and say whether what the lake lost may be given up."""

    rows_max: int
    """Offsets of one bucket in one round, so that rounds end."""
    begins_anew: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPlan:
    """Say what a round copies, and which boundary it builds on."""

    held: Boundary | None
    """That of the newest snapshot, as it must still be when the round commits."""
    kept: Boundary
    """The same without the partitions that were dropped."""
    splits: tuple[LogPart, ...]
    """What each task copies: a range of a log, or the rows of a bucket at an offset."""
    needs_claim: bool
    """Whether somebody whose turn came in between may still be alive."""
    replaces_report: bool
    """Whether the server knows of offsets that the lake no longer holds."""
    rows_left: int
    """Offsets that wait for the next round, since this one has enough."""
    partitions: Mapping[int, str] = field(default_factory=dict)
    lineages: Mapping[LakeBucket, Lineage] = field(default_factory=dict)

    def boundary(self, done: Iterable[LogPart], *, epoch: TieringEpoch, round_id: str) -> Boundary:
        """Return the boundary of the snapshot that holds these splits."""
        tiered = {split.log_bucket: split.offsets for split in done}
        names = {
            bucket.partition_id: self.partitions[bucket.partition_id]
            for bucket in tiered
            if bucket.partition_id is not None
        }
        written = {
            bucket: self.lineages[bucket].writer_before(offsets.end)
            for bucket, offsets in tiered.items()
            if bucket in self.lineages
        }
        return extended(
            self.kept,
            tiered,
            epoch=epoch,
            round_id=round_id,
            partitions=names,
            written_by={bucket: each for bucket, each in written.items() if each != UNKNOWN},
        )


def plan_round(
    held: Boundary | None, view: LogsSeen, *, epoch: TieringEpoch, limits: Limits
) -> RoundPlan:
    """Decide what comes next in the lake, or say why nothing can."""
    check_same_table(held, view.identity, path=view.path)
    check_turn(held, epoch, path=view.path)
    kept = _kept(held, view, epoch=epoch)
    splits = tuple(
        split
        for bucket, log in sorted(view.logs.items(), key=_order)
        if (split := _split(kept, view, bucket=bucket, log=log, limits=limits)) is not None
    )
    return RoundPlan(
        held=held,
        kept=kept,
        splits=splits,
        needs_claim=bool(splits) and _leaves_room(held, epoch, view.unsettled),
        replaces_report=is_report_ahead(view.reported, held, partitions=view.partitions),
        rows_left=sum(view.logs[each.log_bucket].end - each.offsets.end for each in splits),
        partitions=view.partitions,
        lineages=view.lineages,
    )


def check_same_log(held: Boundary | None, view: LogsSeen) -> None:
    """Refuse a lake that holds rows of a log that went on in another way than this one."""
    for bucket, written_by in ({} if held is None else held.written_by).items():
        end, lineage = _end(held, bucket), view.lineages.get(bucket)
        if end is None or lineage is None or lineage.holds(end, written_by):
            continue
        raise LakeAheadError(
            f"The lake holds {_named(view, bucket)} up to offset {end}, with rows that the storage"
            " does not have: it was restored from an older copy, and gives their offsets to"
            " others.",
            hint="To keep those rows, rename the lake table. To begin anew with what the log"
            f" holds: headwater lake drop {view.path}, then headwater tier {view.path}"
            " --begin-anew",
        )


def check_same_table(held: Boundary | None, identity: TableIdentity, *, path: TablePath) -> None:
    """Refuse a lake table that belongs to another table."""
    if held is None or held.table == identity:
        return
    if held.table.storage == identity.storage:
        raise LakeTableDiffersError(
            f"The lake table {path} holds rows of an earlier table of this name, which was dropped"
            f" (its id was {held.table.table_id}; now it is {identity.table_id}).",
            hint=f"Rename the lake table to keep those rows, or run: headwater lake drop {path}",
        )
    raise LakeTableDiffersError(
        f"The lake table {path} holds rows of another storage, '{held.table.storage}'; this one is"
        f" '{identity.storage}'.",
        hint=f"Use another warehouse; or rename the lake table, or run: headwater lake drop {path}",
    )


def check_turn(held: Boundary | None, epoch: TieringEpoch, *, path: TablePath) -> None:
    """Stop if others now tier the table."""
    if held is not None and held.epoch > epoch:
        raise TieringFencedError(
            f"{path} was already tiered in epoch {held.epoch.coordinator}.{held.epoch.turn};"
            f" this is {epoch.coordinator}.{epoch.turn}."
        )


def is_report_ahead(
    reported: Mapping[LakeBucket, int], held: Boundary | None, *, partitions: Mapping[int, str]
) -> bool:
    """Tell whether a server was told of offsets that the lake does not hold."""
    return any(
        end > (_end(held, bucket) or 0)
        for bucket, end in reported.items()
        if not _is_dropped(bucket, partitions)
    )


def is_report_behind(view: LogsSeen, held: Boundary) -> bool:
    """Tell whether the lake holds offsets of some bucket there is that a server was not told of."""
    return any((held.end(bucket) or 0) > view.reported.get(bucket, 0) for bucket in view.logs)


def _kept(held: Boundary | None, view: LogsSeen, *, epoch: TieringEpoch) -> Boundary:
    if held is None:
        return Boundary(table=view.identity, epoch=epoch, round_id="")
    # Rows of a dropped partition stay in the lake; its offsets mean nothing any more.
    ranges = {
        bucket: offsets
        for bucket, offsets in held.ranges.items()
        if not _is_dropped(bucket, view.partitions)
    }
    numbers = {bucket.partition_id for bucket in ranges}
    names = {number: name for number, name in held.partitions.items() if number in numbers}
    return replace(held, ranges=ranges, partitions=names)


def _is_dropped(bucket: LakeBucket, partitions: Mapping[int, str]) -> bool:
    """Tell whether the partition of a bucket is gone for certain.

    A server that lags behind does not know the newest partitions yet. Ids only grow, so one
    that knows a later partition has heard of this one too.
    """
    number = bucket.partition_id
    if number is None or number in partitions:
        return False
    return any(other > number for other in partitions)


def _split(
    kept: Boundary, view: LogsSeen, *, bucket: LakeBucket, log: OffsetRange, limits: Limits
) -> LogPart | None:
    end = kept.end(bucket)
    if end is None:
        return _first_split(kept, view, bucket=bucket, log=log, limits=limits)
    if log.start > end:
        raise LogGapError(
            f"The lake holds {_named(view, bucket)} up to offset {end}, but its log now begins"
            f" at {log.start}.",
            hint="To start over with what the log still holds: headwater lake drop"
            f" {view.path}, then headwater tier {view.path} --begin-anew",
        )
    if log.end < end:
        raise LakeAheadError(
            f"The lake holds {_named(view, bucket)} up to offset {end}, but its log ends at"
            f" {log.end}."
        )
    return _log_range(view, bucket, OffsetRange(end, log.end), limits)


def _first_split(
    kept: Boundary, view: LogsSeen, *, bucket: LakeBucket, log: OffsetRange, limits: Limits
) -> LogPart | None:
    if view.is_keyed:
        return _first_keyed_split(kept, view, bucket=bucket, log=log, limits=limits)
    reported = view.reported.get(bucket, 0)
    if reported and log.start and not limits.begins_anew:
        raise LogGapError(
            f"{_named(view, bucket)} was tiered up to offset {reported}, but this lake holds"
            f" nothing of it, and its log now begins at {log.start}.",
            hint="Use the lake that holds it; or start over with what the log still holds:"
            f" headwater tier {view.path} --begin-anew",
        )
    return _log_range(view, bucket, log, limits)


def _first_keyed_split(
    kept: Boundary, view: LogsSeen, *, bucket: LakeBucket, log: OffsetRange, limits: Limits
) -> LogPart | None:
    """Take the rows as they are; or their changes, where the lake may hold earlier rows.

    A partition that was dropped and made anew finds its old rows there. The changes say which of
    them are deleted, the rows do not.
    """
    is_alone = bucket.partition_id is None or not kept.round_id
    if is_alone or log.start > 0:
        return StateAt.of(view.place(bucket), bucket, log.end) if log.end else None
    return _log_range(view, bucket, log, limits)


def _log_range(
    view: LogsSeen, bucket: LakeBucket, offsets: OffsetRange, limits: Limits
) -> LogRange | None:
    end = min(offsets.end, offsets.start + limits.rows_max)
    if end <= offsets.start:
        return None
    return LogRange.of(view.place(bucket), bucket, OffsetRange(offsets.start, end))


def _leaves_room(held: Boundary | None, epoch: TieringEpoch, unsettled: int | None) -> bool:
    """Tell whether somebody may be alive who had a turn since the one that the lake knows of."""
    known = TieringEpoch(epoch.coordinator, 0) if held is None else held.epoch
    if known.coordinator != epoch.coordinator:
        return True
    if unsettled is None:
        # A server that tells nothing of turns that ended as they should: any of them may not have.
        return epoch.turn - 1 > known.turn
    # The lake may know the very turn by its claim alone, and the round itself be still to come.
    return 0 < unsettled >= known.turn


def _end(held: Boundary | None, bucket: LakeBucket) -> int | None:
    return None if held is None else held.end(bucket)


def _named(view: LogsSeen, bucket: LakeBucket) -> str:
    if bucket.partition_id is None:
        return f"bucket {bucket.bucket} of {view.path}"
    name = view.partitions.get(bucket.partition_id, str(bucket.partition_id))
    return f"bucket {bucket.bucket} of partition {name} of {view.path}"


def _order(item: tuple[LakeBucket, OffsetRange]) -> tuple[int, int]:
    bucket, _ = item
    return (-1 if bucket.partition_id is None else bucket.partition_id, bucket.bucket)


# Settings of a tierer: how often it asks, how much it takes at once, what it clears away.

_FREE = frozenset({"begins_anew"})
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TieringSettings:
    """Hold the limits of a tierer."""

    poll_interval_s: float = seconds(
        10.0, "Pause before the server is asked again, when it had no table to tier."
    )
    heartbeat_interval_s: float = seconds(
        10.0, "How often the server is told that a table is still being tiered."
    )
    goodbye_s: float = seconds(
        5.0, "Time that a tierer which is stopped may take to give its table back."
    )
    rows_max: int = integer(
        5_000_000, "Offsets of one bucket in one round; the rest waits for the next."
    )
    begins_anew: bool = switch(
        "Start a lake table over with what the log still holds if the lake has lost rows that the"
        " log no longer has. Otherwise that is an error."
    )
    orphans_interval_s: float = seconds(
        _DAY_S, "How often files that no snapshot names are looked for in a lake table."
    )
    orphans_age_s: float = seconds(
        3 * _DAY_S, "Age of such files from which they are removed; younger ones may be in use."
    )

    def __post_init__(self) -> None:
        check_positive(self, free=_FREE)

    @property
    def limits(self) -> Limits:
        """Return what bounds a round."""
        return Limits(rows_max=self.rows_max, begins_anew=self.begins_anew)
