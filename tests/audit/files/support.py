"""What the tests of this folder share."""

from headwater.audit.files.walk import audit_disk
from headwater.audit.report import Finding, Notes, Severity
from headwater.store.disk import Disk


def findings(disk: Disk, *, deep: bool = False) -> list[Finding]:
    notes = Notes()
    audit_disk(disk, notes, deep=deep)
    return list(notes.findings)


def errors(disk: Disk, *, deep: bool = False) -> list[Finding]:
    return [each for each in findings(disk, deep=deep) if each.severity is Severity.ERROR]


def warnings(disk: Disk, *, deep: bool = False) -> list[Finding]:
    return [each for each in findings(disk, deep=deep) if each.severity is Severity.WARNING]
