"""The metrics of a server: declarations, values at one moment, and Prometheus's text format."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import assert_never

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from headwater.metrics.tallies import BOUNDS_S, Durations


class MetricKind(StrEnum):
    """How a metric behaves over time."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricDeclaration:
    """Name, kind, labels and meaning of one metric."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()


_all: list[MetricDeclaration] = []


def _counter(name: str, text: str, *labels: str) -> MetricDeclaration:
    return _noted(MetricDeclaration(name=name, kind=MetricKind.COUNTER, help=text, labels=labels))


def _gauge(name: str, text: str, *labels: str) -> MetricDeclaration:
    return _noted(MetricDeclaration(name=name, kind=MetricKind.GAUGE, help=text, labels=labels))


def _histogram(name: str, text: str, *labels: str) -> MetricDeclaration:
    return _noted(MetricDeclaration(name=name, kind=MetricKind.HISTOGRAM, help=text, labels=labels))


def _noted(metric: MetricDeclaration) -> MetricDeclaration:
    _all.append(metric)
    return metric


# ---- storage

TABLES = _gauge("headwater_tables", "Tables in the catalog.")
CLOCK_DOUBTED = _gauge(
    "headwater_clock_doubted_seconds",
    "How far the clock is ahead of the trusted time; while not 0, no rows are deleted by age.",
)
BUCKETS_OPEN = _gauge("headwater_buckets_open", "Open buckets.")
BUCKETS_FENCED = _gauge(
    "headwater_buckets_fenced", "Buckets that reject writes because their disk or state failed."
)
BUCKETS_DAMAGED = _gauge(
    "headwater_buckets_damaged", "Buckets with corrupt bytes that were set aside or cannot be read."
)
BUCKETS_UNOPENABLE = _gauge(
    "headwater_buckets_unopenable", "Buckets whose log or state could not be opened."
)
END_OFFSETS = _gauge(
    "headwater_log_end_offsets", "Sum of the end offsets of all open buckets: rows ever written."
)
LOG_BYTES = _gauge("headwater_log_bytes", "Bytes in the logs of all open buckets.")
DISK_FREE = _gauge(
    "headwater_disk_free_bytes", "Bytes that can still be written to the disk; -1: unknown."
)
KV_ROWS = _gauge("headwater_kv_rows", "Rows in the states of all primary-key buckets.")
KV_UNSAVED = _gauge(
    "headwater_kv_unsaved_rows", "Changes since the last state snapshots: what a restart replays."
)

# ---- writes

APPENDED_ROWS = _counter(
    "headwater_appended_rows",
    "Rows written to logs since the start; batches that were sent again count once.",
)
APPENDED_BYTES = _counter("headwater_appended_bytes", "Bytes written to logs since the start.")
WAITING = _gauge("headwater_appends_waiting", "Appends that are written but not yet durable.")
SYNC_SECONDS = _histogram(
    "headwater_sync_seconds", "Time that syncs of a log took; one serves many appends."
)
SYNC_FAILURES = _counter("headwater_sync_failures", "Syncs that failed; each fences its bucket.")
EXPIRED_ROWS = _counter("headwater_expired_rows", "Rows that retention deleted from logs.")

# ---- requests

CONNECTIONS = _gauge("headwater_connections", "Open client connections.")
REQUEST_BYTES = _gauge("headwater_request_bytes", "Request bytes in memory.")
REQUESTS = _counter(
    "headwater_requests",
    "Requests answered, by API and error code; 0: no error, -1: an error without a code.",
    "api",
    "code",
)
BUCKET_ERRORS = _counter(
    "headwater_bucket_errors",
    "Buckets rejected in responses, by API and error code.",
    "api",
    "code",
)
REQUEST_SECONDS = _histogram(
    "headwater_request_seconds",
    "Time from a request to its response; FETCH_LOG waits for rows as long as its client asks.",
    "api",
)
FETCH_READS = _counter("headwater_fetch_reads", "Log reads made for fetches.")
FETCH_READS_SHARED = _counter(
    "headwater_fetch_reads_shared",
    "Buckets of fetches that shared the read of another fetch.",
)
SCANNERS = _gauge("headwater_kv_scanners", "Scans of rows that clients have open.")

THROTTLED_SECONDS = _counter(
    "headwater_throttled_seconds",
    "Time that connections of a user waited because of a limit, for the users with most of it.",
    "user",
    "limit",
)
QUOTA_REFUSALS = _counter(
    "headwater_quota_refusals",
    "Requests rejected because of a limit of their user, for the users with most of them.",
    "user",
    "limit",
)

# ---- the lake

TIERING_LAG = _gauge(
    "headwater_tiering_lag_rows",
    "Rows that are not yet in the lake, for the tables with most of them.",
    "database",
    "table",
)
TIERING_LAG_ALL = _gauge(
    "headwater_tiering_lag_rows_all", "Rows that are not yet in the lake, for all tables."
)
LAKE_UNCHECKED = _gauge(
    "headwater_lake_reports_unchecked",
    "Tables whose newest lake snapshot could not be checked, so that retention waits.",
)
TIERING_FAILURES = _gauge(
    "headwater_tiering_failures",
    "Tiering rounds that failed in a row, for tables whose last round failed.",
    "database",
    "table",
)

# ---- the remote storage

REMOTE_OWNER = _gauge(
    "headwater_remote_owner",
    "Which owner of its remote storage this server is; 0: none, so nothing is shipped.",
)
REMOTE_BEHIND = _gauge(
    "headwater_remote_behind_seconds", "How long the oldest change waits to be shipped."
)
REMOTE_BEHIND_BYTES = _gauge(
    "headwater_remote_behind_bytes", "Bytes of logs that wait to be shipped."
)
REMOTE_LAST_COMMIT = _gauge(
    "headwater_remote_last_commit_timestamp_seconds",
    "Moment of the newest commit with changes; 0: none by this server.",
)
REMOTE_COMMITS = _counter("headwater_remote_commits", "Commits made in the remote storage.")
REMOTE_REQUESTS = _counter("headwater_remote_requests", "Requests to the remote storage.")
REMOTE_BYTES = _counter("headwater_remote_bytes", "Bytes written to the remote storage.")
REMOTE_FAILURES = _counter(
    "headwater_remote_failures", "Requests to the remote storage that failed; they are tried again."
)

# ---- scheduled audits

AUDIT_LAST_RUN = _gauge(
    "headwater_audit_last_run_timestamp_seconds", "When the last audit ended; 0: none has."
)
AUDIT_LAST_SUCCESS = _gauge(
    "headwater_audit_last_success_timestamp_seconds",
    "When the last audit without errors ended; 0: none has.",
)
AUDIT_SECONDS = _gauge("headwater_audit_duration_seconds", "How long the last audit took.")
AUDIT_FINDINGS = _gauge(
    "headwater_audit_findings", "Findings of the last audit, by severity.", "severity"
)
AUDIT_CLEAN = _gauge("headwater_audit_clean", "1 if the last audit ended without errors, else 0.")

# ---- the process

THREADS = _gauge("headwater_threads", "Threads of the process.")
TASKS = _gauge("headwater_tasks", "Tasks of the event loop.")

METRICS = tuple(_all)


Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Values:
    """The value of a counter or gauge for each combination of labels."""

    metric: MetricDeclaration
    by_labels: Mapping[Labels, float]


@dataclass(frozen=True, slots=True)
class Spread:
    """The durations of a histogram for each combination of labels."""

    metric: MetricDeclaration
    by_labels: Mapping[Labels, Durations]


Reading = Values | Spread


def value(metric: MetricDeclaration, number: float) -> Values:
    """Make the reading of a metric without labels."""
    return Values(metric, {(): number})


CONTENT_TYPE = CONTENT_TYPE_LATEST


class Exposition(Collector):
    """Read the metrics of one server on demand; servers in one process share nothing."""

    def __init__(self, read: Callable[[], Iterable[Reading]]) -> None:
        self._read = read
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)

    def text(self) -> bytes:
        """Render everything in Prometheus's text format."""
        return generate_latest(self._registry)

    def describe(self) -> Iterable[Metric]:
        """Describe nothing in advance: registering must not read the metrics."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield each reading as a Prometheus metric family."""
        for reading in self._read():
            match reading:
                case Values():
                    yield _family(reading)
                case Spread():
                    yield _histogram_family(reading)
                case _:
                    assert_never(reading)


def _family(reading: Values) -> Metric:
    metric = reading.metric
    kind = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for labels, number in reading.by_labels.items():
        family.add_metric(labels, number)
    return family


def _histogram_family(reading: Spread) -> Metric:
    metric = reading.metric
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, durations in reading.by_labels.items():
        family.add_metric(labels, _steps(durations), durations.total_s)
    return family


def _steps(durations: Durations) -> list[tuple[str, float]]:
    bounds = [*map(str, BOUNDS_S), "+Inf"]
    return [
        (bound, float(count))
        for bound, count in zip(bounds, accumulate(durations.counts), strict=True)
    ]
