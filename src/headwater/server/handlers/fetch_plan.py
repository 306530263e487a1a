"""What a fetch asks for, resolved to tablets, columns and filters."""

from dataclasses import dataclass

from headwater.errors import HeadwaterError, InvalidProjectionError
from headwater.model.predicate import columns_of
from headwater.model.table import TableInfo
from headwater.server.context import Context
from headwater.server.handlers.paths import bucket_of
from headwater.tablet.log_tablet import LogTablet
from headwater.tablet.selection import Selection
from headwater.wire import fluss_pb2 as pb
from headwater.wire.predicates import predicate_from_wire


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

    @property
    def tablets(self) -> list[LogTablet]:
        """Return the tablets that are read."""
        return [bucket.tablet for bucket in self.buckets if bucket.tablet is not None]


async def resolve_fetch(request: pb.FetchLogTableRequest, context: Context) -> TableFetch:
    """Find the tablets and the selection that a request means; a bucket may fail alone."""
    buckets = []
    for asked in request.buckets_req:
        try:
            table = context.catalog.tables.by_id(request.table_id)
            tablet = await context.tablets.tablet(bucket_of(request.table_id, asked))
            buckets.append(BucketFetch(asked, tablet, _selection(request, table, context)))
        except HeadwaterError as fault:
            buckets.append(BucketFetch(asked, fault=fault))
    return TableFetch(request.table_id, tuple(buckets))


def _selection(request: pb.FetchLogTableRequest, table: TableInfo, context: Context) -> Selection:
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
