"""What lies at one place of a table: the files of the lake, and the log that goes on from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from headwater.client.reading.log_batch import Place
from headwater.client.union.view import TableView
from headwater.errors import LakeAheadError, LakeTableDiffersError, LogGapError
from headwater.lake.split import UNKNOWN_BUCKET, LakeSplit
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange
from headwater.model.partition import partition_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Name what a table holds at one place."""

    place: Place
    """Its bucket is -1 for files of a lake that does not keep rows by bucket."""
    lake: tuple[LakeSplit, ...] = field(default=())
    log_bucket: LakeBucket | None = None
    """None where the storage has no such bucket any more, or it cannot be told."""

    @property
    def byte_count(self) -> int:
        """Return the bytes of the files."""
        return sum(file.byte_count for split in self.lake for file in split.files)


def places_of(view: TableView, lake: Sequence[LakeSplit]) -> list[Held]:
    """Return what there is, sorted by partition and bucket."""
    found: dict[Place, Held] = {}
    for split in lake:
        place = _place_of(split, view)
        before = found.get(place, Held(place=place))
        found[place] = replace(before, lake=(*before.lake, split))
    for bucket in view.logs:
        place = Place(_name(view, bucket), bucket.bucket)
        found[place] = replace(found.get(place, Held(place=place)), log_bucket=bucket)
    if view.table.is_keyed:
        _check_buckets(view, found)
    return [found[place] for place in sorted(found, key=_order)]


def tail_of(view: TableView, bucket: LakeBucket) -> OffsetRange:
    """Return the offsets before the position that the lake does not hold, empty if it holds all.

    By key, a bucket that the lake knows nothing of has all of its changes there.
    """
    log, held = view.logs[bucket], tiered(view, bucket)
    unknown_start = 0 if view.table.is_keyed else log.start
    start = unknown_start if held is None else held.end
    return OffsetRange(min(start, log.end), log.end)


def tiered(view: TableView, bucket: LakeBucket) -> OffsetRange | None:
    """Return which offsets of a bucket the snapshot of a view holds; None: knows nothing of it."""
    return None if view.snapshot is None else view.snapshot.ranges.get(bucket)


def check_seam(view: TableView, bucket: LakeBucket) -> None:
    """Refuse a bucket whose log does not go on where the lake ends."""
    log, held = view.logs[bucket], tiered(view, bucket)
    if held is None:
        _check_log(view, bucket, log)
        return
    if held.end > log.end:
        raise LakeAheadError(
            f"The lake holds {shown(view, bucket)} up to offset {held.end}, but the position to"
            f" read is {log.end}.",
            hint="Read a later position, or one that an older snapshot reaches.",
        )
    if held.end < log.end and log.start > held.end:
        raise LogGapError(
            f"The lake holds {shown(view, bucket)} up to offset {held.end}, but its log begins at"
            f" {log.start} by now: {log.start - held.end} offsets are in neither.",
            hint="Read what the lake holds with mode='lake', or what the log holds with"
            " mode='log'.",
        )


def shown(view: TableView, bucket: LakeBucket) -> str:
    """Name a bucket for people."""
    name = _name(view, bucket)
    within = "" if name is None else f" of partition {name}"
    return f"bucket {bucket.bucket}{within} of {view.table.path}"


def _check_log(view: TableView, bucket: LakeBucket, log: OffsetRange) -> None:
    # By key, servers tell the rows at the position, or say themselves that they cannot.
    if view.table.is_keyed or log.start <= log.end:
        return
    raise LogGapError(
        f"The position to read is offset {log.end} of {shown(view, bucket)}, whose log begins at"
        f" {log.start} by now, and the lake does not hold it.",
        hint="Read a later position.",
    )


def _place_of(split: LakeSplit, view: TableView) -> Place:
    values = dict(split.partition)
    keys = view.table.descriptor.partition_keys
    name = partition_name(values[key] for key in keys) if keys else None
    is_only = view.table.is_keyed and view.table.bucket_count == 1
    return Place(name, 0 if is_only and split.bucket == UNKNOWN_BUCKET else split.bucket)


def _check_buckets(view: TableView, found: Mapping[Place, Held]) -> None:
    """Refuse a lake whose buckets are not those of the log: changes would miss their rows."""
    for place, held in found.items():
        if not 0 <= place.bucket < view.table.bucket_count:
            raise LakeTableDiffersError(
                f"The lake table of {view.table.path} has a bucket {place.bucket}; the buckets of"
                f" the table are 0 to {view.table.bucket_count - 1}.",
                hint="Read with mode='log'; 'headwater lake drop' lets it be tiered anew.",
            )
        if len(held.lake) > 1 and held.log_bucket is not None:
            raise LakeTableDiffersError(
                f"The lake parts bucket {place.bucket} of {view.table.path} into"
                f" {len(held.lake)} pieces, and cannot tell which of them a change is of.",
                hint="Read with mode='log'.",
            )


def _name(view: TableView, bucket: LakeBucket) -> str | None:
    return None if bucket.partition_id is None else view.partitions[bucket.partition_id]


def _order(place: Place) -> tuple[str, int]:
    return place.partition or "", place.bucket
