"""All commands, and where they are: only those that are run get loaded."""

from collections.abc import Iterable
from importlib import import_module
from typing import Annotated

import typer

from headwater import __version__
from headwater.cli.exits import EPILOG

COMMANDS = {
    "serve": "serve",
    "user": "user",
    "database": "database",
    "table": "table",
    "partition": "partition",
    "append": "write",
    "upsert": "write",
    "scan": "read",
    "tail": "tail",
    "lookup": "read",
    "count": "read",
    "offsets": "offsets",
    "sql": "sql",
    "explain": "explain",
    "plan": "plan",
    "cursor": "cursor",
    "tier": "tier",
    "lake": "lake",
    "audit": "audit",
    "repair": "repair",
    "backup": "backup",
    "restore": "backup",
    "top": "top",
}
"""Each command and its module, in the order of the help."""


def app_of(names: Iterable[str]) -> typer.Typer:
    """Return the `headwater` command with some of its commands."""
    app = typer.Typer(
        name="headwater",
        help="Streaming storage for real-time analytics, with a lakehouse behind it.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        epilog=EPILOG,
    )
    app.callback()(_headwater)
    for name in names:
        module = import_module(f"headwater.cli.{COMMANDS[name]}")
        if isinstance(group := getattr(module, "app", None), typer.Typer):
            app.add_typer(group, name=name)
        else:
            app.command()(getattr(module, name))
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headwater {__version__}")
        raise typer.Exit


def _headwater(
    *,
    _: Annotated[
        bool, typer.Option("--version", callback=_show_version, help="Print the version.")
    ] = False,
) -> None:
    """Streaming storage for real-time analytics, with a lakehouse behind it."""
