"""Snapshots of a table as a committer or reader sees them."""

from collections.abc import Iterator

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot, ancestors_of

from headwater.errors import LakeTableDiffersError
from headwater.lake.iceberg.layout import column_ids_of
from headwater.lake.spi import LakeSnapshot
from headwater.model.boundary import BOUNDARY_PROPERTY, Boundary, boundary_from_json

_FIRST_SEQUENCE_NUMBER = 1


def told(snapshot: Snapshot, metadata: TableMetadata) -> LakeSnapshot:
    """Tell of a snapshot what others may want to know."""
    properties = properties_of(snapshot)
    return LakeSnapshot(
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_snapshot_id,
        committed_ms=snapshot.timestamp_ms,
        boundary=_boundary(snapshot, metadata),
        row_count=int(properties.get("total-records", 0)),
        file_count=int(properties.get("total-data-files", 0)),
        byte_count=int(properties.get("total-files-size", 0)),
        properties=properties,
    )


def find_round(metadata: TableMetadata, round_id: str) -> LakeSnapshot | None:
    """Return the snapshot of a round, looking back from the newest one of the main branch."""
    found: Snapshot | None = None
    for snapshot, boundary in _bounded(metadata.current_snapshot(), metadata):
        if boundary.round_id == round_id:
            # Snapshots of upkeep carry the round on: the first one is that of the round.
            found = snapshot
        elif found is not None:
            break
    return None if found is None else told(found, metadata)


def properties_of(snapshot: Snapshot) -> dict[str, str]:
    """Return what the summary of a snapshot says, but for the operation."""
    return {} if snapshot.summary is None else dict(snapshot.summary.additional_properties)


def back_to_boundary(metadata: TableMetadata) -> list[Snapshot]:
    """Return the newest snapshot and those before it, up to the first that has a boundary."""
    line: list[Snapshot] = []
    for each in ancestors_of(metadata.current_snapshot(), metadata):
        line.append(each)
        if BOUNDARY_PROPERTY in properties_of(each):
            return line
    return []


def check_never_tiered(metadata: TableMetadata) -> None:
    """Refuse a table that we made and whose first snapshots, which told the boundary, are gone."""
    oldest = min((each.sequence_number or 0 for each in metadata.snapshots), default=0)
    if column_ids_of(metadata.properties) is not None and oldest > _FIRST_SEQUENCE_NUMBER:
        raise LakeTableDiffersError(
            f"No snapshot of the Iceberg table in {metadata.location} tells any more how far it"
            " holds the log: those that did were expired, and all others were committed by others.",
            hint="Drop the lake table, so that it is tiered anew.",
        )


def _boundary(snapshot: Snapshot, metadata: TableMetadata) -> Boundary | None:
    return next((boundary for _, boundary in _bounded(snapshot, metadata)), None)


def _bounded(
    snapshot: Snapshot | None, metadata: TableMetadata
) -> Iterator[tuple[Snapshot, Boundary]]:
    """Yield the snapshots with a boundary, from this one back.

    Mostly the first one has it: nothing that takes long is done before that is clear.
    """
    oldest = 0
    for each in _line(snapshot, metadata):
        oldest = each.sequence_number or 0
        yield from _with_boundary(each)
    # Others that expire snapshots cut the line; what is older than all of it stood before it.
    before = [each for each in metadata.snapshots if (each.sequence_number or 0) < oldest]
    before.sort(key=lambda each: each.sequence_number or 0, reverse=True)
    for each in before:
        yield from _with_boundary(each)


def _line(snapshot: Snapshot | None, metadata: TableMetadata) -> Iterator[Snapshot]:
    """Yield a snapshot and those before it, as `ancestors_of` does, but without a search each."""
    if snapshot is None:
        return
    yield snapshot
    by_id = {each.snapshot_id: each for each in metadata.snapshots}
    while (parent := snapshot.parent_snapshot_id) is not None and parent in by_id:
        snapshot = by_id[parent]
        yield snapshot


def _with_boundary(snapshot: Snapshot) -> Iterator[tuple[Snapshot, Boundary]]:
    text = properties_of(snapshot).get(BOUNDARY_PROPERTY)
    if text is not None:
        yield snapshot, boundary_from_json(text)
