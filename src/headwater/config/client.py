"""Settings of a client: timeouts, encryption, batch sizes, retries."""

from dataclasses import dataclass, replace

from headwater.config.values import check_positive, integer, seconds, shown, switch, text
from headwater.errors import InvalidAcksError, InvalidOptionError

MIB = 1024**2
ACKS_ALL = -1
ACKS_REMOTE = -2
"""A write returns when its rows are in the remote storage of the server."""
ACKS_SAFE = (ACKS_ALL, ACKS_REMOTE)
_ACKS = (*ACKS_SAFE, 0, 1)
BATCHES_RECOGNISED = 5
"""Batches of a writer that servers remember; they recognise these when they are sent again."""
_FROM_0 = ("batch_timeout_ms", "union_tail_bytes_max")
SECURITY = {
    "tls": "--tls",
    "tls_ca_file": "--tls-ca",
    "tls_certificate_file": "--tls-certificate",
    "tls_key_file": "--tls-key",
    "tls_server_name": "--tls-server-name",
    "mechanism": "--mechanism",
    "token_file": "--token-file",
}
"""The settings of encryption and logins, and what commands call them."""
Security = tuple[tuple[str, str | bool], ...]
"""Some of these settings by name, as they travel to other processes."""
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER")
_FREE = frozenset(
    {"acks", "creates_partitions", "checks_crc", "waits_for_server", *_FROM_0, *SECURITY}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """The limits of a client; every wait, batch and retry has one."""

    deadline_s: float = seconds(120.0, "Time limit of one operation, including all retries.")
    request_timeout_s: float = seconds(30.0, "Time limit of one request of an operation.")
    connect_timeout_s: float = seconds(
        10.0,
        "Time limit to connect to a server: for one attempt, and for the first contact as a whole.",
    )
    waits_for_server: bool = switch(
        "Keep trying for this long if no server is listening at first; by default that fails at "
        "once.",
        default=False,
    )
    backoff_first_s: float = seconds(
        0.05, "Pause after the first failure; it doubles with each further one, with random jitter."
    )
    backoff_max_s: float = seconds(2.0, "Longest pause between two attempts.")

    tls: bool = switch("Encrypt the connection, and check that the server is the right one.")
    tls_ca_file: str = text(
        "", "PEM file with the CAs that may vouch for the server; empty: those of the system."
    )
    tls_certificate_file: str = text(
        "", "PEM file with a certificate to log in with, for servers that ask for one."
    )
    tls_key_file: str = text(
        "", "PEM file with the key of that certificate; empty: in the same file."
    )
    tls_server_name: str = text(
        "", "Name that the server's certificate must have; empty: the host of its address."
    )
    mechanism: str = text(
        "",
        "How to log in: SCRAM-SHA-512, SCRAM-SHA-256, PLAIN or OAUTHBEARER. Empty: the strongest "
        "that the server has, and never the password itself without TLS beyond this machine.",
    )
    token_file: str = text(
        "", "File with a token to log in with; it is read again for each connection."
    )

    acks: int = integer(
        ACKS_ALL,
        "-1: a write returns when its rows are on disk. -2: when they are in remote storage as "
        "well; only servers of ours that have one. 0 and 1: earlier.",
    )
    batch_bytes_max: int = integer(
        2 * MIB,
        "Bytes of rows that are sent as one batch; `client.writer.batch-size` of Fluss.",
    )
    batch_rows_max: int = integer(65_536, "Rows that are sent as one batch.")
    batch_timeout_ms: int = integer(
        5,
        "Milliseconds that a writer waits for more rows before it sends a batch that is not "
        "full; `client.writer.batch-timeout` of Fluss. While a batch is in flight, rows also "
        "wait for its answer.",
    )
    inflight_per_bucket_max: int = integer(
        5, "Batches of one bucket in flight at a time; servers recognise the last 5 of a writer."
    )
    pending_bytes_max: int = integer(
        64 * MIB,
        "Bytes of rows in flight, for all tables; above it writers wait. "
        "`client.writer.buffer.memory-size` of Fluss.",
    )
    creates_partitions: bool = switch(
        "Create a row's partition if it does not exist.", default=True
    )

    fetch_bytes_max: int = integer(16 * MIB, "Bytes of rows in one response to a scan or tail.")
    fetch_bucket_bytes_max: int = integer(
        4 * MIB, "Bytes of rows of one bucket in such a response."
    )
    fetch_wait_ms: int = integer(
        500, "Milliseconds that a server waits for new rows before it returns an empty response."
    )
    state_scan_bytes_max: int = integer(
        4 * MIB, "Bytes of rows in one response to a scan of a primary-key table."
    )
    lookup_keys_max: int = integer(10_000, "Keys in one lookup request.")
    union_tail_bytes_max: int = integer(
        128 * MIB,
        "Bytes of log rows that are cached between reads of lake and log, for all tables; 0 "
        "caches none.",
    )
    union_memory_bytes_max: int = integer(
        256 * MIB,
        "Bytes of changed rows of one bucket in memory while they are merged with the lake; the "
        "rest is spilled to temporary files.",
    )
    checks_crc: bool = switch("Verify the checksum of every batch that is read.", default=True)

    def __post_init__(self) -> None:
        check_positive(self, free=_FREE)
        self._check_security()
        for name in _FROM_0:
            if getattr(self, name) < 0:
                raise InvalidOptionError(f"'{name}' must be 0 or more.")
        if self.acks not in _ACKS:
            raise InvalidAcksError(f"'acks' must be -2, -1, 0 or 1, not {self.acks}.")
        if self.inflight_per_bucket_max > BATCHES_RECOGNISED:
            # With one more in flight, a batch that is sent again could be written twice.
            raise InvalidOptionError(
                f"'inflight_per_bucket_max' is {self.inflight_per_bucket_max}, but servers "
                f"recognise only the last {BATCHES_RECOGNISED} batches of a writer."
            )

    @property
    def security(self) -> Security:
        """The settings of encryption and logins that are set."""
        return tuple((name, getattr(self, name)) for name in SECURITY if getattr(self, name))

    def _check_security(self) -> None:
        for name in ("tls_ca_file", "tls_certificate_file", "tls_key_file", "tls_server_name"):
            if getattr(self, name) and not self.tls:
                raise InvalidOptionError(f"'{name}' needs TLS.", hint="Set 'tls' too.")
        if self.tls_key_file and not self.tls_certificate_file:
            raise InvalidOptionError("'tls_key_file' needs 'tls_certificate_file'.")
        if self.mechanism and self.mechanism not in MECHANISMS:
            raise InvalidOptionError(
                f"'mechanism' cannot be {shown(self.mechanism)}.",
                hint=f"Expected one of {', '.join(MECHANISMS)}.",
            )


def settings_with_security(settings: ClientSettings, security: Security) -> ClientSettings:
    """Add settings of encryption and logins."""
    return replace(settings, **dict(security)) if security else settings  # type: ignore[arg-type]


def variable_of(name: str) -> str:
    """Name the environment variable of such a setting: HEADWATER_TLS_CA for --tls-ca."""
    return "HEADWATER_" + SECURITY[name].removeprefix("--").replace("-", "_").upper()
