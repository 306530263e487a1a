"""Counts that a server keeps while it works: plain numbers, so counting is cheap."""

import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass, field

# From a sync on a fast disk to a long poll.
BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0)
ANSWERED = 0
UNKNOWN_API = -1


class Durations:
    """A histogram of durations."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.total_s = 0.0

    def add(self, seconds: float) -> None:
        """Count one more duration."""
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.total_s += seconds

    @property
    def count(self) -> int:
        """Sum over all steps."""
        return sum(self.counts)


@dataclass(slots=True)
class WriteTally:
    """Count what is written to logs and deleted from them."""

    rows: int = 0
    size_bytes: int = 0
    syncs: Durations = field(default_factory=Durations)
    sync_failures: int = 0
    expired_rows: int = 0


@dataclass(slots=True)
class RequestTally:
    """Count responses by API key, and errors by code as well."""

    durations: defaultdict[int, Durations] = field(default_factory=lambda: defaultdict(Durations))
    errors: Counter[tuple[int, int]] = field(default_factory=Counter)
    bucket_errors: Counter[tuple[int, int]] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def took(self, api: int, seconds: float) -> None:
        """Count an answer and how long it took; from any thread."""
        with self._lock:
            self.durations[api].add(seconds)

    def answers(self) -> dict[tuple[int, int], int]:
        """Count the responses by API and code, including those without an error."""
        counts = Counter({(api, ANSWERED): took.count for api, took in self.durations.items()})
        for (api, code), count in self.errors.items():
            counts[api, ANSWERED] -= count
            counts[api, code] += count
        return dict(counts)

    def refused(self, api: int, code: int) -> None:
        """Count a response that is an error."""
        self.errors[api, code] += 1

    def bucket_refused(self, api: int, code: int) -> None:
        """Count a bucket whose part of a response is an error."""
        self.bucket_errors[api, code] += 1


@dataclass(slots=True)
class AuditTally:
    """The outcome of the last audit."""

    last_run_ms: int = 0
    last_success_ms: int = 0
    duration_s: float = 0.0
    findings: Counter[str] = field(default_factory=Counter)
    failure: str = ""
    """Why the storage is not known to be sound; empty if it is, or if no audit has run."""

    @property
    def is_clean(self) -> bool:
        """Tell whether the last audit found no errors."""
        return self.last_run_ms > 0 and not self.failure


@dataclass(frozen=True, slots=True)
class Tallies:
    """The counts of one server."""

    requests: RequestTally = field(default_factory=RequestTally)
    writes: WriteTally = field(default_factory=WriteTally)
    audit: AuditTally = field(default_factory=AuditTally)
