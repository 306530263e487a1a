"""What all commands share: where they work, how they print, how they end."""

import inspect
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache, wraps
from typing import Annotated

import typer

from headwater.cli.exits import ending
from headwater.cli.opening import opened
from headwater.cli.output import Output
from headwater.cli.pairs import seconds, secret_values
from headwater.cli.session import Session, note
from headwater.cli.target import (
    ADDRESS_DEFAULT,
    Directory,
    check_credentials,
    check_directory,
    parse_target,
)

TIMEOUT_DEFAULT_S = 30.0
_PANEL = "Where and how"
_PASSWORD = "HEADWATER_PASSWORD"  # noqa: S105 - the name of a variable
PASSWORD_SEEN = "warning: other users of this machine can see --password in the list of processes"  # noqa: S105

At = Annotated[
    str,
    typer.Option(
        "--at",
        envvar="HEADWATER_AT",
        help="Data directory, or HOST:PORT of servers with commas between them.",
        rich_help_panel=_PANEL,
    ),
]
User = Annotated[
    str | None,
    typer.Option(envvar="HEADWATER_USER", help="User of the server.", rich_help_panel=_PANEL),
]
Password = Annotated[
    str | None,
    typer.Option(envvar=_PASSWORD, help="Password of the user.", rich_help_panel=_PANEL),
]
Timeout = Annotated[
    float,
    typer.Option(
        help="Time that one call may take with all its retries: seconds, or such as '2 min'.",
        parser=seconds,
        metavar="DURATION",
        rich_help_panel=_PANEL,
    ),
]
Wait = Annotated[
    bool,
    typer.Option(
        "--wait",
        help="Wait for a server that is not there yet, for as long as --timeout says.",
        rich_help_panel=_PANEL,
    ),
]
Shown = Annotated[
    Output,
    typer.Option("--output", "-o", help="Form of what is printed.", rich_help_panel=_PANEL),
]
Debug = Annotated[
    bool,
    typer.Option(
        "--debug",
        envvar="HEADWATER_DEBUG",
        help="Show where an error comes from.",
        rich_help_panel=_PANEL,
    ),
]

Lake = Annotated[
    list[str] | None,
    typer.Option(
        "--lake",
        metavar="KEY=VALUE",
        help="An option of the lake's catalog that stands above what the server tells; may be"
        " repeated.",
        rich_help_panel=_PANEL,
    ),
]


def _shared(
    *,
    at: At = ADDRESS_DEFAULT,
    user: User = None,
    password: Password = None,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    wait: Wait = False,
    output: Shown = Output.TABLE,
    debug: Debug = False,
) -> None:
    """Declare the options of every command, once."""


def _of_lakes(*, lake: Lake = None) -> None:
    """Declare the option of every command that reads lakes."""


_SHARED = inspect.signature(_shared).parameters
_OF_LAKES = inspect.signature(_of_lakes).parameters
SHARED_OPTIONS = frozenset((*_SHARED, *_OF_LAKES))


def command(
    *, creates: bool = False, reads_lakes: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the shared options, and hand it a session in place of them.

    `creates` tells that the command may make a data directory that is not there, `reads_lakes`
    that it may need options of a lake.
    """

    def wrapped(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def run(
            *,
            at: str,
            user: str | None,
            password: str | None,
            timeout: float,
            wait: bool,
            output: Output,
            debug: bool,
            **arguments: object,
        ) -> None:
            with ending(debug=debug):
                warn_of_password(password)
                target = parse_target(at)
                if isinstance(target, Directory):
                    check_directory(target, creates=creates)
                credentials = check_credentials(target, user=user, password=password)
                lake = _lake_options(arguments.pop("lake")) if reads_lakes else {}
                opening = opened(target, credentials, timeout_s=timeout, waits=wait, lake=lake)
                with ExitStack() as held:
                    open_once = cache(lambda: held.enter_context(opening))
                    function(Session(open_once, output), **arguments)

        _declare(run, function, [*_SHARED.values(), *(_OF_LAKES.values() if reads_lakes else ())])
        return run

    return wrapped


def warn_of_password(password: str | None) -> None:
    """Tell of a password on the command line, where other users of the machine can see it."""
    if password is not None and password != os.environ.get(_PASSWORD):
        note(f"{PASSWORD_SEEN}; set {_PASSWORD} instead")


def _lake_options(given: object) -> dict[str, str]:
    texts = given if isinstance(given, list) else []
    return secret_values(texts, what="option of the lake")


def _declare(
    run: Callable[..., None], function: Callable[..., None], shared: Sequence[inspect.Parameter]
) -> None:
    """Show typer the parameters of a function behind its session, and then the shared ones."""
    _, *own = inspect.signature(function).parameters.values()
    shown = [*own, *shared]
    run.__dict__["__signature__"] = inspect.Signature(shown)
    run.__annotations__ = {each.name: each.annotation for each in shown}
