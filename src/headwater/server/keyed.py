"""The primary-key tablets of a server: opened with their log, kept in shape, closed with it."""

import asyncio
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

from headwater.errors import HeadwaterError, NotPrimaryKeyTableError
from headwater.kv.settings import KvSettings
from headwater.kv.store import KvStore
from headwater.model.bucket import TableBucket
from headwater.model.descriptor import TableDescriptor
from headwater.model.schema import Schema
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events
from headwater.runtime.ids import random_bytes
from headwater.server.catalog.catalog import Catalog
from headwater.store.disk import Disk
from headwater.tablet.keyed_table import KeyedTable
from headwater.tablet.log_tablet import LogTablet
from headwater.tablet.pk_tablet import PkTablet
from headwater.tablet.replay import Recovered, recover_state
from headwater.tablet.state_upkeep import StateUpkeep

_events = Events("keyed")
# A state that is this much ahead of its last snapshot is saved when the server stops.
UNSAVED_ROWS_MAX = 10_000
STATE_DIRECTORY = "kv"


@dataclass(frozen=True, slots=True)
class KeyedBucket:
    """Hold the tablet of a bucket and what keeps its state in shape."""

    tablet: PkTablet
    upkeep: StateUpkeep


@dataclass(frozen=True, slots=True)
class CatalogVersions:
    """Tell what the catalog knows of one table."""

    catalog: Catalog
    table_id: int

    def latest(self) -> tuple[int, TableDescriptor]:
        """Return the current schema id and descriptor."""
        table = self.catalog.tables.by_id(self.table_id)
        return table.schema_id, table.descriptor

    def schema(self, schema_id: int) -> Schema:
        """Return a schema that the table has or had."""
        return self.catalog.tables.schema(self.table_id, schema_id)

    def reserve_ids(self, count: int) -> int:
        """Take numbers for an auto-increment column."""
        return self.catalog.reserve_ids(self.table_id, count)


class KeyedTablets:
    """Open, find and close primary-key tablets."""

    def __init__(
        self,
        disk: Disk,
        catalog: Catalog,
        *,
        executor: Executor,
        clock: Clock,
        settings: KvSettings,
    ) -> None:
        self._disk = disk
        self._catalog = catalog
        self._executor = executor
        self._clock = clock
        self._settings = settings
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

    def all_open(self) -> tuple[tuple[TableBucket, KeyedBucket], ...]:
        """Return the tablets that are open."""
        return tuple(self._open.items())

    def failed(self) -> tuple[TableBucket, ...]:
        """Return the buckets whose state is lost, though their log is open."""
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
            _events.error("state is lost", bucket=str(bucket), fault=str(fault))
            # What is not known to be there must not be removed from the log either.
            log.needed_from = lambda: log.start_offset
            self._failed[bucket] = fault
            return
        for damage in store.faults:
            _events.error("state was damaged", bucket=str(bucket), fault=damage)
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
        self, log: LogTablet, table: KeyedTable, store: KvStore, recovered: Recovered
    ) -> KeyedBucket:
        tablet = PkTablet(
            log,
            table,
            recovered.state,
            ids=recovered.ids,
            executor=self._executor,
            clock=self._clock,
        )
        upkeep = StateUpkeep(
            tablet, store, executor=self._executor, saved_offset=recovered.replayed_from
        )
        return KeyedBucket(tablet, upkeep)

    async def close(self, bucket: TableBucket, *, save: bool) -> None:
        """Let go of a tablet before its log is closed, saving what would take long to replay."""
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
