"""Loads of tables: who may read them, what is held of each, and what loads cost."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Event, Lock

from headwater.client.client import AsyncClient
from headwater.client.sync.client import Client
from headwater.client.union_scan import ATTEMPTS, LOST
from headwater.cluster.lake import LakeCoordinator
from headwater.doors.iceberg.held import (
    NEWEST,
    DoorFolders,
    HeldTable,
    HotTable,
    LoadCost,
    LoadPosition,
    TailLimits,
)
from headwater.doors.iceberg.origins import OriginPlaces
from headwater.errors import HeadwaterError
from headwater.metrics.exposition import MetricDeclaration, MetricKind, Reading, Spread, Values
from headwater.metrics.tallies import Durations
from headwater.model import TableInfo, TablePath
from headwater.read.offsets import buckets_of, count_rows
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events

_events = Events("doors.iceberg")
_MS = 1000
_RENEWALS = 4
"""How often a folder is renewed within a lease."""

# What loads cost.

_NAMES = "headwater_door_"
LOADS = MetricDeclaration(
    name=f"{_NAMES}loads",
    kind=MetricKind.COUNTER,
    help="Loads of tables: those that wrote files, that shared those of others, and that failed.",
    labels=("result",),
)
LOAD_SECONDS = MetricDeclaration(
    name=f"{_NAMES}load_seconds", kind=MetricKind.HISTOGRAM, help="Time that loads took."
)
TAIL_ROWS = MetricDeclaration(
    name=f"{_NAMES}tail_rows", kind=MetricKind.COUNTER, help="Rows that loads wrote into files."
)
TAIL_BYTES = MetricDeclaration(
    name=f"{_NAMES}tail_bytes",
    kind=MetricKind.COUNTER,
    help="Bytes that loads wrote: rows, deletes, file lists and metadata.",
)
TAIL_FILES = MetricDeclaration(
    name=f"{_NAMES}tail_files", kind=MetricKind.GAUGE, help="Files that the door holds now."
)
DOOR_METRICS = (LOADS, LOAD_SECONDS, TAIL_ROWS, TAIL_BYTES, TAIL_FILES)


@dataclass(slots=True)
class LoadCosts:
    """Counts what loads cost; may be used by any number of threads."""

    results: dict[str, int] = field(
        default_factory=lambda: {"written": 0, "shared": 0, "failed": 0}
    )
    seconds: Durations = field(default_factory=Durations)
    rows: int = 0
    byte_count: int = 0
    _lock: Lock = field(default_factory=Lock)

    def add(self, cost: LoadCost | None, *, seconds: float) -> None:
        """Count a load; one that failed has no cost."""
        with self._lock:
            self.seconds.add(seconds)
            if cost is None:
                self.results["failed"] += 1
                return
            self.results["shared" if cost.is_shared else "written"] += 1
            self.rows += cost.written.rows
            self.byte_count += cost.written.byte_count

    def readings(self, *, file_count: int) -> Iterator[Reading]:
        """Yield all metrics."""
        with self._lock:
            yield Values(LOADS, {(name,): count for name, count in self.results.items()})
            yield Spread(LOAD_SECONDS, {(): self.seconds})
            yield Values(TAIL_ROWS, {(): self.rows})
            yield Values(TAIL_BYTES, {(): self.byte_count})
            yield Values(TAIL_FILES, {(): file_count})


# Loading.

TABLES_MAX = 1000
"""Tables of which something is held; of one more, the one that was loaded longest ago is left."""


class HotTables:
    """Loads tables, and keeps what was loaded last; may be used by any number of threads."""

    def __init__(self, limits: TailLimits, clock: Clock, places: OriginPlaces) -> None:
        self._limits = limits
        self._clock = clock
        self._places = places
        self._folders = DoorFolders(clock, lease_s=limits.lease_s)
        self._tables: OrderedDict[tuple[TablePath, int], HeldTable] = OrderedDict()
        self._lock = Lock()
        self._stopping = Event()
        self.costs = LoadCosts()

    @property
    def upkeep_every_s(self) -> float:
        """How often upkeep has to come."""
        return self._limits.lease_s / _RENEWALS

    def load(self, client: Client, path: TablePath, *, at: LoadPosition = NEWEST) -> HotTable:
        """Load a table at a position, if the server lets the caller read it."""
        began = self._clock.monotonic()
        cost: LoadCost | None = None
        try:
            answer, cost = self._load(client, path, at, began=began)
        finally:
            took_s = self._clock.monotonic() - began
            self.costs.add(cost, seconds=took_s)
        _events.info(
            "table loaded",
            table=str(path),
            snapshot=cost.snapshot_id,
            ms=round(took_s * _MS),
            shared=cost.is_shared,
            rows=cost.written.rows,
            files=cost.written.files,
            bytes=cost.written.byte_count,
        )
        return answer

    def _load(
        self, client: Client, path: TablePath, at: LoadPosition, *, began: float
    ) -> tuple[HotTable, LoadCost]:
        table = client.table(path)
        client.run(lambda asked: _check_read(asked, table.info))
        held = self._held(table.info)
        for _ in range(1, ATTEMPTS if at.is_newest else 1):
            try:
                return held.load(table, at, began=began)
            except LOST as fault:
                # Retention, expiry and others take away what was found a moment before.
                _events.info("load begun anew", table=str(path), reason=str(fault))
        return held.load(table, at, began=began)

    def _held(self, info: TableInfo) -> HeldTable:
        key = (info.path, info.table_id)
        with self._lock:
            if key not in self._tables:
                self._tables[key] = HeldTable(
                    self._limits, self._clock, self._places, self._folders
                )
            self._tables.move_to_end(key)
            return self._tables[key]

    # ---- upkeep

    def clean(self, client: Client) -> None:
        """Remove what doors left that were killed, in the places of all tables."""
        cleaned: set[str] = set()
        databases = client.list_databases()
        paths = (TablePath(each, name) for each in databases for name in client.list_tables(each))
        for path in paths:
            if self._stopping.is_set():
                return
            try:
                self._clean_places(client.table(path).info, cleaned)
            except (HeadwaterError, OSError) as fault:
                # Whoever loads the table is told; the place is looked at again then.
                _events.info("place not cleaned", table=str(path), fault=str(fault))

    def _clean_places(self, table: TableInfo, cleaned: set[str]) -> None:
        for io, root in self._places.roots_of(table):
            if root not in cleaned:
                cleaned.add(root)
                self._folders.clean(io, root)

    def stop_cleaning(self) -> None:
        """Leave the rest to the next start."""
        self._stopping.set()

    def upkeep(self) -> None:
        """Say that the door still runs, and remove what nobody can read any more."""
        self._folders.renew()
        with self._lock:
            tables = list(self._tables.items())
        for key, held in tables:
            try:
                held.expire()
            except HeadwaterError as fault:
                _events.warning("tail not removed", table=str(key[0]), fault=str(fault))
        with self._lock:
            for key, _ in tables[: max(len(tables) - TABLES_MAX, 0)]:
                if not self._tables[key].file_count:
                    del self._tables[key]

    def close(self) -> None:
        """Remove what nobody can read any more; what is lent is left to the next start."""
        self.upkeep()
        with self._lock:
            used = {each for held in self._tables.values() for each in held.locations}
        self._folders.close(used=used)

    def readings(self) -> Iterator[Reading]:
        """Yield the metrics of all loads."""
        with self._lock:
            file_count = sum(held.file_count for held in self._tables.values())
        yield from self.costs.readings(file_count=file_count)


async def _check_read(client: AsyncClient, table: TableInfo) -> None:
    """Ask for what only those are told who may read the table, and all of it.

    What was written for one caller is shared with others: the server, not the door, says with whom.
    """
    await LakeCoordinator(client.cluster).snapshot(table.path)
    buckets = await buckets_of(client.cluster, table)
    first = dict(list(buckets.items())[:1])
    if first:
        await count_rows(client.cluster, table, buckets=first)
