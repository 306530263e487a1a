"""Splits: pieces of a table that tasks read, as plain values that travel to them."""

from dataclasses import dataclass
from typing import TypeAlias

from headwater.client.reading.log_batch import Place
from headwater.model.bucket import TableBucket


@dataclass(frozen=True, slots=True)
class LogSplit:
    """Read the rows or changes at the offsets `[start, end)` of a bucket's log."""

    place: Place
    bucket: TableBucket
    start: int
    end: int

    @property
    def weight(self) -> int:
        """Return how many rows there are, about."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class StateSplit:
    """Read the rows of a bucket of a primary-key table as they were at an offset of its log."""

    place: Place
    bucket: TableBucket
    at: int
    read_ms: int = 0
    """The moment that the rows are said to be of, where they are read as changes."""

    @property
    def weight(self) -> int:
        """Return how many rows there are at most."""
        return self.at


Split: TypeAlias = LogSplit | StateSplit
Share: TypeAlias = tuple[Split, ...]
"""What one task reads."""
