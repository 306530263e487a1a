"""What a fetch asks for, resolved to tablets, columns and filters."""

from dataclasses import dataclass
from functools import partial

from headwater.errors import HeadwaterError, InvalidProjectionError
from headwater.model.bucket import TableBucket
from headwater.model.predicate import columns_of, comparisons_of
from headwater.model.table import TableInfo
from headwater.runtime.turns import in_turns
from headwater.server.context import Context
from headwater.server.handlers.paths import bucket_of
from headwater.tablet.log_tablet import LogTablet
from headwater.tablet.selection import Selection
from headwater.wire import fluss_pb2 as pb
from headwater.wire.predicates import predicate_from_wire

NAMES_PER_TURN = 2048


@dataclass(frozen=True, slots=True)
class Taken:
    """Name what is taken of the rows of a table: two that are equal take the same bytes.

    The filter is named by the bytes that a client sent, since values of different types can be
    equal in Python.
    """

    columns: tuple[int, ...] | None = None
    filter_schema_id: int | None = None
    filter_bytes: bytes = b""
    splits_joined: bool = False


EVERYTHING = Taken()
APART = Taken(splits_joined=True)


@dataclass(frozen=True, slots=True)
class BucketFetch:
    """Say what to read of one bucket."""

    asked: pb.FetchLogBucketRequest
    bucket: TableBucket
    tablet: LogTablet
    selection: Selection
    taken: Taken


@dataclass(frozen=True, slots=True)
class FaultyBucket:
    """Say why a bucket cannot be read."""

    asked: pb.FetchLogBucketRequest
    fault: HeadwaterError


@dataclass(frozen=True, slots=True)
class TableFetch:
    """Say what to read of the buckets of one table."""

    table_id: int
    buckets: tuple[BucketFetch | FaultyBucket, ...]

    @property
    def tablets(self) -> list[LogTablet]:
        """Return the tablets that are read."""
        return [bucket.tablet for bucket in self.buckets if isinstance(bucket, BucketFetch)]


async def resolve_fetch(
    request: pb.FetchLogTableRequest, context: Context, *, takes_joined: bool
) -> TableFetch:
    """Find the tablets and the selection that a request means; a bucket may fail alone."""
    # A bucket that is named twice is read once, as it was named last.
    distinct = {
        bucket_of(request.table_id, asked): asked
        async for asked in in_turns(request.buckets_req, per_turn=NAMES_PER_TURN)
    }
    try:
        table = context.catalog.tables.by_id(request.table_id)
        selection, taken = _selection(request, table, context, takes_joined=takes_joined)
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
    return TableFetch(request.table_id, tuple(buckets))


def _selection(
    request: pb.FetchLogTableRequest, table: TableInfo, context: Context, *, takes_joined: bool
) -> tuple[Selection, Taken]:
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
    taken = Taken(columns, schema_id, sent, splits_joined=not takes_joined)
    return Selection(schemas, projection_of, predicate, filtered, comparisons, split), taken


def _projected_columns(
    request: pb.FetchLogTableRequest, table: TableInfo, context: Context
) -> tuple[int, ...]:
    """Return column ids; positions mean what they meant in the schema the client has seen."""
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
