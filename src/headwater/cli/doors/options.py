"""`headwater doors`: standard protocols by which other engines read tables."""

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
from headwater.errors import RequestError

IcebergPort = Annotated[
    int | None,
    typer.Option(help="Port of the Iceberg REST catalog; 0 picks a free one.", show_default="off"),
]
DoorHost = Annotated[str, typer.Option("--host", help="Address to listen on.")]
DoorCertificate = Annotated[
    Path | None,
    typer.Option(help="PEM file with the certificate of the doors; clients then use TLS."),
]
DoorKey = Annotated[Path | None, typer.Option(help="PEM file with the key of that certificate.")]
Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure", help="Listen for other machines without logins or without encryption."
    ),
]
FreshWithin = Annotated[
    float,
    typer.Option(
        parser=command.seconds,
        metavar="DURATION",
        help="How old the newest rows that a load shows may be: loads within this time share "
        "one tail.",
    ),
]
TailRows = Annotated[
    int,
    typer.Option(
        min=1,
        help="Rows of a table that are not in the lake yet, above which a load is refused.",
    ),
]
TailLease = Annotated[
    float,
    typer.Option(
        parser=command.seconds,
        metavar="DURATION",
        help="How long the files of a load stay at least, so that engines can read them.",
    ),
]
TailDirectory = Annotated[
    Path | None,
    typer.Option(
        help="Directory for the rows of tables that are in no Iceberg lake; readers must see it "
        "under the same path.",
        show_default="the warehouse of their lake",
    ),
]
LogLevel = Annotated[str, typer.Option(help="DEBUG, INFO, WARNING or ERROR.")]
LogFormat = Annotated[str, typer.Option(help="text, or json for machines.")]

FRESH_WITHIN_S = 1.0
TAIL_ROWS_MAX = 20_000_000
TAIL_LEASE_S = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorsOptions:
    """The options of `headwater doors`."""

    target: Target
    credentials: Login | None
    timeout_s: float
    waits: bool
    lake: Mapping[str, str] = field(repr=False)
    host: str
    iceberg_port: int | None
    certificate: Path | None
    key: Path | None
    insecure: bool
    fresh_within_s: float
    tail_rows_max: int
    tail_lease_s: float
    tail_directory: Path | None
    log_level: str
    log_format: str

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports of all doors that are asked for."""
        return tuple(port for port in (self.iceberg_port,) if port is not None)


@command.secured
def doors(
    *,
    iceberg_port: IcebergPort = None,
    host: DoorHost = "127.0.0.1",
    door_certificate: DoorCertificate = None,
    door_key: DoorKey = None,
    insecure: Insecure = False,
    fresh_within: FreshWithin = FRESH_WITHIN_S,
    tail_rows_max: TailRows = TAIL_ROWS_MAX,
    tail_lease: TailLease = TAIL_LEASE_S,
    tail_directory: TailDirectory = None,
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
    """Let other engines read tables, lake and log as one, through standard protocols.

    Callers log in with their own credentials, which the server checks, and may read what that user
    may read. Callers without any are the user of --user, or nobody. Runs until SIGTERM or Ctrl-C.

    Example: headwater doors --at 127.0.0.1:9123 --iceberg-port 8181
    """
    with ending(debug=debug):
        command.warn_of_password(password)
        target = parse_target(at)
        if isinstance(target, DataDirectory):
            check_directory(target, creates=False)
        options = DoorsOptions(
            target=target,
            credentials=check_credentials(target, user=user, password=password, security=security),
            timeout_s=timeout,
            waits=wait,
            lake=command.secret_values(lake or (), what="lake option"),
            host=host,
            iceberg_port=iceberg_port,
            certificate=door_certificate,
            key=door_key,
            insecure=insecure,
            fresh_within_s=fresh_within,
            tail_rows_max=tail_rows_max,
            tail_lease_s=tail_lease,
            tail_directory=tail_directory,
            log_level=log_level.upper(),
            log_format=log_format,
        )
        if not options.ports:
            raise RequestError("No door is asked for.", hint="Pass --iceberg-port PORT.")
        # Imported here because only this command needs what serves.
        import_module("headwater.cli.doors.run").run_doors(options)
