"""The `headwater` command."""

from typing import Annotated

import typer

from headwater import __version__
from headwater.cli import cursor, database, lake, partition, table
from headwater.cli.audit import audit
from headwater.cli.exits import EPILOG
from headwater.cli.explain import explain
from headwater.cli.offsets import offsets
from headwater.cli.plan import plan
from headwater.cli.read import count, lookup, scan
from headwater.cli.repair import repair
from headwater.cli.serve import serve
from headwater.cli.sql import sql
from headwater.cli.tail import tail
from headwater.cli.tier import tier
from headwater.cli.top import top
from headwater.cli.user import user
from headwater.cli.write import append, upsert

app = typer.Typer(
    name="headwater",
    help="Streaming storage for real-time analytics, with a lakehouse behind it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog=EPILOG,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headwater {__version__}")
        raise typer.Exit


@app.callback()
def headwater(
    *,
    _: Annotated[
        bool, typer.Option("--version", callback=_show_version, help="Print the version.")
    ] = False,
) -> None:
    """Streaming storage for real-time analytics, with a lakehouse behind it."""


app.command()(serve)
app.command()(user)
app.add_typer(database.app, name="database")
app.add_typer(table.app, name="table")
app.add_typer(partition.app, name="partition")
for command in (append, upsert, scan, tail, lookup, count, offsets, sql, explain, plan):
    app.command()(command)
app.add_typer(cursor.app, name="cursor")
app.command()(tier)
app.add_typer(lake.app, name="lake")
app.command()(audit)
app.command()(repair)
app.command()(top)
