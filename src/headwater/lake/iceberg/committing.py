"""One snapshot put directly after another, in one attempt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetSnapshotRefUpdate,
)
from requests import RequestException

from headwater.errors import (
    LakeCommitUnknownError,
    LakeMovedError,
    LakeRewrittenError,
    LakeSnapshotMissingError,
    LakeUnreachableError,
)
from headwater.lake.iceberg.listing import listed_manifests
from headwater.lake.iceberg.manifests import Manifests, live_paths
from headwater.lake.iceberg.merging import merged_manifests
from headwater.lake.iceberg.opening import FAULTS, load_table, reached
from headwater.lake.iceberg.snapshots import properties_of, told
from headwater.lake.iceberg.summary import summary_of
from headwater.lake.iceberg.updates import commit_updates
from headwater.lake.spi import LakeSnapshot
from headwater.model.path import TablePath
from headwater.runtime.clock import Clock

_METADATA_RACES_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Say what a snapshot adds and takes away."""

    operation: Operation
    properties: Mapping[str, str]
    added: Sequence[DataFile] = ()
    removed: frozenset[str] = frozenset()
    """Data and delete files that have to be live."""
    needed: frozenset[str] = frozenset()
    """Data files that have to stay live, since added deletes name them."""
    merge_count: int | None = None
    """From how many manifests on they are merged; None: as the properties of the table say."""


def commit_change(
    table: Table, change: Change, *, on: LakeSnapshot | None, clock: Clock
) -> LakeSnapshot:
    """Put a snapshot directly after `on`.

    1. See that `on` is still the newest.
    2. See that every file that the change refers to is there, and none that it adds.
    3. Write manifests: of what is new, those that lose entries anew, few instead of many.
    4. Let the catalog put the snapshot in the place of `on`.
    """
    path = TablePath(*table.name()[-2:])
    with reached(f"Committing to the Iceberg table {path}"):
        check_head(table.metadata, on, path)
        held = _held(table)
        _check_files(change, held, path)
        snapshot, manifests = _prepared(table, change, held, clock)
    try:
        metadata = _swapped(table, snapshot, on, path)
    except (LakeMovedError, LakeUnreachableError, LakeSnapshotMissingError):
        manifests.abort()
        raise
    return told(snapshot, metadata)


def check_head(metadata: TableMetadata, on: LakeSnapshot | None, path: TablePath) -> None:
    """See that a snapshot is the newest."""
    newest = metadata.current_snapshot_id
    wanted = None if on is None else on.snapshot_id
    if newest != wanted:
        raise LakeMovedError(f"The newest snapshot of {path} is {newest}, not {wanted}.")


@dataclass(frozen=True, slots=True)
class _Held:
    """What the newest snapshot lists."""

    manifests: tuple[ManifestFile, ...]
    live: Mapping[str, frozenset[str]]
    """The files that each manifest lists, by its path."""

    @property
    def paths(self) -> frozenset[str]:
        return frozenset().union(*self.live.values())


def _held(table: Table) -> _Held:
    newest = table.metadata.current_snapshot()
    manifests = () if newest is None else tuple(listed_manifests(newest, table.io))
    live = {each.manifest_path: live_paths(table.io, each) for each in manifests}
    # A manifest that only tells what is gone has told it.
    return _Held(tuple(each for each in manifests if live[each.manifest_path]), live)


def _check_files(change: Change, held: _Held, path: TablePath) -> None:
    new = {file.file_path for file in change.added}
    if len(new) != len(change.added):
        raise LakeRewrittenError(f"A file for {path} is to be added twice in one commit.")
    live = held.paths
    if again := new & live:
        raise LakeRewrittenError(f"{path} holds {min(again)} already: it was committed before.")
    if gone := (change.removed | change.needed - new) - live:
        raise LakeRewrittenError(f"{path} does not hold {min(gone)} any more.")


