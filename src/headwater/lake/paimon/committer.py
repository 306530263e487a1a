"""Making the files of writers visible, one snapshot at a time."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress

from headwater.errors import HeadwaterError, LakeMovedError, LakeRewrittenError
from headwater.lake.paimon.manifests import Entry, entries_from_bytes
from headwater.lake.paimon.place import Place, TaskPayload
from headwater.lake.paimon.snapshot import APPEND, TIERING_USER, SnapshotFile
from headwater.lake.paimon.snapshot_commit import Commit, commit_snapshot
from headwater.lake.paimon.table import PaimonTable
from headwater.lake.spi import LakeSnapshot, PartitionValues, WriteResult, WriteTask
from headwater.lake.taken import LOOKED, check_kept
from headwater.model.boundary import BOUNDARY_PROPERTY, Boundary
from headwater.runtime.clock import Clock

_Bucket = tuple[bytes, int]


class PaimonCommitter:
    """Plan writing to one lake table, and make results visible in snapshots."""

    def __init__(self, table: PaimonTable, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    def head(self) -> LakeSnapshot | None:
        """Return the newest snapshot as the lake knows it now."""
        head = self._table.head()
        return None if head is None else self._table.to_lake_snapshot(head)

    def find_round(self, round_id: str) -> LakeSnapshot | None:
        """Return the snapshot of a round, looking back from the newest."""
        for snapshot in self._table.back_from(self._table.head()):
            boundary = snapshot.own_boundary
            is_round = boundary is not None and boundary.round_id == round_id
            # Those of maintenance carry the same boundary on.
            if is_round and snapshot.user == TIERING_USER:
                return self._table.to_lake_snapshot(snapshot)
        return None

    def write_tasks(
        self, buckets: Sequence[tuple[PartitionValues, int]], *, on: LakeSnapshot | None
    ) -> list[WriteTask]:
        """Say what writers of these buckets need, given what the lake holds in a snapshot."""
        held = _highest(self._table.live(self._snapshot(on)))
        tasks = []
        for partition, bucket in buckets:
            place = Place.of(self._table, partition, bucket)
            key = (self._table.partitions.to_row(partition), place.lake_bucket)
            # Where buckets share a directory, their rows have no order among each other.
            start = held.get(key, -1) + 1 if place.bucket_count > 0 else 0
            payload = TaskPayload(schema_id=self._table.schema.schema_id, sequence_start=start)
            tasks.append(WriteTask(partition=partition, bucket=bucket, payload=payload.to_bytes()))
        return tasks

    def commit(
        self,
        results: Sequence[WriteResult],
        *,
        boundary: Boundary,
        on: LakeSnapshot | None,
        properties: Mapping[str, str],
    ) -> LakeSnapshot:
        """Make results visible, with boundary and properties, directly after `on`."""
        check_kept(on, self._table.spec.path)
        before = self._snapshot(on)
        entries = [entry for each in results for entry in entries_from_bytes(each.payload)]
        self._check(entries, before)
        commit = Commit(
            entries=entries,
            user=TIERING_USER,
            kind=APPEND,
            properties={**properties, **LOOKED, BOUNDARY_PROPERTY: boundary.to_json()},
        )
        done = commit_snapshot(self._table, commit, on=before, now_ms=self._clock.now_ms())
        return self._table.to_lake_snapshot(done)

    def abort(self, results: Sequence[WriteResult]) -> None:
        """Remove the files of results that no snapshot holds; never raises."""
        entries = [entry for each in results for entry in entries_from_bytes(each.payload)]
        with suppress(HeadwaterError):
            held = self._held_anywhere()
            for entry in (each for each in entries if each.identity not in held):
                self._table.files.delete(self._table.file_path(entry))

    def _held_anywhere(self) -> set[tuple[bytes, int, int, str]]:
        """Return the files of all snapshots, since a newer one may have replaced some already."""
        table = self._table
        manifests = {
            manifest.name: manifest
            for snapshot in filter(None, map(table.snapshot, table.snapshot_ids()))
            for manifest in table.all_manifests(snapshot)
        }
        return {
            entry.identity for each in manifests.values() for entry in table.manifests.read(each)
        }

    def _snapshot(self, on: LakeSnapshot | None) -> SnapshotFile | None:
        if on is None:
            return None
        found = self._table.snapshot(on.snapshot_id)
        if found is None:
            raise LakeMovedError(
                f"Snapshot {on.snapshot_id} of {self._table.spec.path} is expired by now."
            )
        return found

    def _check(self, entries: Sequence[Entry], before: SnapshotFile | None) -> None:
        """Refuse files that are there already, and rows that older ones would win against."""
        live = self._table.live(before)
        counts = Counter(entry.identity for entry in (*live, *entries))
        if twice := [entry.file.name for entry in entries if counts[entry.identity] > 1]:
            raise LakeMovedError(
                f"The lake table {self._table.spec.path} would hold files twice, or holds them"
                f" already: {', '.join(twice[:3])}."
            )
        if not self._table.spec.is_keyed:
            return
        held = _highest(live)
        for entry in entries:
            if entry.file.sequence_min <= held.get((entry.partition, entry.bucket), -1):
                raise LakeRewrittenError(
                    f"Others wrote rows by key to bucket {entry.bucket} of the lake table"
                    f" {self._table.spec.path} since the round was planned."
                )


def _highest(entries: Sequence[Entry]) -> dict[_Bucket, int]:
    """Return the largest sequence number of each bucket."""
    highest: dict[_Bucket, int] = {}
    for entry in entries:
        key = (entry.partition, entry.bucket)
        highest[key] = max(highest.get(key, -1), entry.file.sequence_max)
    return highest
