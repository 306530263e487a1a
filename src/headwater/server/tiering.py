"""Which tiering service gets which table, and when: pure states, kept in step with the catalog."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from headwater.config.options import DATALAKE_ENABLED
from headwater.config.table_options import LakeOptions
from headwater.errors import TieringFencedError
from headwater.model import TableInfo, TablePath
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events
from headwater.server.catalog.catalog import ServerCatalog
from headwater.server.catalog.lake_entries import TieringRecord

# States of tables between two rounds of tiering; pure, with every time passed in.
# A table waits until its freshness is over, is then due, and is leased by a tiering service until
# that finishes, fails, or is not heard of for too long:
#
#   waiting ──(due)── handed out ──▶ leased ──finished──▶ waiting
#      ▲            └──failed, or lease over──▶ failed ──(back-off over)──┐
#      └──────────────────────────────────────────────────────────────────┘
#
# Times are milliseconds of a clock that never goes back.

BACKOFF_FIRST_MS = 5_000
BACKOFF_MAX_MS = 600_000
_DOUBLINGS_MAX = 16
FAILURE_CHARACTERS_MAX = 2_000
NOT_HEARD_OF = "Its tiering service stopped sending heartbeats."
# A table without freshness would be infinitely overdue.
_FRESHNESS_MIN_MS = 1_000
# Coarse, so that tables which are due at about the same time are ordered by their rows.
_OVERDUE_STEPS = 10


@dataclass(frozen=True, slots=True)
class Waiting:
    """Waiting for the next round."""

    due_ms: int


@dataclass(frozen=True, slots=True)
class Failed:
    """Waiting after a failed round."""

    due_ms: int


@dataclass(frozen=True, slots=True)
class Leased:
    """Being tiered."""

    since_ms: int
    heard_ms: int


Phase = Waiting | Failed | Leased


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTiering:
    """The state of one table."""

    path: TablePath
    table_id: int
    freshness_ms: int
    phase: Phase
    record: TieringRecord
    unsettled: int = 0
    """The last turn that ended without a report; its service may still be alive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TieringRequest:
    """Which tables a tiering service accepts."""

    only: Collection[TablePath] = ()
    """Only these; empty: any."""
    ignores_freshness: bool = False


def next_due_ms(freshness_ms: int, *, age_ms: int, now_ms: int) -> int:
    """Compute when a table is due whose last round, or creation, is so long ago."""
    return now_ms + max(freshness_ms - max(age_ms, 0), 0)


def with_freshness(table: TableTiering, freshness_ms: int) -> TableTiering:
    """Apply a new freshness."""
    phase = table.phase
    if isinstance(phase, Waiting):
        phase = Waiting(phase.due_ms + freshness_ms - table.freshness_ms)
    return replace(table, freshness_ms=freshness_ms, phase=phase)


def settled(table: TableTiering, *, now_ms: int, lease_ms: int) -> TableTiering:
    """Take a table away from a service whose lease has expired."""
    if isinstance(table.phase, Leased) and now_ms - table.phase.heard_ms > lease_ms:
        lost = replace(table, unsettled=table.record.turn)
        return _failed(lost, NOT_HEARD_OF, now_ms=now_ms)
    return table


def handed_out(table: TableTiering, *, now_ms: int) -> TableTiering:
    """Lease a table to a tiering service, in a new turn."""
    assert not isinstance(table.phase, Leased)
    record = replace(table.record, turn=table.record.turn + 1)
    return replace(table, phase=Leased(now_ms, now_ms), record=record)


def renewed(table: TableTiering, turn: int, *, now_ms: int) -> TableTiering:
    """Renew a lease, or raise if the service has lost the table."""
    held = _leased(table, turn)
    return replace(table, phase=Leased(held.since_ms, now_ms))


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundOutcome:
    """How a successful round ended, and when by the wall clock."""

    wall_ms: int
    is_forced: bool = False
    file_size: int | None = None
    record_count: int | None = None


