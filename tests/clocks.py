"""A clock for tests that do not want to wait."""

import asyncio
from dataclasses import dataclass, field


async def loop_turns(count: int = 1) -> None:
    """Let everything else that is ready on the loop run, this many times."""
    for _ in range(count):
        await asyncio.sleep(0)


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
        await loop_turns()


@dataclass
class SteppedClock:
    """Stand still until it is moved; whoever sleeps goes on when their time has come."""

    now_s: float = 0.0
    sleepers: list[tuple[float, asyncio.Future[None]]] = field(default_factory=list)

    def now_ms(self) -> int:
        return 1_700_000_000_000 + int(self.now_s * 1000)

    def monotonic(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        due: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.sleepers.append((self.now_s + seconds, due))
        await due

    def step(self, seconds: float) -> None:
        self.now_s += seconds
        due = [each for at_s, each in self.sleepers if at_s <= self.now_s]
        self.sleepers = [each for each in self.sleepers if each[0] > self.now_s]
        for each in due:
            if not each.done():
                each.set_result(None)
