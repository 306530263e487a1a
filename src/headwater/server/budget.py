"""A shared allowance of bytes: whoever finds it used up waits in turn."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


class Budget:
    """Hand out bytes up to a total, first come first served."""

    def __init__(self, total_bytes: int) -> None:
        self._total_bytes = total_bytes
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self.used_bytes = 0

    @property
    def is_contended(self) -> bool:
        """Tell whether somebody waits for bytes."""
        return bool(self._waiting)

    def take(self, count: int) -> bool:
        """Take bytes if nobody waits and they fit; one taker may exceed an untouched budget."""
        if self._waiting or not self._fits(count):
            return False
        self.used_bytes += count
        return True

    def charge(self, count: int) -> None:
        """Take bytes that are here already, whatever is left."""
        self.used_bytes += count

    def take_later(self, count: int, granted: Callable[[], None]) -> None:
        """Queue for bytes; `granted` is called once they are taken."""
        self._waiting.append((count, granted))

    def forget(self, granted: Callable[[], None]) -> None:
        """Leave the queue; whoever stood behind may fit now."""
        self._waiting = deque(entry for entry in self._waiting if entry[1] != granted)
        self._serve_waiting()

    def give(self, count: int) -> None:
        """Return bytes and serve those who wait."""
        self.used_bytes -= count
        assert self.used_bytes >= 0
        self._serve_waiting()

    @asynccontextmanager
    async def room(self, count: int) -> AsyncIterator[None]:
        """Hold bytes for as long as something takes, once it is its turn to have them."""
        if not self.take(count):
            await self._granted(count)
        try:
            yield
        finally:
            self.give(count)

    async def _granted(self, count: int) -> None:
        turn, is_granted = asyncio.get_running_loop().create_future(), False

        def granted() -> None:
            nonlocal is_granted
            is_granted = True
            if not turn.done():
                turn.set_result(None)

        self.take_later(count, granted)
        try:
            await turn
        except asyncio.CancelledError:
            if is_granted:
                self.give(count)
            else:
                self.forget(granted)
            raise

    def _fits(self, count: int) -> bool:
        return not self.used_bytes or self.used_bytes + count <= self._total_bytes

    def _serve_waiting(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            count, granted = self._waiting.popleft()
            self.used_bytes += count
            granted()
