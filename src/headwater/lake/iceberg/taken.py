"""Whether others took rows of ours out of an Iceberg table.

Others may append, and compact. A snapshot of theirs that deletes or overwrites is compared with the
one before it: files of ours that are gone, and new deletes that hold for files of ours. A snapshot
of ours says that all before it was looked at, so that mostly nothing has to be.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFileContent, ManifestEntry
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot

from headwater.lake.iceberg.listing import entries_of, listed_manifests
from headwater.lake.iceberg.opening import reached
from headwater.lake.iceberg.snapshots import check_never_tiered, properties_of, told
from headwater.lake.iceberg.tasks import scoped_path
from headwater.lake.spi import LakeSnapshot
from headwater.lake.taken import is_looked_at, is_tierers

_TAKING = (Operation.DELETE, Operation.OVERWRITE)
_COUNTS = ("deleted-records", "added-position-deletes", "added-equality-deletes")


def head_of(table: Table) -> LakeSnapshot | None:
    """Return the newest snapshot of the main branch; None if there is none.

    Raises `LakeTableDiffersError` if rows were tiered and nobody knows any more which.
    """
    snapshot = table.metadata.current_snapshot()
    if snapshot is None:
        return None
    head = looked_at(snapshot, table)
    if head.boundary is None:
        check_never_tiered(table.metadata)
    return head


def looked_at(snapshot: Snapshot, table: Table) -> LakeSnapshot:
    """Tell of a snapshot what others may want to know, and what they took away."""
    with reached(f"Looking at the Iceberg table {'.'.join(table.name())}"):
        return replace(told(snapshot, table.metadata), taken=taken_from(table, snapshot))


def taken_from(table: Table, snapshot: Snapshot) -> str:
    """Say what others took away up to a snapshot; nothing if they took nothing of ours."""
    found = ""
    above: list[Snapshot] = []
    for each in _line(snapshot, table.metadata):
        properties = properties_of(each)
        if not is_tierers(properties):
            above.append(each)
            continue
        # Snapshots of others above it took rows of it, if they took any.
        found = found or _taken_in(above, table)
        above = []
        if is_looked_at(properties):
            break
    return found


def _taken_in(run: Sequence[Snapshot], table: Table) -> str:
    """Say what snapshots of others that follow each other, newest first, took away."""
    for place, each in enumerate(run):
        if each.summary is None or each.summary.operation not in _TAKING:
            continue
        after = run[place - 1] if place else None
        if found := _taken_by(each, table, after=after):
            return found
    return ""


def _line(snapshot: Snapshot, metadata: TableMetadata) -> Iterator[Snapshot]:
    by_id = {each.snapshot_id: each for each in metadata.snapshots}
    found: Snapshot | None = snapshot
    while found is not None:
        yield found
        parent = found.parent_snapshot_id
        found = None if parent is None else by_id.get(parent)


def _taken_by(snapshot: Snapshot, table: Table, *, after: Snapshot | None) -> str:
    """Say what one snapshot of others took away and did not bring back, nor did the next one.

    An overwrite may be two: one that takes all away, and one that brings it back.
    """
    counts, metadata = properties_of(snapshot), table.metadata
    before = metadata.snapshot_by_id(snapshot.parent_snapshot_id or -1)
    if before is None:
        rows = sum(int(counts.get(name, "0") or 0) for name in _COUNTS)
        return f"snapshot {snapshot.snapshot_id} of others took {rows} rows away" if rows else ""
    held, now = _live(before, table.io), _live(snapshot, table.io)
    ours = {
        path
        for path, entry in held.items()
        if _is_data(entry) and not _is_of_others(entry.snapshot_id, metadata)
    }
    gone = [entry for path, entry in held.items() if path in ours - now.keys()]
    lifted = [entry for path, entry in held.items() if not _is_data(entry) and path not in now]
    new = [entry for path, entry in now.items() if path not in held]
    deletes = [each for each in new if not _is_data(each) and _holds_for(each, ours)]
    brought = _rows([each for each in new if _is_data(each)])
    if after is not None:
        brought += int(properties_of(after).get("added-records", "0") or 0)
    if not deletes and _rows(gone) - _rows(lifted) <= brought:
        return ""
    return (
        f"snapshot {snapshot.snapshot_id} of others removed or rewrote {len(gone)} files of"
        f" {_rows(gone)} rows, and deleted {_rows(deletes)} rows of files"
    )


def _is_data(entry: ManifestEntry) -> bool:
    return entry.data_file.content == DataFileContent.DATA


def _holds_for(entry: ManifestEntry, paths: set[str]) -> bool:
    path = scoped_path(entry.data_file)
    return bool(paths) if path is None else path in paths


def _rows(entries: Iterable[ManifestEntry]) -> int:
    return sum(each.data_file.record_count for each in entries)


def _is_of_others(snapshot_id: int | None, metadata: TableMetadata) -> bool:
    """Tell whether somebody else appended what a snapshot brought, as far as that is known."""
    found = metadata.snapshot_by_id(snapshot_id or -1)
    if found is None or found.summary is None or is_tierers(properties_of(found)):
        return False
    return found.summary.operation is Operation.APPEND


def _live(snapshot: Snapshot, io: FileIO) -> dict[str, ManifestEntry]:
    return {
        entry.data_file.file_path: entry
        for manifest in listed_manifests(snapshot, io)
        for entry in entries_of(io, manifest)
    }
