"""A tail for callers that do not await."""

from collections.abc import Iterator
from types import TracebackType
from typing import Protocol, Self

from headwater.client.reading.log_batch import LogBatch, Offsets
from headwater.client.showing import few, shown
from headwater.runtime.loops import LoopThread


class Following(Protocol):
    """Follow a log, for those who await."""

    @property
    def name(self) -> str:
        """Return the name of the table."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that are given."""
        ...

    @property
    def position(self) -> Offsets:
        """Return the offset that is read next in each bucket."""
        ...

    async def poll(self, timeout_s: float = 1.0) -> list[LogBatch]:
        """Return what is there, waiting for the first batch no longer than this."""
        ...

    async def close(self) -> None:
        """Stop following."""
        ...


class Tail:
    """Follow a table: batch after batch, as they are written.

    Iterating goes on for ever; `poll` returns what came within a time. Use it with `with`, or
    `close()` it.
    """

    def __init__(self, loop: LoopThread, tail: Following) -> None:
        self._loop = loop
        self._tail = tail

    def __repr__(self) -> str:
        return shown(self, self._tail.name, columns=few(self._tail.columns))

    def poll(self, timeout_s: float = 1.0) -> list[LogBatch]:
        """Return the batches that are there, waiting no longer than the timeout for the first."""
        return self._loop.run(self._tail.poll(timeout_s))

    @property
    def position(self) -> Offsets:
        """Return the offset that is read next in each bucket."""
        return self._tail.position

    def __iter__(self) -> Iterator[LogBatch]:
        """Yield batches for ever."""
        while True:
            yield from self.poll()

    def close(self) -> None:
        """Stop following."""
        if self._loop.is_open:
            self._loop.run(self._tail.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
