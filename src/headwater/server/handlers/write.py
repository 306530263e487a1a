"""Writing to log tables and primary-key tables: each bucket succeeds or fails on its own."""

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache, partial
from typing import Protocol, TypeVar

from headwater import errors
from headwater.log.writers import NOBODY
from headwater.model.acl import Operation, Resource
from headwater.model.bucket import UNKNOWN, TableBucket
from headwater.rows.message import PLAIN_BYTES_MAX
from headwater.runtime.tasks import gathered
from headwater.server.catalog.ids import ANYBODY
from headwater.server.context import Context, table_path
from headwater.server.permissions.needs import AUDIT_LOG
from headwater.server.tablets import TableAdmission
from headwater.tablet.log_tablet import ACKS, ACKS_REMOTE, ACKS_WAITING, Sender, check_acks
from headwater.tablet.pk_tablet import PutRules
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import ApiKey
from headwater.wire.write import BucketRecords, ProduceRequest, PutRequest

# What the answers to both kinds of writes share: each bucket succeeds or fails on its own.

_TAG_BYTES = 8
USERS_KEPT = 1024

BucketAnswer = pb.ProduceLogBucketResponse | pb.PutKvBucketResponse
Answer = TypeVar("Answer", pb.ProduceLogBucketResponse, pb.PutKvBucketResponse)


class WriteRequest(Protocol):
    """Be a request to write to buckets of one table."""

    @property
    def table_id(self) -> int:
        """Return the table."""

    @property
    def timeout_ms(self) -> int:
        """Return how long the rows may take to become durable."""


async def together(
    writes: Sequence[BucketRecords],
    write: Callable[[BucketRecords], Coroutine[object, object, Answer]],
) -> list[Answer]:
    """Return the answers to the writes of one request, in order; most requests have one."""
    if len(writes) == 1:
        return [await write(writes[0])]
    # One batch in a turn of the loop, so that others are not kept waiting by a crowd of them.
    return await gathered(map(write, writes), per_turn=1)


@contextmanager
def refusals(answer: BucketAnswer, request: WriteRequest, context: Context) -> Iterator[None]:
    """Put into the answer why a bucket was not written, if that is so."""
    try:
        yield
        return
    except errors.HeadwaterError as fault:
        answer.error_code, answer.error_message = fault.code, str(fault)
    except TimeoutError:
        late = too_late(request)
        answer.error_code, answer.error_message = late.code, late.message
    is_put = isinstance(answer, pb.PutKvBucketResponse)
    api = ApiKey.PUT_KV if is_put else ApiKey.PRODUCE_LOG
    where = f"Bucket {answer.bucket_id} of table {request.table_id}"
    context.bucket_refused(api, answer.error_code, f"{where}: {answer.error_message}")


def too_late(request: WriteRequest) -> errors.TimedOutError:
    """Return what a client is told whose rows are not durable in time."""
    return errors.TimedOutError(f"The rows were not durable after {request.timeout_ms} ms.")


def _check_remote(request: ProduceRequest | PutRequest, context: Context) -> None:
    """Refuse to wait for a remote storage that there is not, and writes while it is far behind."""
    remote = context.services.remote
    if remote is not None:
        remote.refuse_if_behind()
    elif request.acks == ACKS_REMOTE:
        raise errors.InvalidAcksError(
            "acks is -2, but this server has no remote storage.",
            hint="Start it with --remote, or use acks=-1.",
        )


def user_of(context: Context) -> str:
    """Return who asks; nobody in particular where a server does not tell users apart."""
    principal = context.session.principal
    return principal if principal and context.services.logins is not None else ANYBODY


def sender_of(context: Context) -> Sender:
    """Return who writes, which ids of writers must belong to."""
    user = user_of(context)
    return Sender(partial(context.services.catalog.check_writer_id, owner=user), _tag_of(user))


@lru_cache(USERS_KEPT)
def _tag_of(user: str) -> int:
    """Return what stands for a user in the checkpoints of logs."""
    if user == ANYBODY:
        return NOBODY
    tag = hashlib.blake2b(user.encode(), digest_size=_TAG_BYTES).digest()
    return max(int.from_bytes(tag, "little"), NOBODY + 1)


def time_limit(request: WriteRequest) -> asyncio.Timeout:
    """Return the limit on how long a client waits for its rows to become durable."""
    return asyncio.timeout(max(request.timeout_ms, 1) / 1000)


# Writing to log tables: writer ids, and batches of records for buckets.


