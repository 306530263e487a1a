"""`headwater append` and `headwater upsert`: rows from files and from standard input."""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import pyarrow as pa
import typer

from headwater.cli.command import command
from headwater.cli.exits import SIGNALLED
from headwater.cli.inputs import read_pieces
from headwater.cli.naming import TableName
from headwater.cli.pairs import listed
from headwater.cli.progress import progress_bar
from headwater.cli.session import Session, note
from headwater.cli.sources import STDIN, Format, Source, source_of
from headwater.errors import HeadwaterError, NotPrimaryKeyTableError, RequestError

if TYPE_CHECKING:
    from headwater.client.sync.table import Table
    from headwater.client.writing.receipts import Receipt

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
    typer.Option("--format", help="Format of all of them; else their names tell, - is json."),
]
BatchRows = Annotated[int, typer.Option(min=1, help="Rows that are written and stored at once.")]


@dataclass(frozen=True, slots=True)
class Reading:
    """Say what is read and how much of it at once."""

    sources: tuple[Source, ...]
    schema: pa.Schema
    batch_rows: int


@command()
def append(
    session: Session,
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
    reading = Reading(_sources(files, format_), found.schema, batch_rows)
    _finish(session, found, _write(reading, found.append), done="appended")


@command()
def upsert(
    session: Session,
    table: TableName,
    files: Files = None,
    *,
    columns: Annotated[
        str | None,
        typer.Option(help="Write only these columns, the key among them; others stay."),
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
        raise typer.BadParameter("Give either --columns or --delete.")
    wanted = found.info.schema.primary_key if delete else listed([columns] if columns else None)
    reading = Reading(_sources(files, format_), _asked(found.schema, wanted), batch_rows)
    written = _write(reading, _upserting(found, wanted, delete=delete))
    _finish(session, found, written, done="deleted" if delete else "upserted")


def _sources(files: Sequence[Path] | None, given: Format | None) -> tuple[Source, ...]:
    for path in files or ():
        if path != STDIN and (path.is_dir() or not path.exists()):
            raise typer.BadParameter(f"There is no file {path}.")
    return tuple(source_of(path, given=given) for path in files or (STDIN,))


def _asked(schema: pa.Schema, wanted: Sequence[str]) -> pa.Schema:
    """Ask only for the wanted columns: the others may be in a file, or null in it."""
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
        """Take into account what an error says of the rows that it was raised for."""
        if fault.rows_written is not None:
            self.sent = self.written + fault.rows_written + fault.rows_unknown
            self.written += fault.rows_written
        elif isinstance(fault, RequestError):
            self.sent = self.written  # It was refused before anything was sent.

    def __str__(self) -> str:
        if self.sent == self.written:
            return f"{counted(self.written)} written before it stopped"
        unknown = counted(self.sent - self.written)
        return (
            f"at least {counted(self.written)}, at most {counted(self.sent)} written before it"
            f" stopped: nothing is known of the last {unknown}"
        )


def _write(reading: Reading, store: Callable[[pa.RecordBatch], "Receipt"]) -> int:
    """Write batch after batch, and tell what was written before something ended it.

    The first signal ends it after the batch that is on its way, so that the number is exact; a
    second one at once.
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
    source: Source,
    reading: Reading,
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
    """Have signals end a write between two batches; yield what ends it there."""
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
            note("stops once the rows on their way are written; once more to stop at once")

    if threading.current_thread() is not threading.main_thread():
        yield end
        return
    before = {number: signal.signal(number, receive) for number in _SIGNALS}
    try:
        yield end
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _finish(session: Session, table: "Table", rows: int, *, done: str) -> None:
    words = f"{counted(rows)} {done} {PREPOSITIONS[done]} {table.path}."
    session.done(words, {"table": str(table.path), "rows": rows, "status": done})


def counted(rows: int) -> str:
    """Return a number of rows in words."""
    return f"{rows} row{'' if rows == 1 else 's'}"
