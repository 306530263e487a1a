"""Plan what writers need, and make their results visible, one snapshot after another.

A commit tries once: it checks that the snapshot it builds on is still the newest, writes manifests,
and creates the next snapshot file, which fails if another one was faster. A lost race, a rewritten
file and an unknown outcome are different errors, since the tierer reacts differently.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pypaimon.common.json_util import JSON
from pypaimon.snapshot.snapshot import Snapshot

from headwater import errors
from headwater.lake import spi
from headwater.lake.paimon.catalog import PaimonTable
from headwater.lake.paimon.files import local_path, reaching
from headwater.lake.paimon.manifests import (
    ADD,
    APPEND,
    BYTES_PROPERTY,
    FILES_PROPERTY,
    PARENT_PROPERTY,
    TIERING_USER,
    Draft,
    Entry,
    Manifest,
    SnapshotFile,
    entries_from_bytes,
    live_entries,
    next_snapshot,
)
from headwater.lake.paimon.options import manifest_bytes, manifest_merge_count
from headwater.lake.paimon.write import PaimonBucket, TaskPayload
from headwater.model import Boundary
from headwater.model.boundary import BOUNDARY_PROPERTY
from headwater.runtime.clock import Clock, random_bytes

# Adding one snapshot after another, in one attempt.


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What a snapshot adds and removes."""

    entries: Sequence[Entry]
    user: str
    kind: str
    properties: Mapping[str, str]
    base: Sequence[Manifest] | None = None
    """Replaces all earlier manifests; None keeps them."""


def commit_snapshot(
    table: PaimonTable, commit: Commit, *, on: SnapshotFile | None, now_ms: int
) -> SnapshotFile:
    """Commit a snapshot directly after `on`.

    1. Check that `on` is the newest. 2. Write manifests. 3. Create the snapshot file, which fails
       if it exists. 4. Check that it really became the newest.

    Raises `LakeMovedError` if another one is newer, and `LakeCommitUnknownError` if the outcome is
    unknown.
    """
    _check_newest(table, on)
    written: list[str] = []
    try:
        snapshot = _drafted(table, commit, on=on, now_ms=now_ms, written=written)
        if not _created(table, snapshot, on=on):
            raise _moved(table, on)
    except errors.LakeCommitUnknownError:
        raise
    except errors.HeadwaterError:
        for name in written:
            with suppress(errors.HeadwaterError):
                table.files.delete(table.manifests.path(name))
        raise
    _check_linked(table, snapshot, commit)
    _hint(table, snapshot, is_first=on is None)
    return snapshot


def _check_newest(table: PaimonTable, on: SnapshotFile | None) -> None:
    head = table.head()
    if head is None or on is None:
        if head is not on:
            raise _moved(table, on)
    elif (head.snapshot_id, head.uuid) != (on.snapshot_id, on.uuid):
        raise _moved(table, on)


def _moved(table: PaimonTable, on: SnapshotFile | None) -> errors.LakeMovedError:
    place = "no snapshot" if on is None else f"snapshot {on.snapshot_id}"
    return errors.LakeMovedError(
        f"The newest snapshot of the lake table {table.spec.path} is no longer {place}."
    )


def _drafted(
    table: PaimonTable,
    commit: Commit,
    *,
    on: SnapshotFile | None,
    now_ms: int,
    written: list[str],
) -> SnapshotFile:
    """Write the manifests of a snapshot; return it, and the names of what was written."""
    schema_id = table.schema.schema_id
    base = list(commit.base) if commit.base is not None else _base(table, on, written)
    delta: list[Manifest] = []
    if commit.entries:
        delta.append(table.manifests.write(commit.entries, schema_id=schema_id))
        written.append(delta[0].name)
    base_list, delta_list = table.manifests.write_list(base), table.manifests.write_list(delta)
    written += [base_list[0], delta_list[0]]
    signs = [1 if entry.kind == ADD else -1 for entry in commit.entries]
    draft = Draft(
        schema_id=schema_id if on is None else max(schema_id, on.schema_id),
        base_list=base_list,
        delta_list=delta_list,
        row_count_added=sum(
            sign * entry.file.row_count for sign, entry in zip(signs, commit.entries, strict=True)
        ),
        user=commit.user,
        kind=commit.kind,
        # Time never goes back from one snapshot to the next, whatever the clocks say.
        committed_ms=now_ms if on is None else max(now_ms, on.committed_ms),
        properties={**commit.properties, **_counts(table, commit, on, signs)},
        uuid=random_bytes(16).hex(),
    )
    return next_snapshot(on, draft)


