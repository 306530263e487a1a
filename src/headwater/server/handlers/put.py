"""Writing to primary-key tables: batches of upserts and deletes for buckets."""

from functools import partial

from headwater.errors import RecordTooLargeError, UnsupportedError
from headwater.model.bucket import TableBucket
from headwater.server.context import Context
from headwater.server.handlers.writes import refusals, sender_of, time_limit, together
from headwater.tablet.log_tablet import check_acks
from headwater.tablet.pk_tablet import PutRules
from headwater.wire import fluss_pb2 as pb
from headwater.wire.bucket_records import BucketRecords
from headwater.wire.put import PutRequest

AGGREGATE, OVERWRITE = 0, 1


async def put_kv(request: PutRequest, context: Context) -> pb.PutKvResponse:
    """Upsert into buckets and delete from them; each succeeds or fails on its own."""
    check_acks(request.acks)
    if request.agg_mode not in (AGGREGATE, OVERWRITE):
        raise UnsupportedError(f"Aggregation mode {request.agg_mode} is none of 0 and 1.")
    for position in request.only_if:
        tablet = await context.tablets.tablet(position.bucket)
        tablet.check_same(position.position, position.incarnation)
    answers = await together(request.buckets, partial(_put, request=request, context=context))
    return pb.PutKvResponse(buckets_resp=answers)


async def _put(
    bucket: BucketRecords, *, request: PutRequest, context: Context
) -> pb.PutKvBucketResponse:
    answer = pb.PutKvBucketResponse(bucket_id=bucket.bucket_id, partition_id=bucket.partition_id)
    with refusals(answer, request, context):
        async with time_limit(request):
            answer.log_end_offset, answer.incarnation = await _end_offset(bucket, request, context)
    return answer


async def _end_offset(
    bucket: BucketRecords, request: PutRequest, context: Context
) -> tuple[int, int]:
    """Write records, and return where the log ends after them and who wrote that."""
    table_bucket = TableBucket(request.table_id, bucket.bucket_id, bucket.partition_id)
    tablet = await context.tablets.pk_tablet(table_bucket)
    _check_size(bucket, context)
    context.services.space.refuse_if_full()
    rules = PutRules(request.target_columns, overwrite=request.agg_mode == OVERWRITE)
    receipt = await tablet.put(
        bucket.records, acks=request.acks, rules=rules, sender=sender_of(context)
    )
    lineage = tablet.log.log.lineage
    return receipt.end_offset, lineage.writer_before(receipt.end_offset)


def _check_size(bucket: BucketRecords, context: Context) -> None:
    size, bytes_max = len(bucket.records), context.services.settings.batch_bytes_max
    if size > bytes_max:
        raise RecordTooLargeError(
            f"A batch of {size} bytes is larger than the largest allowed, {bytes_max}.",
            hint="Send fewer rows at a time.",
        )
