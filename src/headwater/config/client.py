"""Settings of a client: how long it waits, how much it sends at once, how often it tries."""

from dataclasses import dataclass

ACKS_ALL = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Hold the limits of a client; every wait, batch and retry has one."""

    # How long a whole operation may take with all its retries, and one request of it.
    deadline_s: float = 120.0
    request_timeout_s: float = 30.0
    connect_timeout_s: float = 10.0
    # The pause after the first failure doubles with every further one.
    backoff_first_s: float = 0.05
    backoff_max_s: float = 2.0

    # Writing: a batch goes to one bucket, a request carries batches for buckets of one server.
    acks: int = ACKS_ALL
    batch_bytes_max: int = 2 * 1024 * 1024
    batch_rows_max: int = 65_536
    inflight_per_bucket_max: int = 5
    pending_bytes_max: int = 64 * 1024 * 1024
    creates_partitions: bool = True

    # Reading.
    fetch_bytes_max: int = 16 * 1024 * 1024
    fetch_bucket_bytes_max: int = 4 * 1024 * 1024
    fetch_wait_ms: int = 500
    state_scan_bytes_max: int = 4 * 1024 * 1024
    lookup_keys_max: int = 10_000
    checks_crc: bool = True