def _counts(
    table: PaimonTable, commit: Commit, on: SnapshotFile | None, signs: Sequence[int]
) -> dict[str, str]:
    files, size = (0, 0) if on is None else table.counts(on)
    sizes = [entry.file.byte_count for entry in commit.entries]
    return {
        FILES_PROPERTY: str(files + sum(signs)),
        BYTES_PROPERTY: str(size + sum(a * b for a, b in zip(signs, sizes, strict=True))),
        **({} if on is None or on.uuid is None else {PARENT_PROPERTY: on.uuid}),
    }


def _base(table: PaimonTable, on: SnapshotFile | None, written: list[str]) -> list[Manifest]:
    """The manifests before the snapshot, merged if there are many small ones."""
    held = [] if on is None else table.all_manifests(on)
    options = table.schema.options
    small = [each for each in held if each.byte_count < manifest_bytes(options)]
    if len(small) < manifest_merge_count(options):
        return held
    names = {each.name for each in small}
    merged = merged_manifests(table, small)
    written += [each.name for each in merged]
    return [*(each for each in held if each.name not in names), *merged]


def merged_manifests(table: PaimonTable, manifests: Sequence[Manifest]) -> list[Manifest]:
    """Rewrite the live entries of manifests into as few as possible."""
    left = live_entries(entry for each in manifests for entry in table.manifests.read(each))
    return table.manifests.write_all(left, schema_id=table.schema.schema_id)


def _created(table: PaimonTable, snapshot: SnapshotFile, *, on: SnapshotFile | None) -> bool:
    path = table.snapshot_path(snapshot.snapshot_id)
    # What the snapshot names must be as durable as the snapshot itself.
    table.files.sync_names(table.manifests.directory)
    environment = table.handle.catalog_environment
    try:
        if not environment.supports_version_management:
            return table.files.create(path, snapshot.to_json())
        with reaching(path):
            commit = environment.snapshot_commit(table.handle.snapshot_manager())
            node = JSON.from_json(snapshot.to_json().decode(), Snapshot)
            return bool(commit.commit(None if on is None else on.uuid, node, []))
    except errors.LakeUnreachableError as fault:
        return _outcome(table, snapshot, fault)


def _outcome(
    table: PaimonTable, snapshot: SnapshotFile, fault: errors.LakeUnreachableError
) -> bool:
    """Find out whether a snapshot exists although creating it failed."""
    try:
        there = table.snapshot(snapshot.snapshot_id)
    except errors.HeadwaterError:
        there = None
    else:
        if there is not None:
            return there.uuid == snapshot.uuid
        is_served = table.handle.catalog_environment.supports_version_management
        if local_path(table.root) is not None and not is_served:
            # A server or store may still do what it did not do yet; a local disk does not.
            raise fault
    raise errors.LakeCommitUnknownError(
        f"It is unknown whether snapshot {snapshot.snapshot_id} of the lake table "
        f"{table.spec.path} was committed: {fault.message}"
    ) from fault


def _check_linked(table: PaimonTable, snapshot: SnapshotFile, commit: Commit) -> None:
    """Remove the snapshot again if it took the id of an expired one.

    A committer that was delayed between checking and creating may find the next id free again,
    because the snapshot that had it expired meanwhile. Then there are newer ones that do not build
    on this one.
    """
    newer = [each for each in table.snapshot_ids() if each > snapshot.snapshot_id]
    if not newer or table.handle.catalog_environment.supports_version_management:
        return
    child = table.snapshot(snapshot.snapshot_id + 1)
    if child is not None and _is_child(table, child, snapshot, commit):
        return
    table.files.delete(table.snapshot_path(snapshot.snapshot_id))
    raise _moved(table, snapshot)


def _is_child(
    table: PaimonTable, child: SnapshotFile, snapshot: SnapshotFile, commit: Commit
) -> bool:
    if PARENT_PROPERTY in child.properties:
        return child.properties[PARENT_PROPERTY] == snapshot.uuid
    own = {each.name for each in table.manifests.read_list(snapshot.lists[1])}
    base = {each.name for each in table.manifests.read_list(child.lists[0])}
    if own & base:
        return True
    files = {entry.identity for entry in commit.entries if entry.kind == ADD}
    return bool(files & {entry.identity for entry in table.live(child)})


def _hint(table: PaimonTable, snapshot: SnapshotFile, *, is_first: bool) -> None:
    """Update the hint files by which other readers find the newest snapshot sooner."""
    if table.handle.catalog_environment.supports_version_management:
        return
    with suppress(errors.HeadwaterError):
        number = str(snapshot.snapshot_id).encode()
        table.files.replace(f"{table.root}/snapshot/LATEST", number)
        if is_first:
            table.files.replace(f"{table.root}/snapshot/EARLIEST", number)


_Bucket = tuple[bytes, int]


