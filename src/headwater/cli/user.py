"""`headwater user`: the users of a server."""

from pathlib import Path
from typing import Annotated

import typer

from headwater.errors import HeadwaterError
from headwater.server.security import Users


def user(
    file: Annotated[Path, typer.Argument(help="File of users; made if it does not exist.")],
    name: Annotated[str, typer.Argument(help="Name of the user.")],
    *,
    password: Annotated[
        str, typer.Option(prompt=True, hide_input=True, confirmation_prompt=True, help="Password.")
    ],
) -> None:
    """Add a user to a file for `serve --users`, or change a password.

    Example: headwater user users.txt ann
    """
    try:
        Users.load(file).with_user(name, password).save(file)
    except (HeadwaterError, OSError) as fault:
        typer.secho(f"headwater: {fault}", err=True, fg=typer.colors.RED)
        raise typer.Exit(1) from None
    typer.echo(f"{name} may now connect to a server that runs with --users {file}")
