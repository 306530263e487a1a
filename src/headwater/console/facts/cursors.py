"""Cursors: who reads what, how far behind, and what moving one would skip or repeat."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headwater.client.cursors.admin import CursorState
from headwater.client.sync.client import Client
from headwater.console.facts.lags import place_text
from headwater.console.facts.rows import RowsQuery, moment_of, start_of
from headwater.errors import RequestError
from headwater.model import TablePath
from headwater.read.offsets import Offsets, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorLine:
    """One cursor in a list."""

    name: str
    database: str
    table: str
    members: int
    lag_rows: int | None


def cursor_lines(client: Client) -> tuple[CursorLine, ...]:
    """List all cursors."""
    return tuple(
        CursorLine(
            name=each.name,
            database=each.table.database,
            table=each.table.table,
            members=each.members,
            lag_rows=each.lag_rows,
        )
        for each in client.cursors.list()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketMove:
    """What moving a cursor does in one bucket."""

    place: str
    before: int
    after: int

    @property
    def skipped(self) -> int:
        """Rows that nobody would read."""
        return max(0, self.after - self.before)

    @property
    def repeated(self) -> int:
        """Rows that would be read again."""
        return max(0, self.before - self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorMove:
    """What moving a cursor does: to be shown before it is done."""

    buckets: tuple[BucketMove, ...]
    positions: Mapping[Place, int]
    members: int

    @property
    def skipped(self) -> int:
        """Rows of all buckets that nobody would read."""
        return sum(each.skipped for each in self.buckets)

    @property
    def repeated(self) -> int:
        """Rows of all buckets that would be read again."""
        return sum(each.repeated for each in self.buckets)


def move_of(client: Client, state: CursorState, text: str) -> CursorMove:
    """Work out what a move to a place in the table does."""
    table = client.table(state.table)
    if not text:
        raise RequestError("There is no place to move to.", hint="Say earliest, latest or a time.")
    starts, ends = table.offsets("earliest"), table.offsets("latest")
    if text in ("earliest", "latest") or text.isdigit() or text.startswith("["):
        positions: Offsets = start_of(RowsQuery(start=text), starts, ends)
    else:
        positions = table.offsets(moment_of(text))
    return CursorMove(
        buckets=tuple(_moves(state, positions)),
        positions=dict(positions),
        members=len(state.members),
    )


def _moves(state: CursorState, positions: Offsets) -> Iterable[BucketMove]:
    held = state.positions
    for place in sorted(positions, key=lambda each: (each.partition or "", each.bucket)):
        after = positions[place]
        yield BucketMove(place=place_text(place), before=held.get(place, after), after=after)


def reset(client: Client, name: str, path: TablePath, positions: Offsets, *, force: bool) -> None:
    """Move a cursor to exactly these positions."""
    client.cursors.reset(name, path, to=dict(positions), force=force)
