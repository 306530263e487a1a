"""Writing to log tables: writer ids, and batches of records for buckets."""

from contextlib import nullcontext
from functools import partial

from headwater.errors import InvalidTableError
from headwater.model.bucket import TableBucket
from headwater.rows.message_write import PLAIN_BYTES_MAX
from headwater.server.context import Context
from headwater.server.handlers.writes import (
    refusals,
    sender_of,
    time_limit,
    together,
    user_of,
)
from headwater.server.tablets import TableAdmission
from headwater.tablet.log_tablet import ACKS_DURABLE, check_acks
from headwater.wire import fluss_pb2 as pb
from headwater.wire.bucket_records import BucketRecords
from headwater.wire.produce import ProduceRequest


async def init_writer(_: pb.InitWriterRequest, context: Context) -> pb.InitWriterResponse:
    """Hand out a writer id that nobody had before."""
    return pb.InitWriterResponse(
        writer_id=context.catalog.next_writer_id(user_of(context)),
        plain_bytes_max=PLAIN_BYTES_MAX,
    )


async def produce_log(request: ProduceRequest, context: Context) -> pb.ProduceLogResponse:
    """Append to buckets; each succeeds or fails on its own."""
    check_acks(request.acks)
    admission = context.tablets.admission_of(request.table_id)
    append = partial(_append, request=request, context=context, admission=admission)
    answers = await together(request.buckets, append)
    return pb.ProduceLogResponse(buckets_resp=answers)


def refuse_keyed(table_id: int, context: Context) -> None:
    """Refuse to append to a changelog, which only upserts and deletes may write."""
    table = context.catalog.tables.by_id(table_id)
    if table.descriptor.is_keyed:
        raise InvalidTableError(
            f"{table.path} has a primary key, so rows cannot be appended to it.",
            hint="Upsert them.",
        )


async def _append(
    bucket: BucketRecords, *, request: ProduceRequest, context: Context, admission: TableAdmission
) -> pb.ProduceLogBucketResponse:
    answer = pb.ProduceLogBucketResponse(
        bucket_id=bucket.bucket_id, partition_id=bucket.partition_id
    )
    with refusals(answer, request, context):
        place = await _base_offset(bucket, request, context, admission)
        answer.base_offset, answer.incarnation = place
    return answer


async def _base_offset(
    bucket: BucketRecords, request: ProduceRequest, context: Context, admission: TableAdmission
) -> tuple[int, int]:
    """Write records, and return the offset of the first and who wrote it."""
    table_bucket = TableBucket(request.table_id, bucket.bucket_id, bucket.partition_id)
    refuse_keyed(request.table_id, context)
    context.services.space.refuse_if_full()
    tablet = await context.tablets.tablet(table_bucket)
    async with time_limit(request) if request.acks == ACKS_DURABLE else nullcontext():
        receipt = await tablet.append(
            bucket.records, acks=request.acks, admission=admission, sender=sender_of(context)
        )
    return receipt.base_offset, tablet.log.lineage.writer_before(receipt.base_offset + 1)
