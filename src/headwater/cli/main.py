"""The `headwater` command."""

from pathlib import Path
from typing import Annotated

import typer

from headwater import __version__
from headwater.cli.serve import ServeOptions, run_server
from headwater.config.server import ServerSettings
from headwater.errors import HeadwaterError
from headwater.server.security import Users

app = typer.Typer(
    name="headwater",
    help="Streaming storage for real-time analytics, with a lakehouse behind it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
_DEFAULTS = ServerSettings()


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


@app.command()
def serve(
    directory: Annotated[Path, typer.Argument(help="Data directory; made if it does not exist.")],
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = _DEFAULTS.host,
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = _DEFAULTS.port,
    advertise: Annotated[
        str, typer.Option(help="HOST:PORT that clients are told, where it differs.")
    ] = "",
    users: Annotated[
        Path | None, typer.Option(help="File of users; clients must then authenticate.")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen beyond this machine without users.")
    ] = False,
    log_level: Annotated[str, typer.Option(help="DEBUG, INFO, WARNING or ERROR.")] = "INFO",
    log_format: Annotated[str, typer.Option(help="text, or json for machines.")] = "text",
) -> None:
    """Serve a data directory to Headwater and Apache Fluss clients."""
    options = ServeOptions(
        directory=directory,
        host=host,
        port=port,
        advertise=advertise,
        users=users,
        insecure=insecure,
        log_level=log_level.upper(),
        log_format=log_format,
    )
    try:
        run_server(options)
    except (HeadwaterError, OSError) as fault:
        typer.secho(f"headwater: {fault}", err=True, fg=typer.colors.RED)
        raise typer.Exit(1) from None


@app.command()
def user(
    file: Annotated[Path, typer.Argument(help="File of users; made if it does not exist.")],
    name: Annotated[str, typer.Argument(help="Name of the user.")],
    *,
    password: Annotated[
        str, typer.Option(prompt=True, hide_input=True, confirmation_prompt=True, help="Password.")
    ],
) -> None:
    """Add a user to a file for `serve --users`, or change a password."""
    try:
        Users.load(file).with_user(name, password).save(file)
    except (HeadwaterError, OSError) as fault:
        typer.secho(f"headwater: {fault}", err=True, fg=typer.colors.RED)
        raise typer.Exit(1) from None
    typer.echo(f"{name} may now connect to a server that runs with --users {file}")
