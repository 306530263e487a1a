"""What a round looks at before it plans: the logs of a table, and what its server was told."""

from headwater.client.client import AsyncClient
from headwater.client.paths import wire_path
from headwater.client.reading.log_batch import Place
from headwater.client.reading.offsets import list_ends, list_offsets
from headwater.client.reading.places import buckets_of, partitions_of
from headwater.errors import BoundaryMovedError
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange, TableBucket
from headwater.model.table import TableInfo
from headwater.tiering.plan import TableView
from headwater.tiering.turn import Turn
from headwater.wire import fluss_pb2 as pb


async def look_at(client: AsyncClient, table: TableInfo, *, turn: Turn) -> TableView:
    """Look at a table; after the lake's head, so that nothing in there can be news to the logs."""
    buckets = await buckets_of(client.cluster, table)
    known = await client.lake.snapshot(table.path)
    if known is not None and known.table_id != table.table_id:
        known = None
    starts = await list_offsets(client.cluster, table, "earliest", buckets=buckets)
    ends = await list_ends(client.cluster, table, buckets=buckets)
    return TableView(
        path=table.path,
        identity=turn.identity(table),
        is_keyed=table.is_keyed,
        logs={
            LakeBucket(bucket.partition_id, bucket.bucket): OffsetRange(
                starts[place], ends[place].offset
            )
            for place, bucket in buckets.items()
        },
        lineages={
            LakeBucket(bucket.partition_id, bucket.bucket): ends[place].lineage
            for place, bucket in buckets.items()
        },
        partitions=partitions_of(buckets),
        reported={} if known is None else known.ends,
        reported_id=None if known is None else known.snapshot_id,
        unsettled=turn.assignment.unsettled,
    )


async def check_columns(client: AsyncClient, table: TableInfo) -> None:
    """Refuse to go on with columns that are not the newest, asked for after the ends of the logs.

    A row before those ends may have a column that came meanwhile, and would lose it.
    """
    # The coordinator, as others may take a while to hear of a change.
    request = pb.GetTableInfoRequest(table_path=wire_path(table.path))
    newest = await client.cluster.ask(request, pb.GetTableInfoResponse, coordinator=True)
    if (newest.table_id, newest.schema_id) != (table.table_id, table.schema_id):
        raise BoundaryMovedError(f"The columns of {table.path} changed while a round was planned.")


async def log_ranges(
    client: AsyncClient, table: TableInfo, buckets: dict[Place, TableBucket]
) -> dict[LakeBucket, OffsetRange]:
    """Return what the log of each bucket holds."""
    starts = await list_offsets(client.cluster, table, "earliest", buckets=buckets)
    ends = await list_offsets(client.cluster, table, "latest", buckets=buckets)
    return {
        LakeBucket(bucket.partition_id, bucket.bucket): OffsetRange(starts[place], ends[place])
        for place, bucket in buckets.items()
    }
