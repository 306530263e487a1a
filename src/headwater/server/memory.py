"""Limits on the memory that a server uses for its clients: a budget of bytes, and for responses."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from headwater.errors import RetryLaterError
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events, Sparing
from headwater.runtime.memory import anonymous_bytes, give_back


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
        """Take bytes that are already in memory, whatever is left."""
        self.used_bytes += count

    def take_later(self, count: int, granted: Callable[[], None]) -> None:
        """Queue for bytes; `granted` is called once they are taken."""
        self._waiting.append((count, granted))

    def forget(self, granted: Callable[[], None]) -> None:
        """Leave the queue; the next in line may fit now."""
        self._waiting = deque(entry for entry in self._waiting if entry[1] != granted)
        self._serve_waiting()

    def give(self, count: int) -> None:
        """Return bytes and serve those who wait."""
        self.used_bytes -= count
        assert self.used_bytes >= 0
        self._serve_waiting()

    @asynccontextmanager
    async def room(self, count: int) -> AsyncIterator[None]:
        """Hold bytes inside the context, once they are available."""
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


# Memory for responses: what is being read for clients, and what they have not taken yet. Large
# responses are read into memory and stay there until the client has taken them, so many slow
# readers could fill it. A reader reserves memory first: all it wants, or what is left, which makes
# a smaller response. If there is none it waits a little; then the slowest client is dropped, and if
# there is none, the request is rejected and may be sent again. Besides, large requests are rejected
# while the process uses almost all of its memory.

_events = Events("memory")
SHRUNK_BYTES_MIN = 64 * 1024
LOOK_EVERY_S = 0.05
LOOKS_MAX = 40
FULL_SHARE = 0.85
"""Share of the memory; the rest is for what is not counted."""
MEASURED_EVERY_S = 0.05
GIVEN_BACK_EVERY_S = 1.0
MIB = 1024**2


class Memory:
    """Reject large work while the process uses almost all of its memory."""

    def __init__(
        self, bytes_max: int, clock: Clock, *, taken: Callable[[], int] = anonymous_bytes
    ) -> None:
        self._bytes_max = bytes_max
        self._full_bytes = int(bytes_max * FULL_SHARE)
        self._clock = clock
        self._measure = taken
        self._measured_at = self._gave_back_at = -GIVEN_BACK_EVERY_S
        self._taken = 0
        self._sparing = Sparing(clock, lines_max=1)

    def check(self) -> None:
        """Raise if there is a memory limit and it is close."""
        if not self._has_room(0):
            self._tell(0)
            raise RetryLaterError(
                f"The server uses {self._taken // MIB} MiB of memory, almost all there is."
            )

    def check_index(self, wanted_bytes: int) -> None:
        """Raise if there is a memory limit that an index of keys would exceed by growing.

        May be called from any thread.
        """
        if not self._has_room(wanted_bytes):
            self._tell(wanted_bytes)
            raise RetryLaterError(
                f"The index of the keys of this bucket needs {wanted_bytes // MIB} MiB of memory "
                f"to grow, and the server uses {self._taken // MIB} of {self._bytes_max // MIB}.",
                hint="Keys that are there can be updated and deleted. For new ones give the server "
                "more memory.",
            )

    def _has_room(self, wanted_bytes: int) -> bool:
        free_to = self._full_bytes - wanted_bytes
        if not self._full_bytes or self._taken_now() <= free_to:
            return True
        if self._clock.monotonic() - self._gave_back_at >= GIVEN_BACK_EVERY_S:
            self._gave_back_at = self._clock.monotonic()
            give_back()
            self._taken = self._measure()
        return self._taken <= free_to

    def _tell(self, wanted_bytes: int) -> None:
        if (left_out := self._sparing.turn(wanted_bytes > 0)) is not None:
            wanted = {"wanted_mib": wanted_bytes // MIB} if wanted_bytes else {}
            _events.warning("memory full", taken_mib=self._taken // MIB, **wanted, **left_out)

    def _taken_now(self) -> int:
        now = self._clock.monotonic()
        if now - self._measured_at >= MEASURED_EVERY_S:
            self._measured_at, self._taken = now, self._measure()
        return self._taken


class Answers:
    """Hand out memory for responses."""

    def __init__(self, total_bytes: int, memory: Memory, clock: Clock) -> None:
        self._total_bytes = total_bytes
        self._clock = clock
        self._reading_bytes = 0
        # An upper bound on what clients have yet to take: counting all of them is expensive.
        self._unsent_bytes = 0
        self.memory = memory
        # Set by the listener: bytes that slow readers have not taken, and how to drop one.
        self.unsent: Callable[[], int] = lambda: 0
        self.drop_slowest: Callable[[], bool] = lambda: False

    @asynccontextmanager
    async def room(self, wanted: int, *, at_any_cost: bool = False) -> AsyncIterator[int]:
        """Yield how many bytes a response may have, while it is made.

        `at_any_cost` makes a tiny response rather than none: for what cannot be requested again.
        """
        granted = self._left(wanted) or await self._wait(wanted, at_any_cost=at_any_cost)
        self._reading_bytes += granted
        try:
            yield granted
        finally:
            self._reading_bytes -= granted
            self._unsent_bytes += granted

    def _left(self, wanted: int) -> int:
        """Return how much memory is left, or 0 if that is too little."""
        if self._reading_bytes + self._unsent_bytes + wanted > self._total_bytes:
            self._unsent_bytes = self.unsent()
        left = min(self._total_bytes - self._reading_bytes - self._unsent_bytes, wanted)
        return max(left, 1) if left >= min(wanted, SHRUNK_BYTES_MIN) else 0

    async def _wait(self, wanted: int, *, at_any_cost: bool) -> int:
        for _ in range(LOOKS_MAX):
            await self._clock.sleep(LOOK_EVERY_S)
            if granted := self._left(wanted):
                return granted
        if at_any_cost or self.drop_slowest():
            return min(wanted, SHRUNK_BYTES_MIN)
        raise RetryLaterError(
            f"Responses of {self._total_bytes // MIB} MiB are in flight, which is the limit."
        )
