"""The bytes that may wait to be written at a time; whoever finds no room waits in turn."""

import asyncio
from collections import deque


class Room:
    """Hand out bytes up to a total, first come first served."""

    def __init__(self, total_bytes: int) -> None:
        self._total_bytes = total_bytes
        self._used_bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, count: int) -> None:
        """Wait until bytes fit; one taker may exceed an untouched room."""
        if not self._waiting and self._fits(count):
            self._used_bytes += count
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((count, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give(count)  # They were granted just before.
            self._serve()
            raise

    def give(self, count: int) -> None:
        """Return bytes and serve those who wait."""
        self._used_bytes -= count
        assert self._used_bytes >= 0
        self._serve()

    def _fits(self, count: int) -> bool:
        return not self._used_bytes or self._used_bytes + count <= self._total_bytes

    def _serve(self) -> None:
        while self._waiting:
            count, turn = self._waiting[0]
            if not turn.done():
                if not self._fits(count):
                    return
                self._used_bytes += count
                turn.set_result(None)
            self._waiting.popleft()
