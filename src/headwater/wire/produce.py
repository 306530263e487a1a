"""The request to append, with its records passed on by reference."""

from collections.abc import Sequence
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from headwater.errors import CorruptBatchError
from headwater.wire import fluss_pb2 as pb
from headwater.wire.fields import Part, bytes_head, iterate_fields, number_field

# Below this size protobuf's copies cost less than reading fields in Python.
COPY_BYTES_MAX = 32 * 1024
_ACKS, _TABLE_ID, _TIMEOUT_MS, _BUCKETS = 1, 2, 3, 4
_PARTITION_ID, _BUCKET_ID, _RECORDS = 1, 2, 3


@dataclass(frozen=True, slots=True)
class BucketRecords:
    """Hold the records for one bucket."""

    bucket_id: int
    records: Part
    partition_id: int | None = None


@dataclass(frozen=True, slots=True)
class ProduceRequest:
    """Hold a request to append to buckets of one table."""

    acks: int
    table_id: int
    timeout_ms: int
    buckets: Sequence[BucketRecords]


def decode_produce(body: memoryview) -> ProduceRequest:
    """Read a ProduceLogRequest; the records of a large one are views of the body."""
    return _decode_copied(body) if len(body) <= COPY_BYTES_MAX else _decode_viewed(body)


def _decode_copied(body: memoryview) -> ProduceRequest:
    try:
        message = pb.ProduceLogRequest.FromString(bytes(body))
    except DecodeError as fault:
        raise CorruptBatchError(f"The body of PRODUCE_LOG is malformed: {fault}.") from None
    if not message.IsInitialized():
        raise CorruptBatchError("The body of PRODUCE_LOG lacks a required field.")
    buckets = [
        BucketRecords(
            bucket.bucket_id,
            bucket.records,
            bucket.partition_id if bucket.HasField("partition_id") else None,
        )
        for bucket in message.buckets_req
    ]
    return ProduceRequest(message.acks, message.table_id, message.timeout_ms, buckets)


def _decode_viewed(body: memoryview) -> ProduceRequest:
    numbers: dict[int, int] = {}
    buckets = []
    for number, value in iterate_fields(body):
        if number == _BUCKETS and isinstance(value, memoryview):
            buckets.append(_decode_bucket(value))
        elif isinstance(value, int):
            numbers[number] = value
    try:
        return ProduceRequest(numbers[_ACKS], numbers[_TABLE_ID], numbers[_TIMEOUT_MS], buckets)
    except KeyError as missing:
        raise CorruptBatchError(f"The body of PRODUCE_LOG lacks field {missing}.") from None


def _decode_bucket(message: memoryview) -> BucketRecords:
    bucket_id = partition_id = records = None
    for number, value in iterate_fields(message):
        if number == _RECORDS and isinstance(value, memoryview):
            records = value
        elif number == _BUCKET_ID and isinstance(value, int):
            bucket_id = value
        elif number == _PARTITION_ID and isinstance(value, int):
            partition_id = value
    if bucket_id is None or records is None:
        raise CorruptBatchError("The body of PRODUCE_LOG lacks a bucket or its records.")
    return BucketRecords(bucket_id, records, partition_id)


def encode_produce(request: ProduceRequest) -> list[Part]:
    """Encode a ProduceLogRequest as parts; the records are passed on by reference."""
    parts: list[Part] = [
        number_field(_ACKS, request.acks)
        + number_field(_TABLE_ID, request.table_id)
        + number_field(_TIMEOUT_MS, request.timeout_ms)
    ]
    for bucket in request.buckets:
        head = number_field(_BUCKET_ID, bucket.bucket_id)
        if bucket.partition_id is not None:
            head = number_field(_PARTITION_ID, bucket.partition_id) + head
        head += bytes_head(_RECORDS, len(bucket.records))
        parts += [bytes_head(_BUCKETS, len(head) + len(bucket.records)) + head, bucket.records]
    return parts
