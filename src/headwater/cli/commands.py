"""All commands, their modules, and their exit codes; only the command that runs is loaded."""

import os
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import MappingProxyType
from typing import Annotated

import typer

from headwater import __version__, errors
from headwater.errors.tree import redacted

# Exit codes: one for each thing that the caller should do.

UNEXPECTED = 1
USAGE = 2
SIGNALLED = 128
"""Added to the number of the signal that ended a command."""
INTERRUPTED = 130
TERMINATED = 143
BRANCHES = MappingProxyType(
    {
        errors.RequestError: 3,
        errors.MissingError: 4,
        errors.ConflictError: 5,
        errors.SequenceError: 6,
        errors.RetryLaterError: 7,
        errors.AccessError: 8,
        errors.StorageError: 9,
    }
)
MEANINGS = MappingProxyType(
    {
        0: "done; also if the reader of a pipe went away, and after Ctrl-C in tail and top",
        UNEXPECTED: "unexpected error: run again with --debug",
        USAGE: "wrong command line: see --help",
        3: "wrong request: change it",
        4: "something is missing: create it, or use another name",
        5: "something already exists, or is in the way",
        6: "the writer is out of sequence: run the command again",
        7: "temporary failure: run the command again later",
        8: "not allowed: use other credentials",
        9: "disk or data is damaged: an operator has to look at it",
        INTERRUPTED: "interrupted by Ctrl-C before it was done",
        TERMINATED: "terminated by SIGTERM before it was done",
    }
)
EPILOG = "Exit codes: " + "; ".join(
    f"{code} {text.partition(':')[0].partition(';')[0]}" for code, text in MEANINGS.items()
)


def code_of(fault: BaseException) -> int:
    """Map an error to an exit code."""
    return next((code for kind, code in BRANCHES.items() if isinstance(fault, kind)), UNEXPECTED)


@contextmanager
def ending(*, debug: bool) -> Iterator[None]:
    """Turn an exception of a command into one line on standard error and an exit code."""
    # Ctrl-C may come between making a call and starting it; there is nothing to report.
    warnings.filterwarnings("ignore", r"coroutine '.*' was never awaited", RuntimeWarning)
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _leave_pipe()
        raise typer.Exit(0) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except Exception as fault:  # noqa: BLE001 - the outer edge of every command
        tell(fault, debug=debug)
        raise typer.Exit(code_of(fault)) from None


class LinesError(errors.RequestError):
    """A message of several lines."""


def tell(fault: BaseException, *, debug: bool) -> None:
    """Print an error to standard error, with its traceback if requested."""
    if debug:
        # Libraries quote addresses with the secrets in them.
        sys.stderr.write(redacted("".join(traceback.format_exception(fault))))
    has_lines = isinstance(fault, LinesError | errors.StatementError)
    text = str(fault) if has_lines else " ".join(str(fault).split())
    if not isinstance(fault, errors.HeadwaterError | OSError):
        text = f"Unexpected {type(fault).__name__}: {text} Run again with --debug to see where."
    typer.secho(f"headwater: {text}", err=True, fg=typer.colors.RED)


def _leave_pipe() -> None:
    # Nobody reads any more: without this the interpreter would fail again when it flushes.
    stdout = sys.__stdout__
    if stdout is not None and sys.stdout is stdout:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stdout.fileno())


COMMANDS = {
    "serve": "serve",
    "user": "security.user",
    "certificate": "security.certificate",
    "acl": "security.acl",
    "quota": "security.quota",
    "database": "table",
    "table": "table",
    "partition": "table",
    "append": "write",
    "upsert": "write",
    "scan": "read",
    "tail": "tail",
    "lookup": "read",
    "count": "read",
    "offsets": "read",
    "sql": "sql",
    "explain": "read",
    "plan": "read",
    "cursor": "tail",
    "run": "pipelines.run",
    "pipeline": "pipelines.pipeline",
    "doors": "doors.options",
    "console": "doors.console",
    "tier": "tier",
    "lake": "lake",
    "audit": "audit",
    "repair": "upkeep",
    "backup": "upkeep",
    "restore": "upkeep",
    "top": "top",
}
"""Each command and its module, in the order of the help."""


def app_of(names: Iterable[str]) -> typer.Typer:
    """Build the `headwater` command with some of its commands."""
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
        if isinstance(group := getattr(module, f"{name}_app", None), typer.Typer):
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
