"""The settings of a server process."""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields

from headwater.errors import InvalidOptionError

KIB, MIB = 1024, 1024**2
PORT_MAX = 65_535
_FREE = frozenset({"host", "port", "advertised_host", "advertised_port", "insecure"})


def _integer(default: int, description: str) -> int:
    setting: int = field(default=default, metadata={"description": description})
    return setting


def _seconds(default: float, description: str) -> float:
    setting: float = field(default=default, metadata={"description": description})
    return setting


def _switch(description: str) -> bool:
    setting: bool = field(default=False, metadata={"description": description})
    return setting


def _text(default: str, description: str) -> str:
    setting: str = field(default=default, metadata={"description": description})
    return setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Hold the limits and intervals of one server."""

    host: str = _text("127.0.0.1", "Address to listen on.")
    port: int = _integer(9123, "Port to listen on; 0 takes any free one.")
    advertised_host: str = _text("", "Address that clients are told; empty: the one they reached.")
    advertised_port: int = _integer(0, "Port that clients are told; 0: the one they reached.")
    insecure: bool = _switch("Listen beyond this machine without authentication.")
    connections_max: int = _integer(1024, "Connections open at a time; more are turned away.")
    frame_timeout_s: float = _seconds(30.0, "Time a client has to finish a frame it began.")
    request_bytes_max: int = _integer(64 * MIB, "Size of one request.")
    connection_requests_max: int = _integer(
        1024, "Requests of one connection in flight before its socket is read no further."
    )
    connection_requests_bytes_max: int = _integer(
        128 * MIB, "Requests of one connection held in memory before its socket is read no further."
    )
    total_request_bytes_max: int = _integer(
        256 * MIB, "Requests of all connections held in memory before sockets wait."
    )
    response_bytes_max: int = _integer(16 * MIB, "Records in one response.")
    unsent_bytes_max: int = _integer(
        256 * MIB,
        "Responses waiting to be sent, of all connections; above it the slowest reader is dropped.",
    )
    batch_bytes_max: int = _integer(32 * MIB, "Size of one record batch.")
    decoded_bytes_max: int = _integer(256 * MIB, "Size of one record batch once decompressed.")
    default_bucket_number: int = _integer(1, "Buckets of a table whose creator gives no number.")
    bucket_count_max: int = _integer(4096, "Buckets of one table or partition.")
    partition_count_max: int = _integer(1000, "Partitions of one table.")
    auto_partition_check_interval_s: float = _seconds(
        600.0, "Time between two looks for partitions to create or drop."
    )
    retention_check_interval_s: float = _seconds(
        60.0, "Time between two looks for segments to delete."
    )

    kv_snapshot_interval_s: float = _seconds(
        600.0, "Time between two snapshots of a primary-key bucket that changed."
    )
    kv_snapshot_rows_max: int = _integer(
        5_000_000, "Changes after which a snapshot is taken before its time."
    )
    kv_scanner_ttl_s: float = _seconds(600.0, "Time after which an idle scan of rows is ended.")
    kv_scanners_max: int = _integer(200, "Scans of rows that may be open at a time.")
    kv_scanners_per_bucket_max: int = _integer(8, "Scans of rows open at a time in one bucket.")

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            if setting.name not in _FREE and not value > 0:
                raise InvalidOptionError(f"'{setting.name}' must be above 0, not {value}.")
        if not 0 <= self.port <= PORT_MAX:
            raise InvalidOptionError(f"'port' must be from 0 to {PORT_MAX}, not {self.port}.")
        if self.default_bucket_number > self.bucket_count_max:
            raise InvalidOptionError("'default_bucket_number' is above 'bucket_count_max'.")


def described_settings() -> Iterator[tuple[str, str, str]]:
    """Yield name, default and description of each setting, for the reference page."""
    for setting in fields(ServerSettings):
        yield setting.name, str(setting.default), setting.metadata["description"]
