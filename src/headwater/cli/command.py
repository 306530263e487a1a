"""What all commands share: arguments, an open storage, printing, and how they are declared."""

import inspect
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, wraps
from typing import TYPE_CHECKING, Annotated

import pyarrow as pa
import typer

from headwater.cli.commands import ending
from headwater.cli.output import (
    Document,
    Form,
    Output,
    TableStyle,
    document_text,
    form_of,
    table_of,
)
from headwater.cli.target import (
    ADDRESS_DEFAULT,
    DataDirectory,
    check_credentials,
    check_directory,
    opened,
    parse_target,
)
from headwater.config.client import SECURITY, ClientSettings, Security, variable_of
from headwater.config.lake import exposed_secrets, value_or_file
from headwater.config.values import DURATION
from headwater.errors import RequestError

if TYPE_CHECKING:
    from headwater.client.sync.client import Client

BATCH_ROWS_SHOWN = 10_000


@dataclass(frozen=True, slots=True)
class CommandSession:
    """The storage that a command works on, and the format of its output."""

    opening: Callable[[], "Client"]
    output: Output

    @property
    def client(self) -> "Client":
        """The storage, opened on first use: invalid arguments leave no directory behind."""
        return self.opening()

    def rows(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        """Print rows as they come, and return their number."""
        form, count = self.form(), 0
        if self.output is Output.TABLE:
            batches = _begun_together(batches)
        for batch in batches:
            for start in range(0, batch.num_rows, BATCH_ROWS_SHOWN):
                write(form.rows(batch.slice(start, BATCH_ROWS_SHOWN)))
            count += batch.num_rows
        write(form.head(schema) if not count else "")
        return count

    def documents(
        self, documents: Iterable[Document], *, columns: Mapping[str, pa.DataType]
    ) -> None:
        """Print several documents of one kind, each as a row."""
        table = table_of(documents, columns=columns)
        self.rows(table.schema, table.to_batches())

    def document(self, document: Document) -> None:
        """Print one document."""
        write(document_text(document, output=self.output))

    def done(self, text: str, document: Document) -> None:
        """Report what was done: a sentence for people, a document for programs."""
        if self.output is Output.TABLE:
            write(f"{text}\n")
        else:
            self.document(document)

    def form(self, *, streams: bool = False) -> Form:
        """Make a formatter for rows that keep coming."""
        return form_of(self.output, look(streams=streams))


def _begun_together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join the first batches, so that column widths fit many rows."""
    rest, first, count = iter(batches), list[pa.RecordBatch](), 0
    while count < BATCH_ROWS_SHOWN and (batch := next(rest, None)) is not None:
        first.append(batch)
        count += batch.num_rows
    if first:
        yield pa.concat_batches(first)
    yield from rest


def look(*, streams: bool = False) -> TableStyle:
    """Return how tables look on the standard output of this process."""
    if not sys.stdout.isatty():
        return TableStyle(streams=streams)
    width = shutil.get_terminal_size().columns
    return TableStyle(width=width, streams=streams, styled="NO_COLOR" not in os.environ)


def write(text: str) -> None:
    """Write to standard output and flush, so that the reader of a pipe sees it at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def note(text: str) -> None:
    """Print a remark that is not a result."""
    typer.echo(f"headwater: {text}", err=True)


def confirm(question: str, *, yes: bool) -> None:
    """Ask on a terminal; without one, require --yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise RequestError(f"{question} There is no terminal to ask on.", hint="Pass --yes.")
    typer.confirm(question, abort=True, err=True)


# Arguments of the form name=value, name:TYPE, a,b,c and '5 s'.

SECONDS_MIN = 0.05


def named_values(texts: Iterable[str], *, what: str) -> dict[str, str]:
    """Parse name=value arguments; reject malformed and repeated ones."""
    return _paired(texts, mark="=", what=what)


def secret_values(texts: Iterable[str], *, what: str) -> dict[str, str]:
    """Parse name=value arguments; @FILE is read from a file, env:NAME from the environment.

    Other users of a machine can see command lines, so secrets are better kept elsewhere.
    """
    named = named_values(texts, what=what)
    if exposed := exposed_secrets(named):
        note(
            f"warning: other users of this machine can see the value of {', '.join(exposed)} in "
            f"the process list; write it to a file and pass {exposed[0]}=@FILE, or "
            f"{exposed[0]}=env:VARIABLE"
        )
    return {name: value_or_file(name, value) for name, value in named.items()}


def named_types(texts: Iterable[str]) -> dict[str, str]:
    """Parse name:TYPE arguments; reject malformed and repeated ones."""
    return _paired(texts, mark=":", what="column")


def listed(texts: Sequence[str] | None) -> tuple[str, ...]:
    """Split names that are given one by one or separated by commas."""
    return tuple(part for text in texts or () for part in map(str.strip, text.split(",")) if part)


def seconds(text: str | float) -> float:
    """Parse a duration into seconds: a number, or text such as '5 s' or '2 min'."""
    milliseconds = DURATION.read(str(text))
    try:
        found = float(text) if milliseconds is None else milliseconds / 1000
    except ValueError:
        found = math.nan
    if not SECONDS_MIN <= found < math.inf:
        raise typer.BadParameter(
            f"{text!r} is not a duration of at least {SECONDS_MIN:g} s: write seconds, such as 5 "
            "or 0.5, or an amount with its unit, such as '5 s' or '2 min'."
        )
    return found


def _paired(texts: Iterable[str], *, mark: str, what: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition(mark)
        name = name.strip()
        if not name or not separator:
            raise RequestError(
                f"{text!r} is not a valid {what}.",
                hint=f"Write it as name{mark}{'TYPE' if mark == ':' else 'value'}.",
            )
        if name in found:
            raise RequestError(f"The {what} '{name}' is given twice.")
        found[name] = value.strip() if mark == ":" else value
    return found


# Shared options.

TIMEOUT_DEFAULT_S = 30.0
_PANEL = "Connection and output"
_PASSWORD = "HEADWATER_PASSWORD"  # noqa: S105 - the name of a variable
PASSWORD_SEEN = "warning: other users of this machine can see --password in the process list"  # noqa: S105

At = Annotated[
    str,
    typer.Option(
        "--at",
        envvar="HEADWATER_AT",
        help="Data directory, or HOST:PORT of servers, separated by commas.",
        rich_help_panel=_PANEL,
    ),
]
User = Annotated[
    str | None,
    typer.Option(envvar="HEADWATER_USER", help="User name for the server.", rich_help_panel=_PANEL),
]
Password = Annotated[
    str | None,
    typer.Option(envvar=_PASSWORD, help="Password of the user.", rich_help_panel=_PANEL),
]
Timeout = Annotated[
    float,
    typer.Option(
        help="Time limit of one call, including all retries: seconds, or text such as '2 min'.",
        parser=seconds,
        metavar="DURATION",
        rich_help_panel=_PANEL,
    ),
]
Wait = Annotated[
    bool,
    typer.Option(
        "--wait",
        help="Wait for a server that is not running yet, for up to --timeout.",
        rich_help_panel=_PANEL,
    ),
]
Shown = Annotated[
    Output,
    typer.Option("--output", "-o", help="Output format.", rich_help_panel=_PANEL),
]
Debug = Annotated[
    bool,
    typer.Option(
        "--debug",
        envvar="HEADWATER_DEBUG",
        help="Show the traceback of an error.",
        rich_help_panel=_PANEL,
    ),
]

Lake = Annotated[
    list[str] | None,
    typer.Option(
        "--lake",
        metavar="KEY=VALUE",
        help="An option of the lake catalog that overrides the server's; may be repeated.",
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


# Options of encryption and logins, the same for all commands with a server.

_SECURITY_PANEL = "Encryption and login"
_SECURITY_HELP = {
    "tls": "Encrypt the connection, and check that the server is the right one.",
    "tls_ca_file": "PEM file with the CAs that may vouch for the server; default: the system's.",
    "tls_certificate_file": "PEM file with a certificate to log in with.",
    "tls_key_file": "PEM file with the key of that certificate.",
    "tls_server_name": "Name that the server's certificate must have; default: the host.",
    "mechanism": "SCRAM-SHA-512, SCRAM-SHA-256, PLAIN or OAUTHBEARER; default: the strongest.",
    "token_file": "File with a token to log in with.",
}


def _parameter(name: str) -> inspect.Parameter:
    option = typer.Option(
        SECURITY[name],
        envvar=variable_of(name),
        help=_SECURITY_HELP[name],
        rich_help_panel=_SECURITY_PANEL,
    )
    default = getattr(ClientSettings(), name)
    kind = bool if isinstance(default, bool) else str
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, option],
    )


_SECURED = {name: _parameter(name) for name in SECURITY}


def secured(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, and pass them to it as one argument, `security`."""
    own = inspect.signature(function).parameters
    shown = [each for name, each in own.items() if name != "security"]
    shown += _SECURED.values()

    @wraps(function)
    def run(*arguments: object, **named: object) -> None:
        given = {name: named.pop(name) for name in SECURITY}
        security: Security = tuple(
            (name, value)
            for name, value in given.items()
            if value and isinstance(value, str | bool)
        )
        function(*arguments, **named, security=security)

    run.__dict__["__signature__"] = inspect.Signature(shown)
    run.__annotations__ = {each.name: each.annotation for each in shown}
    return run


_SHARED = inspect.signature(_shared).parameters
_OF_LAKES = inspect.signature(_of_lakes).parameters
SHARED_OPTIONS = frozenset((*_SHARED, *_OF_LAKES, *_SECURED))


def command(
    *, creates: bool = False, reads_lakes: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the shared options to a command, and pass it a session instead of them.

    With `creates` the command may create a missing data directory, with `reads_lakes` it takes lake
    options.
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
            security: Security,
            **arguments: object,
        ) -> None:
            with ending(debug=debug):
                warn_of_password(password)
                target = parse_target(at)
                if isinstance(target, DataDirectory):
                    check_directory(target, creates=creates)
                credentials = check_credentials(
                    target, user=user, password=password, security=security
                )
                lake = _lake_options(arguments.pop("lake")) if reads_lakes else {}
                opening = opened(target, credentials, timeout_s=timeout, waits=wait, lake=lake)
                with ExitStack() as held:
                    open_once = cache(lambda: held.enter_context(opening))
                    function(CommandSession(open_once, output), **arguments)

        _declare(run, function, [*_SHARED.values(), *(_OF_LAKES.values() if reads_lakes else ())])
        return secured(run)

    return wrapped


def warn_of_password(password: str | None) -> None:
    """Warn of a password on the command line, where other users of the machine can see it."""
    if password is not None and password != os.environ.get(_PASSWORD):
        note(f"{PASSWORD_SEEN}; set {_PASSWORD} instead")


def _lake_options(given: object) -> dict[str, str]:
    texts = given if isinstance(given, list) else []
    return secret_values(texts, what="lake option")


def _declare(
    run: Callable[..., None], function: Callable[..., None], shared: Sequence[inspect.Parameter]
) -> None:
    """Show typer the parameters of a function after its session, followed by the shared ones."""
    _, *own = inspect.signature(function).parameters.values()
    shown = [*own, *shared]
    run.__dict__["__signature__"] = inspect.Signature(shown)
    run.__annotations__ = {each.name: each.annotation for each in shown}
