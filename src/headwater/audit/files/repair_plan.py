"""Decide how a bucket is repaired: rebuild its state or index, cut its log or begin it later.

A plan is a list of steps. No step deletes bytes, and a crash between two leaves a valid log.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import assert_never

from headwater.audit.files.bucket import CutPlace, Repairable
from headwater.audit.files.logs import STATE_DIRECTORY
from headwater.audit.files.segments import CHUNK_BYTES
from headwater.errors import RequestError
from headwater.log.segment import CHECKPOINT, SegmentName, index_name, segment_name, segment_names
from headwater.model import OffsetRange
from headwater.store.disk import TEMPORARY_SUFFIX, Disk, parent_of

# The steps of a repair.


@dataclass(frozen=True, slots=True)
class Rename:
    """Rename a file or directory."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"rename {self.source} to {_name(self.target)}"


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy the bytes of a file, from a position on, to another file."""

    source: str
    target: str
    position: int = 0

    def __str__(self) -> str:
        what = (
            f"the bytes of {self.source} from {self.position} on" if self.position else self.source
        )
        return f"copy {what} to {_name(self.target)}"


@dataclass(frozen=True, slots=True)
class Truncate:
    """Truncate a file whose end was copied before."""

    path: str
    position: int

    def __str__(self) -> str:
        return f"cut {self.path} at byte {self.position}"


@dataclass(frozen=True, slots=True)
class Write:
    """Write a small file over one that was copied before."""

    path: str
    content: bytes

    def __str__(self) -> str:
        return f"rewrite {self.path}" if self.content else f"create an empty {self.path}"


Step = Rename | Copy | Truncate | Write


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairPlan:
    """The steps of a repair, their outcome, and warnings."""

    steps: tuple[Step, ...]
    outcome: str
    warnings: tuple[str, ...] = ()


def carry_out(disk: Disk, steps: Iterable[Step]) -> None:
    """Carry out the steps in order, each durable before the next."""
    for step in steps:
        _do(disk, step)


def _do(disk: Disk, step: Step) -> None:
    match step:
        case Rename(source, target):
            disk.rename(source, target)
            disk.sync_directory(parent_of(target))
        case Copy(source, target, position):
            _copy(disk, source, target, position)
        case Truncate(path, position):
            file = disk.open(path)
            file.truncate(position)
            file.sync()
        case Write(path, content):
            disk.replace(path, content)
        case _:
            assert_never(step)


def _copy(disk: Disk, source: str, target: str, position: int) -> None:
    draft = target + TEMPORARY_SUFFIX
    with suppress(FileNotFoundError):
        disk.unlink(draft)
    file, copy = disk.open(source), disk.create(draft)
    while chunk := file.read(position, CHUNK_BYTES):
        copy.append([chunk])
        position += len(chunk)
    copy.sync()
    disk.rename(draft, target)
    disk.sync_directory(parent_of(target))


def _name(path: str) -> str:
    return path.rpartition("/")[2]


# Setting aside the state or the index of a bucket, to be rebuilt from its log.

INDEX_SUFFIX = ".index"
WRITERS_FORGOTTEN = (
    "Writers with no batch left in the log are forgotten; they continue under new ids."
)


def plan_state_rebuild(bucket: Repairable) -> RepairPlan:
    """Plan to rebuild the rows from the whole log at the next start."""
    table, log = bucket.table, bucket.log
    if not table.descriptor.is_keyed:
        raise RequestError(f"{table.name} has no primary key, and so no state.")
    if log.start_offset > 0:
        raise RequestError(
            f"The log begins at {log.start_offset}, so the rows cannot be rebuilt without "
            "a snapshot.",
            hint="Restore the files of the bucket's kv directory from a copy.",
        )
    if log.whole_end(0) < log.end_offset:
        raise RequestError(
            f"The log lacks offset {log.whole_end(0)}, so the rows cannot be rebuilt from it.",
            hint=bucket.hint(log.holes[0]),
        )
    if STATE_DIRECTORY not in bucket.names:
        return RepairPlan(steps=(), outcome="There are no state files: nothing to do.")
    path = bucket.state_path
    return RepairPlan(
        steps=(Rename(path, f"{path}.aside-{bucket.number}"),),
        outcome=(
            f"The next start rebuilds the rows from offsets 0 to {log.end_offset} of the log."
        ),
    )


def plan_index_rebuild(bucket: Repairable) -> RepairPlan:
    """Plan to rebuild indexes and checkpoint from the segments."""
    log, number = bucket.log, bucket.number
    if log.holes and log.holes[-1].end >= log.end_offset:
        hole = log.holes[-1]
        raise RequestError(
            f"Offsets {hole.start} to {hole.end} are missing at the end of the log, and "
            "only the files to be set aside record them.",
            hint=bucket.hint(hole),
        )
    path = f"{bucket.path}/{CHECKPOINT}"
    steps: list[Step] = []
    if CHECKPOINT in bucket.names:
        steps.append(Copy(path, f"{path}.aside-{number}"))
    steps.append(Write(path, bucket.fresh_checkpoint(log.start_offset)))
    steps += [
        Rename(f"{bucket.path}/{name}", f"{bucket.path}/{name}.aside-{number}")
        for name in bucket.names
        if name.endswith(INDEX_SUFFIX)
    ]
    return RepairPlan(
        steps=tuple(steps),
        outcome="The next start reads all segments and rebuilds indexes and checkpoint.",
        warnings=(WRITERS_FORGOTTEN,),
    )


# Beginning a log at an offset, if the lake holds everything before it.

LOOK_AT_LAKE = (
    "From then on, offsets before it are only in the lake: check that it holds them with "
    "`headwater audit --deep`."
)
READERS_BEHIND = (
    "Readers and cursors that have not reached it yet miss the rows between, if they "
    "read only the log."
)


def check_begin(bucket: Repairable, offset: int) -> None:
    """Raise for an offset before which the log holds rows that nothing else holds."""
    log = bucket.log
    if not log.start_offset < offset <= log.end_offset:
        raise RequestError(
            f"The log cannot begin at {offset}: it begins at {log.start_offset}, and its "
            f"next row gets {log.end_offset}.",
            hint="Choose an offset that it holds.",
        )
    if offset > bucket.tiered_end:
        raise RequestError(
            f"The lake holds the bucket only up to offset {bucket.tiered_end}: rows "
            f"before {offset} would be in no tier.",
            hint=bucket.hint(log.holes[0])
            if log.holes
            else f"Choose an offset up to {bucket.tiered_end}.",
        )
    for hole in log.holes:
        if hole.start <= offset < hole.end:
            raise RequestError(
                f"Offsets {hole.start} to {hole.end - 1} cannot be read, so the log "
                f"cannot begin at {offset}.",
                hint=bucket.hint(hole),
            )
    _check_state_before(bucket, offset)


def plan_begin(bucket: Repairable, offset: int) -> RepairPlan:
    """Plan to begin the log at an offset."""
    before = [
        name
        for name in segment_names(bucket.names)
        if name.base_offset < offset and _end(bucket, name) <= offset
    ]
    return RepairPlan(
        steps=tuple(steps_before(bucket, offset, before)),
        outcome=f"The log begins at offset {offset}; the lake holds what comes before.",
        warnings=(
            f"The files before it are kept, with names that end in .aside-{bucket.number}.",
            LOOK_AT_LAKE,
            READERS_BEHIND,
            WRITERS_FORGOTTEN,
        ),
    )


def steps_before(bucket: Repairable, offset: int, before: Sequence[SegmentName]) -> list[Step]:
    """Plan to set segments aside and begin the log at an offset after them.

    1. check that a segment is left  2. set aside those before, oldest first  3. record where the
       log begins: after that, a start would delete what is left of them
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
    """The offset after a segment, damaged or not."""
    bases = (each.base_offset for each in segment_names(bucket.names))
    behind = [base for base in bases if base > name.base_offset]
    return min(behind, default=bucket.log.end_offset)


