"""`headwater append` and `headwater upsert`: rows from files and from standard input."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Protocol

import pyarrow as pa
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from headwater.cli.command import CommandSession, command, listed, note
from headwater.cli.commands import SIGNALLED
from headwater.cli.inputs import read_pieces
from headwater.cli.names import TableName
from headwater.cli.target import STDIN, Format, InputFile, source_of
from headwater.errors import HeadwaterError, NotPrimaryKeyTableError, RequestError

if TYPE_CHECKING:
    from headwater.client.sync.table import Table
    from headwater.write.receipts import Receipt

# The end of a name says more than its beginning, and the bar needs space.
NAME_LENGTH_MAX = 24


class Bar(Protocol):
    """A progress bar."""

    def update(self, *, rows: int, done_bytes: int) -> None:
        """Show rows written and bytes read of one file."""
        ...


class _NoBar:
    def update(self, *, rows: int, done_bytes: int) -> None:
        """Show nothing."""


class _RichBar:
    def __init__(self, progress: Progress, name: str, size_bytes: int | None) -> None:
        self._progress = progress
        self._task = progress.add_task(name, total=size_bytes, rows=0)

    def update(self, *, rows: int, done_bytes: int) -> None:
        """Move the bar."""
        self._progress.update(self._task, completed=done_bytes, rows=rows)


class _Rows(ProgressColumn):
    """Show how many rows were written, and how many per second."""

    def render(self, task: Task) -> Text:
        """Format the text beside the bar."""
        rows = int(task.fields["rows"])
        seconds = task.elapsed or 0.0
        rate = f"{rows / seconds:,.0f} rows/s" if seconds else ""
        return Text(f"{rows:,} rows  {rate}")


@contextmanager
def progress_bar(source: InputFile) -> Iterator[Bar]:
    """Show a progress bar on standard error inside the context, if that is a terminal."""
    if not sys.stderr.isatty():
        yield _NoBar()
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        _Rows(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield _RichBar(progress, source.path.name[-NAME_LENGTH_MAX:], source.size_bytes)


BATCH_ROWS_DEFAULT = 65_536
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PREPOSITIONS = {"appended": "to", "upserted": "into", "deleted": "from"}

Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILE",
        help="Parquet, CSV, JSON lines or Arrow files; - or none is standard input.",
    ),
]
FormatOption = Annotated[
    Format | None,
    typer.Option("--format", help="Format of all files; default: by their names, json for -."),
]
BatchRows = Annotated[int, typer.Option(min=1, help="Rows that are written at once.")]


@dataclass(frozen=True, slots=True)
class InputPlan:
    """What is read, and how much of it at once."""

    sources: tuple[InputFile, ...]
    schema: pa.Schema
    batch_rows: int


@command()
def append(
    session: CommandSession,
    table: TableName,
    files: Files = None,
    *,
    format_: FormatOption = None,
    batch_rows: BatchRows = BATCH_ROWS_DEFAULT,
) -> None:
    """Append rows to a log table.

    Example: headwater append clicks monday.parquet tuesday.csv.gz --at ./data
    """
    found = session.client.table(table)
    if found.is_keyed:
        raise RequestError(f"{found.path} has a primary key.", hint="Use: headwater upsert")
    reading = InputPlan(_sources(files, format_), found.schema, batch_rows)
    _finish(session, found, _write(reading, found.append), done="appended")


@command()
def upsert(
    session: CommandSession,
    table: TableName,
    files: Files = None,
    *,
    columns: Annotated[
        str | None,
        typer.Option(help="Write only these columns, including the key; others stay unchanged."),
    ] = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete the rows with these keys instead.")
    ] = False,
    format_: FormatOption = None,
    batch_rows: BatchRows = BATCH_ROWS_DEFAULT,
) -> None:
    """Insert or replace rows of a primary-key table, or delete them.

    Example: headwater upsert customers changes.jsonl --columns id,visits --at ./data
    """
    found = session.client.table(table)
    if not found.is_keyed:
        raise NotPrimaryKeyTableError(
            f"{found.path} has no primary key.", hint="Use: headwater append"
        )
    if delete and columns:
        raise typer.BadParameter("Pass either --columns or --delete.")
    wanted = found.info.schema.primary_key if delete else listed([columns] if columns else None)
    reading = InputPlan(_sources(files, format_), _asked(found.schema, wanted), batch_rows)
    written = _write(reading, _upserting(found, wanted, delete=delete))
    _finish(session, found, written, done="deleted" if delete else "upserted")


def _sources(files: Sequence[Path] | None, given: Format | None) -> tuple[InputFile, ...]:
    for path in files or ():
        if path != STDIN and (path.is_dir() or not path.exists()):
            raise typer.BadParameter(f"There is no file {path}.")
    return tuple(source_of(path, given=given) for path in files or (STDIN,))


def _asked(schema: pa.Schema, wanted: Sequence[str]) -> pa.Schema:
    """Select only the wanted columns: the others may be in a file, or null in it."""
    if not wanted:
        return schema
    return pa.schema([f if f.name in wanted else f.with_nullable(nullable=True) for f in schema])


def _upserting(
    table: "Table", wanted: Sequence[str], *, delete: bool
) -> Callable[[pa.RecordBatch], "Receipt"]:
    if not wanted:
        return table.upsert
    if delete:
        return lambda rows: table.delete(rows.select([n for n in wanted if n in rows.schema.names]))
    return lambda rows: table.upsert(
        rows.select([n for n in wanted if n in rows.schema.names]), columns=wanted
    )


@dataclass(slots=True)
class _Tally:
    """Count rows: those that are certainly written, and those that may be."""

    written: int = 0
    sent: int = 0

    def failed(self, fault: HeadwaterError) -> None:
        """Add what an error says about the rows it was raised for."""
        if fault.rows_written is not None:
            self.sent = self.written + fault.rows_written + fault.rows_unknown
            self.written += fault.rows_written
        elif isinstance(fault, RequestError):
            self.sent = self.written  # It was rejected before anything was sent.

    def __str__(self) -> str:
        if self.sent == self.written:
            return f"{counted(self.written)} written before it stopped"
        unknown = counted(self.sent - self.written)
        return (
            f"at least {counted(self.written)}, at most {counted(self.sent)} written before it "
            f"stopped: the outcome of the last {unknown} is unknown"
        )


def _write(reading: InputPlan, store: Callable[[pa.RecordBatch], "Receipt"]) -> int:
    """Write batch after batch, and report what was written before it ended.

    The first signal ends it after the batch in flight, so that the number is exact; a second one
    ends it at once.
    """
    tally = _Tally()
    try:
        with _signals(tally) as is_stopped:
            for source in reading.sources:
                _write_source(source, reading, store, tally=tally, stop=is_stopped)
    except BaseException as fault:
        if isinstance(fault, HeadwaterError):
            tally.failed(fault)
        if tally.sent:
            note(str(tally))
        raise
    return tally.written


def _write_source(
    source: InputFile,
    reading: InputPlan,
    store: Callable[[pa.RecordBatch], "Receipt"],
    *,
    tally: _Tally,
    stop: Callable[[], None],
) -> None:
    rows = 0
    pieces = read_pieces(source, reading.schema, batch_rows=reading.batch_rows)
    with progress_bar(source) as bar:
        for piece in pieces:
            tally.sent = tally.written + piece.rows.num_rows
            written = store(piece.rows).rows
            tally.written = tally.sent = tally.written + written
            stop()
            rows += written
            bar.update(rows=rows, done_bytes=piece.done_bytes)


@contextmanager
def _signals(tally: _Tally) -> Iterator[Callable[[], None]]:
    """Let signals end a write between two batches; yield what ends it there."""
    received: list[int] = []

    def end() -> None:
        if received:
            raise (
                KeyboardInterrupt
                if received[0] == signal.SIGINT
                else typer.Exit(SIGNALLED + received[0])
            )

    def receive(number: int, _: FrameType | None) -> None:
        is_first = not received
        received.append(number)
        if tally.sent == tally.written or not is_first:
            end()
        else:
            note("stopping once the rows in flight are written; interrupt again to stop at once")

    if threading.current_thread() is not threading.main_thread():
        yield end
        return
    before = {number: signal.signal(number, receive) for number in _SIGNALS}
    try:
        yield end
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _finish(session: CommandSession, table: "Table", rows: int, *, done: str) -> None:
    words = f"{counted(rows)} {done} {PREPOSITIONS[done]} {table.path}."
    session.done(words, {"table": str(table.path), "rows": rows, "status": done})


def counted(rows: int) -> str:
    """Format a number of rows."""
    return f"{rows} row{'' if rows == 1 else 's'}"
