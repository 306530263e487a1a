"""Writing to log tables: writer ids, and batches of records for buckets."""

import asyncio

from headwater.errors import HeadwaterError, InvalidAcksError, InvalidTableError
from headwater.model.bucket import TableBucket
from headwater.runtime.events import Events
from headwater.server.context import Context
from headwater.wire import fluss_pb2 as pb
from headwater.wire.bucket_records import BucketRecords
from headwater.wire.produce import ProduceRequest

_events = Events("produce")
ALL = -1
ACKS = (ALL, 0, 1)
REQUEST_TIMED_OUT = 25


async def init_writer(_: pb.InitWriterRequest, context: Context) -> pb.InitWriterResponse:
    """Hand out a writer id that nobody had before."""
    return pb.InitWriterResponse(writer_id=context.catalog.next_writer_id())


async def produce_log(request: ProduceRequest, context: Context) -> pb.ProduceLogResponse:
    """Append to buckets; each succeeds or fails on its own."""
    if request.acks not in ACKS:
        raise InvalidAcksError(f"acks must be -1 (all), 0 or 1, not {request.acks}.")
    appends = [_append(bucket, request, context) for bucket in request.buckets]
    if len(appends) == 1:
        return pb.ProduceLogResponse(buckets_resp=[await appends[0]])
    return pb.ProduceLogResponse(buckets_resp=await asyncio.gather(*appends))


def refuse_keyed(table_id: int, context: Context) -> None:
    """Refuse to append to a changelog, which only upserts and deletes may write."""
    table = context.catalog.tables.by_id(table_id)
    if table.descriptor.is_keyed:
        raise InvalidTableError(
            f"{table.path} has a primary key, so rows cannot be appended to it.",
            hint="Upsert them.",
        )


async def _append(
    bucket: BucketRecords, request: ProduceRequest, context: Context
) -> pb.ProduceLogBucketResponse:
    answer = pb.ProduceLogBucketResponse(
        bucket_id=bucket.bucket_id, partition_id=bucket.partition_id
    )
    try:
        answer.base_offset = await _append_in_time(bucket, request, context)
    except HeadwaterError as fault:
        _events.debug("refused", table=request.table_id, bucket=bucket.bucket_id, why=str(fault))
        answer.error_code, answer.error_message = fault.code, str(fault)
    except TimeoutError:
        answer.error_code = REQUEST_TIMED_OUT
        answer.error_message = f"The rows were not durable after {request.timeout_ms} ms."
    return answer


async def _append_in_time(bucket: BucketRecords, request: ProduceRequest, context: Context) -> int:
    table_bucket = TableBucket(request.table_id, bucket.bucket_id, bucket.partition_id)
    refuse_keyed(request.table_id, context)
    tablet = await context.tablets.tablet(table_bucket)
    admit = context.tablets.admission_of(request.table_id)
    if request.acks != ALL:
        receipt = await tablet.append(bucket.records, acks=request.acks, admit=admit)
        return receipt.base_offset
    async with asyncio.timeout(max(request.timeout_ms, 1) / 1000):
        receipt = await tablet.append(bucket.records, acks=request.acks, admit=admit)
    return receipt.base_offset
