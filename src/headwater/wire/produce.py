"""The request to append, with its records passed on by reference."""

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.wire import fluss_pb2 as pb
from headwater.wire.bucket_records import BucketRecords, decode_write, encode_buckets
from headwater.wire.fields import Part, number_field

_ACKS, _TABLE_ID, _TIMEOUT_MS, _BUCKETS = 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class ProduceRequest:
    """Hold a request to append to buckets of one table."""

    acks: int
    table_id: int
    timeout_ms: int
    buckets: Sequence[BucketRecords]


def decode_produce(body: memoryview) -> ProduceRequest:
    """Read a ProduceLogRequest; the records of a large one are views of the body."""
    message, buckets = decode_write(
        pb.ProduceLogRequest, body, buckets_field=_BUCKETS, api="PRODUCE_LOG"
    )
    return ProduceRequest(message.acks, message.table_id, message.timeout_ms, buckets)


def encode_produce(request: ProduceRequest) -> list[Part]:
    """Encode a ProduceLogRequest as parts; the records are passed on by reference."""
    head = (
        number_field(_ACKS, request.acks)
        + number_field(_TABLE_ID, request.table_id)
        + number_field(_TIMEOUT_MS, request.timeout_ms)
    )
    return [head, *encode_buckets(request.buckets, buckets_field=_BUCKETS)]
