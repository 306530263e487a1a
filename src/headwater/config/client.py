"""Settings of a client: how long it waits, how much it sends at once, how often it tries."""

from dataclasses import dataclass

from headwater.config.setting import check_positive, integer, seconds, switch
from headwater.errors import InvalidAcksError, InvalidOptionError

MIB = 1024**2
ACKS_ALL = -1
_ACKS = (ACKS_ALL, 0, 1)
BATCHES_RECOGNISED = 5
"""Batches of a writer that servers remember, and do not write again."""
_FROM_0 = ("batch_timeout_ms", "union_tail_bytes_max")
_FREE = frozenset({"acks", "creates_partitions", "checks_crc", "waits_for_server", *_FROM_0})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Hold the limits of a client; every wait, batch and retry has one."""

    deadline_s: float = seconds(
        120.0, "Time that one operation may take with all its retries; then it fails."
    )
    request_timeout_s: float = seconds(30.0, "Time that one request of it may take.")
    connect_timeout_s: float = seconds(
        10.0, "Time to reach a server: for one attempt, and for the first contact as a whole."
    )
    waits_for_server: bool = switch(
        "Keep trying for that long where nobody listens at first; otherwise that is told at once.",
        default=False,
    )
    backoff_first_s: float = seconds(
        0.05, "Pause after a failure; it doubles with every further one, and varies by chance."
    )
    backoff_max_s: float = seconds(2.0, "Longest pause between two attempts.")

    acks: int = integer(
        ACKS_ALL, "-1: a write returns when its rows are on disk. 0 and 1: before that."
    )
    batch_bytes_max: int = integer(
        2 * MIB,
        "Size of the rows that are written as one batch; `client.writer.batch-size` of Fluss.",
    )
    batch_rows_max: int = integer(65_536, "Rows that are written as one batch.")
    batch_timeout_ms: int = integer(
        5,
        "Milliseconds that a writer holds a row back to gather others, unless a batch is full"
        " before; `client.writer.batch-timeout` of Fluss. While the batch before is on its way,"
        " rows wait for its end as well.",
    )
    inflight_per_bucket_max: int = integer(
        5, "Batches of one bucket on their way at a time; servers recognise the last 5 of a writer."
    )
    pending_bytes_max: int = integer(
        64 * MIB,
        "Rows on their way, of all tables; above it writers wait."
        " `client.writer.buffer.memory-size` of Fluss.",
    )
    creates_partitions: bool = switch(
        "Create the partition of a row where it is missing.", default=True
    )

    fetch_bytes_max: int = integer(16 * MIB, "Rows in one answer to a scan or tail.")
    fetch_bucket_bytes_max: int = integer(4 * MIB, "Rows of one bucket in one such answer.")
    fetch_wait_ms: int = integer(
        500, "Milliseconds that a server waits for new rows before it answers with none."
    )
    state_scan_bytes_max: int = integer(
        4 * MIB, "Rows in one answer to a scan of a primary-key table."
    )
    lookup_keys_max: int = integer(10_000, "Keys in one lookup request.")
    union_tail_bytes_max: int = integer(
        128 * MIB,
        "Rows of logs that are kept from one read of lake and log to the next, of all tables;"
        " 0 keeps none.",
    )
    union_memory_bytes_max: int = integer(
        256 * MIB,
        "Changed rows of one bucket in memory while they are merged with the lake; more than that"
        " goes to temporary files.",
    )
    checks_crc: bool = switch("Check the checksum of every batch that is read.", default=True)

    def __post_init__(self) -> None:
        check_positive(self, free=_FREE)
        for name in _FROM_0:
            if getattr(self, name) < 0:
                raise InvalidOptionError(f"'{name}' must not be below 0.")
        if self.acks not in _ACKS:
            raise InvalidAcksError(f"'acks' must be -1, 0 or 1, not {self.acks}.")
        if self.inflight_per_bucket_max > BATCHES_RECOGNISED:
            # One more, and a batch that is sent again could be written twice.
            raise InvalidOptionError(
                f"'inflight_per_bucket_max' is {self.inflight_per_bucket_max}, but servers"
                f" recognise only the last {BATCHES_RECOGNISED} batches of a writer."
            )
