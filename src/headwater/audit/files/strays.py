"""Files and directories that belong to nobody."""

from collections.abc import Sequence
from pathlib import Path

from headwater.audit.files.catalog import RESTORE
from headwater.audit.files.catalog_seen import CatalogSeen
from headwater.audit.files.places import DROPPED, Place, Stray
from headwater.audit.finding import Check, Finding, Severity
from headwater.audit.report import REPORT_NAME, Notes
from headwater.model.bucket import TableBucket
from headwater.server.catalog.catalog import CATALOG_NAME
from headwater.server.catalog.lock import LOCK_NAME
from headwater.server.disk_space import RESERVE_NAME
from headwater.store.disk import Disk

_BESIDE = {
    LOCK_NAME,
    RESERVE_NAME,
    REPORT_NAME,
    "log",
    "lake",
    CATALOG_NAME,
    f"{CATALOG_NAME}-wal",
    f"{CATALOG_NAME}-shm",
}


def note_strays_beside(directory: Path, notes: Notes) -> None:
    """Note what lies in a data directory and is no part of it."""
    for path in sorted(directory.iterdir()):
        if path.name not in _BESIDE:
            _warn(notes, f"{path} is no part of a data directory.", "Move it away.")


def note_strays(
    disk: Disk, found: Sequence[Place | Stray], catalog: CatalogSeen | None, notes: Notes
) -> list[Place]:
    """Note what belongs to no table, and return the buckets that do."""
    owned = []
    for each in found:
        if isinstance(each, Stray):
            _note_stray(disk, each, notes)
        elif catalog is None or not (reason := _ownerless(each.bucket, catalog)):
            owned.append(each)
        elif _is_ahead(each.bucket, catalog):
            message = f"log/{each.path} was made after the catalog was last written: the catalog is"
            message += " older than the logs."
            notes.bad(Finding(check=Check.FILES, message=message, remedy=RESTORE))
        else:
            remedy = "Nothing reads it: a crash kept it from being removed, or the catalog was put"
            remedy += (
                " back to an older copy. Bring a newer one back, if there is; else move it away."
            )
            _warn(notes, f"log/{each.path} is the bucket of {reason}.", remedy)
    return owned


def _note_stray(disk: Disk, stray: Stray, notes: Notes) -> None:
    if stray.path != DROPPED:
        _warn(notes, f"log/{stray.path} belongs to no table.", "Move it away.")
        return
    for name in disk.listdir(DROPPED):
        message = f"log/{DROPPED}/{name} is left of a table or partition that was dropped."
        _warn(notes, message, "The next start removes it.")


def _ownerless(bucket: TableBucket, catalog: CatalogSeen) -> str:
    """Say why a bucket belongs to no table, or nothing."""
    if bucket.table_id not in catalog.table_ids:
        return f"table {bucket.table_id}, which is not in the catalog"
    table = catalog.tables.get(bucket.table_id)
    if bucket.partition_id is not None:
        owner, _ = catalog.partitions.get(bucket.partition_id, (None, ""))
        if owner != bucket.table_id:
            return f"partition {bucket.partition_id}, which is not in the catalog"
    elif table is not None and table.descriptor.is_partitioned:
        return f"{table.name}, whose buckets lie in partitions"
    if table is not None and bucket.bucket >= (table.descriptor.bucket_count or 1):
        return f"{table.name}, which has {table.descriptor.bucket_count} buckets"
    return ""


def _is_ahead(bucket: TableBucket, catalog: CatalogSeen) -> bool:
    """Tell whether a bucket was made after the catalog was last written."""
    return (
        bucket.table_id > catalog.table_id_last
        or (bucket.partition_id or 0) > catalog.partition_id_last
    )


def _warn(notes: Notes, message: str, remedy: str) -> None:
    notes.bad(Finding(check=Check.FILES, severity=Severity.WARNING, message=message, remedy=remedy))
