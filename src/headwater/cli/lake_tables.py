"""What `headwater lake` does with lake tables, in this process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headwater.cli.description import iso_time
from headwater.cli.output import Document
from headwater.cli.tier_news import fault_text
from headwater.client.client import AsyncClient
from headwater.client.lake.values import Assignment
from headwater.client.paths import table_path
from headwater.client.sync.client import Client
from headwater.config.choices import LakeFormat
from headwater.config.lake import ICEBERG_CATALOG_NAME, without_secrets
from headwater.config.options import DATALAKE_ENABLED
from headwater.errors import LakeSnapshotMissingError
from headwater.lake.lakes import Lakes, lake_format
from headwater.lake.registry import open_lake
from headwater.lake.spi import Cleaned, LakeSnapshot, Retention
from headwater.model.path import TablePath
from headwater.runtime.clock import SystemClock
from headwater.tiering.reporting import report_snapshot
from headwater.tiering.runner import Here
from headwater.tiering.status import TableLakeStatus, lake_status
from headwater.tiering.targets import ensured_fluss_target, ensured_target, found_target
from headwater.tiering.turn import Target, identity_in
from headwater.tiering.upkeep import AgeClock, compact


@dataclass(frozen=True, slots=True)
class LakeTables:
    """Look after the lake tables of a storage."""

    client: Client
    config: Mapping[str, str] = field(repr=False)

    def status(self, names: Sequence[str]) -> list[Document]:
        """Return a row for each table."""
        paths = [table_path(name) for name in names] or self._enabled()
        found = self.client.run(lambda client: lake_status(client, paths, lakes=self._lakes))
        return [_status_row(each) for each in found]

    def snapshots(self, name: str) -> list[Document]:
        """Return a row for each snapshot that the lake still has."""
        target = self._target(name)
        return [_snapshot_row(each) for each in target.lake.source(target.spec).snapshots()]

    def create(self, name: str, *, has_system_columns: bool) -> None:
        """Make a lake table, or bring its columns up to date."""
        table = self.client.table(name).info
        storage_id = self.client.lake.heartbeat().storage_id
        ensure = ensured_fluss_target if has_system_columns else ensured_target
        ensure(self._lakes, table, identity=identity_in(storage_id, table))

    def compact(self, name: str) -> int:
        """Compact, tell the server, and return how many files were rewritten."""
        target = self._target(name)
        head = self._head(target)

        async def work(client: AsyncClient) -> int:
            newest, files = await compact(target, head, runner=Here(client))
            if newest.snapshot_id != head.snapshot_id:
                await _report(client, target, newest)
            return files

        return self.client.run(work)

    def expire(self, name: str, *, keep: int | None, age_ms: int | None) -> dict[str, int]:
        """Drop snapshots, as the lake table says or as given."""
        target = self._target(name)
        head = self._head(target)
        # One that the server would send readers to must not go.
        self.client.run(lambda client: _report(client, target, head))
        keeper = target.lake.keeper(target.spec)
        usual = keeper.retention()
        retention = Retention(
            snapshots_min=usual.snapshots_min if keep is None else keep,
            age_ms=usual.age_ms if age_ms is None else age_ms,
        )
        return _counts(keeper.expire(retention, now_ms=self._now_ms()))

    def clean(self, name: str, *, age_ms: int) -> dict[str, int]:
        """Delete files that no snapshot holds."""
        target = self._target(name)
        keeper = target.lake.keeper(target.spec)
        before_ms = self._now_ms() - age_ms
        return _counts(keeper.remove_orphans(older_than_ms=before_ms))

    def where(self, name: str) -> list[Document]:
        """Return what other programs need to find a lake table, a row for each property."""
        table = self.client.table(name).info
        found = {"format": lake_format(table), "table": str(table.path)}
        if found["format"] == LakeFormat.ICEBERG:
            found["name"] = ICEBERG_CATALOG_NAME
        found |= without_secrets(self._lakes.config_of(table))
        return [{"property": key, "value": value} for key, value in found.items()]

    def drop(self, name: str, *, form: str | None) -> None:
        """Drop a lake table; with its format given, also one whose table is gone."""
        if form is not None and not self.client.table_exists(name):
            open_lake(form, self.config).catalog().drop(table_path(name))
            return
        target = self._target(name)
        target.lake.catalog().drop(target.table.path)

    def _now_ms(self) -> int:
        time = AgeClock(SystemClock())
        time.hear(self.client.lake.heartbeat().now_ms)
        return time.now_ms()

    @property
    def _lakes(self) -> Lakes:
        return Lakes(config=self.config)

    def _target(self, name: str) -> Target:
        table = self.client.table(name).info
        return found_target(self._lakes, table)

    def _head(self, target: Target) -> LakeSnapshot:
        path = target.table.path
        is_there = target.lake.catalog().exists(path)
        head = target.lake.committer(target.spec).head() if is_there else None
        if head is None:
            raise LakeSnapshotMissingError(f"{path} has nothing in the lake.")
        return head

    def _enabled(self) -> list[TablePath]:
        paths = [
            TablePath(database, name)
            for database in self.client.list_databases()
            for name in self.client.list_tables(database)
        ]
        return [path for path in paths if self._is_enabled(path)]

    def _is_enabled(self, path: TablePath) -> bool:
        properties = self.client.table(path).info.descriptor.properties
        return bool(DATALAKE_ENABLED.of(properties))


async def _report(client: AsyncClient, target: Target, head: LakeSnapshot) -> None:
    if head.boundary is None:
        return
    assignment = Assignment(
        path=target.table.path, table_id=target.table.table_id, epoch=head.boundary.epoch
    )
    await report_snapshot(client, assignment, head)


def _status_row(status: TableLakeStatus) -> Document:
    state, snapshot = status.state, status.snapshot
    fault = None if status.fault is None else fault_text(status.fault)
    told = None if state is None or not state.failures else state.last_failure
    return {
        "table": str(status.path),
        "format": status.format,
        "state": _state(status),
        "lag_rows": status.lag_rows,
        "lag_s": None if status.lag_s is None else round(status.lag_s, 1),
        "snapshot": None if snapshot is None else snapshot.snapshot_id,
        "age_s": None if status.snapshot_age_s is None else round(status.snapshot_age_s, 1),
        "files": None if snapshot is None else snapshot.file_count,
        "rows": None if snapshot is None else snapshot.row_count,
        "bytes": None if snapshot is None else snapshot.byte_count,
        "failures": None if state is None else state.failures,
        "error": fault or told,
    }


def _state(status: TableLakeStatus) -> str | None:
    if not status.is_enabled:
        return "off"
    return None if status.state is None else status.state.state


def _snapshot_row(snapshot: LakeSnapshot) -> Document:
    boundary = snapshot.boundary
    ranges = [] if boundary is None else list(boundary.ranges.values())
    return {
        "snapshot": snapshot.snapshot_id,
        "parent": snapshot.parent_id,
        "time": iso_time(snapshot.committed_ms),
        "rows": snapshot.row_count,
        "files": snapshot.file_count,
        "bytes": snapshot.byte_count,
        "offsets": sum(each.end - each.start for each in ranges),
        "epoch": None
        if boundary is None
        else f"{boundary.epoch.coordinator}.{boundary.epoch.turn}",
    }


def _counts(cleaned: Cleaned) -> dict[str, int]:
    return {
        "snapshots": cleaned.snapshots,
        "files": cleaned.data_files + cleaned.metadata_files,
        "bytes": cleaned.byte_count,
    }
