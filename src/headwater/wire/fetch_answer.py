"""The answer to a fetch, encoded around the stored bytes instead of copying them."""

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.wire import fluss_pb2 as pb
from headwater.wire.fields import Part, bytes_head, iterate_fields, number_field
from headwater.wire.messages import decode_message

_TABLES_RESP = 1
_TABLE_ID, _BUCKETS_RESP = 1, 2
_RECORDS = 8


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
        body: list[Part] = [number_field(_TABLE_ID, table.table_id)]
        for bucket in table.buckets:
            encoded = _bucket_parts(bucket)
            body += [bytes_head(_BUCKETS_RESP, _size(encoded)), *encoded]
        parts += [bytes_head(_TABLES_RESP, _size(body)), *body]
    return parts


def _bucket_parts(bucket: BucketAnswer) -> list[Part]:
    fields = bucket.fields.SerializeToString()
    if bucket.fields.HasField("error_code"):
        return [fields]
    # Also where there are none: clients in Java give up on an answer that lacks them.
    return [fields + bytes_head(_RECORDS, bucket.size), *bucket.records]


def _size(parts: Sequence[Part]) -> int:
    return sum(len(part) for part in parts)


def decode_fetch_answer(body: memoryview) -> list[TableAnswer]:
    """Read a FetchLogResponse; its records are views of the body."""
    return [
        _decode_table(value)
        for number, value in iterate_fields(body)
        if number == _TABLES_RESP and isinstance(value, memoryview)
    ]


def _decode_table(message: memoryview) -> TableAnswer:
    table_id, buckets = 0, []
    for number, value in iterate_fields(message):
        if number == _TABLE_ID and isinstance(value, int):
            table_id = value
        elif number == _BUCKETS_RESP and isinstance(value, memoryview):
            buckets.append(_decode_bucket(value))
    return TableAnswer(table_id, buckets)


def _decode_bucket(message: memoryview) -> BucketAnswer:
    records: list[Part] = []
    rest: list[Part] = []
    for number, value in iterate_fields(message):
        if isinstance(value, int):
            rest.append(number_field(number, value))
        elif number == _RECORDS:
            records.append(value)
        else:
            rest += [bytes_head(number, len(value)), value]
    fields = decode_message(pb.FetchLogBucketResponse, b"".join(rest), api="FETCH_LOG")
    return BucketAnswer(fields, records)
