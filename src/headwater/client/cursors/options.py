"""Options of a cursor: where it begins, when it commits, how long its members may be silent."""

from dataclasses import dataclass

from headwater.client.reading.starts import Start
from headwater.errors import InvalidNameError, RequestError
from headwater.model.path import NAME_LENGTH_MAX

_NAME_MARKS = frozenset("_-.")
LEASE_S_MIN = 0.5
BEATS_PER_LEASE = 3
ROUND_INTERVAL_S_MAX = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorOptions:
    """Hold how one member takes part in a cursor."""

    start: Start = "earliest"
    """Where a cursor begins that is used for the first time."""
    auto_commit: bool = True
    commit_interval_s: float = 1.0
    lease_s: float = 10.0
    """A member that is not heard of for so long loses its buckets."""
    idle_s: float = 300.0
    """A member that does not poll for so long gives no more signs of life."""

    def __post_init__(self) -> None:
        if self.lease_s < LEASE_S_MIN:
            raise RequestError(f"A lease of {self.lease_s:g} s is too short.", hint=_LEASE_HINT)
        if self.commit_interval_s < 0:
            raise RequestError("The interval between commits cannot be negative.")
        if self.idle_s < self.lease_s:
            raise RequestError("A member may be idle for at least as long as its lease.")

    @property
    def beat_interval_s(self) -> float:
        """Return how often a member shows that it lives."""
        return self.lease_s / BEATS_PER_LEASE

    @property
    def round_interval_s(self) -> float:
        """Return how often a member looks at the others."""
        return min(ROUND_INTERVAL_S_MAX, self.beat_interval_s)

    @property
    def listing_interval_s(self) -> float:
        """Return how often a member looks for new and dropped partitions."""
        return self.beat_interval_s


_LEASE_HINT = f"Give at least {LEASE_S_MIN} s."


def check_cursor_name(name: str) -> str:
    """Return the name, or say why it cannot name a cursor."""
    is_plain = all(mark in _NAME_MARKS or (mark.isascii() and mark.isalnum()) for mark in name)
    if not name or len(name) > NAME_LENGTH_MAX or not is_plain:
        raise InvalidNameError(
            f"{name[:40]!r} cannot name a cursor.",
            hint=f"Use up to {NAME_LENGTH_MAX} ASCII letters, digits, '_', '-' and '.'.",
        )
    return name
