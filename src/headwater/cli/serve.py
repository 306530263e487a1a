"""`headwater serve`: serve a data directory."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.commands import code_of
from headwater.cli.remote import options as remotes
from headwater.config.server import ServerSettings
from headwater.config.values import described
from headwater.errors import HeadwaterError

_DEFAULTS = ServerSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConsole:
    """The options of a console beside the server."""

    port: int | None
    host: str
    may_edit: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """The options of `headwater serve`."""

    directory: Path
    host: str
    port: int
    advertise: str
    users: Path | None
    quotas: Path | None
    insecure: bool
    security: Mapping[str, str | int | bool | None]
    datalake_format: str
    lake: tuple[str, ...]
    metrics_host: str
    metrics_port: int | None
    metrics_exposed: bool
    console: ServeConsole
    memory: str | None
    limits: tuple[str, ...]
    audit_every: str | None
    audit_deep: bool
    trust_clock: bool
    trust_tierers: str
    remote: remotes.RemoteChoice
    log_level: str
    log_format: str


LakeProperties = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="Where the lake is, e.g. datalake.iceberg.uri=...; default: in the directory. Pass "
        "secrets as NAME=@FILE: others can see command lines.",
    ),
]
TrustTierers = Annotated[
    str,
    typer.Option(
        metavar="USERS",
        help="Users, separated by commas, whose reports of lake snapshots are trusted without "
        "checking the lake; * means everybody.",
        show_default="nobody",
    ),
]
MetricsHost = Annotated[str, typer.Option(help="Address to serve metrics on.")]
MetricsPort = Annotated[
    int | None,
    typer.Option(help="Port for /metrics and /health; 0 picks a free one.", show_default="off"),
]
MetricsExposed = Annotated[
    bool,
    typer.Option(
        "--metrics-exposed", help="Serve metrics to other machines, without authentication."
    ),
]
MemorySize = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Memory limit, such as '512 mb': other limits follow from it, and requests that "
        "would exceed it are rejected for a while.",
        show_default="memory of the machine or its control group",
    ),
]
Limits = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="NAME=VALUE",
        help="One of the server settings, such as request_bytes_max='16 mb'; may be repeated.",
    ),
]
Advertise = Annotated[
    str, typer.Option(help="HOST:PORT that clients should connect to, if it differs.")
]
UsersFile = Annotated[
    Path | None, typer.Option(help="File of users; clients must then authenticate.")
]
Quotas = Annotated[
    Path | None,
    typer.Option(
        help="File of limits of single users, written by `headwater quota`; a running server "
        "follows its changes.",
        show_default="the limits of the server's settings for everybody",
    ),
]
AuditEvery = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="Audit the storage at intervals such as '1 h'.",
        show_default="off",
    ),
]
AuditDeep = Annotated[bool, typer.Option("--audit-deep", help="Compare every row in these audits.")]

TrustClock = Annotated[
    bool,
    typer.Option(
        "--trust-clock",
        help="Delete by age at once, even if the clock is far ahead of the last run.",
    ),
]

Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure",
        help="Accept connections from other machines without authentication or without TLS.",
    ),
]

# Encryption, logins and permissions: settings of the server, with their own descriptions.

_SECURITY = {
    "tls_certificate_file": "--tls-certificate",
    "tls_key_file": "--tls-key",
    "tls_port": "--tls-port",
    "tls_host": "--tls-host",
    "tls_advertised_host": "--tls-advertised-host",
    "tls_advertised_port": "--tls-advertised-port",
    "tls_client_ca_file": "--tls-client-ca",
    "tls_client_auth": "--tls-client-auth",
    "tls_principal": "--tls-principal",
    "metrics_tls": "--metrics-tls",
    "mechanisms": "--mechanisms",
    "token_keys": "--token-keys",
    "token_issuer": "--token-issuer",
    "token_audience": "--token-audience",
    "token_principal_claim": "--token-principal-claim",
    "token_groups_claim": "--token-groups-claim",
    "authorizer_enabled": "--authorizer",
    "super_users": "--super-users",
    "trail_kinds": "--trail-kinds",
    "trail_file": "--trail-file",
    "trail_required": "--trail-required",
    "trail_retention": "--trail-retention",
}
_KINDS: dict[str, object] = {
    "tls_port": int | None,
    "tls_advertised_port": int,
    "metrics_tls": bool,
    "authorizer_enabled": bool,
    "trail_required": bool,
}


def _parameter(name: str, description: str) -> inspect.Parameter:
    for setting, option in _SECURITY.items():
        description = description.replace(f"'{setting}'", option)
    default = getattr(_DEFAULTS, name)
    shown = typer.Option(
        _SECURITY[name],
        help=description.replace("'port'", "--port").replace("'host'", "--host"),
        show_default=bool(default),
        rich_help_panel="Encryption, logins and permissions",
    )
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[_KINDS.get(name, str), shown],
    )


_CONSOLE: Mapping[str, tuple[object, object]] = {
    "console_port": (
        None,
        Annotated[
            int | None,
            typer.Option(
                help="Port of the console, pages for a browser; 0 picks a free one.",
                show_default="off",
            ),
        ],
    ),
    "console_host": ("127.0.0.1", Annotated[str, typer.Option(help="Address of the console.")]),
    "console_edit": (
        False,
        Annotated[bool, typer.Option("--console-edit", help="Allow changes in the console.")],
    ),
}


def _console(named: dict[str, object]) -> ServeConsole:
    port, host = named.pop("console_port"), named.pop("console_host")
    return ServeConsole(
        port=port if isinstance(port, int) else None,
        host=str(host),
        may_edit=bool(named.pop("console_edit")),
    )


def _secured(function: Callable[..., None]) -> Callable[..., None]:
    """Add these options to a command as `security`, and those of console and remote storage."""
    own = inspect.signature(function).parameters.values()
    shown = [each for each in own if each.name not in ("security", "console", "remote")]
    shown += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (default, kind) in _CONSOLE.items()
    ]
    descriptions = {name: text for name, _, text in described(ServerSettings)}
    shown += remotes.PARAMETERS
    shown += [_parameter(name, descriptions[name]) for name in _SECURITY]

    @wraps(function)
    def run(*arguments: object, **named: object) -> None:
        security = {name: named.pop(name) for name in _SECURITY}
        remote = remotes.choice_of({each.name: named.pop(each.name) for each in remotes.PARAMETERS})
        console = _console(named)
        function(*arguments, **named, security=security, console=console, remote=remote)

    run.__dict__["__signature__"] = inspect.Signature(shown)
    run.__annotations__ = {each.name: each.annotation for each in shown}
    return run


@_secured
def serve(
    directory: Annotated[Path, typer.Argument(help="Data directory; created if missing.")],
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = _DEFAULTS.host,
    port: Annotated[int, typer.Option(help="Port; 0 picks a free one.")] = _DEFAULTS.port,
    advertise: Advertise = "",
    users: UsersFile = None,
    quotas: Quotas = None,
    insecure: Insecure = False,
    security: Mapping[str, str | int | bool | None],
    datalake_format: Annotated[
        str, typer.Option(help="Lake format of tables that do not set one: iceberg or paimon.")
    ] = _DEFAULTS.datalake_format,
    lake: LakeProperties = None,
    metrics_host: MetricsHost = _DEFAULTS.metrics_host,
    metrics_port: MetricsPort = None,
    metrics_exposed: MetricsExposed = False,
    console: ServeConsole,
    memory: MemorySize = None,
    limit: Limits = None,
    audit_every: AuditEvery = None,
    audit_deep: AuditDeep = False,
    trust_clock: TrustClock = False,
    trust_tierers: TrustTierers = _DEFAULTS.lake_trusted_tierers,
    remote: remotes.RemoteChoice,
    log_level: Annotated[str, typer.Option(help="DEBUG, INFO, WARNING or ERROR.")] = "INFO",
    log_format: Annotated[str, typer.Option(help="text, or json for machines.")] = "text",
) -> None:
    """Serve a data directory to Headwater and Apache Fluss clients.

    Example: headwater serve ./data --port 9123
    """
    options = ServeOptions(
        directory=directory,
        host=host,
        port=port,
        advertise=advertise,
        users=users,
        quotas=quotas,
        insecure=insecure,
        security=security,
        datalake_format=datalake_format,
        lake=tuple(lake or ()),
        metrics_host=metrics_host,
        metrics_port=metrics_port,
        metrics_exposed=metrics_exposed,
        console=console,
        memory=memory,
        limits=tuple(limit or ()),
        audit_every=audit_every,
        audit_deep=audit_deep,
        trust_clock=trust_clock,
        trust_tierers=trust_tierers,
        remote=remote,
        log_level=log_level.upper(),
        log_format=log_format,
    )
    _run(options)


def _run(options: ServeOptions) -> None:
    try:
        # Imported here because only this command needs a server.
        import_module("headwater.cli.serve_run").run_server(options)
    except (HeadwaterError, OSError) as fault:
        typer.secho(f"headwater: {fault}", err=True, fg=typer.colors.RED)
        raise typer.Exit(code_of(fault)) from None