def finished(table: TableTiering, turn: int, *, now_ms: int, outcome: RoundOutcome) -> TableTiering:
    """Take a table back after a round; the same message may arrive twice."""
    if isinstance(table.phase, Waiting) and table.record.turn == turn:
        return table
    held, record = _leased(table, turn), table.record
    if outcome.is_forced and outcome.file_size is None and outcome.record_count is None:
        # Given back with nothing done, which is neither a success nor a failure.
        return replace(table, phase=Waiting(now_ms))
    record = replace(
        record,
        last_tiered_ms=outcome.wall_ms,
        last_duration_ms=now_ms - held.since_ms,
        failures=0,
        file_size=record.file_size if outcome.file_size is None else outcome.file_size,
        record_count=record.record_count if outcome.record_count is None else outcome.record_count,
    )
    due_ms = now_ms if outcome.is_forced else now_ms + table.freshness_ms
    return replace(table, phase=Waiting(due_ms), record=record)


def failed(table: TableTiering, turn: int, *, now_ms: int, failure: str) -> TableTiering:
    """Take a table back after a failed round; the same message may arrive twice."""
    if isinstance(table.phase, Failed) and table.record.turn == turn:
        return table
    _leased(table, turn)
    return _failed(table, failure[:FAILURE_CHARACTERS_MAX], now_ms=now_ms)


def backoff_ms(failures: int) -> int:
    """Compute how long a table waits after so many failures in a row."""
    return min(BACKOFF_FIRST_MS * 2 ** min(failures - 1, _DOUBLINGS_MAX), BACKOFF_MAX_MS)


def chosen(
    tables: Iterable[TableTiering],
    wish: TieringRequest,
    *,
    now_ms: int,
    untiered: Callable[[int], int],
) -> TableTiering | None:
    """Pick the table to hand out: the most overdue for its freshness, then the one with most rows.

    If freshness is ignored, named tables are handed out as soon as they are free; others only if
    they have rows that are not tiered, so that the caller eventually finishes.
    """
    open_to_all = [
        each
        for each in tables
        if not isinstance(each.phase, Leased) and (not wish.only or each.path in wish.only)
    ]
    found = [each for each in open_to_all if _is_due(each, wish, now_ms, untiered)]
    if not found:
        return None
    return min(
        found,
        key=lambda each: (-_overdue(each, now_ms), -untiered(each.table_id), each.table_id),
    )


def state_name(table: TableTiering, *, now_ms: int) -> str:
    """Name the state of a table as Fluss does."""
    match table.phase:
        case Leased():
            return "tiering"
        case Failed(due_ms=due_ms) if due_ms > now_ms:
            return "failed"
        case Waiting(due_ms=due_ms) if due_ms > now_ms:
            return "scheduled"
        case _:
            return "pending"


def due_in_ms(table: TableTiering, *, now_ms: int) -> int:
    """Compute the time until a table is due, 0 while it is tiered."""
    return 0 if isinstance(table.phase, Leased) else table.phase.due_ms - now_ms


def _is_due(
    table: TableTiering, wish: TieringRequest, now_ms: int, untiered: Callable[[int], int]
) -> bool:
    assert not isinstance(table.phase, Leased)
    if table.phase.due_ms <= now_ms:
        return True
    if not wish.ignores_freshness:
        return False
    if wish.only:
        return True
    is_new = table.record.last_tiered_ms is None or untiered(table.table_id) > 0
    return isinstance(table.phase, Waiting) and is_new


def _overdue(table: TableTiering, now_ms: int) -> int:
    assert not isinstance(table.phase, Leased)
    late_ms = now_ms - table.phase.due_ms
    return late_ms * _OVERDUE_STEPS // max(table.freshness_ms, _FRESHNESS_MIN_MS)


def _leased(table: TableTiering, turn: int) -> Leased:
    if not isinstance(table.phase, Leased) or table.record.turn != turn:
        raise TieringFencedError(
            f"Turn {turn} of {table.path} is over; the table has been handed out "
            f"{table.record.turn} times."
        )
    return table.phase


