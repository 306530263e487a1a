"""What can be set about a log."""

from dataclasses import dataclass

SEGMENT_BYTES_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """Hold the limits of one bucket's log."""

    segment_bytes_max: int = 1 << 30
    index_interval_bytes: int = 64 << 10
    checkpoint_interval_bytes: int = 64 << 20
    writer_expiration_ms: int = 7 * 24 * 3600 * 1000
    batches_kept_per_writer: int = 5
    join_rows_max: int = 65_536
    join_gain_min: int = 16

    def __post_init__(self) -> None:
        assert 0 < self.segment_bytes_max <= SEGMENT_BYTES_LIMIT
        assert self.index_interval_bytes > 0
        assert self.batches_kept_per_writer > 0
        assert self.join_rows_max > 1