def _check_state_before(bucket: Repairable, offset: int) -> None:
    """Raise if the rows of the bucket could not be rebuilt afterwards."""
    if not bucket.table.descriptor.is_keyed:
        return
    log = bucket.log
    offsets = [each.snapshot.offset for each in bucket.snapshots]
    if any(offset <= each and log.whole_end(each) >= log.end_offset for each in offsets):
        return
    raise RequestError(
        f"The rows could not be rebuilt: there is no complete snapshot of offset {offset} "
        "or later.",
        hint=("Restore the bucket from a copy; read what the lake holds of it with mode='lake'."),
    )


# Cutting a log at an offset.

CURSORS_AHEAD = (
    "Readers and cursors past the offset will be ahead of the log: `headwater audit` "
    "names the cursors."
)
LAKE_AHEAD = (
    "A tiering round that was not reported yet may have copied rows after the offset to "
    "the lake: `headwater audit` reports that."
)


def check_cut(bucket: Repairable, offset: int) -> None:
    """Raise for an offset at which the log cannot be cut without losing more than stated."""
    log = bucket.log
    if offset == log.end_offset:
        raise RequestError(f"The log already ends at {offset}, so there is nothing to cut.")
    if not log.start_offset <= offset < log.end_offset:
        raise RequestError(
            f"The log cannot be cut at {offset}: it begins at {log.start_offset}, and its next row"
            f" gets {log.end_offset}.",
            hint="Choose an offset that it holds.",
        )
    for hole in log.holes:
        if hole.start < offset <= hole.end and not _is_emptied(bucket, offset):
            raise RequestError(
                f"Offsets {hole.start} to {hole.end - 1} cannot be read, so the log "
                f"cannot end at {offset}.",
                hint=bucket.hint(hole),
            )
    if offset < bucket.tiered_end:
        raise RequestError(
            f"The lake holds the bucket up to offset {bucket.tiered_end}: new rows would "
            "get offsets that other rows have in the lake.",
            hint=_hint_below_lake(bucket),
        )
    _check_state_behind(bucket, offset)


def _hint_below_lake(bucket: Repairable) -> str:
    covered = [hole for hole in bucket.log.holes if hole.start < bucket.tiered_end]
    if covered:
        return bucket.hint(covered[-1])
    if bucket.tiered_end < bucket.log.end_offset:
        return f"Cut the log at {bucket.tiered_end} or later, or restore its files from a copy."
    return "There is nothing to cut: the lake holds the whole log."


def _is_emptied(bucket: Repairable, offset: int) -> bool:
    """Tell whether a cut leaves nothing of the log, because the lake ends inside a hole."""
    is_inside = any(hole.start < offset < hole.end for hole in bucket.log.holes)
    return is_inside and offset == bucket.tiered_end


def _check_state_behind(bucket: Repairable, offset: int) -> None:
    """Raise if the rows of the bucket could not be rebuilt afterwards."""
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
        f"The rows could not be rebuilt: the log begins at {log.start_offset}, and no "
        f"complete snapshot leads to offset {offset}.",
        hint=hint,
    )


def plan_cut(bucket: Repairable, place: CutPlace) -> RepairPlan:
    """Plan to end the log at an offset.

    1. set aside the snapshots that are ahead  2. forget what the checkpoint knew
    3. set aside the segments after it, last one first  4. keep a copy of what is cut off
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
    """The steps for the segment that holds the offset, or for a log that has none left."""
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
