"""The audit of a data directory that is not open: every file is read, and none is changed."""

from pathlib import Path

from headwater.audit.files.bucket_notes import BucketNotes
from headwater.audit.files.logs import audit_log
from headwater.audit.files.places import DROPPED, Place, places
from headwater.audit.files.tally import Tally
from headwater.audit.finding import Check, Finding, Severity
from headwater.audit.report import Notes
from headwater.store.disk import Disk
from headwater.store.local import LocalDisk

LOGS = "log"


def audit_files(directory: Path, notes: Notes, *, deep: bool) -> None:
    """Look at all files of a data directory; the caller holds its lock."""
    if (directory / LOGS).is_dir():
        audit_disk(LocalDisk(directory / LOGS), notes, deep=deep)


def audit_disk(disk: Disk, notes: Notes, *, deep: bool) -> None:  # noqa: ARG001 - the state's turn
    """Look at all buckets on a disk of which there is no catalog."""
    tally = Tally()
    for found in places(disk):
        if isinstance(found, Place):
            _bucket(disk, found, notes, tally)
        elif found.path != DROPPED:
            notes.bad(
                Finding(
                    check=Check.FILES,
                    severity=Severity.WARNING,
                    message=f"{found.path} belongs to no bucket.",
                    remedy="Move it away.",
                )
            )
    tally.prove(notes, table=None)


def _bucket(disk: Disk, place: Place, notes: Notes, tally: Tally) -> None:
    notes.progress(f"files of {place.bucket}")
    about = BucketNotes(
        notes=notes, bucket=place.bucket.bucket, table=str(place.bucket.table_id), tally=tally
    )
    audit_log(disk, place.path, about)
