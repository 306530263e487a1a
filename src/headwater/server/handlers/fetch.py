"""Reading from logs: long polls with columns and filters pushed down."""

import asyncio
from dataclasses import dataclass

from headwater.errors import (
    HeadwaterError,
    InvalidProjectionError,
    OffsetOutOfRangeError,
)
from headwater.model.predicate import columns_of
from headwater.server.catalog.entries import TableInfo
from headwater.server.context import Context
from headwater.server.handlers.paths import bucket_of
from headwater.tablet.log_tablet import LogTablet
from headwater.tablet.selection import Selection
from headwater.wire import fluss_pb2 as pb
from headwater.wire.fetch_answer import BucketAnswer, Part, TableAnswer, encode_fetch_answer
from headwater.wire.predicates import predicate_from_wire

EARLIEST_OFFSET = -2
WAIT_MS_MAX = 60_000


@dataclass(frozen=True, slots=True)
class BucketFetch:
    """Say what to read of one bucket, or why it cannot be read."""

    asked: pb.FetchLogBucketRequest
    tablet: LogTablet | None = None
    selection: Selection | None = None
    fault: HeadwaterError | None = None


@dataclass(frozen=True, slots=True)
class TableFetch:
    """Say what to read of the buckets of one table."""

    table_id: int
    buckets: tuple[BucketFetch, ...]


async def fetch_log(request: pb.FetchLogRequest, context: Context) -> list[Part]:
    """Answer with what is there, or wait for more.

    1. resolve what is asked to tablets and selections
    2. wait until the client has read its earlier answers
    3. read every bucket within the limits
    4. with too little read, wait for a high watermark to move, and read again
    """
    tables = [await _resolve(table, context) for table in request.tables_req]
    wait_ms = min(max(request.max_wait_ms, 0), WAIT_MS_MAX)
    clock = context.services.clock
    deadline = clock.monotonic() + wait_ms / 1000
    while True:
        wake = _listen(tables, context)
        try:
            async with context.session.turn:
                await context.session.writable()
                answers, size, urgent = await _read(tables, request, context)
            left_s = deadline - clock.monotonic()
            if size >= request.min_bytes or urgent or left_s <= 0 or context.services.is_stopping:
                return encode_fetch_answer(answers)
            await _wait(wake, left_s)
        finally:
            _unlisten(tables, wake, context)


# ---- resolving


async def _resolve(request: pb.FetchLogTableRequest, context: Context) -> TableFetch:
    buckets = []
    for asked in request.buckets_req:
        try:
            table = context.catalog.tables.by_id(request.table_id)
            tablet = await context.tablets.tablet(bucket_of(request.table_id, asked))
            buckets.append(BucketFetch(asked, tablet, _selection(request, table, context)))
        except HeadwaterError as fault:
            buckets.append(BucketFetch(asked, fault=fault))
    return TableFetch(request.table_id, tuple(buckets))


def _selection(
    request: pb.FetchLogTableRequest, table: TableInfo, context: Context
) -> Selection:
    tablets, table_id = context.tablets, table.table_id
    predicate = projection_of = None
    filtered: frozenset[int] = frozenset()
    if request.HasField("filter_predicate"):
        schema_id = request.filter_schema_id or table.schema_id
        schema = context.catalog.tables.schema(table_id, schema_id)
        predicate = predicate_from_wire(request.filter_predicate, schema)
        filtered = frozenset(columns_of(predicate))
    if request.projection_pushdown_enabled:
        columns = _projected_columns(request, table, context)
        projection_of = tablets.projections(table_id, columns)
    return Selection(tablets.schemas(table_id), projection_of, predicate, filtered)


