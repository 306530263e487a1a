"""Whether every offset is in the lake or in the log, none in neither, and the lake not ahead."""

from collections.abc import Iterator

from headwater.audit.finding import Check, Finding
from headwater.audit.lakes.accusing import Accusing
from headwater.audit.lakes.looked import Looked


def tier_findings(looked: Looked, say: Accusing) -> Iterator[Finding]:
    """Yield the buckets whose log does not go on where the newest snapshot ends."""
    newest = looked.newest
    if newest is None:
        return
    for bucket, held in sorted(newest.ranges.items(), key=str):
        log = looked.logs.get(bucket)
        if log is None:
            continue
        if log.start > held.end:
            yield say.bucket(
                Check.TIERS,
                bucket,
                f"Offsets [{held.end}, {log.start}) are in no tier: the lake ends at {held.end},"
                f" and the log begins at {log.start}.",
                offset=held.end,
                remedy="Bring back a newer copy of the lake, if there is one; else begin anew with"
                f" what the log holds: headwater lake drop {say.path}, then headwater tier"
                f" {say.path} --begin-anew",
            )
        elif log.end < held.end:
            yield say.bucket(
                Check.TIERS,
                bucket,
                f"The lake holds offsets up to {held.end}, and the log ends at {log.end}: new rows"
                " would get offsets that the lake holds already.",
                offset=log.end,
                remedy="The storage was put back to an older copy: bring the newer one back before"
                " anything is written; the lake still holds the rows.",
            )
