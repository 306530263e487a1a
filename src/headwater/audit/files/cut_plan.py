"""Decide how a log is cut at an offset."""

from dataclasses import replace

from headwater.audit.files.begin_plan import steps_before
from headwater.audit.files.cut_place import CutPlace
from headwater.audit.files.repair_steps import Copy, Rename, RepairPlan, Step, Truncate, Write
from headwater.audit.files.repairable import Repairable
from headwater.errors import RequestError
from headwater.log.names import CHECKPOINT, SegmentName, index_name, segment_name, segment_names
from headwater.model.bucket import OffsetRange

CURSORS_AHEAD = (
    "Readers and cursors that went past the offset are ahead of the log then: `headwater audit`"
    " names the cursors."
)
LAKE_AHEAD = (
    "A tiering round that was not reported yet may have brought rows behind the offset to the"
    " lake: `headwater audit` says so."
)


def check_cut(bucket: Repairable, offset: int) -> None:
    """Refuse an offset that a log cannot be cut at without losing more than is said."""
    log = bucket.log
    if offset == log.end_offset:
        raise RequestError(f"The log ends at {offset} already, so that there is nothing to cut.")
    if not log.start_offset <= offset < log.end_offset:
        raise RequestError(
            f"The log cannot be cut at {offset}: it begins at {log.start_offset}, and its next row"
            f" gets {log.end_offset}.",
            hint="Give an offset that it holds.",
        )
    for hole in log.holes:
        if hole.start < offset <= hole.end and not _is_emptied(bucket, offset):
            raise RequestError(
                f"Offsets {hole.start} to {hole.end - 1} cannot be read, so that the log cannot"
                f" end at {offset}.",
                hint=bucket.hint(hole),
            )
    if offset < bucket.tiered_end:
        raise RequestError(
            f"The lake holds the bucket up to offset {bucket.tiered_end}: its readers would see"
            " other rows under the offsets that are written next.",
            hint=_hint_below_lake(bucket),
        )
    _check_state(bucket, offset)


def _hint_below_lake(bucket: Repairable) -> str:
    covered = [hole for hole in bucket.log.holes if hole.start < bucket.tiered_end]
    if covered:
        return bucket.hint(covered[-1])
    if bucket.tiered_end < bucket.log.end_offset:
        return f"Cut the log at {bucket.tiered_end} or later, or restore its files from a copy."
    return "There is nothing to cut: the lake holds all of the log."


def _is_emptied(bucket: Repairable, offset: int) -> bool:
    """Tell whether nothing of the log is left by a cut, as the lake ends inside of a hole."""
    is_inside = any(hole.start < offset < hole.end for hole in bucket.log.holes)
    return is_inside and offset == bucket.tiered_end


def _check_state(bucket: Repairable, offset: int) -> None:
    """Refuse to leave a bucket whose rows nothing can rebuild."""
    if not bucket.table.descriptor.is_keyed:
        return
    log = bucket.log
    offsets = [0, *(each.snapshot.offset for each in bucket.snapshots)]
    if _is_emptied(bucket, offset) and offset in offsets:
        return
    if any(log.start_offset <= each <= offset <= log.whole_end(each) for each in offsets):
        return
    ahead = [each for each in sorted(offsets) if offset < each <= log.end_offset]
    hint = "Restore the bucket from a copy."
    if ahead and log.whole_end(ahead[0]) > ahead[0]:
        hint = f"The snapshot of offset {ahead[0]} can be kept: cut the log there or later."
    raise RequestError(
        f"The rows could not be rebuilt: the log begins at {log.start_offset}, and no snapshot that"
        f" is whole leads to offset {offset}.",
        hint=hint,
    )


def plan_cut(bucket: Repairable, place: CutPlace) -> RepairPlan:
    """Return the steps that make a log end at an offset.

    1. set aside the snapshots that are ahead  2. forget what the checkpoint knew
    3. set aside the segments behind, the last one first  4. keep the end of the one that is cut
    """
    offset, number = place.offset, bucket.number
    behind = [name for name in segment_names(bucket.names) if name.base_offset >= offset]
    steps: list[Step] = []
    ahead = [each for each in bucket.snapshots if each.snapshot.offset > offset]
    for each in ahead:
        path = f"{bucket.state_path}/snapshot-{each.serial:016d}"
        steps.append(Rename(path, f"{path}.cut-{number}"))
    path = f"{bucket.path}/{CHECKPOINT}"
    if CHECKPOINT in bucket.names:
        steps.append(Copy(path, f"{path}.cut-{number}"))
    start_offset = min(bucket.log.start_offset, offset)
    steps.append(Write(path, bucket.fresh_checkpoint(start_offset)))
    for name in reversed(behind):
        steps += _aside(bucket, name, number)
    if _is_emptied(bucket, offset):
        left = tuple(name for name in bucket.names if name not in set(map(str, behind)))
        steps += steps_before(replace(bucket, names=left), offset, segment_names(left))
    else:
        steps += _shortened(bucket, place, number)
    return RepairPlan(
        steps=tuple(steps),
        outcome=f"The log ends at offset {offset}, which the next row gets.",
        warnings=_warnings(bucket, OffsetRange(offset, bucket.log.end_offset)),
    )


def _aside(bucket: Repairable, name: SegmentName, number: int) -> list[Step]:
    files = [str(name), index_name(name.base_offset)]
    return [
        Rename(f"{bucket.path}/{each}", f"{bucket.path}/{each}.cut-{number}")
        for each in files
        if each in bucket.names
    ]


def _shortened(bucket: Repairable, place: CutPlace, number: int) -> list[Step]:
    """Return the steps for the segment that holds the offset, or for a log that has none left."""
    if place.segment is None:
        return [Write(f"{bucket.path}/{segment_name(place.offset)}", b"")]
    name, path = place.segment, f"{bucket.path}/{place.segment}"
    steps: list[Step] = []
    if place.position < place.size:
        index = index_name(name.base_offset)
        if index in bucket.names:
            steps.append(Rename(f"{bucket.path}/{index}", f"{bucket.path}/{index}.cut-{number}"))
        steps.append(Copy(path, f"{path}.cut-{number}", place.position))
        steps.append(Truncate(path, place.position))
    if name.is_damaged:
        steps.append(Rename(path, f"{bucket.path}/{segment_name(name.base_offset)}"))
    return steps


def _warnings(bucket: Repairable, lost: OffsetRange) -> tuple[str, ...]:
    given_up = (
        f"Offsets {lost.start} to {lost.end - 1} are given up; their bytes stay in files whose"
    )
    warnings = [f"{given_up} names end in .cut-{bucket.number}.", CURSORS_AHEAD]
    if bucket.tiered_end:
        warnings.append(LAKE_AHEAD)
    return tuple(warnings)
