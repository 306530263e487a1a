"""Every metric that a server shows: its name, kind, labels and meaning."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """Say how a metric behaves over time."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """Declare one metric."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


_all: list[Declared] = []


def _counter(name: str, text: str, *labels: str) -> Declared:
    return _noted(Declared(name=name, kind=Kind.COUNTER, help=text, labels=labels))


def _gauge(name: str, text: str, *labels: str) -> Declared:
    return _noted(Declared(name=name, kind=Kind.GAUGE, help=text, labels=labels))


def _histogram(name: str, text: str, *labels: str) -> Declared:
    return _noted(Declared(name=name, kind=Kind.HISTOGRAM, help=text, labels=labels))


def _noted(metric: Declared) -> Declared:
    _all.append(metric)
    return metric


# ---- what is stored

TABLES = _gauge("headwater_tables", "Tables in the catalog.")
CLOCK_DOUBTED = _gauge(
    "headwater_clock_doubted_seconds",
    "How far the clock is ahead of the time that is believed; while not 0, no age deletes rows.",
)
BUCKETS_OPEN = _gauge("headwater_buckets_open", "Buckets that are open.")
BUCKETS_FENCED = _gauge(
    "headwater_buckets_fenced", "Buckets that take no writes since their disk or state failed."
)
BUCKETS_DAMAGED = _gauge(
    "headwater_buckets_damaged", "Buckets with bad bytes that were set aside or cannot be read."
)
BUCKETS_UNOPENABLE = _gauge(
    "headwater_buckets_unopenable", "Buckets whose log or state could not be opened."
)
END_OFFSETS = _gauge(
    "headwater_log_end_offsets", "Sum of the end offsets of all open buckets: rows ever written."
)
LOG_BYTES = _gauge("headwater_log_bytes", "Bytes in the logs of all open buckets.")
DISK_FREE = _gauge(
    "headwater_disk_free_bytes", "Bytes that can still be written to the disk; -1: not known."
)
KV_ROWS = _gauge("headwater_kv_rows", "Rows in the states of all primary-key buckets.")
KV_UNSAVED = _gauge(
    "headwater_kv_unsaved_rows", "Changes since the last snapshots of states: what a start replays."
)

# ---- writing

APPENDED_ROWS = _counter(
    "headwater_appended_rows", "Rows written to logs since the start; resent batches count once."
)
APPENDED_BYTES = _counter("headwater_appended_bytes", "Bytes written to logs since the start.")
WAITING = _gauge(
    "headwater_appends_waiting", "Appends that were written and wait to become durable."
)
SYNC_SECONDS = _histogram(
    "headwater_sync_seconds", "Time that making a log durable took; one serves many appends."
)
SYNC_FAILURES = _counter("headwater_sync_failures", "Syncs that failed; each fences its bucket.")
EXPIRED_ROWS = _counter("headwater_expired_rows", "Rows that retention deleted from logs.")

# ---- requests

CONNECTIONS = _gauge("headwater_connections", "Connections of clients that are open.")
REQUEST_BYTES = _gauge("headwater_request_bytes", "Bytes of requests held in memory.")
REQUESTS = _counter(
    "headwater_requests",
    "Requests answered, by API and error code; 0: answered, -1: an error without a number.",
    "api",
    "code",
)
BUCKET_ERRORS = _counter(
    "headwater_bucket_errors",
    "Buckets that were refused inside answers to requests, by API and error code.",
    "api",
    "code",
)
REQUEST_SECONDS = _histogram(
    "headwater_request_seconds",
    "Time from a request to its answer; FETCH_LOG waits for rows as long as its client asks.",
    "api",
)
FETCH_READS = _counter("headwater_fetch_reads", "Reads of logs that were made for fetches.")
FETCH_READS_SHARED = _counter(
    "headwater_fetch_reads_shared",
    "Buckets of fetches that were answered with what another fetch had read.",
)
SCANNERS = _gauge("headwater_kv_scanners", "Scans of rows that clients have open.")

# ---- the lake

TIERING_LAG = _gauge(
    "headwater_tiering_lag_rows",
    "Rows that the lake does not hold yet, of the tables with most of them.",
    "database",
    "table",
)
TIERING_LAG_ALL = _gauge(
    "headwater_tiering_lag_rows_all", "Rows that the lake does not hold yet, of all tables."
)
LAKE_UNCHECKED = _gauge(
    "headwater_lake_reports_unchecked",
    "Tables whose newest lake snapshot could not be checked, so that retention waits.",
)
TIERING_FAILURES = _gauge(
    "headwater_tiering_failures",
    "Rounds in a row that failed, of tables whose last one did.",
    "database",
    "table",
)

# ---- the audit on a schedule

AUDIT_LAST_RUN = _gauge(
    "headwater_audit_last_run_timestamp_seconds", "When the last audit ended; 0: none did yet."
)
AUDIT_LAST_SUCCESS = _gauge(
    "headwater_audit_last_success_timestamp_seconds",
    "When the last audit ended that found no error; 0: none did yet.",
)
AUDIT_SECONDS = _gauge("headwater_audit_duration_seconds", "How long the last audit took.")
AUDIT_FINDINGS = _gauge(
    "headwater_audit_findings", "Findings of the last audit, by severity.", "severity"
)
AUDIT_CLEAN = _gauge(
    "headwater_audit_clean", "1 if the last audit ended and found no error, else 0."
)

# ---- the process

THREADS = _gauge("headwater_threads", "Threads of the process.")
TASKS = _gauge("headwater_tasks", "Tasks of the event loop.")

METRICS = tuple(_all)
