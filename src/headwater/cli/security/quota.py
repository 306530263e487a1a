"""`headwater quota`: limits of single users, in a file that a running server follows."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.commands import ending
from headwater.config.quotas import QUOTA_NAMES, quota_limits
from headwater.errors import InvalidNameError, InvalidOptionError, MissingError
from headwater.server.quotas import QuotaFile, quotas_in

quota_app = typer.Typer(
    help="Set, list and clear limits of single users in a file for `serve --quotas`; a running "
    "server notices within a second. Everybody else has the limits of `serve --limit`.",
    no_args_is_help=True,
)

File = Annotated[Path, typer.Argument(help="File of quotas.")]
User = Annotated[
    str, typer.Argument(help="Name of the user; clients that did not log in are `anonymous`.")
]


@quota_app.command("set")
def set_quota(
    file: Annotated[Path, typer.Argument(help="File of quotas; created if it does not exist.")],
    user: User,
    limits: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=VALUE...",
            help=f"One or more of {', '.join(QUOTA_NAMES)}. 0 is no limit for this user.",
        ),
    ],
) -> None:
    """Set limits of a user; others that the user has stay.

    Example: headwater quota set quotas.json ann user_bytes_in_per_s_max=10mb user_scans_max=4
    """
    with ending(debug=False):
        given = quota_limits(limits)
        if not user.strip():
            raise InvalidNameError("The name of the user is empty.")
        with quotas_in(file) as quotas:
            quotas[user] = {**quotas.get(user, {}), **given}
    typer.echo(f"{user}: {_shown(given)}, on a server that runs with --quotas {file}")


@quota_app.command("list")
def list_quotas(file: File) -> None:
    """List the users that have limits of their own, one per line.

    Example: headwater quota list quotas.json
    """
    with ending(debug=False):
        if not file.exists():
            raise MissingError(
                f"There is no file {file}.", hint="Make one with: headwater quota set"
            )
        for user, limits in sorted(QuotaFile(file).load().items()):
            typer.echo(f"{user}: {_shown(limits)}")


@quota_app.command()
def clear(
    file: File,
    user: User,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME...", help="Limits to clear.", show_default="all of the user"),
    ] = None,
) -> None:
    """Clear limits of a user, who then has those of everybody.

    Example: headwater quota clear quotas.json ann user_scans_max
    """
    with ending(debug=False), quotas_in(file) as quotas:
        held = quotas.get(user, {})
        if missing := sorted(set(names or ()) - set(held)) or ([] if held else [user]):
            raise InvalidOptionError(
                f"There is no quota of {user!r} to clear: {', '.join(missing)}.",
                hint=f"List them with: headwater quota list {file}",
            )
        wanted = names or list(held)
        quotas[user] = {name: value for name, value in held.items() if name not in wanted}
    typer.echo(f"{user}: cleared {', '.join(wanted)}")


def _shown(limits: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in limits.items())
