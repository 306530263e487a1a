"""Decide how the state or the index of a bucket is set aside, to be built from its log."""

from headwater.audit.files.log_leftovers import STATE_DIRECTORY
from headwater.audit.files.repair_steps import Copy, Rename, RepairPlan, Step, Write
from headwater.audit.files.repairable import Repairable
from headwater.errors import RequestError
from headwater.log.names import CHECKPOINT

INDEX_SUFFIX = ".index"
WRITERS_FORGOTTEN = (
    "Writers that sent nothing that is still in the log are forgotten; they go on under new ids."
)


def plan_state_rebuild(bucket: Repairable) -> RepairPlan:
    """Return the steps that let the rows be built from the whole log at the next start."""
    table, log = bucket.table, bucket.log
    if not table.descriptor.is_keyed:
        raise RequestError(f"{table.name} has no primary key, and so no state.")
    if log.start_offset > 0:
        raise RequestError(
            f"The log begins at {log.start_offset}: the rows cannot be built without a snapshot.",
            hint="Restore the files of the bucket's kv directory from a copy.",
        )
    if log.whole_end(0) < log.end_offset:
        raise RequestError(
            f"The log lacks offset {log.whole_end(0)}, so that no rows can be built from it.",
            hint=bucket.hint(log.holes[0]),
        )
    if STATE_DIRECTORY not in bucket.names:
        return RepairPlan(steps=(), outcome="There are no files of a state: nothing is to be done.")
    path = bucket.state_path
    return RepairPlan(
        steps=(Rename(path, f"{path}.aside-{bucket.number}"),),
        outcome=f"The next start builds the rows from offsets 0 to {log.end_offset} of the log.",
    )


def plan_index_rebuild(bucket: Repairable) -> RepairPlan:
    """Return the steps that let indexes and checkpoint be made anew from the segments."""
    log, number = bucket.log, bucket.number
    if log.holes and log.holes[-1].end >= log.end_offset:
        hole = log.holes[-1]
        raise RequestError(
            f"Offsets {hole.start} to {hole.end} are gone from the end of the log, and only the"
            " files that were to be set aside know of them.",
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
        outcome="The next start reads all segments, and makes indexes and checkpoint anew.",
        warnings=(WRITERS_FORGOTTEN,),
    )
