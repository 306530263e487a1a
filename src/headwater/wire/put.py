"""The request to write rows by key, with its records passed on by reference."""

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.model.bucket import TableBucket
from headwater.model.lineage import LogPosition
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
    only_if: tuple[LogPosition, ...] = ()
    """Nothing is written unless the storage has these logs; not known to Apache Fluss."""


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
        only_if=tuple(map(_position_of, message.only_if)),
    )


def encode_put(request: PutRequest) -> list[Part]:
    """Encode a PutKvRequest as parts; the records are passed on by reference."""
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
        *encode_buckets(request.buckets, buckets_field=_BUCKETS),
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
