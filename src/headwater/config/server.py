"""Settings of a server process."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from headwater.config.lake import check_lake_properties
from headwater.config.options import LakeFormat
from headwater.config.values import (
    DURATION,
    MEMORY,
    check_positive,
    integer,
    integer_or_none,
    properties,
    seconds,
    shown,
    switch,
    text,
)
from headwater.errors import InvalidOptionError
from headwater.model.acl import parse_principals

MIB = 1024**2
OVERHEAD_BYTES = 192 * MIB
LIMIT_BYTES_MIN = 8 * MIB
LIMIT_ENDINGS = ("_max", "_bytes_min")
PORT_MAX = 65_535
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER")
"""How clients log in, the strongest first."""
CLIENT_AUTH = ("required", "optional")
PRINCIPALS = ("cn", "subject")
_FREE = frozenset(
    {
        "host",
        "port",
        "advertised_host",
        "advertised_port",
        "insecure",
        "authorizer_enabled",
        "super_users",
        "trail_kinds",
        "trail_file",
        "trail_required",
        "trail_retention",
        "trust_clock",
        "metrics_host",
        "metrics_port",
        "metrics_exposed",
        "datalake_format",
        "lake_properties",
        "lake_trusted_tierers",
        "remote_data_dir",
        "remote_options",
        "remote_lag_s_max",
        "disk_free_bytes_min",
        "memory_bytes_max",
        # Checked where quotas are: 0 is no limit.
        "user_bytes_in_per_s_max",
        "user_bytes_out_per_s_max",
        "user_requests_max",
        "user_connections_max",
        "user_scans_max",
        "user_tables_max",
        "user_partitions_max",
        "user_buckets_max",
        "connection_bytes_in_per_s_max",
        "connection_bytes_out_per_s_max",
        "connection_scans_max",
        "tls_certificate_file",
        "tls_key_file",
        "tls_client_ca_file",
        "tls_client_auth",
        "tls_principal",
        "tls_host",
        "tls_port",
        "tls_advertised_host",
        "tls_advertised_port",
        "metrics_tls",
        "mechanisms",
        "token_keys",
        "token_issuer",
        "token_audience",
        "token_principal_claim",
        "token_groups_claim",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The limits and intervals of one server."""

    host: str = text("127.0.0.1", "Address to listen on.")
    port: int = integer(9123, "Port to listen on; 0 picks a free one.")
    advertised_host: str = text(
        "", "Address that clients are told to use; empty: the one they connected to."
    )
    advertised_port: int = integer(
        0, "Port that clients are told to use; 0: the one they connected to."
    )
    insecure: bool = switch(
        "Accept connections from other machines without authentication or without TLS."
    )
    tls_certificate_file: str = text(
        "",
        "PEM file with the server's certificate, and those between it and its CA. Set: 'port' "
        "speaks TLS, unless 'tls_port' is set too.",
    )
    tls_key_file: str = text(
        "", "PEM file with the key of that certificate; empty: in the same file."
    )
    tls_client_ca_file: str = text(
        "", "PEM file with the CAs whose certificates clients log in with; empty: none."
    )
    tls_client_auth: str = text(
        "required",
        "With 'tls_client_ca_file': 'required', or 'optional' if clients without a certificate "
        "may log in with a password or a token.",
    )
    tls_principal: str = text(
        "cn", "Who a client's certificate names: its 'cn', or its whole 'subject' (RFC 4514)."
    )
    tls_host: str = text("", "Address to listen on with TLS; empty: the same as 'host'.")
    tls_port: int | None = integer_or_none(
        "Port that speaks TLS beside 'port', which then does not; 0 picks a free one."
    )
    tls_advertised_host: str = text(
        "", "Address that clients of 'tls_port' are told to use; empty: the one they connected to."
    )
    tls_advertised_port: int = integer(
        0, "Port that clients of 'tls_port' are told to use; 0: the one they connected to."
    )
    mechanisms: str = text(
        "",
        "How clients may log in, separated by commas: SCRAM-SHA-512, SCRAM-SHA-256, PLAIN, "
        "OAUTHBEARER. Empty: all that users and keys allow.",
    )
    token_keys: str = text(
        "",
        "Public keys that tokens are checked with: a PEM or JWKS file, or the https address of a "
        "JWKS. Empty: no tokens.",
    )
    token_issuer: str = text("", "Issuer ('iss') that tokens must have.")
    token_audience: str = text("", "Audience ('aud') that tokens must have.")
    token_principal_claim: str = text("sub", "Claim of a token that names the principal.")
    token_groups_claim: str = text(
        "", "Claim of a token that lists the principal's groups; empty: no groups."
    )
    authorizer_enabled: bool = switch(
        "Check permissions: users may do only what they were granted. Needs users."
    )
    super_users: str = text(
        "",
        "Principals that may do everything where permissions are checked, separated by "
        "semicolons, such as User:admin;Group:operators.",
    )
    trail_kinds: str = text(
        "ddl,acl,login",
        "What the table headwater.audit_log records where users log in, separated by commas: "
        "login, ddl, acl, read, write, describe. Empty: nothing.",
    )
    trail_file: str = text("", "File to write the same records to, as JSON lines.")
    trail_required: bool = switch(
        "Refuse what cannot be recorded; by default nobody waits for a record."
    )
    trail_retention: str = text("30 d", "How long records are kept in a table that is new.")
    metrics_host: str = text("127.0.0.1", "Address to serve metrics and health checks on.")
    metrics_port: int | None = integer_or_none(
        "Port to serve metrics and health checks on; 0 picks a free one; unset: not served."
    )
    metrics_tls: bool = switch("Serve metrics with TLS, with the server's certificate.")
    metrics_exposed: bool = switch("Serve metrics to other machines, without authentication.")
    connections_max: int = integer(
        1024, "Open connections, logged in where that is required; more are rejected."
    )
    login_timeout_s: float = seconds(15.0, "Time a client has to log in, where that is required.")
    login_connections_max: int = integer(
        256, "Connections that have not logged in; a new one replaces the oldest."
    )
    login_connections_per_address_max: int = integer(
        64, "Such connections from one address (for IPv6: from one /64 network)."
    )
    frame_timeout_s: float = seconds(30.0, "Time a client has to finish sending a frame.")
    request_bytes_max: int = integer(64 * MIB, "Size of one request.")
    connection_requests_max: int = integer(
        1024, "Requests of one connection in flight; above it, its socket is not read."
    )
    connection_requests_bytes_max: int = integer(
        128 * MIB, "Request bytes of one connection in memory; above it, its socket is not read."
    )
    total_request_bytes_max: int = integer(
        256 * MIB, "Request bytes of all connections in memory; above it, sockets wait."
    )
    response_bytes_max: int = integer(16 * MIB, "Record bytes in one response.")
    unsent_bytes_max: int = integer(
        256 * MIB,
        "Response bytes waiting to be sent, for all connections; above it the slowest reader is "
        "disconnected.",
    )
    total_response_bytes_max: int = integer(
        512 * MIB,
        "Response bytes being read or waiting to be sent, for all connections; above it readers "
        "wait, then the slowest is disconnected, then requests are rejected for a while.",
    )
    memory_bytes_max: int = integer(
        0,
        "Memory that the process may use; large requests are rejected when it is almost used "
        "up. 0: no limit.",
    )
    batch_bytes_max: int = integer(32 * MIB, "Size of one record batch.")
    decoded_bytes_max: int = integer(
        256 * MIB,
        "Size of one record batch after decompression, and of all that are decompressed at a time.",
    )
    request_decoded_bytes_max: int = integer(
        1024 * MIB, "Size of all record batches of one request after decompression."
    )
    disk_free_bytes_min: int = integer(
        64 * MIB,
        "Free disk space below which writes are rejected, so that there is space left to delete "
        "rows; 0 rejects none.",
    )
    trust_clock: bool = switch(
        "Delete by age at once even if the clock is far ahead of the last run; by default an "
        "hour later."
    )
    default_bucket_number: int = integer(
        1, "Buckets of a table that is created without a number of buckets."
    )
    bucket_count_max: int = integer(4096, "Buckets of one table or partition.")
    partition_count_max: int = integer(1000, "Partitions of one table.")
    auto_partition_check_interval_s: float = seconds(
        600.0, "Time between two checks for partitions to create or drop."
    )
    retention_check_interval_s: float = seconds(
        60.0, "Time between two checks for segments to delete."
    )

    kv_snapshot_interval_s: float = seconds(
        600.0, "Time between two snapshots of a primary-key bucket that has changed."
    )
    kv_snapshot_rows_max: int = integer(5_000_000, "Changes after which a snapshot is taken early.")
    kv_scanner_ttl_s: float = seconds(600.0, "Time after which an idle scan of rows is closed.")
    kv_scanners_max: int = integer(200, "Open scans of rows.")
    kv_scanner_bytes_max: int = integer(
        512 * MIB, "Memory for all open scans of rows: 8 bytes for each row."
    )
    kv_scanners_per_bucket_max: int = integer(8, "Open scans of rows in one bucket.")

    user_bytes_in_per_s_max: int = integer(
        0, "Request bytes of one user in a second; above it, their sockets are not read. 0: any."
    )
    user_bytes_out_per_s_max: int = integer(
        0, "Response bytes of one user in a second; above it, their requests wait. 0: any."
    )
    user_requests_max: int = integer(
        0, "Requests of one user in flight; above it, their requests wait. 0: any number."
    )
    user_connections_max: int = integer(
        0, "Connections of one user; more are answered with an error and closed. 0: any number."
    )
    user_scans_max: int = integer(0, "Open scans of rows of one user. 0: any number.")
    user_tables_max: int = integer(0, "Tables that one user has created. 0: any number.")
    user_partitions_max: int = integer(
        0, "Partitions of all tables that one user has created. 0: any number."
    )
    user_buckets_max: int = integer(
        0, "Buckets of all tables and partitions that one user has created. 0: any number."
    )
    connection_bytes_in_per_s_max: int = integer(
        0, "Request bytes of one connection in a second; above it, it is not read. 0: any."
    )
    connection_bytes_out_per_s_max: int = integer(
        0, "Response bytes of one connection in a second; above it, requests wait. 0: any."
    )
    connection_scans_max: int = integer(0, "Open scans of rows of one connection. 0: any number.")
    throttle_s_max: int = integer(
        30,
        "Time that a request waits because of a limit in bytes per second; one that would wait "
        "longer is rejected for a while.",
    )

    datalake_format: str = text(
        LakeFormat.ICEBERG, "Lake format of tables that do not set one: iceberg or paimon."
    )
    lake_properties: Mapping[str, str] = properties(
        "Where the lake is, such as datalake.iceberg.uri; clients see it, except for secrets. "
        "Unset: a lake below the data directory."
    )
    lake_tiering_lease_s: float = seconds(
        120.0,
        "Time after which a table is given to another tiering service if its own does not report.",
    )

    lake_trusted_tierers: str = text(
        "",
        "Users, separated by commas, whose reports of lake snapshots are trusted without "
        "checking the lake: retention deletes rows based on them. * means everybody.",
    )

    remote_data_dir: str = text(
        "",
        "Remote storage that everything is shipped to: a directory, or an address such as "
        "s3://BUCKET/PREFIX. Empty: none.",
    )
    remote_options: Mapping[str, str] = properties(
        "Options of the object store that has the remote storage, such as endpoint or region."
    )
    remote_sync_interval_s: float = seconds(
        1.0, "Time between two moments that are shipped to the remote storage."
    )
    remote_lag_s_max: int = integer(
        0,
        "Seconds that the remote storage may be behind before writes are rejected for a while. "
        "0: any number.",
    )
    remote_history_s: float = seconds(
        3600.0, "Time that earlier moments in the remote storage can be restored."
    )

    def __post_init__(self) -> None:
        check_positive(self, free=_FREE)
        for name in ("port", "metrics_port", "tls_port"):
            port = getattr(self, name) or 0
            if not 0 <= port <= PORT_MAX:
                raise InvalidOptionError(f"'{name}' must be between 0 and {PORT_MAX}, not {port}.")
        if self.default_bucket_number > self.bucket_count_max:
            raise InvalidOptionError("'default_bucket_number' is larger than 'bucket_count_max'.")
        check_lake_properties(self.datalake_format, self.lake_properties)
        _check_tls(self)
        _check_choices(self)
        _check_logins(self)
        _check_permissions(self)
        if self.remote_options and not self.remote_data_dir:
            raise InvalidOptionError("'remote_options' need 'remote_data_dir'.")

    @property
    def trail_kind_names(self) -> tuple[str, ...]:
        """The kinds of calls that are recorded."""
        return tuple(each.strip().lower() for each in self.trail_kinds.split(",") if each.strip())

    @property
    def mechanism_names(self) -> tuple[str, ...]:
        """The mechanisms that are set, the strongest first."""
        names = {each.strip().upper() for each in self.mechanisms.split(",")}
        return tuple(each for each in MECHANISMS if each in names)

    @property
    def exposed_hosts(self) -> tuple[tuple[str, bool], ...]:
        """The addresses that are listened on, each with whether it speaks TLS."""
        if self.tls_port is None:
            return ((self.host, bool(self.tls_certificate_file)),)
        return (self.host, False), (self.tls_host or self.host, True)


