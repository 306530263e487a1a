"""A shared allowance of bytes: whoever finds it used up waits in turn."""

from collections import deque
from collections.abc import Callable


class Budget:
    """Hand out bytes up to a total, first come first served."""

    def __init__(self, total_bytes: int) -> None:
        self._total_bytes = total_bytes
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self.used_bytes = 0

    def take(self, count: int) -> bool:
        """Take bytes if there are enough; one taker may exceed an untouched budget alone."""
        if self.used_bytes and self.used_bytes + count > self._total_bytes:
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
        """Leave the queue."""
        self._waiting = deque(entry for entry in self._waiting if entry[1] != granted)

    def give(self, count: int) -> None:
        """Return bytes and serve those who wait."""
        self.used_bytes -= count
        assert self.used_bytes >= 0
        while self._waiting and self.take(self._waiting[0][0]):
            _, granted = self._waiting.popleft()
            granted()
