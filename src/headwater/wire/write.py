"""The requests to append and to write rows by key; records are passed by reference."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from headwater.errors import CorruptBatchError
from headwater.model import LogPosition, TableBucket
from headwater.wire import fluss_pb2 as pb
from headwater.wire import messages

# Below this size protobuf's copies cost less than reading fields in Python.
COPY_BYTES_MAX = 32 * 1024
_PARTITION_ID, _BUCKET_ID, _RECORDS = 1, 2, 3

Request = TypeVar("Request", pb.ProduceLogRequest, pb.PutKvRequest)


@dataclass(frozen=True, slots=True)
class BucketRecords:
    """The records for one bucket."""

    bucket_id: int
    records: messages.Part
    partition_id: int | None = None


def decode_write(
    kind: type[Request], body: memoryview, *, buckets_field: int, api: str
) -> tuple[Request, list[BucketRecords]]:
    """Decode a write request and its records; those of a large one are views of the body."""
    if len(body) <= COPY_BYTES_MAX:
        message = messages.decode_message(kind, bytes(body), api=api)
        copied = [_copied(bucket) for bucket in message.buckets_req]
        messages.refuse_repeated(copied, api=api)
        return message, copied
    rest: list[messages.Part] = []
    buckets = []
    for number, value in messages.iterate_fields(body):
        if isinstance(value, int):
            rest.append(messages.number_field(number, value))
        elif number == buckets_field:
            buckets.append(_viewed(value, api))
        else:
            rest += [messages.bytes_head(number, len(value)), value]
    messages.refuse_repeated(buckets, api=api)
    return messages.decode_message(kind, b"".join(rest), api=api), buckets


def _copied(bucket: pb.ProduceLogBucketRequest | pb.PutKvBucketRequest) -> BucketRecords:
    partition_id = bucket.partition_id if bucket.HasField("partition_id") else None
    return BucketRecords(bucket.bucket_id, bucket.records, partition_id)


def _viewed(message: memoryview, api: str) -> BucketRecords:
    bucket_id = partition_id = records = None
    for number, value in messages.iterate_fields(message):
        if number == _RECORDS and isinstance(value, memoryview):
            records = value
        elif number == _BUCKET_ID and isinstance(value, int):
            bucket_id = value
        elif number == _PARTITION_ID and isinstance(value, int):
            partition_id = value
    if bucket_id is None or records is None:
        raise CorruptBatchError(f"The body of {api} lacks a bucket or its records.")
    return BucketRecords(bucket_id, records, partition_id)


def encode_buckets(buckets: Iterable[BucketRecords], *, buckets_field: int) -> list[messages.Part]:
    """Encode records as parts of a write request, by reference."""
    parts: list[messages.Part] = []
    for bucket in buckets:
        head = messages.number_field(_BUCKET_ID, bucket.bucket_id)
        if bucket.partition_id is not None:
            head = messages.number_field(_PARTITION_ID, bucket.partition_id) + head
        head += messages.bytes_head(_RECORDS, len(bucket.records))
        size = len(head) + len(bucket.records)
        parts += [messages.bytes_head(buckets_field, size) + head, bucket.records]
    return parts


# Appends.

_ACKS, _TABLE_ID, _TIMEOUT_MS, _PRODUCE_BUCKETS = 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class ProduceRequest:
    """A request to append to buckets of one table."""

    acks: int
    table_id: int
    timeout_ms: int
    buckets: Sequence[BucketRecords]


def decode_produce(body: memoryview) -> ProduceRequest:
    """Decode a ProduceLogRequest; the records of a large one are views of the body."""
    message, buckets = decode_write(
        pb.ProduceLogRequest, body, buckets_field=_PRODUCE_BUCKETS, api="PRODUCE_LOG"
    )
    return ProduceRequest(message.acks, message.table_id, message.timeout_ms, buckets)


def encode_produce(request: ProduceRequest) -> list[messages.Part]:
    """Encode a ProduceLogRequest as parts; the records are passed by reference."""
    head = (
        messages.number_field(_ACKS, request.acks)
        + messages.number_field(_TABLE_ID, request.table_id)
        + messages.number_field(_TIMEOUT_MS, request.timeout_ms)
    )
    return [head, *encode_buckets(request.buckets, buckets_field=_PRODUCE_BUCKETS)]


# Writes by key.

_PUT_BUCKETS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PutRequest:
    """A request to put rows into buckets of one table; no target columns means all."""

    acks: int
    table_id: int
    timeout_ms: int
    target_columns: tuple[int, ...] | None = None
    agg_mode: int = 0
    buckets: Sequence[BucketRecords]
    only_if: tuple[LogPosition, ...] = ()
    """Write nothing unless the storage has these logs; unknown to Apache Fluss."""


def decode_put(body: memoryview) -> PutRequest:
    """Decode a PutKvRequest; the records of a large one are views of the body."""
    message, buckets = decode_write(pb.PutKvRequest, body, buckets_field=_PUT_BUCKETS, api="PUT_KV")
    return PutRequest(
        acks=message.acks,
        table_id=message.table_id,
        timeout_ms=message.timeout_ms,
        target_columns=tuple(message.target_columns) or None,
        agg_mode=message.agg_mode,
        buckets=buckets,
        only_if=tuple(map(_position_of, message.only_if)),
    )


def encode_put(request: PutRequest) -> list[messages.Part]:
    """Encode a PutKvRequest as parts; the records are passed by reference."""
    head = pb.PutKvRequest(
        acks=request.acks,
        table_id=request.table_id,
        timeout_ms=request.timeout_ms,
        target_columns=request.target_columns,
        agg_mode=request.agg_mode or None,
        only_if=map(_wire_position, request.only_if),
    )
    return [
        head.SerializeToString(),
        *encode_buckets(request.buckets, buckets_field=_PUT_BUCKETS),
    ]


def _position_of(message: pb.LogPosition) -> LogPosition:
    partition_id = message.partition_id if message.HasField("partition_id") else None
    bucket = TableBucket(message.table_id, message.bucket_id, partition_id)
    return LogPosition(bucket, message.position, message.incarnation)


def _wire_position(position: LogPosition) -> pb.LogPosition:
    return pb.LogPosition(
        table_id=position.bucket.table_id,
        partition_id=position.bucket.partition_id,
        bucket_id=position.bucket.bucket,
        position=position.position,
        incarnation=position.incarnation,
    )
