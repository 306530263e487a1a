"""The rows of a batch, shared out to buckets and cut to the size of batches."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from headwater.client.writing.batches import Lane, Rows
from headwater.config.client import ClientSettings
from headwater.runtime.ids import random_fraction

R = TypeVar("R", bound=Rows)
# How much larger than wished a piece may be before it is cut again.
_SKEW_MAX = 2


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Hold rows for one bucket, or for any bucket of a partition."""

    lane: Lane
    partition: str | None
    bucket: int | None
    rows: Rows
    makes_partition: bool = True


def cut(rows: R, settings: ClientSettings, *, slice_of: Callable[[R, int, int], R]) -> Iterator[R]:
    """Yield pieces of about the wished size, in order."""
    count = max(
        -(-rows.size_bytes // settings.batch_bytes_max), -(-rows.count // settings.batch_rows_max)
    )
    count = min(count, rows.count)
    if count <= 1:
        yield rows
        return
    bounds = [rows.count * at // count for at in range(count + 1)]
    for start, end in pairwise(bounds):
        yield from _evened(slice_of(rows, start, end), settings.batch_bytes_max)


def _evened(rows: R, bytes_max: int) -> Iterator[R]:
    """Cut on where few rows hold most bytes."""
    if rows.count <= 1 or rows.size_bytes <= bytes_max * _SKEW_MAX:
        yield rows
        return
    for half in rows.halves():
        yield from _evened(half, bytes_max)


class Turns:
    """Choose buckets for rows that may go to any: one stays chosen while its batch has room."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._bucket = int(random_fraction() * count)

    def choose(self, has_room: Callable[[int], bool]) -> int:
        """Return the bucket for the next rows."""
        if not has_room(self._bucket):
            self._bucket = (self._bucket + 1) % self._count
        return self._bucket
