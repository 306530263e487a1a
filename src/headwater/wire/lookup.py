"""Lookups by key or prefix: request and response, as servers and clients encode them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from headwater.errors import CorruptBatchError
from headwater.rows import row_bytes
from headwater.rows.compacted.varint import INT_BYTES_MAX, read_varints
from headwater.wire import fluss_pb2 as pb
from headwater.wire import messages

_HEADS_KEPT_MAX = 4096
_BUCKETS_RESP, _VALUES, _VALUE = 1, 5, 1
EMPTY_VALUE = messages.bytes_head(_VALUES, 0)
"""The field of a key that was not found."""

VALUE_TAGS = (_VALUES << 3 | 2, _VALUE << 3 | 2)
"""The tags before a value that was found: of the message around it, and of its bytes."""


@dataclass(frozen=True, slots=True)
class BucketKeys:
    """The keys, or prefixes of keys, to look up in one bucket."""

    bucket_id: int
    keys: list[bytes]
    partition_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupRequest:
    """A request to look up keys or prefixes in buckets of one table."""

    table_id: int
    buckets: Sequence[BucketKeys]
    insert_if_not_exists: bool = False
    acks: int | None = None
    timeout_ms: int | None = None
    columns: tuple[int, ...] = ()
    """Ids of the columns that are read; empty for all."""


@dataclass(frozen=True, slots=True)
class BucketValues:
    """What was found in one bucket, as the encoded field of each key."""

    bucket_id: int
    partition_id: int | None
    encoded: messages.Part


@dataclass(frozen=True, slots=True)
class BucketFault:
    """Why one bucket could not answer."""

    bucket_id: int
    partition_id: int | None
    code: int
    message: str


def decode_lookup(body: memoryview, *, api: str = "LOOKUP") -> LookupRequest:
    """Decode a LookupRequest, or a PrefixLookupRequest, which has a subset of its fields."""
    message = messages.decode_message(pb.LookupRequest, bytes(body), api=api)
    buckets = [_keys(bucket) for bucket in message.buckets_req]
    messages.refuse_repeated(buckets, api=api)
    return LookupRequest(
        table_id=message.table_id,
        buckets=buckets,
        insert_if_not_exists=message.insert_if_not_exists,
        acks=message.acks if message.HasField("acks") else None,
        timeout_ms=message.timeout_ms if message.HasField("timeout_ms") else None,
        columns=messages.decode_columns(message.columns),
    )


def _keys(bucket: pb.LookupBucketRequest) -> BucketKeys:
    partition_id = bucket.partition_id if bucket.HasField("partition_id") else None
    return BucketKeys(bucket.bucket_id, list(bucket.keys), partition_id)


def lookup_answer(buckets: Sequence[BucketValues | BucketFault]) -> list[messages.Part]:
    """Encode a LookupResponse or a PrefixLookupResponse, whose field numbers are the same."""
    parts: list[messages.Part] = []
    for bucket in buckets:
        fields = _bucket_fields(bucket).SerializeToString()
        encoded = bucket.encoded if isinstance(bucket, BucketValues) else b""
        parts += [messages.bytes_head(_BUCKETS_RESP, len(fields) + len(encoded)) + fields, encoded]
    return parts


def _bucket_fields(bucket: BucketValues | BucketFault) -> pb.LookupBucketResponse:
    answer = pb.LookupBucketResponse(bucket_id=bucket.bucket_id, partition_id=bucket.partition_id)
    if isinstance(bucket, BucketFault):
        answer.error_code, answer.error_message = bucket.code, bucket.message
    return answer


@lru_cache(maxsize=_HEADS_KEPT_MAX)
def value_field_head(length: int) -> bytes:
    """Encode what comes before the bytes of one value."""
    inner = messages.bytes_head(_VALUE, length)
    return messages.bytes_head(_VALUES, len(inner) + length) + inner


def encoded_values(values: Sequence[bytes | None]) -> bytes:
    """Encode the values of one bucket, one for each key, None if it was not found."""
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
    body = b"".join(messages.bytes_head(_VALUE, len(value)) + value for value in values)
    return messages.bytes_head(_VALUES, len(body)) + body


# What a client reads of the response to a lookup: the values of many keys at once.

_ANSWER_BUCKETS, _ANSWER_VALUES = 1, 5
_PARTITION_ID, _BUCKET_ID = 1, 2
_SMALL_BYTES_MAX = 32 * 1024
_OUTER_TAG, _INNER_TAG = VALUE_TAGS


@dataclass(frozen=True, slots=True, eq=False)
class BucketFound:
    """The values of one bucket; `counts` says how many each key has."""

    bucket_id: int
    partition_id: int | None
    values: row_bytes.RowBytes
    counts: row_bytes.Longs


def decode_lookup_answer(body: memoryview) -> list[BucketFound | BucketFault]:
    """Decode a LookupResponse; a key that was not found has no value, any other has one."""
    if len(body) <= _SMALL_BYTES_MAX:
        message = messages.decode_message(pb.LookupResponse, bytes(body), api="LOOKUP")
        return [_few(bucket) for bucket in message.buckets_resp]
    return [
        _bucket(value)
        for number, value in messages.iterate_fields(body)
        if number == _ANSWER_BUCKETS and isinstance(value, memoryview)
    ]


def decode_few_values(body: memoryview) -> dict[tuple[int | None, int], list[bytes | None]] | None:
    """Read the values of a few keys by partition and bucket; None if a bucket has an error."""
    message = messages.decode_message(pb.LookupResponse, bytes(body), api="LOOKUP")
    found: dict[tuple[int | None, int], list[bytes | None]] = {}
    for bucket in message.buckets_resp:
        if bucket.error_code:
            return None
        partition_id = bucket.partition_id if bucket.HasField("partition_id") else None
        found[partition_id, bucket.bucket_id] = [
            each.values if each.HasField("values") else None for each in bucket.values
        ]
    return found


def decode_prefix_lookup_answer(body: memoryview) -> list[BucketFound | BucketFault]:
    """Decode a PrefixLookupResponse."""
    message = messages.decode_message(pb.PrefixLookupResponse, bytes(body), api="PREFIX_LOOKUP")
    answers: list[BucketFound | BucketFault] = []
    for bucket in message.buckets_resp:
        lists = [each.values for each in bucket.value_lists]
        values = row_bytes.RowBytes.of([value for each in lists for value in each])
        counts = np.array([len(each) for each in lists], np.int64)
        answers.append(_fault(bucket) or _found(bucket, values, counts))
    return answers


def _few(bucket: pb.LookupBucketResponse) -> BucketFound | BucketFault:
    found = [each.values for each in bucket.values if each.HasField("values")]
    counts = np.array([each.HasField("values") for each in bucket.values], np.int64)
    return _fault(bucket) or _found(bucket, row_bytes.RowBytes.of(found), counts)


def _found(
    bucket: pb.LookupBucketResponse | pb.PrefixLookupBucketResponse,
    values: row_bytes.RowBytes,
    counts: row_bytes.Longs,
) -> BucketFound:
    partition_id = bucket.partition_id if bucket.HasField("partition_id") else None
    return BucketFound(bucket.bucket_id, partition_id, values, counts)


def _fault(
    bucket: pb.LookupBucketResponse | pb.PrefixLookupBucketResponse,
) -> BucketFault | None:
    if not bucket.error_code:
        return None
    partition_id = bucket.partition_id if bucket.HasField("partition_id") else None
    return BucketFault(bucket.bucket_id, partition_id, bucket.error_code, bucket.error_message)


def _bucket(message: memoryview) -> BucketFound | BucketFault:
    """Decode one bucket whose values come after everything else, as writers put them."""
    ids: dict[int, int] = {}
    start = 0
    for number, value in messages.iterate_fields(message):
        if number == _ANSWER_VALUES or not isinstance(value, int):
            break
        ids[number] = value
        start += len(messages.number_field(number, value))
    if ids.keys() <= {_PARTITION_ID, _BUCKET_ID} and _BUCKET_ID in ids:
        try:
            values, counts = _many(message, start)
            return BucketFound(ids[_BUCKET_ID], ids.get(_PARTITION_ID), values, counts)
        except CorruptBatchError:
            pass  # Other fields between the values, or a damaged message.
    return _few(messages.decode_message(pb.LookupBucketResponse, bytes(message), api="LOOKUP"))


def _many(message: memoryview, start: int) -> tuple[row_bytes.RowBytes, row_bytes.Longs]:
    end = len(message)
    data: row_bytes.Bytes = np.zeros(end + row_bytes.PADDING, np.uint8)
    data[:end] = np.frombuffer(message, np.uint8)
    starts, ends = _field_bounds(data, start, end=end)
    counts = (ends > starts).astype(np.int64)
    starts, ends = starts[counts > 0], ends[counts > 0]
    if (data[starts] != _INNER_TAG).any():
        raise CorruptBatchError("A value is wrapped in an unknown field.")
    lengths = read_varints(row_bytes.overlapping_words(data), starts + 1, bytes_max=INT_BYTES_MAX)
    if not np.array_equal(lengths.ends + lengths.values.view(np.int64), ends):
        raise CorruptBatchError("A value does not fill its field.")
    return row_bytes.RowBytes(data, lengths.ends, ends), counts


def _field_bounds(
    data: row_bytes.Bytes, start: int, *, end: int
) -> tuple[row_bytes.Longs, row_bytes.Longs]:
    """Return where the contents of consecutive fields begin and end."""
    places = np.flatnonzero(data[start:end] == _OUTER_TAG) + start
    lengths = read_varints(row_bytes.overlapping_words(data), places + 1, bytes_max=INT_BYTES_MAX)
    nexts = lengths.ends + lengths.values.view(np.int64)
    fits = (nexts <= end) & (lengths.ends <= end)
    if lengths.too_long is not None:
        fits &= ~lengths.too_long
    chain = row_bytes.follow_chain(places[fits], nexts[fits], start=start, end=end)
    if chain is None:
        raise CorruptBatchError("The values are not consecutive.")
    found = np.flatnonzero(fits)[chain]
    return lengths.ends[found], nexts[found]
