"""What the server keeps for readers: shared reads of logs, turns of the loop, and open scans."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine, Hashable, Iterable
from dataclasses import dataclass
from functools import partial

from headwater.config.server import ServerSettings
from headwater.errors import ScannerExpiredError, ScannerLimitError, ScannerMissingError
from headwater.model.bucket import TableBucket
from headwater.runtime.clock import Clock, random_bytes
from headwater.runtime.tasks import shared
from headwater.server.connection import Session
from headwater.tablet.state_read import StateScan
from headwater.wire.fetch import EncodedBucket

# Shared reads and turns of the event loop. One append wakes every tail of its bucket, and each
# would read the same rows, encode the same response and delay other requests. So the log is read
# once for all that want the same part of it, and fetches get a few turns of the loop at a time, one
# client after the other: between two slices the loop takes in other requests, which are therefore
# served first. A tail that waits for its turn gets everything appended until then in one response.

# A crowd, more clients than go on in a few turns, would keep the loop busy all the time. So it
# works in slices, rests after each, and holds back while a batch is written: so an append is
# acknowledged before the answers that it gives rise to. Meanwhile more rows come, which then go out
# in one answer. However much is written, a crowd waits no longer than `HOLD_S_MAX` for its slice.

# A turn of the loop costs a hundredth of a fetch, so a few fetches in each cost nothing.
FETCHES_PER_TURN = 2
CROWD_CLIENTS_MIN = 8
SLICE_S, REST_S, HOLD_S_MAX = 0.001, 0.001, 0.004
# Only the end of a log is read by many, and that is little at a time.
KEPT_READ_BYTES_MAX = 256 * 1024
KEPT_BYTES_MAX = 8 * 1024 * 1024
# What a response takes besides its bytes: its name, its entry in a table, the objects around it.
KEPT_OVERHEAD_BYTES = 512

ReadName = tuple[Hashable, ...]
Waiting = asyncio.Future[None]


class FetchTurns:
    """Let a few fetches continue in each turn of the loop, one client after the other."""

    def __init__(self) -> None:
        self._sessions: deque[Session] = deque()
        self._let_go = 0
        self._planned: asyncio.Handle | None = None
        self._pace = CrowdPace()

    async def turn(self, session: Session) -> None:
        """Wait for a turn; without competition that takes no time."""
        if self._let_go < FETCHES_PER_TURN and not self._sessions:
            self._count()
            return
        waiting: Waiting = asyncio.get_running_loop().create_future()
        self.queue(session, waiting)
        await waiting

    def queue(self, session: Session, waiting: Waiting) -> None:
        """Let a waiting fetch continue in its turn."""
        if not session.fetches:
            self._sessions.append(session)
            if len(self._sessions) == CROWD_CLIENTS_MIN:
                self._pace.begin(asyncio.get_running_loop().time())
        session.fetches.append(waiting)
        self._plan()

    def hold(self) -> None:
        """Hold a crowd back for a write, until it is released, or for a few milliseconds."""
        self._pace.writes += 1

    def release(self) -> None:
        """Let a crowd go on after a write."""
        self._pace.writes -= 1
        if not self._pace.writes and self._sessions:
            if self._planned is not None:
                self._planned.cancel()
                self._planned = None
            self._plan()

    def _count(self) -> None:
        self._let_go += 1
        self._plan()

    def _plan(self) -> None:
        if self._planned is None:
            self._planned = asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._planned = None
        self._let_go = 0
        if len(self._sessions) >= CROWD_CLIENTS_MIN:
            loop = asyncio.get_running_loop()
            if (pause_s := self._pace.pause_s(loop.time())) > 0:
                self._planned = loop.call_later(pause_s, self._next_turn)
                return
        while self._sessions and self._let_go < FETCHES_PER_TURN:
            session = self._sessions.popleft()
            waiting = session.fetches.popleft()
            if session.fetches:
                self._sessions.append(session)
            # One that was cancelled meanwhile takes no turn.
            if not waiting.done():
                waiting.set_result(None)
                self._count()


class CrowdPace:
    """Tell when a crowd may work, and when it has to rest."""

    def __init__(self) -> None:
        self.writes = 0
        """Batches that are being written."""
        self._worked_until = 0.0
        self._slice_began: float | None = None
        self._is_due = False

    def begin(self, now: float) -> None:
        """Take note of a new crowd, which need not rest."""
        self._worked_until, self._slice_began = now - REST_S, None

    def pause_s(self, now: float) -> float:
        """Return how long the crowd has to pause; 0 lets a few fetches go."""
        if self._slice_began is not None:
            # A slice that was held back for long enough is worked to its end.
            is_over = now - self._slice_began >= SLICE_S or (self.writes > 0 and not self._is_due)
            if not is_over:
                return 0.0
            self._worked_until, self._slice_began = now, None
        left_s = self._worked_until + (HOLD_S_MAX if self.writes else REST_S) - now
        if left_s > 0:
            return left_s
        self._slice_began, self._is_due = now, self.writes > 0
        return 0.0


class SharedReads:
    """Keep the latest reads at the ends of logs, and let many wait for one read.

    A read is named by everything that its result depends on: bucket, offsets, limits, and the
    selection. The result for a name never changes, so entries are only dropped for their size.
    """

    def __init__(self, *, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._kept: dict[ReadName, EncodedBucket] = {}
        self._under_way: dict[ReadName, asyncio.Task[EncodedBucket]] = {}
        self.kept_bytes = 0
        self.made_count = 0
        self.shared_count = 0

    def find(self, name: ReadName) -> EncodedBucket | None:
        """Return the result of a read, if it is kept."""
        found = self._kept.pop(name, None)
        if found is not None:
            self._kept[name] = found  # Least recently used entries go first.
            self.shared_count += 1
        return found

    def keep(self, name: ReadName, read: EncodedBucket) -> EncodedBucket:
        """Keep the result of a read, unless it is large, and drop the least recently used."""
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
        """Run a slow read, or wait for the same one that is running."""
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


# Open scans of rows.

SCANNER_ID_BYTES = 16
EXPIRED_KEPT = 1024
FIRST_CALL = 0
ROW_BYTES = 8


@dataclass(slots=True)
class Scanner:
    """One open scan and how far its client is."""

    scanner_id: bytes
    bucket: TableBucket
    scan: StateScan
    session: Session
    used_at: float
    next_call: int = FIRST_CALL
    is_busy: bool = False


class Scanners:
    """Keep a bounded number of open scans, until they end or expire."""

    def __init__(self, settings: ServerSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._open: dict[bytes, Scanner] = {}
        self._expired: OrderedDict[bytes, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def check_room(self, bucket: TableBucket, *, rows: int) -> None:
        """Reject a scan if too many are open; those of disconnected clients are closed first."""
        self.expire()
        if self._crowd(bucket, rows) is not None:
            self._let_go([each for each in self._open.values() if each.session.is_closed])
        if (crowd := self._crowd(bucket, rows)) is not None:
            raise ScannerLimitError(
                f"{crowd}, which is the limit.",
                hint="Close scans you do not need, or try again later.",
            )

    def counts(self, session: Session) -> dict[str, int]:
        """Count the open scans of a connection, and of its user."""
        self.expire()
        sessions = [each.session for each in self._open.values()]
        return {
            "of_user": sum(each.principal == session.principal for each in sessions),
            "of_connection": sum(each is session for each in sessions),
        }

    def add(self, bucket: TableBucket, scan: StateScan, session: Session) -> Scanner:
        """Add a scan, unless others took the last place."""
        self.check_room(bucket, rows=len(scan))
        scanner_id, now = random_bytes(SCANNER_ID_BYTES), self._clock.monotonic()
        scanner = Scanner(scanner_id, bucket, scan, session, now)
        self._open[scanner_id] = scanner
        return scanner

    def find(self, scanner_id: bytes, session: Session) -> Scanner:
        """Return an open scan for this session; the error says what became of it."""
        self.expire()
        scanner = self._open.get(scanner_id)
        if scanner is None and scanner_id in self._expired:
            raise ScannerExpiredError(
                f"The scan was idle for {self._settings.kv_scanner_ttl_s:g} seconds, or was "
                "closed after its connection had ended.",
                hint="Start the scan again.",
            )
        if scanner is None:
            raise ScannerMissingError("There is no such scan.", hint="Start the scan again.")
        scanner.session, scanner.used_at = session, self._clock.monotonic()
        return scanner

    def close(self, scanner_id: bytes) -> None:
        """Close a scan, if it is still open."""
        self._open.pop(scanner_id, None)

    def drop(self, bucket: TableBucket) -> None:
        """Close the scans of a bucket that was dropped, which would keep its files."""
        dropped = [each.scanner_id for each in self._open.values() if each.bucket == bucket]
        for scanner_id in dropped:
            del self._open[scanner_id]

    def expire(self) -> None:
        """Close idle scans."""
        before = self._clock.monotonic() - self._settings.kv_scanner_ttl_s
        self._let_go([each for each in self._open.values() if each.used_at < before])

    def _crowd(self, bucket: TableBucket, rows: int) -> str | None:
        """Describe the open scans, if they are too many for one more."""
        in_bucket = sum(scanner.bucket == bucket for scanner in self._open.values())
        if len(self._open) >= self._settings.kv_scanners_max:
            return f"{len(self._open)} scans are open"
        if in_bucket >= self._settings.kv_scanners_per_bucket_max:
            return f"{in_bucket} scans are open in {bucket}"
        held = sum(len(each.scan) for each in self._open.values())
        # A single one may exceed the limit, or nobody could ever read it.
        if held and (held + rows) * ROW_BYTES > self._settings.kv_scanner_bytes_max:
            return f"{len(self._open)} scans of {held} rows are open"
        return None

    def _let_go(self, scanners: Iterable[Scanner]) -> None:
        for scanner in scanners:
            if not scanner.is_busy:
                del self._open[scanner.scanner_id]
                self._expired[scanner.scanner_id] = None
        while len(self._expired) > EXPIRED_KEPT:
            self._expired.popitem(last=False)
