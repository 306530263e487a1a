"""What every command is handed: an open storage, and a way to print."""

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import typer

from headwater.cli.layout import Look
from headwater.cli.output import Document, Form, Output, document_text, form_of, table_of
from headwater.errors import RequestError

if TYPE_CHECKING:
    from headwater.client.sync.client import Client

BATCH_ROWS_SHOWN = 10_000


@dataclass(frozen=True, slots=True)
class Session:
    """Hold the storage that a command works on and the form of what it prints."""

    opening: Callable[[], "Client"]
    output: Output

    @property
    def client(self) -> "Client":
        """Return the storage, which is opened when it is asked for: wrong arguments leave none."""
        return self.opening()

    def rows(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        """Print rows as they come, and return their number."""
        form, count = self.form(), 0
        if self.output is Output.TABLE:
            batches = _begun_together(batches)
        for batch in batches:
            for start in range(0, batch.num_rows, BATCH_ROWS_SHOWN):
                write(form.rows(batch.slice(start, BATCH_ROWS_SHOWN)))
            count += batch.num_rows
        write(form.head(schema) if not count else "")
        return count

    def documents(
        self, documents: Iterable[Document], *, columns: Mapping[str, pa.DataType]
    ) -> None:
        """Print several things of one kind, each as a row."""
        table = table_of(documents, columns=columns)
        self.rows(table.schema, table.to_batches())

    def document(self, document: Document) -> None:
        """Print one thing."""
        write(document_text(document, output=self.output))

    def done(self, text: str, document: Document) -> None:
        """Tell what was done: a sentence to people, a document to programs."""
        if self.output is Output.TABLE:
            write(f"{text}\n")
        else:
            self.document(document)

    def form(self, *, streams: bool = False) -> Form:
        """Return a form to print rows in that keep coming."""
        return form_of(self.output, look(streams=streams))


def _begun_together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join the first batches, so that columns are as wide as many rows ask for."""
    rest, first, count = iter(batches), list[pa.RecordBatch](), 0
    while count < BATCH_ROWS_SHOWN and (batch := next(rest, None)) is not None:
        first.append(batch)
        count += batch.num_rows
    if first:
        yield pa.concat_batches(first)
    yield from rest


def look(*, streams: bool = False) -> Look:
    """Return how tables look on the standard output of this process."""
    if not sys.stdout.isatty():
        return Look(streams=streams)
    width = shutil.get_terminal_size().columns
    return Look(width=width, streams=streams, styled="NO_COLOR" not in os.environ)


def write(text: str) -> None:
    """Write to standard output at once, so that whoever reads a pipe sees it."""
    sys.stdout.write(text)
    sys.stdout.flush()


def note(text: str) -> None:
    """Tell people something that is no result."""
    typer.echo(f"headwater: {text}", err=True)


def confirm(question: str, *, yes: bool) -> None:
    """Ask on a terminal; where nobody can be asked, insist on --yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise RequestError(f"{question} Nobody can be asked here.", hint="Say --yes.")
    typer.confirm(question, abort=True, err=True)
