"""Whether every offset is in the lake or in the log, none in neither, and the lake not ahead."""

from collections.abc import Iterator

from headwater.audit.finding import Check, Finding, Severity
from headwater.audit.lakes.accusing import Accusing
from headwater.audit.lakes.looked import Looked
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange

_CHECK = Check.TIERS


def tier_findings(looked: Looked, say: Accusing) -> Iterator[Finding]:
    """Yield the buckets whose log does not go on where the newest snapshot ends."""
    newest = looked.newest
    for bucket, log in sorted(looked.logs.items(), key=str):
        held = None if newest is None else newest.ranges.get(bucket)
        if held is None:
            yield from _untiered(looked, bucket, log, say=say)
            continue
        absent_end = min(held.start, log.start)
        if newest is not None and newest.has_starts and absent_end:
            yield _begun_late(bucket, absent_end, say)
        if log.start > held.end:
            yield _gap(bucket, held, log, say=say)
        elif log.end < held.end:
            yield _ahead(bucket, held, log, say=say)


def _untiered(
    looked: Looked, bucket: LakeBucket, log: OffsetRange, *, say: Accusing
) -> Iterator[Finding]:
    """Look at a bucket of which the lake holds nothing: its log has to begin at 0.

    Retention deletes nothing that a lake lacks, but what it deleted before the table had a lake is
    gone for good reason. A table that was never altered has had it from the first row on.
    """
    if not log.start:
        return
    table = looked.table
    found = f"Offsets [0, {log.start}) are in no tier: the lake holds nothing of the bucket, and"
    found += f" the log begins at {log.start}"
    if table.is_keyed:
        yield say.bucket(
            _CHECK,
            bucket,
            f"{found}. The rows of now do not need them: the next round takes the state.",
            offset=0,
            severity=Severity.WARNING,
            remedy=f"Bring the rows to the lake: headwater tier {say.path}",
        )
        return
    is_lost = table.modified_ms == table.created_ms
    yield say.bucket(
        _CHECK,
        bucket,
        f"{found}, though the table has had its lake since it was made."
        if is_lost
        else f"{found}. They expired before the table had a lake, or are lost: nothing tells"
        " which.",
        offset=0,
        severity=Severity.ERROR if is_lost else Severity.WARNING,
        remedy="Bring back a copy of the log that holds them, or the lake that did; else go on with"
        f" what the log holds: headwater tier {say.path} --begin-anew",
    )


def _begun_late(bucket: LakeBucket, end: int, say: Accusing) -> Finding:
    return say.bucket(
        _CHECK,
        bucket,
        f"Offsets [0, {end}) are in no tier: the lake began with what the log held then. Earlier"
        " rows had expired, or were given up by --begin-anew.",
        offset=0,
        severity=Severity.WARNING,
        remedy="If that was not on purpose, bring back a copy of the lake that holds them.",
    )


def _gap(bucket: LakeBucket, held: OffsetRange, log: OffsetRange, *, say: Accusing) -> Finding:
    return say.bucket(
        _CHECK,
        bucket,
        f"Offsets [{held.end}, {log.start}) are in no tier: the lake ends at {held.end},"
        f" and the log begins at {log.start}.",
        offset=held.end,
        remedy="Bring back a newer copy of the lake, if there is one; else begin anew with"
        f" what the log holds: headwater lake drop {say.path}, then headwater tier"
        f" {say.path} --begin-anew",
    )


def _ahead(bucket: LakeBucket, held: OffsetRange, log: OffsetRange, *, say: Accusing) -> Finding:
    return say.bucket(
        _CHECK,
        bucket,
        f"The lake holds offsets up to {held.end}, and the log ends at {log.end}: new rows"
        " would get offsets that the lake holds already.",
        offset=log.end,
        remedy="The storage was put back to an older copy: bring the newer one back before"
        " anything is written; the lake still holds the rows.",
    )
