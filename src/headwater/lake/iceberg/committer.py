"""Plans what writers of an Iceberg table need, and makes their results visible."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation

from headwater.errors import HeadwaterError, LakeRewrittenError, LakeSnapshotMissingError
from headwater.lake.iceberg.committing import Change, check_head, commit_change
from headwater.lake.iceberg.opening import load_table, reached
from headwater.lake.iceberg.places import remove
from headwater.lake.iceberg.planning import Planned, planned_by_bucket
from headwater.lake.iceberg.reachable import reachable_files
from headwater.lake.iceberg.results import Written, written_of
from headwater.lake.iceberg.snapshots import find_round
from headwater.lake.iceberg.taken import head_of
from headwater.lake.iceberg.tasks import BucketTask
from headwater.lake.iceberg.values import Place
from headwater.lake.spi import LakeSnapshot, PartitionValues, WriteResult, WriteTask
from headwater.lake.table import LakeTableSpec
from headwater.lake.taken import LOOKED, check_kept
from headwater.model.boundary import BOUNDARY_PROPERTY, Boundary
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events

_events = Events("lake.iceberg")


@dataclass(frozen=True, slots=True)
class IcebergCommitter:
    """Commit to one Iceberg table."""

    catalog: Catalog
    spec: LakeTableSpec
    config: Mapping[str, str] = field(repr=False)
    clock: Clock

    def head(self) -> LakeSnapshot | None:
        """Return the newest snapshot as the catalog knows it now."""
        return head_of(self._table())

    def find_round(self, round_id: str) -> LakeSnapshot | None:
        """Return the snapshot of a round, looking back from the newest."""
        return find_round(self._table().metadata, round_id)

    def write_tasks(
        self, buckets: Sequence[tuple[PartitionValues, int]], *, on: LakeSnapshot | None
    ) -> list[WriteTask]:
        """Say what writers of these buckets need, given what the lake holds in a snapshot."""
        table = self._table()
        place = Place.of(table, self.config)
        held: dict[tuple[PartitionValues, int], list[Planned]] = {}
        if self.spec.is_keyed and on is not None:
            if table.snapshot_by_id(on.snapshot_id) is None:
                raise LakeSnapshotMissingError(
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
        results: Sequence[WriteResult],
        *,
        boundary: Boundary,
        on: LakeSnapshot | None,
        properties: Mapping[str, str],
    ) -> LakeSnapshot:
        """Make results visible in one snapshot directly after `on`."""
        check_kept(on, self.spec.path)
        written = [written_of(result) for result in results]
        change = Change(
            operation=_operation(written),
            properties={**properties, **LOOKED, BOUNDARY_PROPERTY: boundary.to_json()},
            added=[file for each in written for file in each.added],
            removed=frozenset(path for each in written for path in each.removed),
            needed=frozenset(path for each in written for path in each.needed),
        )
        table = self._table()
        if self.spec.is_keyed and on is not None:
            check_head(table.metadata, on, self.spec.path)
            self._check_all_seen(table, results, on=on)
        return commit_change(table, change, on=on, clock=self.clock)

    def abort(self, results: Sequence[WriteResult]) -> None:
        """Remove the files of results that no snapshot holds; never raises."""
        try:
            table = self._table()
            with reached(f"Looking for the files of {self.spec.path}"):
                held = reachable_files(table.io, table.metadata.snapshots).data
        except (HeadwaterError, ValueError) as fault:
            # Better to leave files than to remove some that a snapshot holds.
            _events.warning("left files", table=str(self.spec.path), fault=str(fault))
            return
        paths = {file.file_path for result in results for file in written_of(result).added}
        remove(table.io, paths - held.keys())

    def _check_all_seen(
        self, table: Table, results: Sequence[WriteResult], *, on: LakeSnapshot
    ) -> None:
        """See that writers looked for older rows in every file that there is now.

        A file that came since might hold a row of a key that they changed.
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
                raise LakeRewrittenError(
                    f"Files came to bucket {each.bucket} of {self.spec.path} since it was written."
                )

    def _table(self) -> Table:
        return load_table(self.catalog, self.spec.path)


def _operation(written: Sequence[Written]) -> Operation:
    return Operation.OVERWRITE if any(each.needed for each in written) else Operation.APPEND
