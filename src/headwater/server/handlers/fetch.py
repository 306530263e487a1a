"""Reading from logs: long polls with columns and filters pushed down.

A fetch is resolved to tablets, columns and filters; then it is read within its limits, taking turns
with other fetches, and waits for new rows while it has too few.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from headwater.errors import HeadwaterError, InvalidProjectionError, RetryLaterError
from headwater.model.acl import Operation, Rule
from headwater.model.bucket import UNKNOWN, Lineage, TableBucket
from headwater.model.predicate import columns_of, comparisons_of
from headwater.model.table import TableInfo
from headwater.runtime.tasks import in_turns
from headwater.server.context import FAULT_DELAY_S, Context, bucket_of
from headwater.server.permissions.rules import Restriction
from headwater.server.readers import SharedReads
from headwater.tablet.log_tablet import LogTablet
from headwater.tablet.selection import Selection
from headwater.wire import fetch
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import ApiKey
from headwater.wire.messages import Part
from headwater.wire.predicates import predicate_from_wire

# Resolving a fetch to tablets, columns and filters.

NAMES_PER_TURN = 2048


@dataclass(frozen=True, slots=True)
class FetchSelection:
    """Which part of the rows of a table is read: equal selections read the same bytes.

    The filter is identified by the bytes that a client sent, since values of different types can be
    equal in Python.
    """

    columns: tuple[int, ...] | None = None
    filter_schema_id: int | None = None
    filter_bytes: bytes = b""
    splits_joined: bool = False
    # What the reader may see, and whether it knows batches that rows were taken out of.
    rules: tuple[Rule, ...] = ()
    takes_sparse: bool = False


EVERYTHING = FetchSelection()
APART = FetchSelection(splits_joined=True)


@dataclass(frozen=True, slots=True)
class Known:
    """Say which batches of ours a reader knows."""

    joined: bool
    sparse: bool


@dataclass(frozen=True, slots=True)
class BucketFetch:
    """What to read of one bucket."""

    asked: pb.FetchLogBucketRequest
    bucket: TableBucket
    tablet: LogTablet
    selection: Selection
    taken: FetchSelection


@dataclass(frozen=True, slots=True)
class FaultyBucket:
    """Why a bucket cannot be read."""

    asked: pb.FetchLogBucketRequest
    fault: HeadwaterError


@dataclass(frozen=True, slots=True)
class TableFetch:
    """What to read of the buckets of one table."""

    table_id: int
    buckets: tuple[BucketFetch | FaultyBucket, ...]
    rules: tuple[Rule, ...] = ()
    """What the reader may see of it, while that stays as it is."""

    @property
    def tablets(self) -> list[LogTablet]:
        """The tablets that are read."""
        return [bucket.tablet for bucket in self.buckets if isinstance(bucket, BucketFetch)]


async def resolve_fetch(
    request: pb.FetchLogTableRequest, context: Context, *, knows: Known
) -> TableFetch:
    """Find the tablets and the selection of a request; a bucket may fail alone."""
    # A bucket that is named twice is read once, as it was named last.
    distinct = {
        bucket_of(request.table_id, asked): asked
        async for asked in in_turns(request.buckets_req, per_turn=NAMES_PER_TURN)
    }
    try:
        context.require(Operation.READ, request.table_id)
        table = context.catalog.tables.by_id(request.table_id)
        selection, taken = _selection(request, table, context, takes_joined=knows.joined)
        if (restriction := context.restriction(request.table_id)) is not None:
            selection, taken = _restricted(selection, taken, restriction, context, knows=knows)
    except HeadwaterError as fault:
        faulty = (FaultyBucket(asked, fault) for asked in distinct.values())
        return TableFetch(request.table_id, tuple(faulty))
    buckets: list[BucketFetch | FaultyBucket] = []
    async for bucket, asked in in_turns(distinct.items()):
        try:
            tablet = await context.tablets.tablet(bucket)
            buckets.append(BucketFetch(asked, bucket, tablet, selection, taken))
        except HeadwaterError as fault:
            buckets.append(FaultyBucket(asked, fault))
    return TableFetch(request.table_id, tuple(buckets), taken.rules)


def _restricted(
    selection: Selection,
    taken: FetchSelection,
    restriction: Restriction,
    context: Context,
    *,
    knows: Known,
) -> tuple[Selection, FetchSelection]:
    """Narrow a selection to what the reader may see.

    Columns that may not be read can neither be asked for nor looked at by a filter, which would
    tell of them by what is left out.
    """
    restriction.require_columns(taken.columns)
    restriction.require_columns(selection.filtered_columns)
    taken = replace(taken, rules=restriction.rules, takes_sparse=knows.sparse)
    tables, table_id = context.catalog.tables, restriction.table.table_id
    versions = tables.schemas(table_id)
    columns = {
        column.column_id: column for _, each in sorted(versions.items()) for column in each.columns
    }
    is_whole = restriction.columns is None or columns.keys() <= restriction.columns
    if not restriction.has_filter and is_whole:
        return selection, taken
    # A projection copies small gaps between columns along, which may be those out of sight: so a
    # sieve picks the columns as well.
    restriction.require_whole_changes()
    projected = None if taken.columns is None else tuple(columns[each] for each in taken.columns)
    sieve = restriction.batches(
        context.tablets.schemas(table_id),
        projected=projected,
        shown=restriction.columns,
        takes_sparse=knows.sparse and knows.joined,
    )
    return replace(selection, projection_of=None, split_joined=None, sieve=sieve), taken


def _selection(
    request: pb.FetchLogTableRequest, table: TableInfo, context: Context, *, takes_joined: bool
) -> tuple[Selection, FetchSelection]:
    tablets, table_id = context.tablets, table.table_id
    schemas = tablets.schemas(table_id)
    split = None if takes_joined else partial(tablets.joiner, table_id)
    is_filtered = request.HasField("filter_predicate")
    if not (is_filtered or request.projection_pushdown_enabled):
        return Selection(schemas, split_joined=split), EVERYTHING if takes_joined else APART
    predicate = projection_of = columns = schema_id = None
    filtered: frozenset[int] = frozenset()
    comparisons = 0
    if is_filtered:
        schema_id = request.filter_schema_id or table.schema_id
        schema = context.catalog.tables.schema(table_id, schema_id)
        predicate = predicate_from_wire(request.filter_predicate, schema)
        filtered = frozenset(columns_of(predicate))
        comparisons = comparisons_of(predicate)
    if request.projection_pushdown_enabled:
        columns = _projected_columns(request, table, context)
        projection_of = tablets.projections(table_id, columns)
    sent = request.filter_predicate.SerializeToString() if is_filtered else b""
    taken = FetchSelection(columns, schema_id, sent, splits_joined=not takes_joined)
    return Selection(schemas, projection_of, predicate, filtered, comparisons, split), taken


def _projected_columns(
    request: pb.FetchLogTableRequest, table: TableInfo, context: Context
) -> tuple[int, ...]:
    """Convert positions to column ids; positions refer to the schema the client has seen."""
    positions = tuple(request.projected_fields)
    if not positions:
        raise InvalidProjectionError("A projection needs at least one column.")
    if len(set(positions)) < len(positions):
        raise InvalidProjectionError("A projection names a column more than once.")
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


# Reading within limits.

EARLIEST_OFFSET = -2


@dataclass(frozen=True, slots=True)
class Fetched:
    """The responses for all buckets, and their totals."""

    tables: Sequence[fetch.EncodedTable]

    @property
    def size(self) -> int:
        """Bytes of records."""
        return sum(bucket.records_size for _, buckets in self.tables for bucket in buckets)

    @property
    def has_moved(self) -> bool:
        """Tell whether a reader gets ahead without records, because batches were pruned."""
        return any(bucket.has_moved for _, buckets in self.tables for bucket in buckets)

    @property
    def errors(self) -> list[tuple[int, str]]:
        """Why buckets could not be read, by code and message; empty if all were."""
        return [bucket.error for _, buckets in self.tables for bucket in buckets if bucket.error]


async def read_fetch(tables: list[TableFetch], reads: SharedReads, *, bytes_max: int) -> Fetched:
    """Read every bucket in turn; the first that has rows gets at least one batch."""
    size, answers = 0, []
    for table in tables:
        buckets = []
        async for bucket in in_turns(table.buckets):
            if isinstance(bucket, FaultyBucket):
                answer = _failed(_fields(bucket.asked), bucket.fault)
            else:
                left, is_first = max(bytes_max - size, 0), size == 0
                answer = await _read_bucket(bucket, reads, left=left, is_first=is_first)
            size += answer.records_size
            buckets.append(answer)
        answers.append((table.table_id, buckets))
    return Fetched(answers)


async def _read_bucket(
    bucket: BucketFetch, reads: SharedReads, *, left: int, is_first: bool
) -> fetch.EncodedBucket:
    """Reuse what others have read, or read it.

    The name of a read is everything that its result depends on.
    """
    tablet = bucket.tablet
    end, start = tablet.high_watermark, tablet.start_offset
    asked = bucket.asked.fetch_offset
    offset = start if asked == EARLIEST_OFFSET else asked
    try:
        tablet.check_same(offset, bucket.asked.incarnation)
    except HeadwaterError as fault:
        return _failed(_fields(bucket.asked, start, end), fault)
    if offset == end or not (left or is_first):
        nothing = (bucket.bucket, start, end, offset)
        return reads.find(nothing) or reads.keep(
            nothing,
            fetch.encode_bucket(fetch.BucketAnswer(_told_fields(bucket, offset, (start, end)))),
        )
    bytes_max = min(bucket.asked.max_fetch_bytes, left)
    name = (bucket.bucket, start, end, offset, bytes_max, is_first, bucket.taken)
    if (found := reads.find(name)) is not None:
        return found
    read = partial(_read, bucket, offset, (start, end), bytes_max=bytes_max, is_first=is_first)
    try:
        if tablet.selects_at_once(offset, bytes_max=bytes_max, selection=bucket.selection):
            return reads.keep(name, await read())
        return await reads.once(name, read)
    except HeadwaterError as fault:
        return _failed(_fields(bucket.asked, start, end), fault)


async def _read(
    bucket: BucketFetch, offset: int, bounds: tuple[int, int], *, bytes_max: int, is_first: bool
) -> fetch.EncodedBucket:
    selected = await bucket.tablet.select(
        offset,
        up_to=bounds[1],
        bytes_max=bytes_max,
        selection=bucket.selection,
        at_least_one=is_first,
    )
    fields = _told_fields(bucket, offset, bounds)
    if selected.pruned_up_to is not None:
        fields.filtered_end_offset = selected.pruned_up_to
    return fetch.encode_bucket(fetch.BucketAnswer(fields, selected.parts))


def _tell_lineage(fields: pb.FetchLogBucketResponse, lineage: Lineage, offset: int) -> None:
    incarnation = lineage.writer_before(offset)
    if incarnation != UNKNOWN:
        fields.incarnation = incarnation
    for start in lineage.between(offset, fields.high_watermark):
        fields.starts.extend((start.offset, start.incarnation))


def _told_fields(
    bucket: BucketFetch, offset: int, bounds: tuple[int, int]
) -> pb.FetchLogBucketResponse:
    fields = _fields(bucket.asked, *bounds)
    _tell_lineage(fields, bucket.tablet.log.lineage, offset)
    return fields


def _fields(
    asked: pb.FetchLogBucketRequest, start: int | None = None, end: int | None = None
) -> pb.FetchLogBucketResponse:
    fields = pb.FetchLogBucketResponse(
        bucket_id=asked.bucket_id, log_start_offset=start, high_watermark=end
    )
    if asked.HasField("partition_id"):
        fields.partition_id = asked.partition_id
    return fields


def _failed(fields: pb.FetchLogBucketResponse, fault: HeadwaterError) -> fetch.EncodedBucket:
    fields.error_code, fields.error_message = fault.code, str(fault)
    return fetch.encode_bucket(fetch.BucketAnswer(fields))


WAIT_MS_MAX = 60_000


async def fetch_log(request: pb.FetchLogRequest, context: Context) -> list[Part]:
    """Answer with what is there, or wait for more.

    1. resolve the request to tablets and selections, and listen to them
    2. wait until the client has read its earlier responses
    3. read every bucket within the limits, or take what others have read
    4. with too little read, wait for a high watermark to move and for a turn, and read again
    """
    knows = Known(request.takes_joined, request.takes_sparse)
    tables = [
        await resolve_fetch(table, context, knows=knows)
        async for table in in_turns(request.tables_req)
    ]
    tablets = [tablet for table in tables for tablet in table.tablets]
    wake = Wake(context)
    _listen(tablets, wake, context)
    try:
        fetched = await _fetch(tables, tablets, request, wake=wake, context=context)
    finally:
        _unlisten(tablets, wake, context)
    async for code, reason in in_turns(fetched.errors):
        context.bucket_refused(ApiKey.FETCH_LOG, code, reason)
    return fetch.joined_answer(fetched.tables)


async def _fetch(
    tables: list[TableFetch],
    tablets: list[LogTablet],
    request: pb.FetchLogRequest,
    *,
    wake: "Wake",
    context: Context,
) -> Fetched:
    clock = context.services.clock
    wait_ms = min(max(request.max_wait_ms, 0), WAIT_MS_MAX)
    deadline = clock.monotonic() + wait_ms / 1000
    while True:
        wake.rearm()
        fetched = _still_allowed(await _read_in_turn(tables, request, context), tables, context)
        if _is_enough(fetched, request) or context.services.is_stopping:
            return fetched
        left_s = deadline - clock.monotonic()
        if left_s <= 0:
            return fetched
        if fetched.errors:
            # Some clients retry immediately, forever: slow them down.
            await clock.sleep(min(left_s, FAULT_DELAY_S))
            return fetched
        for tablet in tablets:
            tablet.hurry(wake)
        context.session.received()
        await wake.wait(left_s)


async def _read_in_turn(
    tables: list[TableFetch], request: pb.FetchLogRequest, context: Context
) -> Fetched:
    services, session = context.services, context.session
    bytes_max = min(max(request.max_bytes, 0), services.settings.response_bytes_max)
    if context.session.meter is not None:
        bytes_max = min(bytes_max, context.session.meter.answer_bytes_max)
    async with session.turn:
        await session.writable()
        # Tails wait, and share what they read. A client that does not wait, such as an audit, wants
        # what is on disk now, not what was read of it before.
        reads = services.reads if request.max_wait_ms > 0 else SharedReads(bytes_max=0)
        async with services.answers.room(bytes_max) as granted:
            return await read_fetch(tables, reads, bytes_max=granted)


def _still_allowed(fetched: Fetched, tables: list[TableFetch], context: Context) -> Fetched:
    """Take rows out again that the client may not read any more: it may have waited for long."""
    authorizer = context.services.authorizer
    if authorizer is None:
        return fetched
    answers: list[fetch.EncodedTable] = []
    for table, answer in zip(tables, fetched.tables, strict=True):
        try:
            authorizer.require(context.session, Operation.READ, table.table_id)
            _check_rules(table, context)
            answers.append(answer)
        except HeadwaterError as fault:
            refused = [_failed(_fields(bucket.asked), fault) for bucket in table.buckets]
            answers.append((table.table_id, refused))
    return Fetched(answers)


def _check_rules(table: TableFetch, context: Context) -> None:
    """Refuse rows that were read under other rules than those of now."""
    if not table.tablets:
        return
    restriction = context.restriction(table.table_id)
    if (() if restriction is None else restriction.rules) != table.rules:
        raise RetryLaterError("What you may read of the table has changed.", hint="Ask again.")


def _is_enough(fetched: Fetched, request: pb.FetchLogRequest) -> bool:
    return fetched.size >= max(request.min_bytes, 1) or fetched.has_moved


def _listen(tablets: list[LogTablet], wake: "Wake", context: Context) -> None:
    context.services.polls.add(wake)
    for tablet in tablets:
        tablet.listen(wake)


def _unlisten(tablets: list[LogTablet], wake: "Wake", context: Context) -> None:
    context.services.polls.discard(wake)
    for tablet in tablets:
        tablet.unlisten(wake)


class Wake:
    """Called by whatever ends a wait: new rows, a deadline, a stopping server.

    However often it is called, the wait ends once, when the fetch has its turn.
    """

    def __init__(self, context: Context) -> None:
        self._turns = context.services.turns
        self._session = context.session
        self._waiting: asyncio.Future[None] | None = None
        self._is_called = False

    def __call__(self) -> None:
        """End the wait, or the next one if there is none yet."""
        if not self._is_called and self._waiting is not None:
            self._turns.queue(self._session, self._waiting)
        self._is_called = True

    def rearm(self) -> None:
        """Forget earlier calls, before checking what they announced."""
        self._is_called = False

    async def wait(self, seconds: float) -> None:
        """Wait for a call since the last `rearm`, and then for a turn."""
        if self._is_called:
            await self._turns.turn(self._session)
            return
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        handle = loop.call_later(seconds, self)
        try:
            await self._waiting
        finally:
            handle.cancel()
            self._waiting = None
