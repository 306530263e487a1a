"""The records for several buckets inside a request to write, passed on by reference."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from headwater.errors import CorruptBatchError
from headwater.wire import fluss_pb2 as pb
from headwater.wire.fields import Part, bytes_head, iterate_fields, number_field
from headwater.wire.messages import decode_message, refuse_repeated

# Below this size protobuf's copies cost less than reading fields in Python.
COPY_BYTES_MAX = 32 * 1024
_PARTITION_ID, _BUCKET_ID, _RECORDS = 1, 2, 3

Request = TypeVar("Request", pb.ProduceLogRequest, pb.PutKvRequest)


@dataclass(frozen=True, slots=True)
class BucketRecords:
    """Hold the records for one bucket."""

    bucket_id: int
    records: Part
    partition_id: int | None = None


def decode_write(
    kind: type[Request], body: memoryview, *, buckets_field: int, api: str
) -> tuple[Request, list[BucketRecords]]:
    """Read a request to write and its records; those of a large one are views of the body."""
    if len(body) <= COPY_BYTES_MAX:
        message = decode_message(kind, bytes(body), api=api)
        copied = [_copied(bucket) for bucket in message.buckets_req]
        refuse_repeated(copied, api=api)
        return message, copied
    rest: list[Part] = []
    buckets = []
    for number, value in iterate_fields(body):
        if isinstance(value, int):
            rest.append(number_field(number, value))
        elif number == buckets_field:
            buckets.append(_viewed(value, api))
        else:
            rest += [bytes_head(number, len(value)), value]
    refuse_repeated(buckets, api=api)
    return decode_message(kind, b"".join(rest), api=api), buckets


def _copied(bucket: pb.ProduceLogBucketRequest | pb.PutKvBucketRequest) -> BucketRecords:
    partition_id = bucket.partition_id if bucket.HasField("partition_id") else None
    return BucketRecords(bucket.bucket_id, bucket.records, partition_id)


def _viewed(message: memoryview, api: str) -> BucketRecords:
    bucket_id = partition_id = records = None
    for number, value in iterate_fields(message):
        if number == _RECORDS and isinstance(value, memoryview):
            records = value
        elif number == _BUCKET_ID and isinstance(value, int):
            bucket_id = value
        elif number == _PARTITION_ID and isinstance(value, int):
            partition_id = value
    if bucket_id is None or records is None:
        raise CorruptBatchError(f"The body of {api} lacks a bucket or its records.")
    return BucketRecords(bucket_id, records, partition_id)


def encode_buckets(buckets: Iterable[BucketRecords], *, buckets_field: int) -> list[Part]:
    """Encode records as parts of a request to write; they are passed on by reference."""
    parts: list[Part] = []
    for bucket in buckets:
        head = number_field(_BUCKET_ID, bucket.bucket_id)
        if bucket.partition_id is not None:
            head = number_field(_PARTITION_ID, bucket.partition_id) + head
        head += bytes_head(_RECORDS, len(bucket.records))
        size = len(head) + len(bucket.records)
        parts += [bytes_head(buckets_field, size) + head, bucket.records]
    return parts
