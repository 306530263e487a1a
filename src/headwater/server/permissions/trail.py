"""The audit trail: who did what to which table from where, and whether they were allowed to.

Records wait in a bounded buffer and are written in the background, to the table
`headwater.audit_log` and, if asked, as JSON lines to a file. A record that cannot be written delays
nobody: the buffer keeps the newest ones, and the server's log says how many were lost. Where the
trail is required, a request waits until its record is durable, and is refused if that fails.
"""

import asyncio
import json
import os
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from headwater.config.options import LOG_TTL
from headwater.config.server import ServerSettings
from headwater.errors import HeadwaterError, InvalidTableError, RetryLaterError
from headwater.model.acl import Resource
from headwater.model.arrow import arrow_schema
from headwater.model.bucket import TableBucket
from headwater.model.schema import Column, Schema, with_column_ids
from headwater.model.table import TableDescriptor, TableInfo
from headwater.model.types import BooleanType, DataType, StringType, TimestampLtzType
from headwater.rows.log_batch import build_batch
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events, Sparing
from headwater.runtime.tasks import Tasks
from headwater.server.catalog.catalog import ServerCatalog
from headwater.server.connection import Session
from headwater.server.permissions.needs import AUDIT_LOG, NEEDS, AuditKind, Request, Target
from headwater.server.tablets import Tablets
from headwater.tablet.log_tablet import ACKS_DURABLE
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import ApiKey

