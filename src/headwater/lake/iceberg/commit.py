"""Plan what writers need, and make their results visible, one snapshot after another.

A commit tries once: it checks that the snapshot it builds on is still the newest and that every
file it refers to is live, writes manifests, and lets the catalog swap the snapshot. A lost race, a
rewritten file and an unknown outcome are different errors, since the tierer reacts differently.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import DataFile, DataFileContent, ManifestFile
from pyiceberg.table import Table, update
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from requests import RequestException

from headwater import errors
from headwater.lake import spi
from headwater.lake.iceberg.catalog import FAULTS, load_table, reached
from headwater.lake.iceberg.files import BucketTask, IcebergPlace, commit_updates, remove
from headwater.lake.iceberg.inventory import reachable_files
from headwater.lake.iceberg.manifests import (
    IcebergManifests,
    described_snapshot,
    find_round,
    head_of,
    listed_manifests,
    live_paths,
    merged_manifests,
    properties_of,
)
from headwater.lake.iceberg.plan import PlannedFile, planned_by_bucket
from headwater.lake.iceberg.write import WrittenFiles, written_of
from headwater.model import Boundary, TablePath
from headwater.model.boundary import BOUNDARY_PROPERTY
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events

# The summary of a snapshot: what it added and removed, and the totals.

_TOTALS = (
    ("total-data-files", "added-data-files", "deleted-data-files"),
    ("total-delete-files", "added-delete-files", "removed-delete-files"),
    ("total-records", "added-records", "deleted-records"),
    ("total-files-size", "added-files-size", "removed-files-size"),
    ("total-position-deletes", "added-position-deletes", "removed-position-deletes"),
    ("total-equality-deletes", "added-equality-deletes", "removed-equality-deletes"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counted:
    data_files: int = 0
    records: int = 0
    position_files: int = 0
    positions: int = 0
    equality_files: int = 0
    equalities: int = 0
    byte_count: int = 0


def summary_of(
    *,
    added: Iterable[DataFile],
    removed: Iterable[DataFile],
    before: Mapping[str, str] | None,
) -> dict[str, str]:
    """Compute the counts of a snapshot, given the summary of the one before, if any."""
    counts = {**_changes(_counted(added), added=True), **_changes(_counted(removed), added=False)}
    totals: dict[str, str] = {}
    for total, plus, minus in _TOTALS:
        held = "0" if before is None else before.get(total)
        if held is not None and held.isdecimal():
            totals[total] = str(int(held) + counts.get(plus, 0) - counts.get(minus, 0))
    return {**{name: str(count) for name, count in counts.items() if count}, **totals}


def _counted(files: Iterable[DataFile]) -> _Counted:
    held = list(files)
    data = [file for file in held if file.content == DataFileContent.DATA]
    positions = [file for file in held if file.content == DataFileContent.POSITION_DELETES]
    equalities = [file for file in held if file.content == DataFileContent.EQUALITY_DELETES]
    return _Counted(
        data_files=len(data),
        records=_rows(data),
        position_files=len(positions),
        positions=_rows(positions),
        equality_files=len(equalities),
        equalities=_rows(equalities),
        byte_count=sum(file.file_size_in_bytes for file in held),
    )


def _rows(files: Iterable[DataFile]) -> int:
    return sum(file.record_count for file in files)


def _changes(counted: _Counted, *, added: bool) -> dict[str, int]:
    files = "added" if added else "removed"
    # For data files and records Iceberg says deleted; for everything else, removed.
    data = "added" if added else "deleted"
    return {
        f"{data}-data-files": counted.data_files,
        f"{data}-records": counted.records,
        f"{files}-delete-files": counted.position_files + counted.equality_files,
        f"{files}-position-delete-files": counted.position_files,
        f"{files}-position-deletes": counted.positions,
        f"{files}-equality-delete-files": counted.equality_files,
        f"{files}-equality-deletes": counted.equalities,
        f"{files}-files-size": counted.byte_count,
    }


# Adding one snapshot after another, in one attempt.

_METADATA_RACES_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotChange:
    """What a snapshot adds and removes."""

    operation: Operation
    properties: Mapping[str, str]
    added: Sequence[DataFile] = ()
    removed: frozenset[str] = frozenset()
    """Data and delete files that must be live."""
    needed: frozenset[str] = frozenset()
    """Data files that must stay live, since added deletes refer to them."""
    merge_count: int | None = None
    """From this many manifests on they are merged; None: as the table's properties say."""


