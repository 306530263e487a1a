"""Decide how a log is made to begin at an offset, where the lake holds what comes before."""

from collections.abc import Sequence

from headwater.audit.files.rebuild_plan import WRITERS_FORGOTTEN
from headwater.audit.files.repair_steps import Copy, Rename, RepairPlan, Step, Write
from headwater.audit.files.repairable import Repairable
from headwater.errors import RequestError
from headwater.log.names import CHECKPOINT, SegmentName, index_name, segment_name, segment_names

LOOK_AT_LAKE = (
    "Offsets before it are read from the lake only from then on: see that it holds them by"
    " `headwater audit --deep`."
)
READERS_BEHIND = (
    "Readers and cursors that are not as far yet miss the rows between, if they read the log alone."
)


def check_begin(bucket: Repairable, offset: int) -> None:
    """Refuse an offset before which a log holds what nothing else does."""
    log = bucket.log
    if not log.start_offset < offset <= log.end_offset:
        raise RequestError(
            f"The log cannot begin at {offset}: it begins at {log.start_offset}, and its next row"
            f" gets {log.end_offset}.",
            hint="Give an offset that it holds.",
        )
    if offset > bucket.tiered_end:
        raise RequestError(
            f"The lake holds the bucket up to offset {bucket.tiered_end} only: rows before {offset}"
            " would be in no tier.",
            hint=bucket.hint(log.holes[0])
            if log.holes
            else f"Give an offset up to {bucket.tiered_end}.",
        )
    for hole in log.holes:
        if hole.start <= offset < hole.end:
            raise RequestError(
                f"Offsets {hole.start} to {hole.end - 1} cannot be read, so that the log cannot"
                f" begin at {offset}.",
                hint=bucket.hint(hole),
            )
    _check_state(bucket, offset)


def plan_begin(bucket: Repairable, offset: int) -> RepairPlan:
    """Return the steps that make a log begin at an offset."""
    before = [
        name
        for name in segment_names(bucket.names)
        if name.base_offset < offset and _end(bucket, name) <= offset
    ]
    return RepairPlan(
        steps=tuple(steps_before(bucket, offset, before)),
        outcome=f"The log begins at offset {offset}; the lake holds what comes before.",
        warnings=(
            f"What comes before stays in files whose names end in .aside-{bucket.number}.",
            LOOK_AT_LAKE,
            READERS_BEHIND,
            WRITERS_FORGOTTEN,
        ),
    )


def steps_before(bucket: Repairable, offset: int, before: Sequence[SegmentName]) -> list[Step]:
    """Return the steps that set segments aside, and let the log begin at an offset behind them.

    1. see that a segment is left  2. set aside those before, the oldest first  3. say where the
    log begins: once that is said, a start would delete what is left of them
    """
    number = bucket.number
    steps: list[Step] = []
    if set(before) >= {*segment_names(bucket.names)}:
        steps.append(Write(f"{bucket.path}/{segment_name(offset)}", b""))
    for name in before:
        files = [str(name), index_name(name.base_offset)]
        steps += [
            Rename(f"{bucket.path}/{each}", f"{bucket.path}/{each}.aside-{number}")
            for each in files
            if each in bucket.names
        ]
    path = f"{bucket.path}/{CHECKPOINT}"
    if CHECKPOINT in bucket.names:
        steps.append(Copy(path, f"{path}.aside-{number}"))
    return [*steps, Write(path, bucket.fresh_checkpoint(offset))]


def _end(bucket: Repairable, name: SegmentName) -> int:
    """Return the offset behind a segment, be it whole or not."""
    bases = (each.base_offset for each in segment_names(bucket.names))
    behind = [base for base in bases if base > name.base_offset]
    return min(behind, default=bucket.log.end_offset)


def _check_state(bucket: Repairable, offset: int) -> None:
    """Refuse to leave a bucket whose rows nothing can rebuild."""
    if not bucket.table.descriptor.is_keyed:
        return
    log = bucket.log
    offsets = [each.snapshot.offset for each in bucket.snapshots]
    if any(offset <= each and log.whole_end(each) >= log.end_offset for each in offsets):
        return
    raise RequestError(
        f"The rows could not be rebuilt: no snapshot that is whole is of offset {offset} or later.",
        hint="Restore the bucket from a copy; what the lake holds of it can be read with"
        " mode='lake'.",
    )