def _projected_columns(
    request: pb.FetchLogTableRequest, table: TableInfo, context: Context
) -> tuple[int, ...]:
    """Return column ids; positions mean what they meant in the schema the client has seen."""
    positions = tuple(request.projected_fields)
    if not positions:
        raise InvalidProjectionError("A projection needs at least one column.")
    if request.HasField("filter_schema_id"):
        seen = {request.filter_schema_id}
    else:
        seen = context.session.schemas_told.get(table.table_id) or {table.schema_id}
    schemas = [context.catalog.tables.schema(table.table_id, schema_id) for schema_id in seen]
    ids = []
    for position in positions:
        meant = {
            schema.columns[position].column_id
            for schema in schemas
            if 0 <= position < len(schema.columns)
        }
        if not meant:
            raise InvalidProjectionError(f"{table.path} has no column at position {position}.")
        if len(meant) > 1:
            raise InvalidProjectionError(
                f"The columns of {table.path} have changed, so position {position} is ambiguous.",
                hint="Open the table on a new connection.",
            )
        ids.append(meant.pop())
    return tuple(ids)


# ---- reading


async def _read(
    tables: list[TableFetch], request: pb.FetchLogRequest, context: Context
) -> tuple[list[TableAnswer], int, bool]:
    left = min(max(request.max_bytes, 0), context.services.settings.response_bytes_max)
    size, urgent, answers = 0, False, []
    for table in tables:
        buckets = []
        for bucket in table.buckets:
            answer = await _read_bucket(bucket, left=left, is_first=not size)
            fields = answer.fields
            size_here = sum(map(len, answer.records))
            size, left = size + size_here, max(left - size_here, 0)
            urgent |= fields.HasField("filtered_end_offset") or (
                fields.error_code not in (0, OffsetOutOfRangeError.code)
            )
            buckets.append(answer)
        answers.append(TableAnswer(table.table_id, buckets))
    return answers, size, urgent


async def _read_bucket(bucket: BucketFetch, *, left: int, is_first: bool) -> BucketAnswer:
    fields = pb.FetchLogBucketResponse(bucket_id=bucket.asked.bucket_id)
    if bucket.asked.HasField("partition_id"):
        fields.partition_id = bucket.asked.partition_id
    tablet, selection = bucket.tablet, bucket.selection
    if tablet is None or selection is None:
        return _failed(fields, bucket.fault)
    end = tablet.high_watermark
    fields.high_watermark, fields.log_start_offset = end, tablet.start_offset
    asked = bucket.asked.fetch_offset
    offset = tablet.start_offset if asked == EARLIEST_OFFSET else asked
    if offset == end or not (left or is_first):
        return BucketAnswer(fields)
    try:
        selected = await tablet.select(
            offset,
            bytes_max=min(bucket.asked.max_fetch_bytes, left),
            selection=selection,
            at_least_one=is_first,
        )
    except HeadwaterError as fault:
        return _failed(fields, fault)
    if selected.pruned_up_to is not None:
        fields.filtered_end_offset = selected.pruned_up_to
    return BucketAnswer(fields, selected.parts)


def _failed(fields: pb.FetchLogBucketResponse, fault: HeadwaterError | None) -> BucketAnswer:
    assert fault is not None
    fields.error_code, fields.error_message = fault.code, str(fault)
    return BucketAnswer(fields)


# ---- waiting


def _listen(tables: list[TableFetch], context: Context) -> "Wake":
    wake = Wake()
    context.services.polls.add(wake)
    for tablet in _tablets(tables):
        tablet.listen(wake)
    return wake


def _unlisten(tables: list[TableFetch], wake: "Wake", context: Context) -> None:
    context.services.polls.discard(wake)
    for tablet in _tablets(tables):
        tablet.unlisten(wake)


def _tablets(tables: list[TableFetch]) -> list[LogTablet]:
    return [
        bucket.tablet for table in tables for bucket in table.buckets if bucket.tablet is not None
    ]


async def _wait(wake: "Wake", seconds: float) -> None:
    handle = asyncio.get_running_loop().call_later(seconds, wake)
    try:
        await wake.called
    finally:
        handle.cancel()


class Wake:
    """Be called by whatever ends a wait: new rows, a deadline, a stopping server."""

    def __init__(self) -> None:
        self.called: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __call__(self) -> None:
        """End the wait."""
        if not self.called.done():
            self.called.set_result(None)
