"""Snapshots of rows by key that others could read: there are none, so they begin with the log."""

from headwater.errors import NotPrimaryKeyTableError, SnapshotMissingError
from headwater.model.bucket import TableBucket
from headwater.model.table import TableInfo
from headwater.runtime.turns import in_turns
from headwater.server.context import Context
from headwater.server.handlers.paths import table_path
from headwater.server.lake.tiered import tiered_end
from headwater.wire import fluss_pb2 as pb

UNREADABLE = 0
"""The id of a snapshot that nobody can read; whoever tries is told so by another error."""


async def get_latest_kv_snapshots(
    request: pb.GetLatestKvSnapshotsRequest, context: Context
) -> pb.GetLatestKvSnapshotsResponse:
    """Tell readers to begin with the first record of each bucket, if it is still there.

    Where the lake holds what is gone, a snapshot is named that cannot be read: tierers begin
    behind the lake and do not look at it, and others fail rather than begin with half a log.
    """
    table = context.catalog.tables.info(table_path(request.table_path))
    if not table.descriptor.is_keyed:
        raise NotPrimaryKeyTableError(f"{table.path} has no primary key, hence no snapshots.")
    answer = pb.GetLatestKvSnapshotsResponse(table_id=table.table_id)
    partition_id = None
    if request.HasField("partition_name"):
        partition = context.catalog.partitions.by_name(table.path, request.partition_name)
        answer.partition_id = partition_id = partition.partition_id
    async for number in in_turns(range(table.descriptor.bucket_count or 1)):
        bucket = TableBucket(table.table_id, number, partition_id)
        answer.latest_snapshots.append(await _snapshot(bucket, table, context))
    return answer


async def _snapshot(bucket: TableBucket, table: TableInfo, context: Context) -> pb.KvSnapshot:
    """Refuse a log whose beginning is gone: its changes alone are fewer rows than there are."""
    start = (await context.tablets.tablet(bucket)).start_offset
    if not start:
        return pb.KvSnapshot(bucket_id=bucket.bucket)
    if tiered_end(bucket, context.catalog.lake.ends(table.table_id)) < start:
        raise SnapshotMissingError(
            f"The log of bucket {bucket.bucket} of {table.path} begins at offset {start}, and"
            " there is no snapshot of the rows before it that other readers could read.",
            hint="Read the changes from the earliest, the latest or a time on; or all rows with"
            " SCAN_KV, as Headwater's own client does; or let the table flow into a lake.",
        )
    return pb.KvSnapshot(bucket_id=bucket.bucket, snapshot_id=UNREADABLE, log_offset=start)
