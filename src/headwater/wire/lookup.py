"""Lookups by key or prefix: the request, and the answer around values that are encoded already."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from headwater.wire import fluss_pb2 as pb
from headwater.wire.fields import Part, bytes_head
from headwater.wire.messages import decode_message, refuse_repeated

_HEADS_KEPT_MAX = 4096
_BUCKETS_RESP, _VALUES, _VALUE = 1, 5, 1
EMPTY_VALUE = bytes_head(_VALUES, 0)
"""The field of a key that was not found."""

VALUE_TAGS = (_VALUES << 3 | 2, _VALUE << 3 | 2)
"""The tags before a value that was found: of the message around it, and of its bytes."""


@dataclass(frozen=True, slots=True)
class BucketKeys:
    """Hold the keys, or prefixes of keys, to look up in one bucket."""

    bucket_id: int
    keys: list[bytes]
    partition_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupRequest:
    """Hold a request to look up keys or prefixes in buckets of one table."""

    table_id: int
    buckets: Sequence[BucketKeys]
    insert_if_not_exists: bool = False
    acks: int | None = None
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class BucketValues:
    """Hold what was found in one bucket, as the encoded field of each key."""

    bucket_id: int
    partition_id: int | None
    encoded: Part


@dataclass(frozen=True, slots=True)
class BucketFault:
    """Hold why one bucket could not answer."""

    bucket_id: int
    partition_id: int | None
    code: int
    message: str


def decode_lookup(body: memoryview, *, api: str = "LOOKUP") -> LookupRequest:
    """Read a LookupRequest, or a PrefixLookupRequest, which is a part of it."""
    message = decode_message(pb.LookupRequest, bytes(body), api=api)
    buckets = [_keys(bucket) for bucket in message.buckets_req]
    refuse_repeated(buckets, api=api)
    return LookupRequest(
        table_id=message.table_id,
        buckets=buckets,
        insert_if_not_exists=message.insert_if_not_exists,
        acks=message.acks if message.HasField("acks") else None,
        timeout_ms=message.timeout_ms if message.HasField("timeout_ms") else None,
    )


def _keys(bucket: pb.LookupBucketRequest) -> BucketKeys:
    partition_id = bucket.partition_id if bucket.HasField("partition_id") else None
    return BucketKeys(bucket.bucket_id, list(bucket.keys), partition_id)


def lookup_answer(buckets: Sequence[BucketValues | BucketFault]) -> list[Part]:
    """Encode a LookupResponse or a PrefixLookupResponse, whose field numbers are the same."""
    parts: list[Part] = []
    for bucket in buckets:
        fields = _fields(bucket).SerializeToString()
        encoded = bucket.encoded if isinstance(bucket, BucketValues) else b""
        parts += [bytes_head(_BUCKETS_RESP, len(fields) + len(encoded)) + fields, encoded]
    return parts


def _fields(bucket: BucketValues | BucketFault) -> pb.LookupBucketResponse:
    answer = pb.LookupBucketResponse(bucket_id=bucket.bucket_id, partition_id=bucket.partition_id)
    if isinstance(bucket, BucketFault):
        answer.error_code, answer.error_message = bucket.code, bucket.message
    return answer


@lru_cache(maxsize=_HEADS_KEPT_MAX)
def value_field_head(length: int) -> bytes:
    """Encode what comes before the bytes of one value that was found."""
    inner = bytes_head(_VALUE, length)
    return bytes_head(_VALUES, len(inner) + length) + inner


def encoded_values(values: Sequence[bytes | None]) -> bytes:
    """Encode the values of one bucket, one for each key and None where it was not found."""
    parts: list[bytes] = []
    for value in values:
        if value is None:
            parts.append(EMPTY_VALUE)
        else:
            parts += (value_field_head(len(value)), value)
    return b"".join(parts)


def encoded_value_lists(lists: Sequence[Sequence[bytes]]) -> bytes:
    """Encode the values of one bucket under each prefix."""
    return b"".join(_encoded_list(values) for values in lists)


def _encoded_list(values: Sequence[bytes]) -> bytes:
    body = b"".join(bytes_head(_VALUE, len(value)) + value for value in values)
    return bytes_head(_VALUES, len(body)) + body
