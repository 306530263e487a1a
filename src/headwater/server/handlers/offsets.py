"""Where logs begin and end, how many rows they have, and why no snapshots of keys are served."""

from datetime import UTC, datetime, timedelta

from headwater import errors
from headwater.model import TableBucket, TableInfo
from headwater.runtime.tasks import in_turns
from headwater.server.context import Context, bucket_of, partition_of, table_path
from headwater.server.lake import tiered_end
from headwater.tablet.log_tablet import LogTablet
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import ApiKey
from headwater.wire.fetch import OffsetType

NAMES_PER_TURN = 2048
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def list_offsets(request: pb.ListOffsetsRequest, context: Context) -> pb.ListOffsetsResponse:
    """Return the earliest or latest offset, or the first at or after a timestamp, per bucket."""
    partition_id = partition_of(request)
    response = pb.ListOffsetsResponse()
    async for number in in_turns(dict.fromkeys(request.bucket_id)):
        answer = response.buckets_resp.add(bucket_id=number)
        try:
            bucket = TableBucket(request.table_id, number, partition_id)
            tablet = await context.tablets.tablet(bucket)
            answer.offset = await _offset(tablet, request, context)
            for start in tablet.log.lineage.starts if request.lineage else ():
                answer.starts.extend((start.offset, start.incarnation))
        except errors.HeadwaterError as fault:
            answer.error_code, answer.error_message = fault.code, str(fault)
            context.bucket_refused(ApiKey.LIST_OFFSETS, fault.code, str(fault))
    return response


async def _offset(tablet: LogTablet, request: pb.ListOffsetsRequest, context: Context) -> int:
    match request.offset_type:
        case OffsetType.EARLIEST:
            return tablet.start_offset
        case OffsetType.LATEST:
            return await tablet.settled()
        case OffsetType.TIMESTAMP:
            now_ms = context.services.clock.now_ms()
            if request.start_timestamp > now_ms:
                raise errors.InvalidTimestampError(
                    f"{_told(request.start_timestamp)} is in the future; the server's time is "
                    f"{_told(now_ms)}."
                )
            return await tablet.offset_for_timestamp(request.start_timestamp)
        case other:
            raise errors.RequestError(f"The offset type {other} is not 0, 1 or 2.")


def _told(time_ms: int) -> str:
    """Format a time for people; some numbers are beyond all calendars."""
    try:
        return (_EPOCH + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds")
    except OverflowError:
        return f"The timestamp {time_ms}"


async def get_table_stats(
    request: pb.GetTableStatsRequest, context: Context
) -> pb.GetTableStatsResponse:
    """Count the rows of buckets."""
    response = pb.GetTableStatsResponse()
    distinct = {
        bucket_of(request.table_id, each): each
        async for each in in_turns(request.buckets_req, per_turn=NAMES_PER_TURN)
    }
    async for bucket, asked in in_turns(distinct.items()):
        answer = response.buckets_resp.add(bucket_id=asked.bucket_id)
        if asked.HasField("partition_id"):
            answer.partition_id = asked.partition_id
        try:
            answer.row_count = await _row_count(bucket, context)
        except errors.HeadwaterError as fault:
            answer.error_code, answer.error_message = fault.code, str(fault)
            context.bucket_refused(ApiKey.GET_TABLE_STATS, fault.code, str(fault))
    return response


async def _row_count(bucket: TableBucket, context: Context) -> int:
    if context.catalog.tables.by_id(bucket.table_id).descriptor.is_keyed:
        return (await context.tablets.pk_tablet(bucket)).row_count
    tablet = await context.tablets.tablet(bucket)
    return await tablet.settled() - tablet.start_offset


UNREADABLE = 0
"""The id of a snapshot that nobody can read; trying to read it raises another error."""


async def get_latest_kv_snapshots(
    request: pb.GetLatestKvSnapshotsRequest, context: Context
) -> pb.GetLatestKvSnapshotsResponse:
    """Tell readers to start with the first record of each bucket, if it is still there.

    If the lake has what is gone, a snapshot is named that cannot be read: tiering services start
    after the lake and do not look at it, and others fail rather than start with half a log.
    """
    table = context.catalog.tables.info(table_path(request.table_path))
    if not table.descriptor.is_keyed:
        raise errors.NotPrimaryKeyTableError(
            f"{table.path} has no primary key, so it has no snapshots."
        )
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
    """Reject a log whose beginning is gone: its changes alone are fewer rows than there are."""
    start = (await context.tablets.tablet(bucket)).start_offset
    if not start:
        return pb.KvSnapshot(bucket_id=bucket.bucket)
    if tiered_end(bucket, context.catalog.lake.ends(table.table_id)) < start:
        raise errors.SnapshotMissingError(
            f"The log of bucket {bucket.bucket} of {table.path} begins at offset {start}, and "
            "there is no snapshot of the rows before it that other readers could read.",
            hint="Read the changes from the earliest or latest offset or a time; or all rows "
            "with SCAN_KV, as Headwater's own client does; or tier the table to a lake.",
        )
    return pb.KvSnapshot(bucket_id=bucket.bucket, snapshot_id=UNREADABLE, log_offset=start)