def commit_change(
    table: Table, change: SnapshotChange, *, on: spi.LakeSnapshot | None, clock: Clock
) -> spi.LakeSnapshot:
    """Commit a snapshot directly after `on`.

    1. Check that `on` is still the newest.
    2. Check that every file the change refers to is there, and none that it adds.
    3. Write manifests: for new files, for those that lose entries, and merge if there are many.
    4. Let the catalog replace `on` with the snapshot.
    """
    path = TablePath(*table.name()[-2:])
    with reached(f"Committing to the Iceberg table {path}"):
        check_head(table.metadata, on, path)
        held = _held(table)
        _check_files(change, held, path)
        snapshot, manifests = _prepared(table, change, held, clock)
    try:
        metadata = _swapped(table, snapshot, on, path)
    except (errors.LakeMovedError, errors.LakeUnreachableError, errors.LakeSnapshotMissingError):
        manifests.abort()
        raise
    return described_snapshot(snapshot, metadata)


def check_head(metadata: TableMetadata, on: spi.LakeSnapshot | None, path: TablePath) -> None:
    """Raise unless a snapshot is the newest."""
    newest = metadata.current_snapshot_id
    wanted = None if on is None else on.snapshot_id
    if newest != wanted:
        raise errors.LakeMovedError(f"The newest snapshot of {path} is {newest}, not {wanted}.")


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
    # A manifest that only lists removed files has served its purpose.
    return _Held(tuple(each for each in manifests if live[each.manifest_path]), live)


def _check_files(change: SnapshotChange, held: _Held, path: TablePath) -> None:
    new = {file.file_path for file in change.added}
    if len(new) != len(change.added):
        raise errors.LakeRewrittenError(f"A file for {path} would be added twice in one commit.")
    live = held.paths
    if again := new & live:
        raise errors.LakeRewrittenError(
            f"{path} already contains {min(again)}: it was committed before."
        )
    if gone := (change.removed | change.needed - new) - live:
        raise errors.LakeRewrittenError(f"{path} no longer contains {min(gone)}.")


def _prepared(
    table: Table, change: SnapshotChange, held: _Held, clock: Clock
) -> tuple[Snapshot, IcebergManifests]:
    metadata = table.metadata
    newest = metadata.current_snapshot()
    manifests = IcebergManifests(
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
    change: SnapshotChange, held: _Held, manifests: IcebergManifests
) -> tuple[list[ManifestFile], list[DataFile]]:
    """Write manifests; return all of them, and the files that were removed."""
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
    table: Table, snapshot: Snapshot, on: spi.LakeSnapshot | None, path: TablePath
) -> TableMetadata:
    """Let the catalog swap the newest snapshot; tell an unknown outcome from a lost race."""
    for _ in range(_METADATA_RACES_MAX):
        try:
            return commit_updates(
                table,
                requirements=(
                    update.AssertTableUUID(uuid=table.metadata.table_uuid),
                    update.AssertRefSnapshotId.model_validate(
                        {
                            "ref": MAIN_BRANCH,
                            "snapshot-id": None if on is None else on.snapshot_id,
                        }
                    ),
                ),
                updates=(
                    update.AddSnapshotUpdate(snapshot=snapshot),
                    update.SetSnapshotRefUpdate.model_validate(
                        {
                            "ref-name": MAIN_BRANCH,
                            "type": "branch",
                            "snapshot-id": snapshot.snapshot_id,
                        }
                    ),
                ),
            )
        except CommitFailedException:
            # Someone else was faster; if that only changed properties, go on.
            table = load_table(table.catalog, path)
            if table.metadata.snapshot_by_id(snapshot.snapshot_id) is not None:
                return table.metadata
            check_head(table.metadata, on, path)
        except (*FAULTS, ValueError) as fault:
            return _looked_for(table, snapshot, path, fault)
    raise errors.LakeMovedError(f"Others keep changing the Iceberg table {path}.")


def _looked_for(
    table: Table, snapshot: Snapshot, path: TablePath, fault: Exception
) -> TableMetadata:
    """Find out whether a commit that failed took effect."""
    try:
        found = load_table(table.catalog, path).metadata
    except (errors.LakeUnreachableError, errors.LakeSnapshotMissingError):
        found = None
    if found is not None and found.snapshot_by_id(snapshot.snapshot_id) is not None:
        return found
    # Catalogs that write the metadata themselves raise these before they swap anything.
    is_local = isinstance(table.catalog, MetastoreCatalog)
    if found is not None and is_local and isinstance(fault, ValueError):
        raise errors.LakeMovedError(f"Others changed {path} meanwhile: {fault}") from fault
    is_file = isinstance(fault, OSError) and not isinstance(fault, RequestException)
    if found is not None and is_local and is_file:
        raise errors.LakeUnreachableError(f"Committing to {path} failed: {fault}") from fault
    raise errors.LakeCommitUnknownError(
        f"It is unknown whether snapshot {snapshot.snapshot_id} of {path} was committed: {fault}"
    ) from fault


