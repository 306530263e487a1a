"""What a server measures, sampled once every few seconds for all browsers together.

The source is the server in this process, or the metrics address of another. Counters become rates
here, and histograms of durations the time that most requests took. The last hour is kept.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import pairwise
from typing import Protocol
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from prometheus_client.parser import text_string_to_metric_families

from headwater.errors import InvalidOptionError
from headwater.runtime.clock import Clock
from headwater.runtime.tasks import aside
from headwater.server.server import Server

EVERY_S = 3.0
SAMPLES_MAX = 1200
"""An hour."""
PAGE_BYTES_MAX = 16 * 1024 * 1024
ANSWER_WITHIN_S = 5.0
SHARE = 0.99
"""Of the requests of an interval, this share took no longer than is told."""

Sums = Mapping[str, float]
_READS = ("FETCH_LOG", "LOOKUP", "PREFIX_LOOKUP", "LIMIT_SCAN", "SCAN_KV")
_WRITES = ("PRODUCE_LOG", "PUT_KV")
_GAUGES = {
    "tables": "headwater_tables",
    "buckets": "headwater_buckets_open",
    "log_bytes": "headwater_log_bytes",
    "disk_free": "headwater_disk_free_bytes",
    "tiering_lag": "headwater_tiering_lag_rows_all",
    "connections": "headwater_connections",
    "waiting": "headwater_appends_waiting",
    "kv_rows": "headwater_kv_rows",
    "memory": "process_resident_memory_bytes",
}
_RATES = {
    "rows_in": "headwater_appended_rows_total",
    "bytes_in": "headwater_appended_bytes_total",
    "cpu": "process_cpu_seconds_total",
}


@dataclass(frozen=True, slots=True)
class Measured:
    """What a server told at one moment: its metrics, and what is wrong with it."""

    text: str
    unwell: tuple[str, ...] | None
    """Reasons, none of them if it is well; None if it did not say."""
    bytes_by_table: Mapping[int, int] = field(default_factory=dict)
    """Bytes of the logs of each table by its id, where the server is in this process."""


class MeasuredServer(Protocol):
    """A server whose metrics can be read."""

    async def read(self) -> Measured:
        """Read everything; OSError if it cannot be reached."""
        ...


class RemoteMetrics:
    """Read the metrics of a server at its address."""

    def __init__(self, address: str) -> None:
        if not address.startswith(("http://", "https://")):
            raise InvalidOptionError(
                f"{address!r} is not an address of metrics.",
                hint="Write it like http://127.0.0.1:9464; see --metrics-port of headwater serve.",
            )
        self._address = address.rstrip("/").removesuffix("/metrics")

    async def read(self) -> Measured:
        """Ask for /metrics and /health."""
        _, text = await aside(_page, f"{self._address}/metrics")
        status, health = await aside(_page, f"{self._address}/health")
        is_unwell = status == HTTPStatus.SERVICE_UNAVAILABLE
        return Measured(text, tuple(health.splitlines()) if is_unwell else ())


class OwnMetrics:
    """Read the metrics of a server in this process, on its own loop."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._pages = server.watched_pages()

    async def read(self) -> Measured:
        """Make the pages that others would be served."""
        text = self._pages["/metrics"]().content.decode()
        health = self._pages["/health"]()
        reasons = health.content.decode().splitlines()
        sizes: dict[int, int] = {}
        for bucket, tablet in self._server.tablets.all_open():
            sizes[bucket.table_id] = sizes.get(bucket.table_id, 0) + tablet.log.size_bytes
        return Measured(text, () if health.status is HTTPStatus.OK else tuple(reasons), sizes)


def _page(address: str) -> tuple[int, str]:
    asked = Request(address)  # noqa: S310 - the operator's own address, http or https
    try:
        with urlopen(asked, timeout=ANSWER_WITHIN_S) as answer:  # noqa: S310 - as above
            return answer.status, answer.read(PAGE_BYTES_MAX).decode("utf-8", "replace")
    except HTTPError as refusal:
        with refusal:
            if refusal.code != HTTPStatus.SERVICE_UNAVAILABLE:
                raise
            return refusal.code, refusal.read(PAGE_BYTES_MAX).decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class FeedSample:
    """The sums that were read at one moment, and what came of them since the last one."""

    at_ms: int
    at_s: float
    sums: Sums
    values: Mapping[str, float | None]


