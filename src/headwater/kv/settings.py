"""What can be set about the state of a bucket."""

from dataclasses import dataclass

from headwater.kv.location import SEGMENT_BYTES_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class KvSettings:
    """Hold the limits of one bucket's state."""

    segment_bytes_max: int = 32 << 20

    def __post_init__(self) -> None:
        assert 0 < self.segment_bytes_max < SEGMENT_BYTES_LIMIT