_events = Events("lake.iceberg")


@dataclass(frozen=True, slots=True)
class IcebergCommitter:
    """Commits to one Iceberg table."""

    catalog: Catalog
    spec: spi.LakeTableSpec
    config: Mapping[str, str] = field(repr=False)
    clock: Clock

    def head(self) -> spi.LakeSnapshot | None:
        """The newest snapshot as the catalog knows it now."""
        return head_of(self._table())

    def find_round(self, round_id: str) -> spi.LakeSnapshot | None:
        """Find the snapshot of a round, looking back from the newest."""
        return find_round(self._table().metadata, round_id)

    def write_tasks(
        self, buckets: Sequence[tuple[spi.PartitionValues, int]], *, on: spi.LakeSnapshot | None
    ) -> list[spi.WriteTask]:
        """Plan what writers of these buckets need, given what the lake holds in a snapshot."""
        table = self._table()
        place = IcebergPlace.of(table, self.config)
        held: dict[tuple[spi.PartitionValues, int], list[PlannedFile]] = {}
        if self.spec.is_keyed and on is not None:
            if table.snapshot_by_id(on.snapshot_id) is None:
                raise errors.LakeSnapshotMissingError(
                    f"The Iceberg table of {self.spec.path} has no snapshot {on.snapshot_id}."
                )
            with reached(f"Planning to write to {self.spec.path}"):
                held = planned_by_bucket(table, self.spec, on.snapshot_id)
        return [
            BucketTask(
                place,
                tuple(each.held for each in held.get((partition, bucket), ())),
                None if on is None else on.snapshot_id,
            ).to_task(partition=partition, bucket=bucket)
            for partition, bucket in buckets
        ]

    def commit(
        self,
        results: Sequence[spi.WriteResult],
        *,
        boundary: Boundary,
        on: spi.LakeSnapshot | None,
        properties: Mapping[str, str],
    ) -> spi.LakeSnapshot:
        """Make results visible in one snapshot directly after `on`."""
        spi.check_kept(on, self.spec.path)
        written = [written_of(result) for result in results]
        change = SnapshotChange(
            operation=_operation(written),
            properties={**properties, **spi.CHECKED, BOUNDARY_PROPERTY: boundary.to_json()},
            added=[file for each in written for file in each.added],
            removed=frozenset(path for each in written for path in each.removed),
            needed=frozenset(path for each in written for path in each.needed),
        )
        table = self._table()
        if self.spec.is_keyed and on is not None:
            check_head(table.metadata, on, self.spec.path)
            self._check_all_seen(table, results, on=on)
        return commit_change(table, change, on=on, clock=self.clock)

    def abort(self, results: Sequence[spi.WriteResult]) -> None:
        """Remove the files of results that no snapshot holds; never raises."""
        try:
            table = self._table()
            with reached(f"Looking for the files of {self.spec.path}"):
                held = reachable_files(table.io, table.metadata.snapshots).data
        except (errors.HeadwaterError, ValueError) as fault:
            # Better to leave files than to remove some that a snapshot holds.
            _events.warning("files left behind", table=str(self.spec.path), fault=str(fault))
            return
        paths = {file.file_path for result in results for file in written_of(result).added}
        remove(table.io, paths - held.keys())

    def _check_all_seen(
        self, table: Table, results: Sequence[spi.WriteResult], *, on: spi.LakeSnapshot
    ) -> None:
        """Check that writers searched every current file for older rows.

        A file added since might hold a row of a key that they changed.
        """
        late = [each for each in results if written_of(each).on != on.snapshot_id]
        if not late:
            return
        with reached(f"Committing to the Iceberg table {self.spec.path}"):
            held = planned_by_bucket(table, self.spec, on.snapshot_id)
        for each in late:
            paths = {
                file.held.file.file_path for file in held.get((each.partition, each.bucket), ())
            }
            if paths - set(written_of(each).seen):
                raise errors.LakeRewrittenError(
                    f"Files were added to bucket {each.bucket} of {self.spec.path} while "
                    "it was written."
                )

    def _table(self) -> Table:
        return load_table(self.catalog, self.spec.path)


def _operation(written: Sequence[WrittenFiles]) -> Operation:
    return Operation.OVERWRITE if any(each.needed for each in written) else Operation.APPEND
