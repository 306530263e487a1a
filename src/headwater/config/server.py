"""The settings of a server process."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from headwater.config.choices import LakeFormat
from headwater.config.lake import check_lake_properties
from headwater.config.setting import (
    check_positive,
    integer,
    integer_or_none,
    properties,
    seconds,
    switch,
    text,
)
from headwater.config.values import MEMORY
from headwater.errors import InvalidOptionError

MIB = 1024**2
OVERHEAD_BYTES = 192 * MIB
LIMIT_BYTES_MIN = 8 * MIB
LIMIT_ENDINGS = ("_max", "_bytes_min")
PORT_MAX = 65_535
_FREE = frozenset(
    {
        "host",
        "port",
        "advertised_host",
        "advertised_port",
        "insecure",
        "trust_clock",
        "metrics_host",
        "metrics_port",
        "metrics_exposed",
        "datalake_format",
        "lake_properties",
        "lake_trusted_tierers",
        "disk_free_bytes_min",
        "memory_bytes_max",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Hold the limits and intervals of one server."""

    host: str = text("127.0.0.1", "Address to listen on.")
    port: int = integer(9123, "Port to listen on; 0 takes any free one.")
    advertised_host: str = text("", "Address that clients are told; empty: the one they reached.")
    advertised_port: int = integer(0, "Port that clients are told; 0: the one they reached.")
    insecure: bool = switch("Listen beyond this machine without authentication.")
    metrics_host: str = text("127.0.0.1", "Address to serve metrics and health on.")
    metrics_port: int | None = integer_or_none(
        "Port to serve metrics and health on; 0 takes any free one; unset: they are not served."
    )
    metrics_exposed: bool = switch("Serve metrics beyond this machine, where nobody logs in.")
    connections_max: int = integer(
        1024, "Connections open at a time, logged in where users must; more are turned away."
    )
    login_timeout_s: float = seconds(15.0, "Time a client has to log in, where users must.")
    login_connections_max: int = integer(
        256, "Connections that have not logged in; the oldest one makes room for one more."
    )
    login_connections_per_address_max: int = integer(
        64, "Such connections from one address (for IPv6: from one network of /64)."
    )
    frame_timeout_s: float = seconds(30.0, "Time a client has to finish a frame it began.")
    request_bytes_max: int = integer(64 * MIB, "Size of one request.")
    connection_requests_max: int = integer(
        1024, "Requests of one connection in flight before its socket is read no further."
    )
    connection_requests_bytes_max: int = integer(
        128 * MIB, "Requests of one connection held in memory before its socket is read no further."
    )
    total_request_bytes_max: int = integer(
        256 * MIB, "Requests of all connections held in memory before sockets wait."
    )
    response_bytes_max: int = integer(16 * MIB, "Records in one response.")
    unsent_bytes_max: int = integer(
        256 * MIB,
        "Responses waiting to be sent, of all connections; above it the slowest reader is dropped.",
    )
    total_response_bytes_max: int = integer(
        512 * MIB,
        "Responses that are read or wait to be taken, of all connections; above it readers wait,"
        " the slowest of them is dropped, and then requests are refused for a while.",
    )
    memory_bytes_max: int = integer(
        0,
        "Memory that the process may take; large requests are refused when it is almost all taken."
        " 0: no limit.",
    )
    batch_bytes_max: int = integer(32 * MIB, "Size of one record batch.")
    decoded_bytes_max: int = integer(
        256 * MIB,
        "Size of one record batch once decompressed, and of all that are decompressed at a time.",
    )
    request_decoded_bytes_max: int = integer(
        1024 * MIB, "Size of all record batches of one request once decompressed."
    )
    disk_free_bytes_min: int = integer(
        64 * MIB,
        "Free space of the disk below which rows are refused, so that there is room to delete some;"
        " 0 refuses none.",
    )
    trust_clock: bool = switch(
        "Delete by age at once though the clock is far ahead of the last run; else an hour later."
    )
    default_bucket_number: int = integer(1, "Buckets of a table whose creator gives no number.")
    bucket_count_max: int = integer(4096, "Buckets of one table or partition.")
    partition_count_max: int = integer(1000, "Partitions of one table.")
    auto_partition_check_interval_s: float = seconds(
        600.0, "Time between two looks for partitions to create or drop."
    )
    retention_check_interval_s: float = seconds(
        60.0, "Time between two looks for segments to delete."
    )

    kv_snapshot_interval_s: float = seconds(
        600.0, "Time between two snapshots of a primary-key bucket that changed."
    )
    kv_snapshot_rows_max: int = integer(
        5_000_000, "Changes after which a snapshot is taken before its time."
    )
    kv_scanner_ttl_s: float = seconds(600.0, "Time after which an idle scan of rows is ended.")
    kv_scanners_max: int = integer(200, "Scans of rows that may be open at a time.")
    kv_scanner_bytes_max: int = integer(
        512 * MIB, "Memory that all open scans of rows may hold: 8 bytes for each row."
    )
    kv_scanners_per_bucket_max: int = integer(8, "Scans of rows open at a time in one bucket.")

    datalake_format: str = text(
        LakeFormat.ICEBERG, "Lake format of tables that name none: iceberg or paimon."
    )
    lake_properties: Mapping[str, str] = properties(
        "Where the lake is, such as datalake.iceberg.uri; clients are told, except for secrets. "
        "Unset: a lake below the data directory."
    )
    lake_tiering_lease_s: float = seconds(
        120.0, "Time after which a table goes to another tierer if its own is not heard of."
    )

    lake_trusted_tierers: str = text(
        "",
        "Users, with commas, whose reports of lake snapshots are believed without a look into the "
        "lake: retention deletes rows on their word. * stands for everybody.",
    )

    def __post_init__(self) -> None:
        check_positive(self, free=_FREE)
        for name, port in (("port", self.port), ("metrics_port", self.metrics_port or 0)):
            if not 0 <= port <= PORT_MAX:
                raise InvalidOptionError(f"'{name}' must be from 0 to {PORT_MAX}, not {port}.")
        if self.default_bucket_number > self.bucket_count_max:
            raise InvalidOptionError("'default_bucket_number' is above 'bucket_count_max'.")
        check_lake_properties(self.datalake_format, self.lake_properties)


def limits_for(memory_bytes: int) -> dict[str, int]:
    """Return the limits that fit into so much memory; with 2 GiB or more they are the usual ones.

    The interpreter and its libraries need a share before anything is served. What is left is split
    so that all budgets together, with the copies that are made on the way, stay below it.
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
    """Read a limit that an operator gives by its name: a number, or a size with its unit."""
    known = [each.name for each in fields(ServerSettings) if each.name.endswith(LIMIT_ENDINGS)]
    if name not in known:
        raise InvalidOptionError(f"{name!r} is no limit.", hint=f"There are: {', '.join(known)}.")
    read = int(value) if value.strip().isdigit() else MEMORY.read(value)
    if read is None:
        raise InvalidOptionError(
            f"{name!r} cannot be {value!r}.", hint=f"Expected a number, or {MEMORY.expected}."
        )
    return read


def settings_with(settings: ServerSettings, limits: Mapping[str, int]) -> ServerSettings:
    """Return settings with other limits."""
    return replace(settings, **limits)  # type: ignore[arg-type]


def _share(free: int, percent: int) -> int:
    return max(free * percent // 100, LIMIT_BYTES_MIN)
