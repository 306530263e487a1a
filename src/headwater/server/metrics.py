"""What a server shows of itself: counts that were kept, and states read at the moment."""

import asyncio
import threading
from collections.abc import Iterator, Mapping

from headwater.metrics import declared
from headwater.metrics.reading import Labels, Reading, Spread, Values, value
from headwater.metrics.tallies import UNKNOWN_API, AuditTally
from headwater.server.context import Services
from headwater.server.listener import Listener
from headwater.server.metrics_health import damaged, fenced, unopenable
from headwater.wire.apis import ApiKey

# Each table is a series of its own, and a Prometheus has to keep them all.
TABLES_SHOWN_MAX = 100
_MS = 1000


class ServerMetrics:
    """Read the metrics of a server; whoever asks does so on its loop."""

    def __init__(self, services: Services, listener: Listener) -> None:
        self._services = services
        self._listener = listener

    def read(self) -> Iterator[Reading]:
        """Yield every metric that is declared."""
        yield from self._stored()
        yield from self._written()
        yield from self._requested()
        yield from self._tiered()
        yield from _audited(self._services.tallies.audit)
        yield value(declared.THREADS, threading.active_count())
        yield value(declared.TASKS, len(asyncio.all_tasks()))

    def _stored(self) -> Iterator[Reading]:
        tablets = self._services.tablets
        logs = [tablet.log for _, tablet in tablets.all_open()]
        keyed = [each for _, each in tablets.keyed.all_open()]
        yield value(declared.TABLES, len(self._services.catalog.tables.ids()))
        yield value(declared.CLOCK_DOUBTED, self._services.catalog.time.doubted_ms / _MS)
        yield value(declared.BUCKETS_OPEN, len(logs))
        yield value(declared.BUCKETS_FENCED, len(fenced(tablets)))
        yield value(declared.BUCKETS_DAMAGED, len(damaged(tablets)))
        yield value(declared.BUCKETS_UNOPENABLE, len(unopenable(tablets)))
        yield value(declared.END_OFFSETS, sum(log.end_offset for log in logs))
        yield value(declared.LOG_BYTES, sum(log.size_bytes for log in logs))
        free = self._services.space.free_now()
        yield value(declared.DISK_FREE, -1 if free is None else free)
        yield value(declared.KV_ROWS, sum(each.tablet.row_count for each in keyed))
        yield value(declared.KV_UNSAVED, sum(each.upkeep.unsaved_rows for each in keyed))

    def _written(self) -> Iterator[Reading]:
        writes = self._services.tallies.writes
        waiting = sum(tablet.waiting_count for _, tablet in self._services.tablets.all_open())
        yield value(declared.APPENDED_ROWS, writes.rows)
        yield value(declared.APPENDED_BYTES, writes.size_bytes)
        yield value(declared.WAITING, waiting)
        yield Spread(declared.SYNC_SECONDS, {(): writes.syncs})
        yield value(declared.SYNC_FAILURES, writes.sync_failures)
        yield value(declared.EXPIRED_ROWS, writes.expired_rows)

    def _requested(self) -> Iterator[Reading]:
        requests = self._services.tallies.requests
        yield value(declared.CONNECTIONS, self._listener.connection_count)
        yield value(declared.REQUEST_BYTES, self._listener.requests.used_bytes)
        yield value(declared.FETCH_READS, self._services.reads.made_count)
        yield value(declared.FETCH_READS_SHARED, self._services.reads.shared_count)
        yield value(declared.SCANNERS, len(self._services.scanners))
        for metric, counts in (
            (declared.REQUESTS, requests.answers()),
            (declared.BUCKET_ERRORS, requests.bucket_errors),
        ):
            yield Values(metric, {(_name(api), str(n)): c for (api, n), c in counts.items()})
        spread = requests.durations.items()
        yield Spread(declared.REQUEST_SECONDS, {(_name(api),): took for api, took in spread})

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
        yield value(declared.TIERING_LAG_ALL, sum(lags.values()))
        yield Values(declared.TIERING_LAG, _largest(lags))
        yield value(declared.LAKE_UNCHECKED, len(lake.unchecked()))
        yield Values(declared.TIERING_FAILURES, _largest(failures))


def _name(api: int) -> str:
    return "unknown" if api == UNKNOWN_API else ApiKey(api).name


def _largest(values: Mapping[Labels, float]) -> dict[Labels, float]:
    largest = sorted(values.items(), key=lambda item: (-item[1], item[0]))
    return dict(largest[:TABLES_SHOWN_MAX])


def _audited(audit: AuditTally) -> Iterator[Reading]:
    yield value(declared.AUDIT_LAST_RUN, audit.last_run_ms / _MS)
    yield value(declared.AUDIT_LAST_SUCCESS, audit.last_success_ms / _MS)
    yield value(declared.AUDIT_SECONDS, audit.duration_s)
    yield Values(declared.AUDIT_FINDINGS, {(name,): n for name, n in audit.findings.items()})
    yield value(declared.AUDIT_CLEAN, int(audit.is_clean))
