"""Scans of rows that clients have open."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from headwater.config.server import ServerSettings
from headwater.errors import ScannerExpiredError, ScannerLimitError, ScannerMissingError
from headwater.model.bucket import TableBucket
from headwater.runtime.clock import Clock
from headwater.runtime.ids import random_bytes
from headwater.server.session import Session
from headwater.tablet.state_scan import StateScan

SCANNER_ID_BYTES = 16
EXPIRED_KEPT = 1024
FIRST_CALL = 0
ROW_BYTES = 8


@dataclass(slots=True)
class Scanner:
    """Hold one open scan and how far its client is."""

    scanner_id: bytes
    bucket: TableBucket
    scan: StateScan
    session: Session
    used_at: float
    next_call: int = FIRST_CALL
    is_busy: bool = False


class Scanners:
    """Keep open scans, a bounded number of them, until they end or nobody uses them."""

    def __init__(self, settings: ServerSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._open: dict[bytes, Scanner] = {}
        self._expired: OrderedDict[bytes, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def check_room(self, bucket: TableBucket, *, rows: int) -> None:
        """Refuse a scan where too many are open; those of clients that are gone make room."""
        self.expire()
        if self._crowd(bucket, rows) is not None:
            self._let_go([each for each in self._open.values() if each.session.is_closed])
        if (crowd := self._crowd(bucket, rows)) is not None:
            raise ScannerLimitError(
                f"{crowd}, as many as there may be.",
                hint="Close scans that are not needed, or try again later.",
            )

    def add(self, bucket: TableBucket, scan: StateScan, session: Session) -> Scanner:
        """Take a scan, unless others were quicker to take the room."""
        self.check_room(bucket, rows=len(scan))
        scanner_id, now = random_bytes(SCANNER_ID_BYTES), self._clock.monotonic()
        scanner = Scanner(scanner_id, bucket, scan, session, now)
        self._open[scanner_id] = scanner
        return scanner

    def find(self, scanner_id: bytes, session: Session) -> Scanner:
        """Return an open scan, which this session goes on with, or tell what became of it."""
        self.expire()
        scanner = self._open.get(scanner_id)
        if scanner is None and scanner_id in self._expired:
            raise ScannerExpiredError(
                f"The scan was not used for {self._settings.kv_scanner_ttl_s:g} seconds, or had to"
                " make room after its connection had ended.",
                hint="Start it again.",
            )
        if scanner is None:
            raise ScannerMissingError("There is no such scan.", hint="Start it again.")
        scanner.session, scanner.used_at = session, self._clock.monotonic()
        return scanner

    def close(self, scanner_id: bytes) -> None:
        """Let go of a scan, if it is still open."""
        self._open.pop(scanner_id, None)

    def drop(self, bucket: TableBucket) -> None:
        """Let go of the scans of a bucket that was dropped, which would keep its files."""
        dropped = [each.scanner_id for each in self._open.values() if each.bucket == bucket]
        for scanner_id in dropped:
            del self._open[scanner_id]

    def expire(self) -> None:
        """Let go of scans that nobody used for long."""
        before = self._clock.monotonic() - self._settings.kv_scanner_ttl_s
        self._let_go([each for each in self._open.values() if each.used_at < before])

    def _crowd(self, bucket: TableBucket, rows: int) -> str | None:
        """Tell how many scans are open, if that is too many for one more."""
        in_bucket = sum(scanner.bucket == bucket for scanner in self._open.values())
        if len(self._open) >= self._settings.kv_scanners_max:
            return f"{len(self._open)} scans are open"
        if in_bucket >= self._settings.kv_scanners_per_bucket_max:
            return f"{in_bucket} scans are open in {bucket}"
        held = sum(len(each.scan) for each in self._open.values())
        # One may be larger than all may be together, or nobody could ever read it.
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