def sums_of(text: str) -> dict[str, float]:
    """Parse metrics: one sum for each name, and one for each name and first label."""
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            label = ",".join(sample.labels.get(name, "") for name in ("api", "le", "severity"))
            for key in (sample.name, f"{sample.name}|{label.strip(',')}"):
                sums[key] = sums.get(key, 0.0) + sample.value
    return sums


def values_of(before: Sums | None, now: Sums, *, passed_s: float) -> dict[str, float | None]:
    """Turn sums into what charts show; None where nothing is known."""
    values: dict[str, float | None] = {}
    for name, metric in _GAUGES.items():
        held = now.get(metric)
        values[name] = None if held is None or held < 0 else held
    for name, metric in _RATES.items():
        values[name] = _rate(before, now, (metric,), passed_s)
    answered = "headwater_request_seconds_count"
    for name, apis in (("writes", _WRITES), ("reads", _READS)):
        values[name] = _rate(before, now, [f"{answered}|{api}" for api in apis], passed_s)
    values["requests"] = _rate(before, now, (answered,), passed_s)
    values["write_p99"] = share_s(before, now, "headwater_request_seconds_bucket", _WRITES)
    values["lookup_p99"] = share_s(before, now, "headwater_request_seconds_bucket", ("LOOKUP",))
    values["sync_p99"] = share_s(before, now, "headwater_sync_seconds_bucket", ())
    return values


def _rate(before: Sums | None, now: Sums, keys: Iterable[str], passed_s: float) -> float | None:
    if before is None or passed_s <= 0:
        return None
    # A server that was restarted counts from 0 again.
    return max(0.0, sum(now.get(key, 0.0) - before.get(key, 0.0) for key in keys)) / passed_s


def share_s(before: Sums | None, now: Sums, metric: str, apis: tuple[str, ...]) -> float | None:
    """Return the time within which most requests since `before` were answered."""
    if before is None:
        return None
    counts: dict[float, float] = {}
    for key, count in now.items():
        name, _, label = key.partition("|")
        api, _, bound = label.rpartition(",")
        if name == metric and bound and (not apis or api in apis):
            at = float(bound)
            counts[at] = counts.get(at, 0.0) + count - before.get(key, 0.0)
    steps = sorted(counts.items())
    total = steps[-1][1] if steps else 0.0
    if total <= 0:
        return None
    wanted = total * SHARE
    for (lower, below), (upper, count) in pairwise([(0.0, 0.0), *steps]):
        if count >= wanted:
            if upper == float("inf"):
                return lower
            return lower + (upper - lower) * (wanted - below) / (count - below)
    return None


class MetricsFeed:
    """Keep the last hour of what a server measures; written by one task, read by all pages."""

    def __init__(self, server: MeasuredServer | None, clock: Clock) -> None:
        self._server = server
        self._clock = clock
        self._samples: deque[FeedSample] = deque(maxlen=SAMPLES_MAX)
        self.unwell: tuple[str, ...] | None = None
        self.fault = ""
        """Why the newest reading failed; empty if it did not."""
        self.bytes_by_table: Mapping[int, int] = {}

    @property
    def is_offered(self) -> bool:
        """Tell whether there is a server whose metrics can be read."""
        return self._server is not None

    @property
    def samples(self) -> tuple[FeedSample, ...]:
        """The samples, oldest first."""
        return tuple(self._samples)

    @property
    def newest(self) -> Mapping[str, float | None]:
        """The values of the newest sample."""
        return self._samples[-1].values if self._samples else {}

    async def sample(self) -> None:
        """Read the metrics once; a failure is kept for the pages to tell."""
        if self._server is None:
            return
        try:
            measured = await self._server.read()
            sums = sums_of(measured.text)
        except (OSError, ValueError) as fault:
            self.fault, self.unwell = str(fault) or type(fault).__name__, None
            return
        self.fault, self.unwell = "", measured.unwell
        self.bytes_by_table = measured.bytes_by_table
        self._add(sums)

    def _add(self, sums: Sums) -> None:
        now_s = self._clock.monotonic()
        last = self._samples[-1] if self._samples else None
        before, passed_s = (None, 0.0) if last is None else (last.sums, now_s - last.at_s)
        values = values_of(before, sums, passed_s=passed_s)
        self._samples.append(FeedSample(self._clock.now_ms(), now_s, sums, values))


def columns_of(
    samples: Iterable[FeedSample], names: Iterable[str]
) -> list[list[float | None] | list[float]]:
    """Lay samples out as a chart takes them: times in seconds, then one column for each name."""
    held = list(samples)
    times = [each.at_ms / 1000 for each in held]
    return [times, *([each.values.get(name) for each in held] for name in names)]
