"""Letting others go first: an audit beside a server that has clients to answer."""

from headwater.runtime.clock import Clock
from headwater.server.connection import Answer, Serve
from headwater.server.session import Session
from headwater.wire.frames import RequestFrame

# An audit works a quarter of the time, so that clients hardly notice it.
PAUSE_PER_WORK = 3.0
PAUSE_MAX_S = 0.5


class Paced:
    """Pause before each request, the longer the more work there was since the last one."""

    def __init__(self, serve: Serve, clock: Clock) -> None:
        self._serve = serve
        self._clock = clock
        self._resumed = clock.monotonic()

    async def serve(self, frame: RequestFrame, session: Session) -> Answer:
        """Answer a request when others had their turn."""
        worked_s = self._clock.monotonic() - self._resumed
        await self._clock.sleep(min(worked_s * PAUSE_PER_WORK, PAUSE_MAX_S))
        self._resumed = self._clock.monotonic()
        return await self._serve(frame, session)
