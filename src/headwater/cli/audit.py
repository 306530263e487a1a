"""`headwater audit`: prove that nothing is lost, nothing is there twice, and nothing is damaged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Annotated

import typer

from headwater.cli.command import (
    TIMEOUT_DEFAULT_S,
    At,
    Debug,
    Lake,
    Password,
    Shown,
    Timeout,
    User,
    Wait,
    warn_of_password,
)
from headwater.cli.exits import ending
from headwater.cli.naming import table_names
from headwater.cli.output import Output
from headwater.cli.pairs import listed, secret_values
from headwater.cli.target import (
    ADDRESS_DEFAULT,
    Credentials,
    Directory,
    Target,
    check_credentials,
    check_directory,
    parse_target,
)

_RUNNING = "headwater.cli.audit_running"

Tables = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TABLE",
        help="Only these, as NAME or DATABASE.NAME; else all of all databases.",
        autocompletion=table_names,
    ),
]
Deep = Annotated[
    bool,
    typer.Option(
        "--deep",
        help="Compare contents too: every row of states with their changelogs, look-ups, and rows"
        " of the lake with those of the log.",
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print the report as one document, as --output json does.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """Hold the options of `headwater audit`."""

    target: Target
    credentials: Credentials | None
    timeout_s: float
    waits: bool
    tables: Sequence[str]
    is_deep: bool
    lake: Mapping[str, str] = field(repr=False)
    output: Output


def audit(
    tables: Tables = None,
    *,
    deep: Deep = False,
    json: AsJson = False,
    lake: Lake = None,
    at: At = ADDRESS_DEFAULT,
    user: User = None,
    password: Password = None,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    wait: Wait = False,
    output: Shown = Output.TABLE,
    debug: Debug = False,
) -> None:
    """Prove that nothing is lost, nothing is there twice, and nothing is damaged.

    It reads logs, states, lake and cursors while others go on writing, and says of each check how
    much it covered. What is wrong is told with its first bad offset and what to do about it, and
    ends the command with exit code 9; a warning is worth a look and does not. Of a directory that
    is not in use, its files are read first; where they are bad, nothing is opened.

    Example: headwater audit orders --deep --at ./data
    """
    with ending(debug=debug):
        warn_of_password(password)
        target = parse_target(at)
        if isinstance(target, Directory):
            check_directory(target, creates=False)
        options = AuditOptions(
            target=target,
            credentials=check_credentials(target, user=user, password=password),
            timeout_s=timeout,
            waits=wait,
            tables=listed(tables),
            is_deep=deep,
            lake=secret_values(lake or (), what="option of the lake"),
            output=Output.JSON if json else output,
        )
        # Loaded here and not above: only this command needs all of it.
        import_module(_RUNNING).run_audit(options)
