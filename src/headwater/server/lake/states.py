"""Where tables stand between two rounds of tiering; pure, with every moment handed in.

A table waits until its freshness is over, is then due, and is held by a tierer until that one is
done with it, fails, or is not heard of for too long:

    waiting ──(due)── handed out ──▶ held ──finished──▶ waiting
                          ▲            └──failed, or lease over──▶ failed ──(back-off over)──┐
                          └──────────────────────────────────────────────────────────────────┘

Moments are milliseconds of a clock that never goes back.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from headwater.errors import TieringFencedError
from headwater.model.path import TablePath
from headwater.server.catalog.lake_entries import TieringRecord

BACKOFF_FIRST_MS = 5_000
BACKOFF_MAX_MS = 600_000
_DOUBLINGS_MAX = 16
FAILURE_CHARACTERS_MAX = 2_000
NOT_HEARD_OF = "Its tierer was not heard of any more."
# A table without freshness would be overdue beyond all measure.
_FRESHNESS_MIN_MS = 1_000
# So coarse that tables which are due at about the same time are told apart by their rows.
_OVERDUE_STEPS = 10


@dataclass(frozen=True, slots=True)
class Waiting:
    """Wait for the next round."""

    due_ms: int


@dataclass(frozen=True, slots=True)
class Failed:
    """Wait after a round that failed."""

    due_ms: int


@dataclass(frozen=True, slots=True)
class Held:
    """Be tiered by someone."""

    since_ms: int
    heard_ms: int


Phase = Waiting | Failed | Held


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTiering:
    """Say where one table stands."""

    path: TablePath
    table_id: int
    freshness_ms: int
    phase: Phase
    record: TieringRecord
    unsettled: int = 0
    """The last turn that ended without a word of its tierer, which may still be alive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Say which tables a tierer takes."""

    only: Collection[TablePath] = ()
    """These; empty: any."""
    ignores_freshness: bool = False


def next_due_ms(freshness_ms: int, *, age_ms: int, now_ms: int) -> int:
    """Return when a table is due whose last round, or creation, is so long ago."""
    return now_ms + max(freshness_ms - max(age_ms, 0), 0)


def with_freshness(table: TableTiering, freshness_ms: int) -> TableTiering:
    """Take a new freshness into account."""
    phase = table.phase
    if isinstance(phase, Waiting):
        phase = Waiting(phase.due_ms + freshness_ms - table.freshness_ms)
    return replace(table, freshness_ms=freshness_ms, phase=phase)


def settled(table: TableTiering, *, now_ms: int, lease_ms: int) -> TableTiering:
    """Take a table away from a tierer that was not heard of for the length of a lease."""
    if isinstance(table.phase, Held) and now_ms - table.phase.heard_ms > lease_ms:
        lost = replace(table, unsettled=table.record.turn)
        return _failed(lost, NOT_HEARD_OF, now_ms=now_ms)
    return table


def handed_out(table: TableTiering, *, now_ms: int) -> TableTiering:
    """Give a table to a tierer, in a turn of its own."""
    assert not isinstance(table.phase, Held)
    record = replace(table.record, turn=table.record.turn + 1)
    return replace(table, phase=Held(now_ms, now_ms), record=record)


def renewed(table: TableTiering, turn: int, *, now_ms: int) -> TableTiering:
    """Hear that a tierer still works, or tell it that the table is not its own any more."""
    held = _held(table, turn)
    return replace(table, phase=Held(held.since_ms, now_ms))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Tell how a round ended well, and when by the wall clock."""

    wall_ms: int
    is_forced: bool = False
    file_size: int | None = None
    record_count: int | None = None


def finished(table: TableTiering, turn: int, *, now_ms: int, outcome: Outcome) -> TableTiering:
    """Take a table back after a round; the same message may come twice."""
    if isinstance(table.phase, Waiting) and table.record.turn == turn:
        return table
    held, record = _held(table, turn), table.record
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
    """Take a table back after a round that failed; the same message may come twice."""
    if isinstance(table.phase, Failed) and table.record.turn == turn:
        return table
    _held(table, turn)
    return _failed(table, failure[:FAILURE_CHARACTERS_MAX], now_ms=now_ms)


def backoff_ms(failures: int) -> int:
    """Return how long a table rests after so many failures in a row."""
    return min(BACKOFF_FIRST_MS * 2 ** min(failures - 1, _DOUBLINGS_MAX), BACKOFF_MAX_MS)


def chosen(
    tables: Iterable[TableTiering], wish: Wish, *, now_ms: int, untiered: Callable[[int], int]
) -> TableTiering | None:
    """Return the table to hand out: the most overdue for its freshness, then that with most rows.

    Tables that are named are handed out as soon as nobody holds them, if freshness is ignored;
    others then only if they have rows that are not tiered, so that whoever asks comes to an end.
    """
    open_to_all = [
        each
        for each in tables
        if not isinstance(each.phase, Held) and (not wish.only or each.path in wish.only)
    ]
    found = [each for each in open_to_all if _is_due(each, wish, now_ms, untiered)]
    if not found:
        return None
    return min(
        found,
        key=lambda each: (-_overdue(each, now_ms), -untiered(each.table_id), each.table_id),
    )


def state_name(table: TableTiering, *, now_ms: int) -> str:
    """Name where a table stands, in the words of Fluss."""
    match table.phase:
        case Held():
            return "tiering"
        case Failed(due_ms=due_ms) if due_ms > now_ms:
            return "failed"
        case Waiting(due_ms=due_ms) if due_ms > now_ms:
            return "scheduled"
        case _:
            return "pending"


def due_in_ms(table: TableTiering, *, now_ms: int) -> int:
    """Return the time until a table is handed out, 0 while it is tiered."""
    return 0 if isinstance(table.phase, Held) else table.phase.due_ms - now_ms


def _is_due(table: TableTiering, wish: Wish, now_ms: int, untiered: Callable[[int], int]) -> bool:
    assert not isinstance(table.phase, Held)
    if table.phase.due_ms <= now_ms:
        return True
    if not wish.ignores_freshness:
        return False
    if wish.only:
        return True
    is_new = table.record.last_tiered_ms is None or untiered(table.table_id) > 0
    return isinstance(table.phase, Waiting) and is_new


def _overdue(table: TableTiering, now_ms: int) -> int:
    assert not isinstance(table.phase, Held)
    late_ms = now_ms - table.phase.due_ms
    return late_ms * _OVERDUE_STEPS // max(table.freshness_ms, _FRESHNESS_MIN_MS)


def _held(table: TableTiering, turn: int) -> Held:
    if not isinstance(table.phase, Held) or table.record.turn != turn:
        raise TieringFencedError(
            f"Turn {turn} of {table.path} is over; the table was handed out {table.record.turn}"
            " times."
        )
    return table.phase


def _failed(table: TableTiering, failure: str, *, now_ms: int) -> TableTiering:
    failures = table.record.failures + 1
    record = replace(table.record, failures=failures, last_failure=failure)
    return replace(table, phase=Failed(now_ms + backoff_ms(failures)), record=record)
