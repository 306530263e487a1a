"""Names as arguments: tables, columns, cursors and options, completed where a server knows them."""

import contextlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.opening import opened
from headwater.cli.target import ADDRESS_DEFAULT, Servers, check_credentials, parse_target
from headwater.client.paths import DEFAULT_DATABASE
from headwater.config.options import ALTERABLE_NAMES, TABLE_OPTIONS
from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.client.sync.client import Client

COMPLETION_WITHIN_S = 1.0
OWN_DATABASE = "headwater"
"""Where clients keep what is theirs: positions of cursors and sinks, which nobody asks for."""

All = Annotated[
    bool, typer.Option("--all", "-a", help=f"Also what is kept in the database '{OWN_DATABASE}'.")
]


def shown_databases(client: "Client", *, shows_all: bool = False) -> list[str]:
    """Return the databases that people are shown."""
    return [each for each in client.list_databases() if shows_all or each != OWN_DATABASE]


def table_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the tables of a server whose names begin so, those of the default database short."""
    return _asked(ctx, lambda client: _tables(client, incomplete))


def _tables(client: "Client", incomplete: str) -> list[str]:
    is_long = incomplete.startswith(f"{DEFAULT_DATABASE}.")
    names = [
        name if database == DEFAULT_DATABASE and not is_long else f"{database}.{name}"
        for database in shown_databases(client)
        for name in client.list_tables(database)
    ]
    return _beginning(names, incomplete)


def column_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return columns of the table that was named, behind those that are there with a comma."""
    before, comma, last = incomplete.rpartition(",")
    # An option that still lacks its value keeps arguments from getting their names.
    table = str(ctx.params.get("table") or next(iter(ctx.args), ""))
    names = _asked(ctx, lambda client: _beginning(client.table(table).schema.names, last))
    return [f"{before}{comma}{name}" for name in names]


def cursor_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the cursors of a server."""
    return _asked(
        ctx, lambda client: _beginning({each.name for each in client.cursors.list()}, incomplete)
    )


def option_names(_: typer.Context, incomplete: str) -> list[str]:
    """Return the options of a table, ready for a value."""
    return [f"{name}=" for name in _beginning(TABLE_OPTIONS, incomplete)]


def alterable_names(_: typer.Context, incomplete: str) -> list[str]:
    """Return the options of a table that may change."""
    return _beginning(ALTERABLE_NAMES, incomplete)


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))


def _asked(ctx: typer.Context, ask: Callable[["Client"], list[str]]) -> list[str]:
    """Ask a server; nobody waits long for a key press, and what fails completes nothing."""
    with contextlib.suppress(HeadwaterError, OSError):
        target = parse_target(str(ctx.params.get("at") or ADDRESS_DEFAULT))
        # A directory is not opened for this: it may have to be recovered, or be in use.
        if isinstance(target, Servers):
            credentials = check_credentials(
                target, user=ctx.params.get("user"), password=ctx.params.get("password")
            )
            with opened(target, credentials, timeout_s=COMPLETION_WITHIN_S) as client:
                return ask(client)
    return []


TableName = Annotated[
    str,
    typer.Argument(
        metavar="TABLE", help="Table, as NAME or DATABASE.NAME.", autocompletion=table_names
    ),
]
