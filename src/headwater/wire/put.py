"""The request to write rows by key, with its records passed on by reference."""

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.wire import fluss_pb2 as pb
from headwater.wire.bucket_records import BucketRecords, decode_write, encode_buckets
from headwater.wire.fields import Part

_BUCKETS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PutRequest:
    """Hold a request to put rows into buckets of one table; no target columns mean all."""

    acks: int
    table_id: int
    timeout_ms: int
    target_columns: tuple[int, ...] | None = None
    agg_mode: int = 0
    buckets: Sequence[BucketRecords]


def decode_put(body: memoryview) -> PutRequest:
    """Read a PutKvRequest; the records of a large one are views of the body."""
    message, buckets = decode_write(pb.PutKvRequest, body, buckets_field=_BUCKETS, api="PUT_KV")
    return PutRequest(
        acks=message.acks,
        table_id=message.table_id,
        timeout_ms=message.timeout_ms,
        target_columns=tuple(message.target_columns) or None,
        agg_mode=message.agg_mode,
        buckets=buckets,
    )


def encode_put(request: PutRequest) -> list[Part]:
    """Encode a PutKvRequest as parts; the records are passed on by reference."""
    head = pb.PutKvRequest(
        acks=request.acks,
        table_id=request.table_id,
        timeout_ms=request.timeout_ms,
        target_columns=request.target_columns,
        agg_mode=request.agg_mode or None,
    )
    return [
        head.SerializeToString(),
        *encode_buckets(request.buckets, buckets_field=_BUCKETS),
    ]
