"""What readers of the same rows share: turns of the event loop, and the bytes that were read.

One append wakes every tail of its bucket, and each would read the same rows, encode the same answer
and hold up whoever asks for something else meanwhile. So the log is read once for all that want the
same of it, and fetches get a few turns of the loop at a time, the clients in turn: between two
slices the loop takes in other requests, which are therefore served before the crowd. A tail that
waits for its turn gets all that was appended until then in one answer.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Hashable
from functools import partial

from headwater.runtime.tasks import shared
from headwater.server.session import Session
from headwater.wire.fetch_answer import EncodedBucket

# A turn of the loop costs a hundredth of a fetch, so small slices cost nothing.
FETCHES_PER_TURN = 2
# Only what is read at the end of a log is wanted by many, and that is little at a time.
KEPT_READ_BYTES_MAX = 256 * 1024
KEPT_BYTES_MAX = 8 * 1024 * 1024
# What an answer takes beside its bytes: its name, its place in a table, the objects around it.
KEPT_OVERHEAD_BYTES = 512

ReadName = tuple[Hashable, ...]
Waiting = asyncio.Future[None]


class FetchTurns:
    """Let a few fetches go on in each turn of the loop, one client after the other."""

    def __init__(self) -> None:
        self._sessions: deque[Session] = deque()
        self._let_go = 0
        self._is_planned = False

    async def turn(self, session: Session) -> None:
        """Wait for a turn; where nobody else wants one that takes no time."""
        if self._let_go < FETCHES_PER_TURN and not self._sessions:
            self._count()
            return
        waiting: Waiting = asyncio.get_running_loop().create_future()
        self.queue(session, waiting)
        await waiting

    def queue(self, session: Session, waiting: Waiting) -> None:
        """Have a fetch that waits go on in its turn."""
        if not session.fetches:
            self._sessions.append(session)
        session.fetches.append(waiting)
        self._plan()

    def _count(self) -> None:
        self._let_go += 1
        self._plan()

    def _plan(self) -> None:
        if not self._is_planned:
            self._is_planned = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_planned = False
        self._let_go = 0
        while self._sessions and self._let_go < FETCHES_PER_TURN:
            session = self._sessions.popleft()
            waiting = session.fetches.popleft()
            if session.fetches:
                self._sessions.append(session)
            # One that was cancelled meanwhile takes no turn.
            if not waiting.done():
                waiting.set_result(None)
                self._count()


class SharedReads:
    """Keep what was read last of the ends of logs, and let many wait for one read.

    A read is named by everything that its result depends on: bucket, offsets, limits, and what is
    taken of the rows. What a name stands for never changes, so nothing has to be forgotten but for
    its size.
    """

    def __init__(self, *, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._kept: dict[ReadName, EncodedBucket] = {}
        self._under_way: dict[ReadName, asyncio.Task[EncodedBucket]] = {}
        self.kept_bytes = 0
        self.made_count = 0
        self.shared_count = 0

    def find(self, name: ReadName) -> EncodedBucket | None:
        """Return what was read under a name, if it is kept."""
        found = self._kept.pop(name, None)
        if found is not None:
            self._kept[name] = found  # What was wanted last is forgotten last.
            self.shared_count += 1
        return found

    def keep(self, name: ReadName, read: EncodedBucket) -> EncodedBucket:
        """Keep a read that was made, unless it is large, and forget what was not wanted longest."""
        self.made_count += 1
        if read.size <= KEPT_READ_BYTES_MAX and name not in self._kept:
            self._kept[name] = read
            self.kept_bytes += read.size + KEPT_OVERHEAD_BYTES
            while self.kept_bytes > self._bytes_max:
                oldest = next(iter(self._kept))
                self.kept_bytes -= self._kept.pop(oldest).size + KEPT_OVERHEAD_BYTES
        return read

    async def once(
        self, name: ReadName, read: Callable[[], Coroutine[object, object, EncodedBucket]]
    ) -> EncodedBucket:
        """Make a read that takes time, or wait for the same one that is under way."""
        making = self._under_way.get(name)
        if making is None:
            making = asyncio.get_running_loop().create_task(read())
            self._under_way[name] = making
            making.add_done_callback(partial(self._made, name))
        else:
            self.shared_count += 1
        return await shared(making)

    def _made(self, name: ReadName, making: "asyncio.Task[EncodedBucket]") -> None:
        del self._under_way[name]
        if not making.cancelled() and making.exception() is None:
            self.keep(name, making.result())
