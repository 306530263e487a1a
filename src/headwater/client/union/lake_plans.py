"""What the lake holds of tables, asked once for each snapshot, which never changes."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from headwater.client.cluster import Cluster
from headwater.errors import LakeSnapshotMissingError, UnsupportedError
from headwater.lake.lakes import lake_format, lake_spec
from headwater.lake.spi import LakeSnapshot, LakeSource, LakeStorage
from headwater.lake.split import LakeSplit
from headwater.model.table import TableInfo
from headwater.runtime.aside import aside

# Snapshots are a few hundred bytes; a plan has an entry for every file.
SNAPSHOTS_KEPT = 256
PLANS_KEPT = 16

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class LakePlan:
    """Hold the splits of a snapshot, and what reads them under the schema of a table."""

    source: LakeSource
    splits: tuple[LakeSplit, ...]


class LakePlans:
    """Ask lakes for snapshots and their splits, and keep those that were asked for last."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lakes: _Recent[tuple[object, ...], LakeStorage] = _Recent(PLANS_KEPT)
        self._snapshots: _Recent[tuple[int, int], LakeSnapshot] = _Recent(SNAPSHOTS_KEPT)
        self._sources: _Recent[tuple[int, int, int], LakeSource] = _Recent(PLANS_KEPT)
        self._plans: _Recent[tuple[int, int, int], LakePlan] = _Recent(PLANS_KEPT)

    @classmethod
    def of(cls, cluster: Cluster) -> "LakePlans":
        """Return those of a client, shared by all of its reads."""
        return cluster.own(cls, lambda: cls(cluster))

    async def snapshot(self, table: TableInfo, snapshot_id: int) -> LakeSnapshot | None:
        """Return a snapshot; None if there is none, or not any more."""
        key = (table.table_id, snapshot_id)
        found = self._snapshots.get(key)
        if found is None:
            found = await aside(self._ask, table, lambda source: source.snapshot(snapshot_id))
            if found is not None:
                self._snapshots.put(key, found)
        return found

    async def newest(self, table: TableInfo) -> LakeSnapshot | None:
        """Return the newest snapshot that the lake has now."""
        return await aside(self._ask, table, lambda source: source.snapshot())

    async def kept(self, table: TableInfo) -> list[LakeSnapshot]:
        """Return the snapshots that the lake has now, newest first."""
        found = await aside(self._ask, table, lambda source: source.snapshots())
        return [] if found is None else found[::-1]

    async def plan(self, table: TableInfo, snapshot_id: int) -> LakePlan:
        """Return the splits of a snapshot, or raise that it is gone."""
        key = (table.table_id, table.schema_id, snapshot_id)
        found = self._plans.get(key)
        if found is None:
            found = await aside(self._plan, table, snapshot_id)
            self._plans.put(key, found)
            self._sources.put(key, found.source)
        return found

    async def source(self, table: TableInfo, snapshot_id: int) -> LakeSource:
        """Return what reads the splits of a snapshot."""
        key = (table.table_id, table.schema_id, snapshot_id)
        found = self._sources.get(key)
        if found is None:
            found = await aside(self._source, table)
            self._sources.put(key, found)
        return found

    def forget(self, table: TableInfo, snapshot_id: int) -> None:
        """Ask anew for a snapshot, which was found to be gone."""
        self._snapshots.drop((table.table_id, snapshot_id))
        key = (table.table_id, table.schema_id, snapshot_id)
        self._plans.drop(key)
        self._sources.drop(key)

    # ---- what blocks

    def _plan(self, table: TableInfo, snapshot_id: int) -> LakePlan:
        source = self._source(table)
        return LakePlan(source=source, splits=tuple(source.plan(snapshot_id)))

    def _ask(self, table: TableInfo, ask: Callable[[LakeSource], V]) -> V | None:
        try:
            return ask(self._source(table))
        except LakeSnapshotMissingError:
            # There is no lake table at all.
            return None

    def _source(self, table: TableInfo) -> LakeSource:
        return self._lake(table).source(lake_spec(table))

    def _lake(self, table: TableInfo) -> LakeStorage:
        """Open the lake of a table, which looks through all installed packages, once."""
        lakes = self._cluster.lakes
        try:
            key = (lakes.opener, lake_format(table), *sorted(lakes.config_of(table).items()))
            lake = self._lakes.get(key)
            if lake is None:
                lake = lakes.of(table)
                self._lakes.put(key, lake)
        except UnsupportedError as fault:
            raise UnsupportedError(
                fault.message, hint=f"{fault.hint} Or read with mode='log'."
            ) from fault
        return lake


class _Recent(Generic[K, V]):
    """Keep what was used last, up to a number of things."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._held: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        found = self._held.get(key)
        if found is not None:
            self._held.move_to_end(key)
        return found

    def put(self, key: K, value: V) -> None:
        self._held[key] = value
        self._held.move_to_end(key)
        while len(self._held) > self._count_max:
            self._held.popitem(last=False)

    def drop(self, key: K) -> None:
        self._held.pop(key, None)
