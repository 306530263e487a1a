"""The primary-key tablets of a server: opened with their log, maintained, closed with it."""

import asyncio
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

from headwater.errors import HeadwaterError, NotPrimaryKeyTableError
from headwater.kv.state import IndexRoom, any_room
from headwater.kv.store import KvSettings, KvStore
from headwater.model.bucket import TableBucket
from headwater.model.schema import Schema
from headwater.model.table import TableDescriptor
from headwater.runtime.clock import Clock, random_bytes
from headwater.runtime.events import Events
from headwater.server.catalog.catalog import ServerCatalog
from headwater.store.disk import Disk
from headwater.tablet.keyed_table import KeyedTable
from headwater.tablet.log_tablet import LogTablet
from headwater.tablet.pk_tablet import PkTablet
from headwater.tablet.replay import RecoveredState, recover_state
from headwater.tablet.state_upkeep import StateFiles, StateUpkeep

_events = Events("keyed")
# A state that is this far ahead of its last snapshot is saved when the server stops.
UNSAVED_ROWS_MAX = 10_000
STATE_DIRECTORY = "kv"


@dataclass(frozen=True, slots=True)
class KeyedBucket:
    """The tablet of a bucket and the maintenance of its state."""

    tablet: PkTablet
    upkeep: StateUpkeep


@dataclass(frozen=True, slots=True)
class CatalogVersions:
    """What the catalog knows of one table."""

    catalog: ServerCatalog
    table_id: int

    def latest(self) -> tuple[int, TableDescriptor]:
        """Return the current schema id and descriptor."""
        table = self.catalog.tables.by_id(self.table_id)
        return table.schema_id, table.descriptor

    def schema(self, schema_id: int) -> Schema:
        """Return a current or former schema of the table."""
        return self.catalog.tables.schema(self.table_id, schema_id)

    def reserve_ids(self, count: int) -> int:
        """Reserve numbers for an auto-increment column."""
        return self.catalog.reserve_ids(self.table_id, count)


class KeyedTablets:
    """Open, find and close primary-key tablets."""

    def __init__(
        self,
        disk: Disk,
        catalog: ServerCatalog,
        *,
        executor: Executor,
        clock: Clock,
        settings: KvSettings,
        index_room: IndexRoom = any_room,
    ) -> None:
        self._disk = disk
        self._catalog = catalog
        self._executor = executor
        self._clock = clock
        self._settings = settings
        self._index_room = index_room
        self._open: dict[TableBucket, KeyedBucket] = {}
        self._failed: dict[TableBucket, HeadwaterError] = {}

    def find(self, bucket: TableBucket) -> PkTablet:
        """Return the tablet of a bucket whose log is open."""
        if fault := self._failed.get(bucket):
            raise fault
        keyed = self._open.get(bucket)
        if keyed is None:
            table = self._catalog.tables.by_id(bucket.table_id)
            raise NotPrimaryKeyTableError(f"{table.path} has no primary key.")
        return keyed.tablet

    def ready(self, bucket: TableBucket) -> PkTablet | None:
        """Return the tablet of a bucket if it is open and in order; from any thread."""
        keyed = self._open.get(bucket)
        return None if keyed is None else keyed.tablet

    def needed_from(self, bucket: TableBucket) -> int | None:
        """Return from where on the log of a bucket is needed for its state; None without one."""
        if bucket in self._failed:
            return 0  # What is not known to be in a state must not be removed from the log.
        keyed = self._open.get(bucket)
        return None if keyed is None else keyed.upkeep.needed_from

    def all_open(self) -> tuple[tuple[TableBucket, KeyedBucket], ...]:
        """List the open tablets."""
        return tuple(self._open.items())

    def failed(self) -> tuple[TableBucket, ...]:
        """List the buckets whose state is lost, although their log is open."""
        return tuple(self._failed)

    async def open(self, bucket: TableBucket, log: LogTablet, directory: str) -> None:
        """Recover the state of a bucket; a log whose state is lost can still be read."""
        if not self._catalog.tables.by_id(bucket.table_id).descriptor.is_keyed:
            return
        table = KeyedTable(CatalogVersions(self._catalog, bucket.table_id))
        store = KvStore(self._disk, f"{directory}/{STATE_DIRECTORY}")
        recover = partial(
            recover_state,
            log.log,
            store,
            table,
            seed=lambda: int.from_bytes(random_bytes(8), "little"),
            segment_bytes_max=self._settings.segment_bytes_max,
        )
        loop = asyncio.get_running_loop()
        started = self._clock.monotonic()
        try:
            recovered = await loop.run_in_executor(self._executor, recover)
        except HeadwaterError as fault:
            _events.error("state lost", bucket=str(bucket), fault=str(fault))
            self._failed[bucket] = fault
            return
        for damage in store.faults:
            _events.error("state damaged", bucket=str(bucket), fault=damage)
        self._open[bucket] = self._keyed(log, table, store, recovered)
        if not log.log.end_offset:
            return
        _events.info(
            "state recovered",
            bucket=str(bucket),
            rows=recovered.state.row_count,
            replayed=log.log.end_offset - recovered.replayed_from,
            seconds=round(self._clock.monotonic() - started, 3),
        )

    def _keyed(
        self, log: LogTablet, table: KeyedTable, store: KvStore, recovered: RecoveredState
    ) -> KeyedBucket:
        files = StateFiles(recovered.state, store, executor=self._executor)
        tablet = PkTablet(
            log,
            table,
            recovered.state,
            ids=recovered.ids,
            executor=self._executor,
            clock=self._clock,
            make_room=files.make_room,
            index_room=self._index_room,
        )
        return KeyedBucket(tablet, StateUpkeep(tablet, files, saved_offset=recovered.replayed_from))

    async def close(self, bucket: TableBucket, *, save: bool) -> None:
        """Close a tablet before its log, saving what would take long to replay."""
        self._failed.pop(bucket, None)
        keyed = self._open.pop(bucket, None)
        if keyed is not None and not save:
            await keyed.upkeep.drop()
        if keyed is None or not save or keyed.upkeep.unsaved_rows <= UNSAVED_ROWS_MAX:
            return
        try:
            await keyed.upkeep.snapshot()
        except (HeadwaterError, OSError) as fault:
            _events.warning("state not saved", bucket=str(bucket), reason=str(fault))
