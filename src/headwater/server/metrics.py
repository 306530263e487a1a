"""The metrics and the health of a server, and the pages that show them.

Loaded only if there is a metrics port, since it needs the Prometheus client.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus

from headwater.metrics import exposition
from headwater.metrics.exposition import (
    CONTENT_TYPE,
    Exposition,
    Labels,
    Reading,
    Spread,
    Values,
    value,
)
from headwater.metrics.tallies import UNKNOWN_API, AuditTally
from headwater.model.bucket import TableBucket
from headwater.model.path import TablePath
from headwater.remote.shipper import RemoteTally
from headwater.server.context import Services
from headwater.server.listener import Listener
from headwater.server.metrics_listener import Page
from headwater.server.quotas import Quotas
from headwater.server.remote.copy import RemoteCopy
from headwater.server.tablets import Tablets
from headwater.wire.apis import ApiKey

# Health.

# People look at the first reasons only.
REASONS_SHOWN_MAX = 20


def reasons_unwell(services: Services) -> list[str]:
    """List what is wrong, one sentence each; empty if the server is healthy."""
    tablets = services.tablets
    paths = {table.table_id: table.path for table in services.catalog.tables.all()}
    reasons = [
        *([f"Read-only: {services.space.read_only}."] if services.space.read_only else []),
        *(["The disk is full: writes are rejected."] if services.space.is_full_now() else []),
        *(f"{_named(each, paths)} is fenced." for each in fenced(tablets)),
        *(f"{_named(each, paths)} cannot be opened." for each in unopenable(tablets)),
        *(f"Rows of {_named(each, paths)} are damaged." for each in damaged(tablets)),
        *_remote_reasons(services.remote),
        *_audit_reasons(services.tallies.audit),
    ]
    left = len(reasons) - REASONS_SHOWN_MAX
    return [*reasons[:REASONS_SHOWN_MAX], *([f"There are {left} more."] if left > 0 else [])]


def _remote_reasons(remote: RemoteCopy | None) -> list[str]:
    reason = "" if remote is None else remote.reason_unwell()
    return [reason] if reason else []


def _audit_reasons(audit: AuditTally) -> Iterator[str]:
    if audit.failure:
        yield f"The last audit failed: {audit.failure}"


def fenced(tablets: Tablets) -> list[TableBucket]:
    """List the buckets that reject writes after a disk error, or whose state is behind."""
    logs = {bucket for bucket, tablet in tablets.all_open() if tablet.is_fenced}
    states = {bucket for bucket, keyed in tablets.keyed.all_open() if keyed.tablet.is_failed}
    return sorted(logs | states, key=str)


def damaged(tablets: Tablets) -> list[TableBucket]:
    """List the buckets whose logs have damaged bytes."""
    return [bucket for bucket, tablet in tablets.all_open() if tablet.log.faults]


def unopenable(tablets: Tablets) -> list[TableBucket]:
    """List the buckets whose log or state could not be opened."""
    return sorted({*tablets.unopenable, *tablets.keyed.failed()}, key=str)


def _named(bucket: TableBucket, paths: Mapping[int, TablePath]) -> str:
    partition = "" if bucket.partition_id is None else f" of partition {bucket.partition_id}"
    path = paths.get(bucket.table_id, f"table {bucket.table_id}")
    return f"Bucket {bucket.bucket}{partition} of {path}"


# Metrics: counts that were kept, and states read at the moment.

# Each table is a series of its own, and Prometheus has to keep them all.
TABLES_SHOWN_MAX = 100
_MS = 1000


class ServerMetrics:
    """Read the metrics of a server, on its loop."""

    def __init__(self, services: Services, listener: Listener) -> None:
        self._services = services
        self._listener = listener

    def read(self) -> Iterator[Reading]:
        """Yield every metric."""
        yield from self._stored()
        yield from self._written()
        yield from self._requested()
        yield from self._tiered()
        yield from _shipped(self._services.remote)
        yield from _audited(self._services.tallies.audit)
        yield value(exposition.THREADS, threading.active_count())
        yield value(exposition.TASKS, len(asyncio.all_tasks()))

    def _stored(self) -> Iterator[Reading]:
        tablets = self._services.tablets
        logs = [tablet.log for _, tablet in tablets.all_open()]
        keyed = [each for _, each in tablets.keyed.all_open()]
        yield value(exposition.TABLES, len(self._services.catalog.tables.ids()))
        yield value(exposition.CLOCK_DOUBTED, self._services.catalog.time.doubted_ms / _MS)
        yield value(exposition.BUCKETS_OPEN, len(logs))
        yield value(exposition.BUCKETS_FENCED, len(fenced(tablets)))
        yield value(exposition.BUCKETS_DAMAGED, len(damaged(tablets)))
        yield value(exposition.BUCKETS_UNOPENABLE, len(unopenable(tablets)))
        yield value(exposition.END_OFFSETS, sum(log.end_offset for log in logs))
        yield value(exposition.LOG_BYTES, sum(log.size_bytes for log in logs))
        free = self._services.space.free_now()
        yield value(exposition.DISK_FREE, -1 if free is None else free)
        yield value(exposition.KV_ROWS, sum(each.tablet.row_count for each in keyed))
        yield value(exposition.KV_UNSAVED, sum(each.upkeep.unsaved_rows for each in keyed))

    def _written(self) -> Iterator[Reading]:
        writes = self._services.tallies.writes
        waiting = sum(tablet.waiting_count for _, tablet in self._services.tablets.all_open())
        yield value(exposition.APPENDED_ROWS, writes.rows)
        yield value(exposition.APPENDED_BYTES, writes.size_bytes)
        yield value(exposition.WAITING, waiting)
        yield Spread(exposition.SYNC_SECONDS, {(): writes.syncs})
        yield value(exposition.SYNC_FAILURES, writes.sync_failures)
        yield value(exposition.EXPIRED_ROWS, writes.expired_rows)

    def _requested(self) -> Iterator[Reading]:
        requests = self._services.tallies.requests
        yield value(exposition.CONNECTIONS, self._listener.connection_count)
        yield value(exposition.REQUEST_BYTES, self._listener.requests.used_bytes)
        yield value(exposition.FETCH_READS, self._services.reads.made_count)
        yield value(exposition.FETCH_READS_SHARED, self._services.reads.shared_count)
        yield value(exposition.SCANNERS, len(self._services.scanners))
        yield from _limited(self._services.quotas)
        for metric, counts in (
            (exposition.REQUESTS, requests.answers()),
            (exposition.BUCKET_ERRORS, requests.bucket_errors),
        ):
            yield Values(metric, {(_name(api), str(n)): c for (api, n), c in counts.items()})
        spread = requests.durations.items()
        yield Spread(exposition.REQUEST_SECONDS, {(_name(api),): took for api, took in spread})

    def _tiered(self) -> Iterator[Reading]:
        lake = self._services.lake
        rows, tables = lake.untiered(), lake.rounds.tables()
        lags: dict[Labels, float] = {
            (each.path.database, each.path.table): float(rows[each.table_id]) for each in tables
        }
        failures: dict[Labels, float] = {
            (each.path.database, each.path.table): float(each.record.failures)
            for each in tables
            if each.record.failures
        }
        yield value(exposition.TIERING_LAG_ALL, sum(lags.values()))
        yield Values(exposition.TIERING_LAG, _largest(lags))
        yield value(exposition.LAKE_UNCHECKED, len(lake.unchecked()))
        yield Values(exposition.TIERING_FAILURES, _largest(failures))


def _name(api: int) -> str:
    return "unknown" if api == UNKNOWN_API else ApiKey(api).name


def _largest(values: Mapping[Labels, float]) -> dict[Labels, float]:
    largest = sorted(values.items(), key=lambda item: (-item[1], item[0]))
    return dict(largest[:TABLES_SHOWN_MAX])


def _limited(quotas: Quotas | None) -> Iterator[Reading]:
    accounts = () if quotas is None else quotas.accounts()
    waited: dict[Labels, float] = {
        (each.user, limit): took for each in accounts for limit, took in each.throttled_s.items()
    }
    refused: dict[Labels, float] = {
        (each.user, limit): count for each in accounts for limit, count in each.refusals.items()
    }
    yield Values(exposition.THROTTLED_SECONDS, _largest(waited))
    yield Values(exposition.QUOTA_REFUSALS, _largest(refused))


def _shipped(remote: RemoteCopy | None) -> Iterator[Reading]:
    tally = RemoteTally() if remote is None else remote.tally
    yield value(exposition.REMOTE_OWNER, remote.epoch if remote else 0)
    yield value(exposition.REMOTE_BEHIND, remote.behind_s if remote else 0)
    yield value(exposition.REMOTE_BEHIND_BYTES, remote.behind_bytes if remote else 0)
    yield value(exposition.REMOTE_LAST_COMMIT, remote.last_commit_ms / _MS if remote else 0)
    yield value(exposition.REMOTE_COMMITS, tally.commits)
    yield value(exposition.REMOTE_REQUESTS, tally.requests)
    yield value(exposition.REMOTE_BYTES, tally.size_bytes)
    yield value(exposition.REMOTE_FAILURES, tally.errors)


def _audited(audit: AuditTally) -> Iterator[Reading]:
    yield value(exposition.AUDIT_LAST_RUN, audit.last_run_ms / _MS)
    yield value(exposition.AUDIT_LAST_SUCCESS, audit.last_success_ms / _MS)
    yield value(exposition.AUDIT_SECONDS, audit.duration_s)
    yield Values(exposition.AUDIT_FINDINGS, {(name,): n for name, n in audit.findings.items()})
    yield value(exposition.AUDIT_CLEAN, int(audit.is_clean))


def watched_pages(services: Services, listener: Listener) -> dict[str, Callable[[], Page]]:
    """Build the pages by their paths."""
    exposition = Exposition(ServerMetrics(services, listener).read)

    def metrics() -> Page:
        return Page(exposition.text(), CONTENT_TYPE)

    def health() -> Page:
        reasons = reasons_unwell(services)
        if not reasons:
            return Page(b"ok\n")
        content = "".join(f"{reason}\n" for reason in reasons).encode()
        return Page(content, status=HTTPStatus.SERVICE_UNAVAILABLE)

    return {"/metrics": metrics, "/health": health}
