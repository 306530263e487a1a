"""Snapshots of rows by key that others could read: there are none, so they begin with the log."""

from headwater.errors import NotPrimaryKeyTableError, SnapshotMissingError
from headwater.model.bucket import TableBucket
from headwater.model.table import TableInfo
from headwater.server.context import Context
from headwater.server.handlers.paths import table_path
from headwater.wire import fluss_pb2 as pb


async def get_latest_kv_snapshots(
    request: pb.GetLatestKvSnapshotsRequest, context: Context
) -> pb.GetLatestKvSnapshotsResponse:
    """Tell readers to begin with the first record of each bucket, if it is still there."""
    table = context.catalog.tables.info(table_path(request.table_path))
    if not table.descriptor.is_keyed:
        raise NotPrimaryKeyTableError(f"{table.path} has no primary key, hence no snapshots.")
    answer = pb.GetLatestKvSnapshotsResponse(table_id=table.table_id)
    partition_id = None
    if request.HasField("partition_name"):
        partition = context.catalog.partitions.by_name(table.path, request.partition_name)
        answer.partition_id = partition_id = partition.partition_id
    for number in range(table.descriptor.bucket_count or 1):
        await _check_whole(TableBucket(table.table_id, number, partition_id), table, context)
        answer.latest_snapshots.add(bucket_id=number)
    return answer


async def _check_whole(bucket: TableBucket, table: TableInfo, context: Context) -> None:
    """Refuse a log whose beginning is gone: its changes alone are fewer rows than there are."""
    start = (await context.tablets.tablet(bucket)).start_offset
    if start > 0:
        raise SnapshotMissingError(
            f"The log of bucket {bucket.bucket} of {table.path} begins at offset {start}, and"
            " there is no snapshot of the rows before it that other readers could read.",
            hint="Read the changes from the earliest, the latest or a time on; or all rows with"
            " SCAN_KV, as Headwater's own client does; or let the table flow into a lake.",
        )
