"""A bar that shows how far a write is, where somebody watches."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from headwater.cli.sources import Source

# The end of a name tells more than its beginning, and the bar needs room.
NAME_LENGTH_MAX = 24


class Bar(Protocol):
    """Take what was done so far."""

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
    """Show how many rows were written, and how many in a second."""

    def render(self, task: Task) -> Text:
        """Return the text beside the bar."""
        rows = int(task.fields["rows"])
        seconds = task.elapsed or 0.0
        rate = f"{rows / seconds:,.0f} rows/s" if seconds else ""
        return Text(f"{rows:,} rows  {rate}")


@contextmanager
def progress_bar(source: Source) -> Iterator[Bar]:
    """Show a bar on standard error while a block runs, if that is a terminal."""
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
