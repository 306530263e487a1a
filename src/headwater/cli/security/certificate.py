"""`headwater certificate`: certificates for development, and what given ones say."""

from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from headwater.cli.commands import ending
from headwater.errors import UnsupportedError
from headwater.runtime.clock import SystemClock
from headwater.runtime.tls import certificates_in

DAYS_DEFAULT = 365
NAMES_DEFAULT = "localhost,127.0.0.1,::1"
_MAKER = "headwater.cli.security.make_certificate"

certificate_app = typer.Typer(
    help="Make certificates for development, and show how long given ones are valid.",
    no_args_is_help=True,
)

Directory = Annotated[Path, typer.Argument(help="Directory of the development CA.")]
Days = Annotated[int, typer.Option(help="Days that it is valid.", min=1, max=3650)]


@certificate_app.command()
def make(
    directory: Directory,
    *,
    names: Annotated[
        str, typer.Option(help="Names and addresses of the server, separated by commas.")
    ] = NAMES_DEFAULT,
    days: Days = DAYS_DEFAULT,
) -> None:
    """Make a certificate for a server, and a CA that vouches for it if there is none yet.

    Writes ca.pem, ca.key, server.pem and server.key. Only for development: the key of the CA lies
    beside it. A running server takes a new certificate over within seconds.

    Example: headwater certificate make ./certificates
    """
    with ending(debug=False):
        made = _maker().make_server(
            directory, [each.strip() for each in names.split(",") if each.strip()], days=days
        )
        typer.echo(f"Made {made}")
        typer.echo(
            f"Serve:   headwater serve ./data --tls-certificate {directory / 'server.pem'} "
            f"--tls-key {directory / 'server.key'}"
        )
        typer.echo(f"Connect: headwater sql --tls --tls-ca {directory / 'ca.pem'}")


@certificate_app.command()
def client(
    directory: Directory,
    name: Annotated[str, typer.Argument(help="Common name: who logs in with it.")],
    *,
    group: Annotated[
        list[str] | None, typer.Option(help="Group of the user; may be repeated.")
    ] = None,
    days: Days = DAYS_DEFAULT,
) -> None:
    """Make a certificate for a client, which logs in with it.

    Writes NAME.pem and NAME.key. The server has to be started with --tls-client-ca ca.pem.

    Example: headwater certificate client ./certificates ann --group sales
    """
    with ending(debug=False):
        made = _maker().make_client(directory, name, groups=group or [], days=days)
        typer.echo(f"Made {made}")


@certificate_app.command()
def show(
    files: Annotated[list[Path], typer.Argument(help="PEM files with certificates.")],
) -> None:
    """Show whose certificates are in files, and how long they are valid.

    The exit code is not 0 if one of them has expired or is not valid yet.

    Example: headwater certificate show server.pem
    """
    with ending(debug=False):
        now_ms, is_bad = SystemClock().now_ms(), False
        for file in files:
            for each in certificates_in(file):
                wrong = each.fault(now_ms)
                is_bad |= bool(wrong)
                left = (each.ends - datetime.fromtimestamp(now_ms / 1000, UTC)).days
                typer.echo(f"{file}: {each}" + (f". {wrong}." if wrong else f", {left} days left"))
        if is_bad:
            raise typer.Exit(1)


def _maker() -> ModuleType:
    try:
        return import_module(_MAKER)
    except ModuleNotFoundError as fault:
        if (fault.name or "").partition(".")[0] != "cryptography":
            raise
        raise UnsupportedError(
            "Making certificates needs the package 'cryptography', which is not installed.",
            hint="Run: pip install 'headwater[security]'",
        ) from fault
