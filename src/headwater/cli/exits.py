"""How a command ends: one exit code for each thing that the caller should do."""

import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType

import typer

from headwater.errors import (
    AccessError,
    ConflictError,
    HeadwaterError,
    MissingError,
    RequestError,
    RetryLaterError,
    SequenceError,
    StorageError,
)

UNEXPECTED = 1
USAGE = 2
SIGNALLED = 128
"""Added to the number of the signal that ended a command."""
INTERRUPTED = 130
TERMINATED = 143
BRANCHES = MappingProxyType(
    {
        RequestError: 3,
        MissingError: 4,
        ConflictError: 5,
        SequenceError: 6,
        RetryLaterError: 7,
        AccessError: 8,
        StorageError: 9,
    }
)
MEANINGS = MappingProxyType(
    {
        0: "done; also when the reader of a pipe went away, and after Ctrl-C in tail and top",
        UNEXPECTED: "something unexpected: run again with --debug",
        USAGE: "the command line is wrong: see --help",
        3: "the request is wrong: change it",
        4: "something is missing: create it, or name another",
        5: "something is in the way, or there already",
        6: "the writer lost its place: run the command again",
        7: "not now: run the command again later",
        8: "not allowed: give other credentials",
        9: "disk or data are damaged: an operator has to look",
        INTERRUPTED: "ended by Ctrl-C before it was done",
        TERMINATED: "ended by SIGTERM before it was done",
    }
)
EPILOG = "Exit codes: " + "; ".join(
    f"{code} {text.partition(':')[0].partition(';')[0]}" for code, text in MEANINGS.items()
)


def code_of(fault: BaseException) -> int:
    """Return the exit code for an error."""
    return next((code for kind, code in BRANCHES.items() if isinstance(fault, kind)), UNEXPECTED)


@contextmanager
def ending(*, debug: bool) -> Iterator[None]:
    """Turn what a command raises into one line on standard error and an exit code."""
    # Ctrl-C may come between making a call and beginning it, which is nothing to tell people.
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


class LinesError(RequestError):
    """Tell something in lines that belong below each other."""


def tell(fault: BaseException, *, debug: bool) -> None:
    """Write an error to standard error, with its traceback where that is wanted."""
    if debug:
        traceback.print_exception(fault, file=sys.stderr)
    text = str(fault) if isinstance(fault, LinesError) else " ".join(str(fault).split())
    if not isinstance(fault, HeadwaterError | OSError):
        text = f"This should not happen: {type(fault).__name__}: {text} Show it with --debug."
    typer.secho(f"headwater: {text}", err=True, fg=typer.colors.RED)


def _leave_pipe() -> None:
    # Nobody reads any more: without this the interpreter fails once more when it flushes.
    stdout = sys.__stdout__
    if stdout is not None and sys.stdout is stdout:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stdout.fileno())
