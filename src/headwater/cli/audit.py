"""`headwater audit`: check that nothing is lost, duplicated or damaged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Annotated

import typer

from headwater.cli import command
from headwater.cli.commands import ending
from headwater.cli.names import table_names
from headwater.cli.output import Output
from headwater.cli.remote.options import RemoteOptions, is_remote
from headwater.cli.target import (
    ADDRESS_DEFAULT,
    DataDirectory,
    Login,
    Target,
    check_credentials,
    check_directory,
    parse_target,
)
from headwater.config.client import Security
from headwater.errors import RequestError

_RUNNING = "headwater.cli.audit_run"

Tables = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TABLE",
        help="Only these tables, as NAME or DATABASE.NAME; default: all tables of all databases.",
        autocompletion=table_names,
    ),
]
Deep = Annotated[
    bool,
    typer.Option(
        "--deep",
        help="Compare contents too: every row of the states with the changelogs, lookups, and "
        "rows of the lake with those of the log.",
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print the report as one document, like --output json.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """The options of `headwater audit`."""

    target: Target
    credentials: Login | None
    timeout_s: float
    waits: bool
    tables: Sequence[str]
    is_deep: bool
    lake: Mapping[str, str] = field(repr=False)
    output: Output


@command.secured
def audit(
    tables: Tables = None,
    *,
    remote_option: RemoteOptions = None,
    deep: Deep = False,
    json: AsJson = False,
    lake: command.Lake = None,
    at: command.At = ADDRESS_DEFAULT,
    user: command.User = None,
    password: command.Password = None,
    security: Security = (),
    timeout: command.Timeout = command.TIMEOUT_DEFAULT_S,
    wait: command.Wait = False,
    output: command.Shown = Output.TABLE,
    debug: command.Debug = False,
) -> None:
    """Check that nothing is lost, duplicated or damaged.

    Reads logs, states, lake and cursors while others keep writing, and reports how much each check
    covered. Errors are shown with their first bad offset and what to do, and the exit code is 9;
    warnings do not change the exit code. If the directory is not in use, its files are read first;
    if they are bad, it is not opened. With the address of a remote storage in place of tables, it
    proves that all of it could be restored.

    Example: headwater audit orders --deep --at ./data
    """
    with ending(debug=debug):
        command.warn_of_password(password)
        shown = Output.JSON if json else output
        if (address := _remote_of(tables or [], at)) is not None:
            _prove(address, remote_option or [], shown)
            return
        if remote_option:
            raise RequestError("--remote-option needs the address of a remote storage.")
        target = parse_target(at)
        if isinstance(target, DataDirectory):
            check_directory(target, creates=False)
        options = AuditOptions(
            target=target,
            credentials=check_credentials(target, user=user, password=password, security=security),
            timeout_s=timeout,
            waits=wait,
            tables=command.listed(tables),
            is_deep=deep,
            lake=command.secret_values(lake or (), what="lake option"),
            output=shown,
        )
        # Imported here because only this command needs it.
        import_module(_RUNNING).run_audit(options)


def _remote_of(tables: Sequence[str], at: str) -> str | None:
    """Return the remote storage that is meant, if one is."""
    named = [each for each in tables if is_remote(each)]
    if not named:
        return at if is_remote(at) else None
    if len(tables) > 1:
        raise RequestError(
            "A remote storage is audited as a whole.", hint=f"Run: headwater audit {named[0]}"
        )
    return named[0]


def _prove(address: str, options: Sequence[str], output: Output) -> None:
    # Imported here because only this command needs it.
    run = import_module("headwater.cli.remote.run")
    given = command.secret_values(options, what="remote option")
    run.run_proof(address, options=given, output=output, progress=_silent)


def _silent(_done: int, _total: int) -> None:
    pass
