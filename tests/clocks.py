"""A clock for tests that do not want to wait."""

import asyncio
from dataclasses import dataclass, field


@dataclass
class InstantClock:
    """Stand still until it is moved; whoever sleeps finds at once that the time has passed."""

    now_s: float = 0.0
    slept: list[float] = field(default_factory=list)

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds
        await asyncio.sleep(0)
