"""Time, as something that is handed in and can be faked."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Tell the time and wait."""

    def now_ms(self) -> int:
        """Return the wall-clock time in milliseconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait without holding up anyone else."""
        ...


class SystemClock:
    """Read the clock of the machine."""

    def now_ms(self) -> int:
        """Return the wall-clock time in milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait without holding up anyone else."""
        await asyncio.sleep(seconds)