def _check_tls(settings: ServerSettings) -> None:
    if not settings.tls_certificate_file:
        for name in ("tls_key_file", "tls_client_ca_file", "tls_port", "metrics_tls"):
            if getattr(settings, name) not in ("", None, False):
                raise InvalidOptionError(
                    f"'{name}' needs a certificate.", hint="Set 'tls_certificate_file' too."
                )
    for name in ("tls_host", "tls_advertised_host", "tls_advertised_port"):
        if getattr(settings, name) and settings.tls_port is None:
            other = name.removeprefix("tls_")
            raise InvalidOptionError(
                f"'{name}' needs 'tls_port'.", hint=f"For the only port, set '{other}'."
            )
    if settings.metrics_tls and settings.metrics_port is None:
        raise InvalidOptionError("'metrics_tls' needs 'metrics_port'.")


def _check_choices(settings: ServerSettings) -> None:
    for name, choices in (("tls_client_auth", CLIENT_AUTH), ("tls_principal", PRINCIPALS)):
        if getattr(settings, name) not in choices:
            raise InvalidOptionError(
                f"'{name}' cannot be {shown(getattr(settings, name))}.",
                hint=f"Expected {' or '.join(choices)}.",
            )


def _check_logins(settings: ServerSettings) -> None:
    for name in filter(None, (each.strip() for each in settings.mechanisms.split(","))):
        if name.upper() not in MECHANISMS:
            raise InvalidOptionError(
                f"'mechanisms' cannot contain {shown(name)}.",
                hint=f"Expected some of {', '.join(MECHANISMS)}.",
            )
    for name in ("token_issuer", "token_audience"):
        if bool(getattr(settings, name)) < bool(settings.token_keys):
            raise InvalidOptionError(
                f"'token_keys' needs '{name}': a token for somebody else would be accepted."
            )
        if getattr(settings, name) and not settings.token_keys:
            raise InvalidOptionError(f"'{name}' needs 'token_keys'.")
    if settings.token_groups_claim and not settings.token_keys:
        raise InvalidOptionError("'token_groups_claim' needs 'token_keys'.")
    if not settings.token_principal_claim:
        raise InvalidOptionError("'token_principal_claim' is empty.", hint="The usual one is sub.")


