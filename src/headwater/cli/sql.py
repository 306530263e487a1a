"""`headwater sql`: queries over all tables of a storage, once or in a shell."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.command import command
from headwater.cli.session import Session
from headwater.errors import RequestError, UnsupportedError

_DUCKDB = "duckdb"


@command(reads_lakes=True)
def sql(
    session: Session,
    statements: Annotated[
        list[str] | None,
        typer.Argument(metavar="[STATEMENT]...", help="What to run; without any, a shell."),
    ] = None,
    *,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Run the statements of this file.")
    ] = None,
) -> None:
    """Query tables with SQL, each as lake and log make it together at this moment.

    The SQL is DuckDB's; tables are named DATABASE.TABLE. Without a statement it is a shell on a
    terminal, with history and completion, and elsewhere runs what comes by standard input.

    Example: headwater sql "select city, sum(amount) from shop.orders group by city" --at ./data
    """
    texts = _texts(statements, file)
    try:
        running = import_module("headwater.cli.sql_running")
    except ModuleNotFoundError as fault:
        if fault.name != _DUCKDB:
            raise
        raise UnsupportedError(
            "SQL needs the package 'duckdb', which is not installed.",
            hint="Run: pip install 'headwater[duckdb]'",
        ) from fault
    running.run_sql(session, texts)


def _texts(statements: list[str] | None, file: Path | None) -> list[str] | None:
    """Return what to run; None where somebody types it."""
    if statements and file is not None:
        raise RequestError("There are statements both in the command and in a file.")
    if statements:
        return statements
    if file is not None:
        return [file.read_text(encoding="utf-8")]
    if sys.stdin.isatty() and sys.stdout.isatty():
        return None
    return [sys.stdin.read()]
