"""Fetch requests of a log, and their responses around the stored bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from headwater.wire import fluss_pb2 as pb
from headwater.wire import messages


class OffsetType(IntEnum):
    """Offsets that can be asked for, numbered as on the wire."""

    EARLIEST = 0
    LATEST = 1
    TIMESTAMP = 2


# The response to a fetch, encoded around the stored bytes instead of copying them.

_TABLES_RESP = 1
_TABLE_ID, _BUCKETS_RESP = 1, 2
_RECORDS = 8
# One piece of memory is sent faster than several, and keeps nothing else alive.
_JOINED_BYTES_MAX = 256 * 1024


@dataclass(frozen=True, slots=True)
class BucketAnswer:
    """The response for one bucket: its fields, and its records as parts."""

    fields: pb.FetchLogBucketResponse
    records: Sequence[messages.Part] = ()

    @property
    def size(self) -> int:
        """Bytes of the records."""
        return _size(self.records)


@dataclass(frozen=True, slots=True)
class TableAnswer:
    """The responses for the buckets of one table."""

    table_id: int
    buckets: Sequence[BucketAnswer]


@dataclass(frozen=True, slots=True)
class EncodedBucket:
    """The response for one bucket as it is sent, possibly to many."""

    parts: tuple[messages.Part, ...]
    size: int
    records_size: int
    error: tuple[int, str] | None = None
    """Code and message, if the bucket could not be read."""
    has_moved: bool = False
    """Whether a reader gets ahead even without records, because batches were pruned."""


EncodedTable = tuple[int, Sequence[EncodedBucket]]


def encode_fetch_answer(tables: Sequence[TableAnswer]) -> list[messages.Part]:
    """Encode a FetchLogResponse as parts; large records are passed by reference."""
    return joined_answer(
        [(table.table_id, [encode_bucket(bucket) for bucket in table.buckets]) for table in tables]
    )


def joined_answer(tables: Sequence[EncodedTable]) -> list[messages.Part]:
    """Join encoded buckets into a FetchLogResponse."""
    parts: list[messages.Part] = []
    for table_id, buckets in tables:
        head = messages.number_field(_TABLE_ID, table_id)
        size = len(head) + sum(bucket.size for bucket in buckets)
        parts.append(messages.bytes_head(_TABLES_RESP, size) + head)
        for bucket in buckets:
            parts += bucket.parts
    return parts


def encode_bucket(bucket: BucketAnswer) -> EncodedBucket:
    """Encode the response for one bucket as a field of its table's."""
    body = _bucket_parts(bucket)
    parts: list[messages.Part] = [messages.bytes_head(_BUCKETS_RESP, _size(body)), *body]
    size = _size(parts)
    fields = bucket.fields
    return EncodedBucket(
        (b"".join(parts),) if size <= _JOINED_BYTES_MAX else tuple(parts),
        size,
        bucket.size,
        (fields.error_code, fields.error_message) if fields.error_code else None,
        fields.HasField("filtered_end_offset"),
    )


def _bucket_parts(bucket: BucketAnswer) -> list[messages.Part]:
    fields = bucket.fields.SerializeToString()
    if bucket.fields.HasField("error_code"):
        return [fields]
    # Even if there are none: Java clients fail on a response without records.
    return [fields + messages.bytes_head(_RECORDS, bucket.size), *bucket.records]


def _size(parts: Sequence[messages.Part]) -> int:
    return sum(len(part) for part in parts)


def decode_fetch_answer(body: memoryview) -> list[TableAnswer]:
    """Decode a FetchLogResponse; its records are views of the body."""
    return [
        _decode_table(value)
        for number, value in messages.iterate_fields(body)
        if number == _TABLES_RESP and isinstance(value, memoryview)
    ]


def _decode_table(message: memoryview) -> TableAnswer:
    table_id, buckets = 0, []
    for number, value in messages.iterate_fields(message):
        if number == _TABLE_ID and isinstance(value, int):
            table_id = value
        elif number == _BUCKETS_RESP and isinstance(value, memoryview):
            buckets.append(_decode_bucket(value))
    return TableAnswer(table_id, buckets)


def _decode_bucket(message: memoryview) -> BucketAnswer:
    records: list[messages.Part] = []
    rest: list[messages.Part] = []
    for number, value in messages.iterate_fields(message):
        if isinstance(value, int):
            rest.append(messages.number_field(number, value))
        elif number == _RECORDS:
            records.append(value)
        else:
            rest += [messages.bytes_head(number, len(value)), value]
    fields = messages.decode_message(pb.FetchLogBucketResponse, b"".join(rest), api="FETCH_LOG")
    return BucketAnswer(fields, records)
