"""`headwater console`: pages in a browser that show what is in a storage."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli import command
from headwater.cli.commands import ending
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

ConsolePort = Annotated[int, typer.Option("--port", help="Port; 0 picks a free one.")]
ConsoleHost = Annotated[str, typer.Option("--host", help="Address to listen on.")]
Certificate = Annotated[
    Path | None,
    typer.Option(help="PEM file with the certificate of the console; browsers then use TLS."),
]
CertificateKey = Annotated[Path | None, typer.Option(help="PEM file with its key.")]
Edit = Annotated[
    bool,
    typer.Option(
        "--edit", help="Allow changes: of cursors, permissions and audits. Without, all is read."
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Where the server serves its metrics, such as http://127.0.0.1:9464, for charts of "
        "bytes, requests, latency and disk.",
        show_default="none",
    ),
]
OpenBrowser = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]
Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure", help="Listen for other machines without logins or without encryption."
    ),
]
LogLevel = Annotated[str, typer.Option(help="DEBUG, INFO, WARNING or ERROR.")]
LogFormat = Annotated[str, typer.Option(help="text, or json for machines.")]
PORT_DEFAULT = 9180


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleOptions:
    """The options of `headwater console`."""

    target: Target
    credentials: Login | None
    timeout_s: float
    waits: bool
    lake: Mapping[str, str] = field(repr=False)
    host: str
    port: int
    certificate: Path | None
    key: Path | None
    metrics: str | None
    may_edit: bool
    opens: bool
    insecure: bool
    log_level: str
    log_format: str


@command.secured
def console(
    *,
    host: ConsoleHost = "127.0.0.1",
    port: ConsolePort = PORT_DEFAULT,
    console_certificate: Certificate = None,
    console_key: CertificateKey = None,
    metrics: Metrics = None,
    edit: Edit = False,
    open_browser: OpenBrowser = False,
    insecure: Insecure = False,
    lake: command.Lake = None,
    log_level: LogLevel = "INFO",
    log_format: LogFormat = "text",
    at: command.At = ADDRESS_DEFAULT,
    user: command.User = None,
    password: command.Password = None,
    security: Security = (),
    timeout: command.Timeout = command.TIMEOUT_DEFAULT_S,
    wait: command.Wait = False,
    debug: command.Debug = False,
) -> None:
    """Show a storage in a browser: tables, rows, lakes, cursors, and SQL over all of them.

    If the server has users, people log in with their own names and see what they may see; with
    --user everybody sees what that user may see. Nothing can be changed without --edit. Runs until
    SIGTERM or Ctrl-C.

    Example: headwater console --at 127.0.0.1:9123 --open
    """
    with ending(debug=debug):
        command.warn_of_password(password)
        target = parse_target(at)
        if isinstance(target, DataDirectory):
            check_directory(target, creates=False)
        options = ConsoleOptions(
            target=target,
            credentials=check_credentials(target, user=user, password=password, security=security),
            timeout_s=timeout,
            waits=wait,
            lake=command.secret_values(lake or (), what="lake option"),
            host=host,
            port=port,
            certificate=console_certificate,
            key=console_key,
            metrics=metrics,
            may_edit=edit,
            opens=open_browser,
            insecure=insecure,
            log_level=log_level.upper(),
            log_format=log_format,
        )
        # Imported here because only this command needs a server of HTTP.
        import_module("headwater.cli.doors.console_run").run_console(options)
