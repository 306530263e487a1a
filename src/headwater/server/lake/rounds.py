"""Who tiers which table: where all tiered tables stand, kept in step with the catalog."""

from collections.abc import Callable
from dataclasses import dataclass

from headwater.config.options import DATALAKE_ENABLED
from headwater.config.table_options import LakeOptions
from headwater.errors import TieringFencedError
from headwater.model.table import TableInfo
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events
from headwater.server.catalog.catalog import Catalog
from headwater.server.lake.states import (
    Outcome,
    TableTiering,
    Waiting,
    Wish,
    chosen,
    failed,
    finished,
    handed_out,
    next_due_ms,
    renewed,
    settled,
    with_freshness,
)

_events = Events("tiering")


@dataclass(frozen=True, slots=True)
class Turn:
    """Name a turn of a tierer at a table."""

    table_id: int
    coordinator_epoch: int
    number: int


class Rounds:
    """Hand tables out to tierers and take them back; a turn is on disk before anyone has it.

    Turns do not outlive the server: whoever held a table before asks for it anew, which is why
    the states themselves are in memory only.
    """

    def __init__(self, catalog: Catalog, *, clock: Clock, lease_s: float) -> None:
        self._catalog = catalog
        self._clock = clock
        self._lease_ms = int(lease_s * 1000)
        self._tables: dict[int, TableTiering] = {}

    @property
    def coordinator_epoch(self) -> int:
        """Return how often the storage was started, which voids all turns before."""
        return self._catalog.start_count

    @property
    def now_ms(self) -> int:
        """Return the time by the clock that states are kept in."""
        return int(self._clock.monotonic() * 1000)

    def tables(self) -> tuple[TableTiering, ...]:
        """Return where all tables stand that are tiered, by path."""
        self._follow_catalog()
        return tuple(sorted(self._tables.values(), key=lambda table: table.path))

    def renew(self, turn: Turn) -> None:
        """Hear that a tierer still works on a table."""
        table = self._find(turn)
        self._tables[turn.table_id] = renewed(table, turn.number, now_ms=self.now_ms)

    def finish(
        self,
        turn: Turn,
        *,
        is_forced: bool,
        file_size: int | None = None,
        record_count: int | None = None,
    ) -> None:
        """Take a table back after a round."""
        outcome = Outcome(
            wall_ms=self._clock.now_ms(),
            is_forced=is_forced,
            file_size=file_size,
            record_count=record_count,
        )
        table = self._find(turn)
        self._put(finished(table, turn.number, now_ms=self.now_ms, outcome=outcome))

    def fail(self, turn: Turn, failure: str) -> None:
        """Take a table back after a round that failed."""
        table = self._find(turn)
        self._put(failed(table, turn.number, now_ms=self.now_ms, failure=failure))
        _events.warning("not tiered", table=str(table.path), turn=turn.number, reason=failure)

    def hand_out(self, wish: Wish, untiered: Callable[[int], int]) -> TableTiering | None:
        """Give a table to a tierer, if one is due."""
        table = chosen(self.tables(), wish, now_ms=self.now_ms, untiered=untiered)
        if table is None:
            return None
        given = handed_out(table, now_ms=self.now_ms)
        self._put(given)
        return given

    def _find(self, turn: Turn) -> TableTiering:
        self._follow_catalog()
        table = self._tables.get(turn.table_id)
        if table is None:
            self._catalog.tables.by_id(turn.table_id)
            raise TieringFencedError(f"Table {turn.table_id} is not tiered any more.")
        if turn.coordinator_epoch != self.coordinator_epoch:
            raise TieringFencedError(
                f"{table.path} was handed out before the server was started again."
            )
        return table

    def _put(self, table: TableTiering) -> None:
        if table.record != self._catalog.lake.record(table.table_id):
            self._catalog.lake.put_record(table.table_id, table.record)
        self._tables[table.table_id] = table

    def _follow_catalog(self) -> None:
        """Learn of tables that were made, changed and dropped, and of leases that are over."""
        now_ms, held, self._tables = self.now_ms, self._tables, {}
        for info in self._catalog.tables.all():
            if DATALAKE_ENABLED.name not in info.descriptor.properties:
                continue  # As most tables are, so that the others are found quickly.
            options = LakeOptions.of(info.descriptor.properties)
            if not options.enabled:
                continue
            table = held.get(info.table_id)
            if table is None:
                table = self._entered(info, options.freshness_ms, now_ms)
            table = with_freshness(table, options.freshness_ms)
            settling = settled(table, now_ms=now_ms, lease_ms=self._lease_ms)
            self._tables[info.table_id] = settling
            if settling is not table:
                self._put(settling)
                _events.warning("tierer not heard of", table=str(table.path))

    def _entered(self, info: TableInfo, freshness_ms: int, now_ms: int) -> TableTiering:
        record = self._catalog.lake.record(info.table_id)
        since_ms = info.created_ms if record.last_tiered_ms is None else record.last_tiered_ms
        age_ms = self._clock.now_ms() - since_ms
        return TableTiering(
            path=info.path,
            table_id=info.table_id,
            freshness_ms=freshness_ms,
            phase=Waiting(next_due_ms(freshness_ms, age_ms=age_ms, now_ms=now_ms)),
            record=record,
            # Who held it before is not known any more.
            unsettled=record.turn,
        )
