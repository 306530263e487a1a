"""Scans of rows that clients have open."""

from collections import OrderedDict
from dataclasses import dataclass

from headwater.config.server import ServerSettings
from headwater.errors import ScannerExpiredError, ScannerLimitError, ScannerMissingError
from headwater.model.bucket import TableBucket
from headwater.runtime.clock import Clock
from headwater.runtime.ids import random_bytes
from headwater.tablet.state_scan import StateScan

SCANNER_ID_BYTES = 16
EXPIRED_KEPT = 1024
FIRST_CALL = 0


@dataclass(slots=True)
class Scanner:
    """Hold one open scan and how far its client is."""

    scanner_id: bytes
    bucket: TableBucket
    scan: StateScan
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

    def check_room(self, bucket: TableBucket) -> None:
        """Refuse a scan where too many are open."""
        self.expire()
        in_bucket = sum(scanner.bucket == bucket for scanner in self._open.values())
        settings = self._settings
        if len(self._open) >= settings.kv_scanners_max:
            raise ScannerLimitError(
                f"{len(self._open)} scans are open, as many as there may be.",
                hint="Close scans that are not needed, or try again later.",
            )
        if in_bucket >= settings.kv_scanners_per_bucket_max:
            raise ScannerLimitError(
                f"{in_bucket} scans are open in {bucket}, as many as there may be.",
                hint="Close scans that are not needed, or try again later.",
            )

    def add(self, bucket: TableBucket, scan: StateScan) -> Scanner:
        """Take a scan, unless others were quicker to take the room."""
        self.check_room(bucket)
        scanner = Scanner(random_bytes(SCANNER_ID_BYTES), bucket, scan, self._clock.monotonic())
        self._open[scanner.scanner_id] = scanner
        return scanner

    def find(self, scanner_id: bytes) -> Scanner:
        """Return an open scan, or tell what became of it."""
        self.expire()
        scanner = self._open.get(scanner_id)
        if scanner is None and scanner_id in self._expired:
            raise ScannerExpiredError(
                f"The scan was not used for {self._settings.kv_scanner_ttl_s:g} seconds.",
                hint="Start it again.",
            )
        if scanner is None:
            raise ScannerMissingError("There is no such scan.", hint="Start it again.")
        scanner.used_at = self._clock.monotonic()
        return scanner

    def close(self, scanner_id: bytes) -> None:
        """Let go of a scan, if it is still open."""
        self._open.pop(scanner_id, None)

    def expire(self) -> None:
        """Let go of scans that nobody used for long."""
        before = self._clock.monotonic() - self._settings.kv_scanner_ttl_s
        for scanner in tuple(self._open.values()):
            if scanner.used_at < before and not scanner.is_busy:
                del self._open[scanner.scanner_id]
                self._expired[scanner.scanner_id] = None
        while len(self._expired) > EXPIRED_KEPT:
            self._expired.popitem(last=False)