async def init_writer(request: pb.InitWriterRequest, context: Context) -> pb.InitWriterResponse:
    """Hand out a writer id that nobody had before, to those who may write to one of the tables."""
    paths = [Resource.table(table_path(path)) for path in request.table_path]
    if not paths and context.services.authorizer is not None and not context.session.is_internal:
        raise errors.RequestError("A writer must name the tables that it writes to.")
    if paths and not any(context.may(Operation.WRITE, path) for path in paths):
        context.require(Operation.WRITE, paths[0])
    return pb.InitWriterResponse(
        writer_id=context.catalog.next_writer_id(user_of(context)),
        plain_bytes_max=PLAIN_BYTES_MAX,
    )


async def produce_log(request: ProduceRequest, context: Context) -> pb.ProduceLogResponse:
    """Append to buckets; each succeeds or fails on its own."""
    check_acks(request.acks)
    _check_remote(request, context)
    alone = await _written_alone(request, context)
    if alone is not None:
        return produce_answer(request, *alone, context)
    admission = context.tablets.admission_of(request.table_id)
    append = partial(_append, request=request, context=context, admission=admission)
    answers = await together(request.buckets, append)
    return pb.ProduceLogResponse(buckets_resp=answers)


def check_appendable(table_id: int, context: Context) -> None:
    """Refuse to append to a changelog, and to the audit trail, which the server alone writes."""
    table = context.services.catalog.tables.by_id(table_id)
    if table.path == AUDIT_LOG:
        raise errors.AccessError(
            f"Only the server writes to {AUDIT_LOG}.", hint="Write to a table of your own."
        )
    if table.descriptor.schema.primary_key:
        raise errors.InvalidTableError(
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
    check_appendable(request.table_id, context)
    context.services.space.refuse_if_full()
    tablet = await context.tablets.tablet(table_bucket)
    async with time_limit(request) if request.acks in ACKS_WAITING else nullcontext():
        receipt = await tablet.append(
            bucket.records, acks=request.acks, admission=admission, sender=sender_of(context)
        )
    return receipt.base_offset, tablet.log.lineage.writer_before(receipt.base_offset + 1)


# Writing one small batch without a task: nothing is waited for but the disk.

Told = Callable[[int, errors.HeadwaterError | None], None]
"""Is told the offset of an answer once rows are durable, or why they were not written."""


def write_now(request: ProduceRequest | PutRequest, context: Context, told: Told) -> bool:
    """Write one small batch to one bucket without a task.

    False says that nothing was done: the request has to wait for something before it is written.
    """
    if len(request.buckets) != 1 or request.acks not in ACKS:
        return False
    try:
        if context.services.remote is not None or request.acks == ACKS_REMOTE:
            _check_remote(request, context)
        if isinstance(request, ProduceRequest):
            return _append_now(request, context, told)
        return _put_now(request, context, told)
    except errors.HeadwaterError as fault:
        told(-1, fault)
        return True


async def _written_alone(
    request: ProduceRequest | PutRequest, context: Context
) -> tuple[int, errors.HeadwaterError | None] | None:
    """Write one small batch at once and wait for the disk; None if nothing was done."""
    answered: asyncio.Future[tuple[int, errors.HeadwaterError | None]] = (
        asyncio.get_running_loop().create_future()
    )

    def told(offset: int, fault: errors.HeadwaterError | None) -> None:
        if not answered.done():  # Whoever asked may be gone.
            answered.set_result((offset, fault))

    if not write_now(request, context, told):
        return None
    if answered.done():
        return answered.result()
    try:
        async with time_limit(request):
            return await answered
    except TimeoutError:
        return -1, too_late(request)


def note_refusal(
    request: ProduceRequest | PutRequest, fault: errors.HeadwaterError, context: Context
) -> None:
    """Count a batch that was not written, and tell the log."""
    api = ApiKey.PRODUCE_LOG if isinstance(request, ProduceRequest) else ApiKey.PUT_KV
    where = f"Bucket {request.buckets[0].bucket_id} of table {request.table_id}"
    context.bucket_refused(api, fault.code, f"{where}: {fault}")


def write_answer(
    request: ProduceRequest | PutRequest,
    offset: int,
    fault: errors.HeadwaterError | None,
    context: Context,
) -> pb.ProduceLogResponse | pb.PutKvResponse:
    """Return the answer to a request to write one batch."""
    if isinstance(request, ProduceRequest):
        return produce_answer(request, offset, fault, context)
    return put_answer(request, offset, fault, context)


def produce_answer(
    request: ProduceRequest, offset: int, fault: errors.HeadwaterError | None, context: Context
) -> pb.ProduceLogResponse:
    """Return the answer to a request to append one batch."""
    bucket = request.buckets[0]
    answer = pb.ProduceLogBucketResponse(
        bucket_id=bucket.bucket_id, partition_id=bucket.partition_id
    )
    if fault is not None:
        note_refusal(request, fault, context)
        answer.error_code, answer.error_message = fault.code, str(fault)
    else:
        answer.base_offset = offset
        answer.incarnation = _writer_before(offset + 1, bucket, request, context)
    return pb.ProduceLogResponse(buckets_resp=(answer,))


def put_answer(
    request: PutRequest, offset: int, fault: errors.HeadwaterError | None, context: Context
) -> pb.PutKvResponse:
    """Return the answer to a request to put one batch."""
    bucket = request.buckets[0]
    answer = pb.PutKvBucketResponse(bucket_id=bucket.bucket_id, partition_id=bucket.partition_id)
    if fault is not None:
        note_refusal(request, fault, context)
        answer.error_code, answer.error_message = fault.code, str(fault)
    else:
        answer.log_end_offset = offset
        answer.incarnation = _writer_before(offset, bucket, request, context)
    return pb.PutKvResponse(buckets_resp=(answer,))


def _writer_before(
    offset: int, bucket: BucketRecords, request: WriteRequest, context: Context
) -> int:
    place = TableBucket(request.table_id, bucket.bucket_id, bucket.partition_id)
    tablet = context.services.tablets.opened(place)
    return UNKNOWN if tablet is None else tablet.log.lineage.writer_before(offset)


async def write_later(
    request: ProduceRequest | PutRequest, context: Context
) -> tuple[int, errors.HeadwaterError | None]:
    """Write one batch that has to wait for something; return what `write_now` would tell."""
    if isinstance(request, ProduceRequest):
        (appended,) = (await produce_log(request, context)).buckets_resp
        fault = errors.error_of_code(appended.error_code, appended.error_message)
        return appended.base_offset, fault if appended.error_code else None
    (put,) = (await put_kv(request, context)).buckets_resp
    fault = errors.error_of_code(put.error_code, put.error_message)
    return put.log_end_offset, fault if put.error_code else None


def _append_now(request: ProduceRequest, context: Context, told: Told) -> bool:
    bucket, services = request.buckets[0], context.services
    check_appendable(request.table_id, context)
    services.space.refuse_if_full()
    tablets = services.tablets
    tablet = tablets.opened(TableBucket(request.table_id, bucket.bucket_id, bucket.partition_id))
    if tablet is None:
        return False
    written = tablet.append_now(
        bucket.records,
        admission=tablets.admission_of(request.table_id),
        sender=sender_of(context),
    )
    if written is None:
        return False
    end_offset, receipt = written
    tablet.when_acknowledged(end_offset, partial(told, receipt.base_offset), acks=request.acks)
    return True


def _put_now(request: PutRequest, context: Context, told: Told) -> bool:
    bucket, services = request.buckets[0], context.services
    place = TableBucket(request.table_id, bucket.bucket_id, bucket.partition_id)
    log = services.tablets.opened(place)
    if log is None or request.only_if or request.target_columns is not None or request.agg_mode:
        return False
    tablet = services.tablets.keyed.find(place)
    _check_size(bucket, context)
    services.space.refuse_if_full()
    end_offset = tablet.put_now(bucket.records, sender=sender_of(context))
    if end_offset is None:
        return False
    log.when_acknowledged(end_offset, partial(told, end_offset), acks=request.acks)
    return True


# Writing to primary-key tables: batches of upserts and deletes for buckets.

AGGREGATE, OVERWRITE = 0, 1


async def put_kv(request: PutRequest, context: Context) -> pb.PutKvResponse:
    """Upsert into buckets and delete from them; each succeeds or fails on its own."""
    check_acks(request.acks)
    _check_remote(request, context)
    if request.agg_mode not in (AGGREGATE, OVERWRITE):
        raise errors.UnsupportedError(f"Aggregation mode {request.agg_mode} is none of 0 and 1.")
    alone = await _written_alone(request, context)
    if alone is not None:
        return put_answer(request, *alone, context)
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
        raise errors.RecordTooLargeError(
            f"A batch of {size} bytes is larger than the largest allowed, {bytes_max}.",
            hint="Send fewer rows at a time.",
        )
