"""What an inventory of a lake table says: files that are gone, left over, or listed twice."""

from collections.abc import Iterator

from headwater.audit.finding import Check, Finding, Proof, Severity
from headwater.audit.lakes.accusing import Accusing
from headwater.lake.spi import LakeInventory

ORPHAN_AGE_MS = 24 * 60 * 60 * 1000
"""Younger files may belong to a round that is under way."""
FILES_TOLD_MAX = 20
_CHECK = Check.LAKE_FILES


def file_findings(found: LakeInventory, say: Accusing) -> Iterator[Finding]:
    """Yield what is wrong with the files of a lake table."""
    for lost in found.missing[:FILES_TOLD_MAX]:
        yield say.table(
            _CHECK,
            f"The file {lost.path} {lost.fault}; lake snapshot {lost.snapshot_id} needs it.",
            remedy="Restore the file from a copy. Else, if only old snapshots need it, expire them:"
            f" headwater lake expire {say.path}; or tier what the log still holds anew: headwater"
            f" lake drop {say.path}, then headwater tier {say.path} --begin-anew",
        )
    if len(found.missing) > FILES_TOLD_MAX:
        yield say.table(
            _CHECK,
            f"{len(found.missing) - FILES_TOLD_MAX} more files are gone or damaged.",
            remedy="Restore them from a copy.",
        )
    for twice in found.duplicates[:FILES_TOLD_MAX]:
        yield say.table(
            _CHECK,
            f"The file {twice.path} {twice.fault} in lake snapshot {twice.snapshot_id}: its rows"
            " are there more than once.",
            remedy="Go back to the snapshot before; or tier what the log still holds anew:"
            f" headwater lake drop {say.path}, then headwater tier {say.path} --begin-anew",
        )
    yield from _orphans(found, say)


def _orphans(found: LakeInventory, say: Accusing) -> Iterator[Finding]:
    old = [each for each in found.orphans if each.age_ms >= ORPHAN_AGE_MS]
    if old:
        yield say.table(
            _CHECK,
            f"No snapshot names {len(old)} files of {sum(each.byte_count for each in old)} bytes,"
            f" the first of them {old[0].path}.",
            severity=Severity.WARNING,
            remedy=f"Rounds that failed left them: headwater lake clean {say.path}",
        )


def file_proof(found: LakeInventory, say: Accusing, *, opened: bool) -> Proof:
    """Say how many files were looked at."""
    young = sum(each.age_ms < ORPHAN_AGE_MS for each in found.orphans)
    notes = [
        "" if opened else "data files were not opened",
        f"{young} young files are in no snapshot, as a round may be under way" if young else "",
    ]
    return Proof(
        check=_CHECK,
        table=str(say.path),
        amount=found.named,
        unit="files",
        note="; ".join(filter(None, notes)),
    )
