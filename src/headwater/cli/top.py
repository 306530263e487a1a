"""`headwater top`: a live view of all tables, and how fast they grow."""

import asyncio
import os
import select
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import pyarrow as pa
import typer
from rich import box
from rich.live import Live
from rich.table import Table as Grid

from headwater.cli.command import CommandSession, command, seconds, write
from headwater.cli.names import All, iso_time, shown_databases
from headwater.cli.output import Document, Output
from headwater.errors import MissingError
from headwater.runtime.clock import SystemClock

if TYPE_CHECKING:
    from headwater.client.sync.client import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesSample:
    """One sample of all tables."""

    at_s: float
    ends: Mapping[str, int]
    """The sum of the log ends of each table."""
    lags: Mapping[str, Mapping[str, int | None]]
    """For each table its cursors, and how many rows each has not read."""


def growth(before: TablesSample | None, now: TablesSample) -> list[Document]:
    """Build a row for each table, the busiest first."""
    rows = [_row(table, before, now) for table in now.ends]
    return sorted(rows, key=lambda row: (-float(str(row["rows_per_s"] or 0)), str(row["table"])))


def _row(table: str, before: TablesSample | None, now: TablesSample) -> Document:
    cursors = now.lags.get(table, {})
    known = [lag for lag in cursors.values() if lag is not None]
    return {
        "table": table,
        "rows_per_s": _rate(table, before, now),
        "end": now.ends[table],
        "cursors": len(cursors),
        "lag_rows": max(known, default=None),
        "slowest_cursor": max(
            (name for name in cursors if cursors[name] is not None),
            key=lambda name: cursors[name] or 0,
            default=None,
        ),
    }


def _rate(table: str, before: TablesSample | None, now: TablesSample) -> float | None:
    if before is None or table not in before.ends or now.at_s <= before.at_s:
        return None
    # A table that was dropped and recreated ends earlier than before.
    grown = max(0, now.ends[table] - before.ends[table])
    return round(grown / (now.at_s - before.at_s), 1)


# Not every system has such terminals; there only Ctrl-C leaves.
termios = import_module("termios") if find_spec("termios") else None
TABLES_MAX = 500
# Around the rows: a blank line, names, a rule, another blank line, the caption.
FRAME_LINES = 5
COLUMN_TYPES = {
    "table": pa.string(),
    "rows_per_s": pa.float64(),
    "end": pa.int64(),
    "cursors": pa.int32(),
    "lag_rows": pa.int64(),
    "slowest_cursor": pa.string(),
}
HEADINGS = {"rows_per_s": "rows/s", "lag_rows": "lag", "slowest_cursor": "slowest"}


@command()
def top(
    session: CommandSession,
    *,
    once: Annotated[bool, typer.Option("--once", help="Print one sample and exit.")] = False,
    interval: Annotated[
        float,
        typer.Option(
            parser=seconds, metavar="DURATION", help="Time between two samples: seconds, or '5 s'."
        ),
    ] = 1.0,
    shows_all: All = False,
) -> None:
    """Show how fast tables grow, where they end, and how far cursors lag behind.

    Press q or Ctrl-C to leave.

    Example: headwater top --at localhost:9123
    """
    is_live = not once and session.output is Output.TABLE and sys.stdout.isatty()
    with suppress(KeyboardInterrupt), _keys(is_live=is_live) as is_left:
        views = _views(session.client, lambda: not is_left(interval), shows_all=shows_all)
        if once:
            session.documents(next(views), columns=COLUMN_TYPES)
        elif is_live:
            _show_live(views)
        else:
            _print_each(session, views)


def _views(
    client: "Client", wait: Callable[[], bool], *, shows_all: bool
) -> Iterator[list[Document]]:
    """Yield what to show, until `wait` says to end; a rate needs two samples."""
    clock = SystemClock()
    before = look_at(client, clock, shows_all=shows_all)
    while wait():
        now = look_at(client, clock, shows_all=shows_all)
        yield growth(before, now)
        before = now


def look_at(client: "Client", clock: SystemClock, *, shows_all: bool = False) -> TablesSample:
    """Fetch the ends of all tables, and all cursors."""
    ends: dict[str, int] = {}
    for database in shown_databases(client, shows_all=shows_all):
        for name in client.list_tables(database)[: TABLES_MAX - len(ends)]:
            # A table can be dropped between two requests.
            with suppress(MissingError):
                table = client.table(f"{database}.{name}")
                ends[str(table.path)] = sum(table.offsets("latest").values())
    lags: dict[str, dict[str, int | None]] = {}
    for cursor in client.cursors.list():
        lags.setdefault(str(cursor.table), {})[cursor.name] = cursor.lag_rows
    return TablesSample(at_s=clock.monotonic(), ends=ends, lags=lags)


@contextmanager
def _keys(*, is_live: bool) -> Iterator[Callable[[float], bool]]:
    """Yield a function that waits, and returns whether somebody pressed q meanwhile."""
    clock = SystemClock()

    def pause(seconds: float) -> bool:
        asyncio.run(clock.sleep(seconds))
        return False

    def listen(seconds: float) -> bool:
        end = clock.monotonic() + seconds
        while (left := end - clock.monotonic()) > 0:
            ready, _, _ = select.select([sys.stdin], [], [], left)
            if ready and os.read(sys.stdin.fileno(), 1).lower() in (b"q", b""):
                return True
        return False

    if not is_live or not sys.stdin.isatty() or termios is None:
        yield pause
        return
    # Keys arrive one by one without echo; Ctrl-C still interrupts.
    before = termios.tcgetattr(sys.stdin)
    quiet = termios.tcgetattr(sys.stdin)
    quiet[3] &= ~(termios.ICANON | termios.ECHO)
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, quiet)
    try:
        yield listen
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _show_live(views: Iterator[list[Document]]) -> None:
    with Live(screen=True, auto_refresh=False) as live:
        for rows in views:
            lines = max(1, shutil.get_terminal_size().lines - FRAME_LINES)
            live.update(grid(rows, lines=lines), refresh=True)


def grid(rows: list[Document], *, lines: int) -> Grid:
    """Build the live view of as many rows as there are lines."""
    left_out = len(rows) - lines
    caption = f"and {left_out} more" if left_out > 0 else None
    shown = Grid(box=box.SIMPLE_HEAD, expand=True, caption=caption)
    for name, kind in COLUMN_TYPES.items():
        is_text = pa.types.is_string(kind)
        shown.add_column(
            HEADINGS.get(name, name),
            justify="left" if is_text else "right",
            ratio=1 if is_text else None,
            no_wrap=True,
        )
    for row in rows[:lines]:
        shown.add_row(*(_cell(row[name]) for name in COLUMN_TYPES))
    return shown


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def _print_each(session: CommandSession, views: Iterator[list[Document]]) -> None:
    """Print every sample as rows with the time, for programs."""
    clock, form = SystemClock(), session.form(streams=True)
    schema = pa.schema([("time", pa.string()), *COLUMN_TYPES.items()])
    for rows in views:
        stamped = [{"time": iso_time(clock.now_ms()), **row} for row in rows]
        for batch in pa.Table.from_pylist(stamped, schema=schema).to_batches():
            write(form.rows(batch))
