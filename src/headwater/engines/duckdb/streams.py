"""Streams of rows that queries read by number."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from threading import Lock

import pyarrow as pa

from headwater.errors import PositionMissingError

STREAMS_MAX = 1024
"""Plans hold streams for as long as their query may read them, which nobody tells."""


@dataclass(frozen=True, slots=True)
class Stream:
    """Say which columns can be had, and how; the same rows come each time."""

    columns: tuple[str, ...]
    read: Callable[[Sequence[str]], Iterator[pa.RecordBatch]]


class NumberedStreams:
    """Keep the newest streams, each under a number that is never used again."""

    def __init__(self, streams_max: int = STREAMS_MAX) -> None:
        self._streams: OrderedDict[int, Stream] = OrderedDict()
        self._numbers = count(1)
        self._streams_max = streams_max
        self._lock = Lock()

    def add(self, stream: Stream) -> int:
        """Keep a stream, and return its number."""
        with self._lock:
            number = next(self._numbers)
            self._streams[number] = stream
            while len(self._streams) > self._streams_max:
                self._streams.popitem(last=False)
        return number

    def of(self, number: int) -> Stream:
        """Return the stream of a number, or say that it was given up."""
        with self._lock:
            found = self._streams.get(number)
        if found is None:
            raise PositionMissingError(
                f"The query waited until {self._streams_max} later reads were planned, and its"
                " position was given up.",
                hint="Run it again.",
            )
        return found
