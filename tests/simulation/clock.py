"""The clock of one machine: it can jump, as clocks that people set do."""

import asyncio

from tests.simulation.loop import SimLoop

BEGIN_MS = 1_750_000_000_000


class SimClock:
    """Tell the made-up time, as far off as somebody has set it."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.off_ms = 0

    def now_ms(self) -> int:
        return BEGIN_MS + self.off_ms + int(self._loop.time() * 1000)

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
