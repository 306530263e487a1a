"""Time and randomness, injected or seeded so that tests can fake them and runs can be replayed."""

import asyncio
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Tell the time and sleep."""

    def now_ms(self) -> int:
        """Read the wall clock, in milliseconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Read a clock that never goes back, in seconds."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep without blocking anyone else."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now_ms(self) -> int:
        """Read the wall clock, in milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Read a clock that never goes back, in seconds."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep without blocking anyone else."""
        await asyncio.sleep(seconds)


@dataclass(slots=True)
class _Source:
    bytes: Callable[[int], bytes]
    fraction: Callable[[], float]


_source = _Source(os.urandom, random.random)


def random_bytes(count: int) -> bytes:
    """Draw bytes for salts and keys."""
    return _source.bytes(count)


def random_fraction() -> float:
    """Draw a number in [0, 1), to spread out what would otherwise happen all at once."""
    return _source.fraction()


@contextmanager
def chance_from(seeded: random.Random) -> Iterator[None]:
    """Draw from a seed inside the context, so that a run can be replayed; only for tests."""
    before = (_source.bytes, _source.fraction)
    _source.bytes, _source.fraction = seeded.randbytes, seeded.random
    try:
        yield
    finally:
        _source.bytes, _source.fraction = before