_events = Events("audit trail")
RECORDS_MAX = 10_000
"""Records that wait to be written."""
DETAIL_CHARS_MAX = 500
FLUSH_EVERY_S = 1.0
REFUSED_LINES_MAX = 100
"""Certificates refused that are recorded in ten seconds; of the rest the number is."""
BY_CERTIFICATE = "by certificate"
_COLUMNS: tuple[tuple[str, DataType], ...] = (
    ("time", TimestampLtzType(precision=3)),
    ("principal", StringType()),
    ("address", StringType()),
    ("call", StringType()),
    ("resource", StringType()),
    ("allowed", BooleanType()),
    ("detail", StringType()),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailRecord:
    """One call about one resource."""

    time: int
    principal: str
    address: str
    call: str
    resource: str
    allowed: bool
    detail: str = ""


def trail_descriptor(retention: str) -> TableDescriptor:
    """Describe the table of the audit trail."""
    columns = tuple(Column(name=name, type=kind) for name, kind in _COLUMNS)
    return TableDescriptor(
        schema=with_column_ids(Schema(columns=columns)),
        comment="Who did what to which table from where, and whether they were allowed to.",
        bucket_count=1,
        properties={LOG_TTL.name: retention},
    )


class AuditTrail:
    """Take records without waiting, and write them in the background."""

    def __init__(
        self, settings: ServerSettings, catalog: ServerCatalog, tablets: Tablets, clock: Clock
    ) -> None:
        self._retention = settings.trail_retention
        self._file = Path(settings.trail_file) if settings.trail_file else None
        self.is_required = settings.trail_required
        self._kinds = frozenset(map(AuditKind, settings.trail_kind_names))
        # Reads and writes of rows must not take the short way then.
        self.covers_rows = not self._kinds.isdisjoint((AuditKind.READ, AuditKind.WRITE))
        self._catalog = catalog
        self._tablets = tablets
        self._clock = clock
        self._records: deque[TrailRecord] = deque()
        self._lost = 0
        self._sparing = Sparing(clock, lines_max=1)
        self._refused = Sparing(clock, lines_max=REFUSED_LINES_MAX)
        self._turn = asyncio.Lock()
        self._tasks = Tasks()

    def covers(self, api: ApiKey, session: Session) -> bool:
        """Tell whether a call leaves a trace; what the storage does itself does not."""
        return NEEDS[api].kind in self._kinds and not session.is_internal

    def note(
        self, api: ApiKey, request: Request, session: Session, *, allowed: bool, detail: str = ""
    ) -> None:
        """Take one record for each resource that a request is about."""
        for resource in self._resources(api, request):
            self._take(
                TrailRecord(
                    time=self._clock.now_ms(),
                    principal=session.principal or "",
                    address=session.address,
                    call=api.name,
                    resource=resource,
                    allowed=allowed,
                    detail=detail[:DETAIL_CHARS_MAX],
                )
            )

    def note_certificate(self, principal: str, *, address: str, refusal: str = "") -> None:
        """Take a record of a login by certificate, for which there is no request.

        Handshakes that fail cost a stranger little, so of those only a few are taken at a time.
        """
        if AuditKind.LOGIN not in self._kinds:
            return
        detail = refusal or BY_CERTIFICATE
        if refusal:
            if (left_out := self._refused.turn()) is None:
                return
            detail += "".join(f" ({count} more before)" for count in left_out.values())
        self._take(
            TrailRecord(
                time=self._clock.now_ms(),
                principal=principal,
                address=address,
                call=ApiKey.AUTHENTICATE.name,
                resource="",
                allowed=not refusal,
                detail=detail[:DETAIL_CHARS_MAX],
            )
        )

    def _take(self, record: TrailRecord) -> None:
        self._records.append(record)
        while len(self._records) > RECORDS_MAX:
            self._records.popleft()
            self._lost += 1

    def start(self) -> None:
        """Begin to write records."""
        self._tasks.start(self._run(), name="audit trail")

    async def stop(self) -> None:
        """Write what is left."""
        await self._tasks.stop()
        await self._try_to_write()

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(FLUSH_EVERY_S)
            await self._try_to_write()

    async def _try_to_write(self) -> None:
        try:
            await self.write()
        except (HeadwaterError, OSError) as fault:
            if self._sparing.turn() is not None:
                _events.error("not written", cause=fault, waiting=len(self._records))

    async def write(self) -> None:
        """Make all records durable that were taken until now."""
        async with self._turn:
            if self._lost:
                _events.error("records lost", count=self._lost)
                self._lost = 0
            taken = list(self._records)
            if not taken:
                return
            self._records.clear()
            try:
                await self._append(taken)
                if self._file is not None:
                    await asyncio.to_thread(_write_lines, self._file, taken)
            except BaseException:
                self._records.extendleft(reversed(taken))
                raise

    async def require(self) -> None:
        """Refuse a request whose record cannot be written."""
        try:
            await self.write()
        except (HeadwaterError, OSError) as fault:
            raise RetryLaterError(
                f"The audit trail is required and cannot be written: {fault}",
                hint="Try again when an operator has mended the server's disk.",
            ) from fault

    async def _append(self, taken: list[TrailRecord]) -> None:
        table = self._table()
        rows = pa.RecordBatch.from_pylist(
            [asdict(each) for each in taken], arrow_schema(table.schema)
        )
        records = build_batch(
            memoryview(rows.serialize()), schema_id=table.schema_id, record_count=len(taken)
        )
        tablet = await self._tablets.tablet(TableBucket(table.table_id, 0))
        await tablet.append(
            memoryview(records),
            acks=ACKS_DURABLE,
            admission=self._tablets.admission_of(table.table_id),
        )

    def _table(self) -> TableInfo:
        """Find the table, or make it; somebody may have dropped it."""
        self._catalog.databases.create(AUDIT_LOG.database, ignore_if_exists=True)
        descriptor = trail_descriptor(self._retention)
        table = self._catalog.tables.create(AUDIT_LOG, descriptor, ignore_if_exists=True)
        names = {column.name for column in table.schema.columns}
        if table.schema.primary_key or not names.issuperset(name for name, _ in _COLUMNS):
            raise InvalidTableError(
                f"{AUDIT_LOG} is not a table of the audit trail.",
                hint="Drop it as a super user; the server makes it anew.",
            )
        return table

    def _resources(self, api: ApiKey, request: Request) -> list[str]:
        targets = NEEDS[api].targets
        found: Iterable[Target] = targets(request) if targets else _targets(request)
        return [self._shown(each) for each in found] or _entries(request) or [""]

    def _shown(self, target: Target) -> str:
        if isinstance(target, Resource):
            return str(target)
        if target in self._catalog.tables.ids():
            return str(Resource.table(self._catalog.tables.by_id(target).path))
        return f"table {target}"


def trail_of(
    settings: ServerSettings,
    catalog: ServerCatalog,
    tablets: Tablets,
    *,
    clock: Clock,
    has_logins: bool,
) -> AuditTrail | None:
    """Return the trail of a server where users log in; nobody can be named elsewhere."""
    if not settings.trail_kind_names or not has_logins:
        return None
    return AuditTrail(settings, catalog, tablets, clock)


def _targets(request: Request) -> list[Target]:
    """Return the tables of requests that are checked while they are answered."""
    match request:
        case pb.FetchLogRequest():
            return [each.table_id for each in request.tables_req]
        case pb.ScanKvRequest() if request.HasField("bucket_scan_req"):
            return [request.bucket_scan_req.table_id]
        case pb.CommitLakeTableSnapshotRequest():
            return [each.table_id for each in request.lake_table_snapshot_metadata]
        case pb.PrepareLakeTableSnapshotRequest():
            return [each.table_id for each in request.bucket_offsets]
        case _:
            return []


def _entries(request: Request) -> list[str]:
    """Return which permissions a request changes."""
    match request:
        case pb.CreateAclsRequest():
            return [_entry(each) for each in request.acl]
        case pb.DropAclsRequest():
            return [_entry(each) for each in request.acl_filter]
        case _:
            return []


def _entry(each: pb.AclInfo | pb.AclFilter) -> str:
    who = f"{each.principal_type or '*'}:{each.principal_name or '*'}"
    return f"{who} {each.operation_type} {each.resource_name or '*'} {each.host or '*'}"


def _write_lines(path: Path, records: list[TrailRecord]) -> None:
    lines = "".join(json.dumps(asdict(each)) + "\n" for each in records)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "a", encoding="utf-8") as file:
        file.write(lines)
        file.flush()
        os.fsync(file.fileno())
