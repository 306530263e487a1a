"""`headwater top`: a live view of all tables."""

import asyncio
import os
import select
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import pyarrow as pa
import typer
from rich import box
from rich.live import Live
from rich.table import Table as Grid

from headwater.cli.command import command
from headwater.cli.description import iso_time
from headwater.cli.naming import All, shown_databases
from headwater.cli.output import Document, Output
from headwater.cli.pairs import seconds
from headwater.cli.rates import Sight, growth
from headwater.cli.session import Session, write
from headwater.errors import MissingError
from headwater.runtime.clock import SystemClock

if TYPE_CHECKING:
    from headwater.client.sync.client import Client

# Not every system has terminals of this kind; there only Ctrl-C leaves.
termios = import_module("termios") if find_spec("termios") else None
TABLES_MAX = 500
# Above and below the rows: a blank line, names, a rule, another blank line, the caption.
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
    session: Session,
    *,
    once: Annotated[bool, typer.Option("--once", help="Print one view and end.")] = False,
    interval: Annotated[
        float,
        typer.Option(
            parser=seconds, metavar="DURATION", help="Time between two looks: seconds, or '5 s'."
        ),
    ] = 1.0,
    shows_all: All = False,
) -> None:
    """Show which tables grow how fast, where they end, and how far cursors are behind.

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
    """Yield what is to be shown, until waiting for the next look ends it; a rate needs two."""
    clock = SystemClock()
    before = look_at(client, clock, shows_all=shows_all)
    while wait():
        now = look_at(client, clock, shows_all=shows_all)
        yield growth(before, now)
        before = now


def look_at(client: "Client", clock: SystemClock, *, shows_all: bool = False) -> Sight:
    """Ask for the ends of all tables, and for all cursors."""
    ends: dict[str, int] = {}
    for database in shown_databases(client, shows_all=shows_all):
        for name in client.list_tables(database)[: TABLES_MAX - len(ends)]:
            # A table can be dropped between two questions.
            with suppress(MissingError):
                table = client.table(f"{database}.{name}")
                ends[str(table.path)] = sum(table.offsets("latest").values())
    lags: dict[str, dict[str, int | None]] = {}
    for cursor in client.cursors.list():
        lags.setdefault(str(cursor.table), {})[cursor.name] = cursor.lag_rows
    return Sight(at_s=clock.monotonic(), ends=ends, lags=lags)


@contextmanager
def _keys(*, is_live: bool) -> Iterator[Callable[[float], bool]]:
    """Give what waits so many seconds, and tells whether somebody pressed q meanwhile."""
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
    # Keys come one by one, and are not shown; Ctrl-C still interrupts.
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
    """Return the live view of as many rows as there are lines."""
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


def _print_each(session: Session, views: Iterator[list[Document]]) -> None:
    """Print every view as rows with the time, for programs that watch."""
    clock, form = SystemClock(), session.form(streams=True)
    schema = pa.schema([("time", pa.string()), *COLUMN_TYPES.items()])
    for rows in views:
        stamped = [{"time": iso_time(clock.now_ms()), **row} for row in rows]
        for batch in pa.Table.from_pylist(stamped, schema=schema).to_batches():
            write(form.rows(batch))
