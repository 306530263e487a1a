"""Names of tables as arguments, completed by the shell where a server knows them."""

import contextlib
from typing import Annotated

import typer

from headwater.cli.opening import opened
from headwater.cli.target import ADDRESS_DEFAULT, Servers, check_credentials, parse_target
from headwater.errors import HeadwaterError

COMPLETION_WITHIN_S = 1.0


def table_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the tables of a server whose names begin so; nobody waits long for a key press."""
    with contextlib.suppress(HeadwaterError, OSError):
        return sorted(name for name in _names(ctx) if name.startswith(incomplete))
    return []


def _names(ctx: typer.Context) -> list[str]:
    target = parse_target(str(ctx.params.get("at") or ADDRESS_DEFAULT))
    # A directory is not opened for this: it may have to be recovered, or be in use.
    if not isinstance(target, Servers):
        return []
    credentials = check_credentials(
        target, user=ctx.params.get("user"), password=ctx.params.get("password")
    )
    with opened(target, credentials, timeout_s=COMPLETION_WITHIN_S) as client:
        return [
            f"{database}.{name}"
            for database in client.list_databases()
            for name in client.list_tables(database)
        ]


TableName = Annotated[
    str,
    typer.Argument(
        metavar="TABLE", help="Table, as NAME or DATABASE.NAME.", autocompletion=table_names
    ),
]