def _failed(table: TableTiering, failure: str, *, now_ms: int) -> TableTiering:
    failures = table.record.failures + 1
    record = replace(table.record, failures=failures, last_failure=failure)
    return replace(table, phase=Failed(now_ms + backoff_ms(failures)), record=record)


# The states of all tiered tables, kept in step with the catalog.

_events = Events("tiering")


@dataclass(frozen=True, slots=True)
class LeasedTurn:
    """A turn of a tiering service at a table."""

    table_id: int
    coordinator_epoch: int
    number: int


class TieringRounds:
    """Lease tables to tiering services; a turn is on disk before anyone gets it.

    Turns do not survive a restart: services ask for their tables again, which is why the states
    themselves are in memory only.
    """

    def __init__(self, catalog: ServerCatalog, *, clock: Clock, lease_s: float) -> None:
        self._catalog = catalog
        self._clock = clock
        self._lease_ms = int(lease_s * 1000)
        self._tables: dict[int, TableTiering] = {}

    @property
    def coordinator_epoch(self) -> int:
        """How often the storage was started, which invalidates earlier turns."""
        return self._catalog.start_count

    @property
    def now_ms(self) -> int:
        """The time on the clock of the states."""
        return int(self._clock.monotonic() * 1000)

    def tables(self) -> tuple[TableTiering, ...]:
        """Map paths to the states of all tiered tables."""
        self._follow_catalog()
        return tuple(sorted(self._tables.values(), key=lambda table: table.path))

    def renew(self, turn: LeasedTurn) -> None:
        """Renew the lease of a table."""
        table = self._find(turn)
        self._tables[turn.table_id] = renewed(table, turn.number, now_ms=self.now_ms)

    def finish(
        self,
        turn: LeasedTurn,
        *,
        is_forced: bool,
        file_size: int | None = None,
        record_count: int | None = None,
    ) -> None:
        """Take a table back after a round."""
        outcome = RoundOutcome(
            wall_ms=self._clock.now_ms(),
            is_forced=is_forced,
            file_size=file_size,
            record_count=record_count,
        )
        table = self._find(turn)
        self._put(finished(table, turn.number, now_ms=self.now_ms, outcome=outcome))

    def fail(self, turn: LeasedTurn, failure: str) -> None:
        """Take a table back after a round that failed."""
        table = self._find(turn)
        self._put(failed(table, turn.number, now_ms=self.now_ms, failure=failure))
        _events.warning("not tiered", table=str(table.path), turn=turn.number, reason=failure)

    def hand_out(self, wish: TieringRequest, untiered: Callable[[int], int]) -> TableTiering | None:
        """Lease a table to a tiering service, if one is due."""
        table = chosen(self.tables(), wish, now_ms=self.now_ms, untiered=untiered)
        if table is None:
            return None
        given = handed_out(table, now_ms=self.now_ms)
        self._put(given)
        return given

    def _find(self, turn: LeasedTurn) -> TableTiering:
        self._follow_catalog()
        table = self._tables.get(turn.table_id)
        if table is None:
            self._catalog.tables.by_id(turn.table_id)
            raise TieringFencedError(f"Table {turn.table_id} is no longer tiered.")
        if turn.coordinator_epoch != self.coordinator_epoch:
            raise TieringFencedError(
                f"{table.path} was handed out before the server was restarted."
            )
        return table

    def _put(self, table: TableTiering) -> None:
        if table.record != self._catalog.lake.record(table.table_id):
            self._catalog.lake.put_record(table.table_id, table.record)
        self._tables[table.table_id] = table

    def _follow_catalog(self) -> None:
        """Follow created, changed and dropped tables, and expire leases."""
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
                _events.warning("tiering lease expired", table=str(table.path))

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
            # It is unknown who held it before.
            unsettled=record.turn,
        )
