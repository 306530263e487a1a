"""`headwater user`: the file of users of a server."""

from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from headwater.cli.command import PASSWORD_SEEN, note
from headwater.cli.commands import ending
from headwater.errors import InvalidOptionError
from headwater.server.logins import Users, editing

ADD = "add"


class _AddByDefault(TyperGroup):
    """Treat `user FILE NAME` as `user add FILE NAME`."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Insert the command if there is none."""
        if args and args[0] not in self.commands and args[0] != "--help":
            args = [ADD, *args]
        return super().parse_args(ctx, args)


user_app = typer.Typer(
    help="Add, list and remove users in a file for `serve --users`; a running server notices "
    "within seconds.",
    no_args_is_help=True,
    cls=_AddByDefault,
)

File = Annotated[Path, typer.Argument(help="File of users.")]
Name = Annotated[str, typer.Argument(help="Name of the user.")]


@user_app.command(ADD)
def add(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="File of users; created if it does not exist.")],
    name: Name,
    *,
    password: Annotated[
        str,
        typer.Option(
            prompt=True,
            hide_input=True,
            confirmation_prompt=True,
            help="Password. Other users of the machine can see it here: better leave it out and "
            "be asked.",
        ),
    ],
) -> None:
    """Add a user, or change a password: sessions with the old one end.

    Example: headwater user add users.txt ann
    """
    source = ctx.get_parameter_source("password")
    if source is not None and source.name == "COMMANDLINE":
        note(f"{PASSWORD_SEEN}; leave it out and be asked")
    with ending(debug=False), editing(file) as users:
        users.with_user(name, password).save(file)
    typer.echo(f"{name} may now connect to a server that runs with --users {file}")


@user_app.command("list")
def list_users(file: File) -> None:
    """List the users, one per line.

    Example: headwater user list users.txt
    """
    with ending(debug=False):
        for name in sorted(_existing(file).credentials):
            typer.echo(name)


@user_app.command()
def remove(file: File, name: Name) -> None:
    """Remove a user and end their sessions.

    Example: headwater user remove users.txt ann
    """
    with ending(debug=False):
        _existing(file)
        with editing(file) as users:
            users.without_user(name).save(file)
    typer.echo(f"{name} may no longer connect to a server that runs with --users {file}")


def _existing(file: Path) -> Users:
    users = Users.load(file)
    if users.stamp is None:
        raise InvalidOptionError(f"There is no file {file}.")
    return users
