"""Where logs begin and end, and how many rows they hold."""

from datetime import UTC, datetime, timedelta

from headwater.errors import HeadwaterError, InvalidTimestampError, RequestError
from headwater.model.bucket import TableBucket
from headwater.runtime.turns import in_turns
from headwater.server.context import Context
from headwater.server.handlers.paths import bucket_of, partition_of
from headwater.tablet.log_tablet import LogTablet
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import ApiKey
from headwater.wire.offset_type import OffsetType

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
        except HeadwaterError as fault:
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
                raise InvalidTimestampError(
                    f"{_told(request.start_timestamp)} lies after now, {_told(now_ms)}."
                )
            return await tablet.offset_for_timestamp(request.start_timestamp)
        case other:
            raise RequestError(f"Offset type {other} is none of 0, 1 and 2.")


def _told(time_ms: int) -> str:
    """Return a moment as people read it; some numbers are beyond all calendars."""
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
        except HeadwaterError as fault:
            answer.error_code, answer.error_message = fault.code, str(fault)
            context.bucket_refused(ApiKey.GET_TABLE_STATS, fault.code, str(fault))
    return response


async def _row_count(bucket: TableBucket, context: Context) -> int:
    if context.catalog.tables.by_id(bucket.table_id).descriptor.is_keyed:
        return (await context.tablets.pk_tablet(bucket)).row_count
    tablet = await context.tablets.tablet(bucket)
    return await tablet.settled() - tablet.start_offset