class PaimonCommitter:
    """Commits to one lake table."""

    def __init__(self, table: PaimonTable, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    def head(self) -> spi.LakeSnapshot | None:
        """The newest snapshot as the lake knows it now."""
        head = self._table.head()
        return None if head is None else self._table.to_lake_snapshot(head)

    def find_round(self, round_id: str) -> spi.LakeSnapshot | None:
        """Find the snapshot of a round, looking back from the newest."""
        for snapshot in self._table.back_from(self._table.head()):
            boundary = snapshot.own_boundary
            is_round = boundary is not None and boundary.round_id == round_id
            # Snapshots of upkeep carry the same boundary on.
            if is_round and snapshot.user == TIERING_USER:
                return self._table.to_lake_snapshot(snapshot)
        return None

    def write_tasks(
        self, buckets: Sequence[tuple[spi.PartitionValues, int]], *, on: spi.LakeSnapshot | None
    ) -> list[spi.WriteTask]:
        """Plan what writers of these buckets need, given what the lake holds in a snapshot."""
        held = _highest(self._table.live(self._snapshot(on)))
        tasks = []
        for partition, bucket in buckets:
            place = PaimonBucket.of(self._table, partition, bucket)
            key = (self._table.partitions.to_row(partition), place.lake_bucket)
            # Buckets that share a directory have no order among their rows.
            start = held.get(key, -1) + 1 if place.bucket_count > 0 else 0
            payload = TaskPayload(schema_id=self._table.schema.schema_id, sequence_start=start)
            tasks.append(
                spi.WriteTask(partition=partition, bucket=bucket, payload=payload.to_bytes())
            )
        return tasks

    def commit(
        self,
        results: Sequence[spi.WriteResult],
        *,
        boundary: Boundary,
        on: spi.LakeSnapshot | None,
        properties: Mapping[str, str],
    ) -> spi.LakeSnapshot:
        """Make results visible in one snapshot directly after `on`."""
        spi.check_kept(on, self._table.spec.path)
        before = self._snapshot(on)
        entries = [entry for each in results for entry in entries_from_bytes(each.payload)]
        self._check(entries, before)
        commit = Commit(
            entries=entries,
            user=TIERING_USER,
            kind=APPEND,
            properties={**properties, **spi.CHECKED, BOUNDARY_PROPERTY: boundary.to_json()},
        )
        done = commit_snapshot(self._table, commit, on=before, now_ms=self._clock.now_ms())
        return self._table.to_lake_snapshot(done)

    def abort(self, results: Sequence[spi.WriteResult]) -> None:
        """Remove the files of results that no snapshot holds; never raises."""
        entries = [entry for each in results for entry in entries_from_bytes(each.payload)]
        with suppress(errors.HeadwaterError):
            held = self._held_anywhere()
            for entry in (each for each in entries if each.identity not in held):
                self._table.files.delete(self._table.file_path(entry))

    def _held_anywhere(self) -> set[tuple[bytes, int, int, str]]:
        """The files of all snapshots, since a newer one may have replaced some already."""
        table = self._table
        manifests = {
            manifest.name: manifest
            for snapshot in filter(None, map(table.snapshot, table.snapshot_ids()))
            for manifest in table.all_manifests(snapshot)
        }
        return {
            entry.identity for each in manifests.values() for entry in table.manifests.read(each)
        }

    def _snapshot(self, on: spi.LakeSnapshot | None) -> SnapshotFile | None:
        if on is None:
            return None
        found = self._table.snapshot(on.snapshot_id)
        if found is None:
            raise errors.LakeMovedError(
                f"Snapshot {on.snapshot_id} of {self._table.spec.path} has expired."
            )
        return found

    def _check(self, entries: Sequence[Entry], before: SnapshotFile | None) -> None:
        """Raise for files that are there already, and for rows that older ones would override."""
        live = self._table.live(before)
        counts = Counter(entry.identity for entry in (*live, *entries))
        if twice := [entry.file.name for entry in entries if counts[entry.identity] > 1]:
            raise errors.LakeMovedError(
                f"The lake table {self._table.spec.path} already holds these files, or "
                f"would hold them twice: {', '.join(twice[:3])}."
            )
        if not self._table.spec.is_keyed:
            return
        held = _highest(live)
        for entry in entries:
            if entry.file.sequence_min <= held.get((entry.partition, entry.bucket), -1):
                raise errors.LakeRewrittenError(
                    f"Others wrote rows by key to bucket {entry.bucket} of the lake table "
                    f"{self._table.spec.path} since the round was planned."
                )


def _highest(entries: Sequence[Entry]) -> dict[_Bucket, int]:
    """The largest sequence number of each bucket."""
    highest: dict[_Bucket, int] = {}
    for entry in entries:
        key = (entry.partition, entry.bucket)
        highest[key] = max(highest.get(key, -1), entry.file.sequence_max)
    return highest
