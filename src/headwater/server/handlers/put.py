"""Writing to primary-key tables: batches of upserts and deletes for buckets."""

import asyncio

from headwater.errors import (
    HeadwaterError,
    InvalidAcksError,
    RecordTooLargeError,
    UnsupportedError,
)
from headwater.model.bucket import TableBucket
from headwater.runtime.events import Events
from headwater.server.context import Context
from headwater.server.handlers.produce import ACKS, REQUEST_TIMED_OUT
from headwater.tablet.pk_tablet import PutRules
from headwater.wire import fluss_pb2 as pb
from headwater.wire.bucket_records import BucketRecords
from headwater.wire.put import PutRequest

_events = Events("put")
AGGREGATE, OVERWRITE = 0, 1


async def put_kv(request: PutRequest, context: Context) -> pb.PutKvResponse:
    """Upsert into buckets and delete from them; each succeeds or fails on its own."""
    if request.acks not in ACKS:
        raise InvalidAcksError(f"acks must be -1 (all), 0 or 1, not {request.acks}.")
    if request.agg_mode not in (AGGREGATE, OVERWRITE):
        raise UnsupportedError(f"Aggregation mode {request.agg_mode} is none of 0 and 1.")
    puts = [_put(bucket, request, context) for bucket in request.buckets]
    if len(puts) == 1:
        return pb.PutKvResponse(buckets_resp=[await puts[0]])
    return pb.PutKvResponse(buckets_resp=await asyncio.gather(*puts))


async def _put(
    bucket: BucketRecords, request: PutRequest, context: Context
) -> pb.PutKvBucketResponse:
    answer = pb.PutKvBucketResponse(bucket_id=bucket.bucket_id, partition_id=bucket.partition_id)
    try:
        async with asyncio.timeout(max(request.timeout_ms, 1) / 1000):
            answer.log_end_offset = await _end_offset(bucket, request, context)
    except HeadwaterError as fault:
        _events.debug("refused", table=request.table_id, bucket=bucket.bucket_id, why=str(fault))
        answer.error_code, answer.error_message = fault.code, str(fault)
    except TimeoutError:
        answer.error_code = REQUEST_TIMED_OUT
        answer.error_message = f"The rows were not durable after {request.timeout_ms} ms."
    return answer


async def _end_offset(bucket: BucketRecords, request: PutRequest, context: Context) -> int:
    table_bucket = TableBucket(request.table_id, bucket.bucket_id, bucket.partition_id)
    tablet = await context.tablets.pk_tablet(table_bucket)
    _check_size(bucket, context)
    rules = PutRules(request.target_columns, overwrite=request.agg_mode == OVERWRITE)
    receipt = await tablet.put(bucket.records, acks=request.acks, rules=rules)
    return receipt.end_offset


def _check_size(bucket: BucketRecords, context: Context) -> None:
    size, bytes_max = len(bucket.records), context.services.settings.batch_bytes_max
    if size > bytes_max:
        raise RecordTooLargeError(
            f"A batch of {size} bytes is larger than the largest allowed, {bytes_max}.",
            hint="Send fewer rows at a time.",
        )