def _prepared(
    table: Table, change: Change, held: _Held, clock: Clock
) -> tuple[Snapshot, Manifests]:
    metadata = table.metadata
    newest = metadata.current_snapshot()
    manifests = Manifests(
        io=table.io,
        metadata=metadata,
        snapshot_id=metadata.new_snapshot_id(),
        sequence_number=metadata.next_sequence_number(),
    )
    parent_id = None if newest is None else newest.snapshot_id
    try:
        listed, removed = _listed(change, held, manifests)
        location = manifests.write_list(listed, parent_id=parent_id)
    except OSError:
        manifests.abort()
        raise
    counts = summary_of(
        added=change.added,
        removed=removed,
        before=None if newest is None else properties_of(newest),
    )
    snapshot = Snapshot.model_validate(
        {
            "snapshot-id": manifests.snapshot_id,
            "parent-snapshot-id": parent_id,
            "sequence-number": manifests.sequence_number,
            "timestamp-ms": max(clock.now_ms(), metadata.last_updated_ms),
            "manifest-list": location,
            "summary": Summary(change.operation, **{**counts, **change.properties}),
            "schema-id": metadata.current_schema_id,
        }
    )
    return snapshot, manifests


def _listed(
    change: Change, held: _Held, manifests: Manifests
) -> tuple[list[ManifestFile], list[DataFile]]:
    """Write manifests, and return them all with the files that are gone from them."""
    listed = manifests.added(change.added)
    removed: list[DataFile] = []
    for manifest in held.manifests:
        if held.live[manifest.manifest_path] & change.removed:
            kept, gone = manifests.without(manifest, change.removed)
            listed.append(kept)
            removed += gone
        else:
            listed.append(manifest)
    return merged_manifests(listed, manifests, count_min=change.merge_count), removed


def _swapped(
    table: Table, snapshot: Snapshot, on: LakeSnapshot | None, path: TablePath
) -> TableMetadata:
    """Let the catalog swap the newest snapshot; tell an unknown outcome from a lost race."""
    for _ in range(_METADATA_RACES_MAX):
        try:
            return commit_updates(
                table,
                requirements=(
                    AssertTableUUID(uuid=table.metadata.table_uuid),
                    AssertRefSnapshotId.model_validate(
                        {
                            "ref": MAIN_BRANCH,
                            "snapshot-id": None if on is None else on.snapshot_id,
                        }
                    ),
                ),
                updates=(
                    AddSnapshotUpdate(snapshot=snapshot),
                    SetSnapshotRefUpdate.model_validate(
                        {
                            "ref-name": MAIN_BRANCH,
                            "type": "branch",
                            "snapshot-id": snapshot.snapshot_id,
                        }
                    ),
                ),
            )
        except CommitFailedException:
            # Someone else was quicker; if that one changed nothing but properties, go on.
            table = load_table(table.catalog, path)
            if table.metadata.snapshot_by_id(snapshot.snapshot_id) is not None:
                return table.metadata
            check_head(table.metadata, on, path)
        except (*FAULTS, ValueError) as fault:
            return _looked_for(table, snapshot, path, fault)
    raise LakeMovedError(f"Others keep changing the Iceberg table {path}.")


def _looked_for(
    table: Table, snapshot: Snapshot, path: TablePath, fault: Exception
) -> TableMetadata:
    """Find out whether a commit took effect that ended with an error."""
    try:
        found = load_table(table.catalog, path).metadata
    except (LakeUnreachableError, LakeSnapshotMissingError):
        found = None
    if found is not None and found.snapshot_by_id(snapshot.snapshot_id) is not None:
        return found
    # Catalogs that write the metadata themselves raise these before they swap anything.
    is_local = isinstance(table.catalog, MetastoreCatalog)
    if found is not None and is_local and isinstance(fault, ValueError):
        raise LakeMovedError(f"Others changed {path} meanwhile: {fault}") from fault
    is_file = isinstance(fault, OSError) and not isinstance(fault, RequestException)
    if found is not None and is_local and is_file:
        raise LakeUnreachableError(f"Committing to {path} failed: {fault}") from fault
    raise LakeCommitUnknownError(
        f"Whether snapshot {snapshot.snapshot_id} of {path} was committed is not known: {fault}"
    ) from fault
