"""The answer to a fetch, encoded around the stored bytes instead of copying them."""

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.wire import fluss_pb2 as pb

Part = bytes | memoryview
_TABLES_RESP = b"\x0a"  # field 1, length-delimited
_BUCKETS_RESP = b"\x12"  # field 2, length-delimited
_RECORDS = b"\x42"  # field 8, length-delimited
_SEVEN_BITS = 0x7F


@dataclass(frozen=True, slots=True)
class BucketAnswer:
    """Hold the answer for one bucket: its fields, and its records as parts."""

    fields: pb.FetchLogBucketResponse
    records: Sequence[Part] = ()

    @property
    def size(self) -> int:
        """Return the bytes of the records."""
        return _size(self.records)


@dataclass(frozen=True, slots=True)
class TableAnswer:
    """Hold the answers for the buckets of one table."""

    table_id: int
    buckets: Sequence[BucketAnswer]


def encode_fetch_answer(tables: Sequence[TableAnswer]) -> list[Part]:
    """Encode a FetchLogResponse as parts; the records are passed on by reference."""
    parts: list[Part] = []
    for table in tables:
        body: list[Part] = [b"\x08" + varint(table.table_id)]
        for bucket in table.buckets:
            encoded = _bucket_parts(bucket)
            body += [_BUCKETS_RESP + varint(_size(encoded)), *encoded]
        parts += [_TABLES_RESP + varint(_size(body)), *body]
    return parts


def _bucket_parts(bucket: BucketAnswer) -> list[Part]:
    fields = bucket.fields.SerializeToString()
    if not bucket.records:
        return [fields]
    return [fields + _RECORDS + varint(bucket.size), *bucket.records]


def _size(parts: Sequence[Part]) -> int:
    return sum(len(part) for part in parts)


def varint(value: int) -> bytes:
    """Encode a non-negative number, seven bits a byte."""
    encoded = bytearray()
    while value > _SEVEN_BITS:
        encoded.append(value & _SEVEN_BITS | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