TRAIL_KINDS = ("login", "ddl", "acl", "read", "write", "describe")


def _check_permissions(settings: ServerSettings) -> None:
    for name in settings.trail_kind_names:
        if name not in TRAIL_KINDS:
            raise InvalidOptionError(
                f"'trail_kinds' cannot contain {shown(name)}.",
                hint=f"Expected some of {', '.join(TRAIL_KINDS)}.",
            )
    if DURATION.read(settings.trail_retention) is None:
        raise InvalidOptionError(
            f"'trail_retention' cannot be {shown(settings.trail_retention)}.",
            hint=f"Expected {DURATION.expected}.",
        )
    if not settings.trail_kind_names and (settings.trail_file or settings.trail_required):
        raise InvalidOptionError("An empty 'trail_kinds' records nothing.", hint="Name some.")
    if parse_principals(settings.super_users) and not settings.authorizer_enabled:
        raise InvalidOptionError(
            "'super_users' has no effect where permissions are not checked.",
            hint="Set 'authorizer_enabled' (--authorizer) as well.",
        )


def limits_for(memory_bytes: int) -> dict[str, int]:
    """Compute limits that fit into an amount of memory; with 2 GiB or more they are the defaults.

    The interpreter and its libraries need a share first. The rest is divided so that all budgets
    together, including copies that are made along the way, stay below it.
    """
    free = max(memory_bytes - OVERHEAD_BYTES, memory_bytes // 3)
    requests, answers = _share(free, 15), _share(free, 20)
    usual = ServerSettings()
    wanted = {
        "memory_bytes_max": memory_bytes,
        "total_request_bytes_max": requests,
        "request_bytes_max": requests // 2,
        "connection_requests_bytes_max": requests // 2,
        "batch_bytes_max": requests // 4,
        "decoded_bytes_max": _share(free, 15),
        "total_response_bytes_max": answers,
        "unsent_bytes_max": answers * 3 // 2,
        "response_bytes_max": answers // 8,
        "kv_scanner_bytes_max": _share(free, 10),
    }
    return {name: min(value, getattr(usual, name) or value) for name, value in wanted.items()}


def limit_named(name: str, value: str) -> int:
    """Parse a limit that an operator sets by name: a number, or a size with its unit."""
    known = [each.name for each in fields(ServerSettings) if each.name.endswith(LIMIT_ENDINGS)]
    if name not in known:
        raise InvalidOptionError(
            f"{name!r} is not a limit.", hint=f"The limits are {', '.join(known)}."
        )
    read = int(value) if value.strip().isdigit() else MEMORY.read(value)
    if read is None:
        raise InvalidOptionError(
            f"{value!r} is not a valid value of {name!r}.",
            hint=f"Use a number, or {MEMORY.expected}.",
        )
    return read


def settings_with(
    settings: ServerSettings, changes: Mapping[str, int | str | bool]
) -> ServerSettings:
    """Replace some of the settings."""
    return replace(settings, **changes)  # type: ignore[arg-type]


def _share(free: int, percent: int) -> int:
    return max(free * percent // 100, LIMIT_BYTES_MIN)
