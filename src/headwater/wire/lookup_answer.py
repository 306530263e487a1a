"""What a client reads of an answer to a lookup: the values of many keys at once."""

from dataclasses import dataclass

import numpy as np

from headwater.errors import CorruptBatchError
from headwater.rows.chains import follow_chain
from headwater.rows.compacted.varint import INT_BYTES_MAX, read_varints
from headwater.rows.row_bytes import PADDING, Bytes, Longs, RowBytes, overlapping_words
from headwater.wire import fluss_pb2 as pb
from headwater.wire.fields import iterate_fields, number_field
from headwater.wire.lookup import VALUE_TAGS, BucketFault
from headwater.wire.messages import decode_message

_BUCKETS_RESP, _VALUES = 1, 5
_PARTITION_ID, _BUCKET_ID = 1, 2
_SMALL_BYTES_MAX = 32 * 1024
_OUTER_TAG, _INNER_TAG = VALUE_TAGS


@dataclass(frozen=True, slots=True, eq=False)
class BucketFound:
    """Hold the values of one bucket; `counts` tells how many each key has."""

    bucket_id: int
    partition_id: int | None
    values: RowBytes
    counts: Longs


def decode_lookup_answer(body: memoryview) -> list[BucketFound | BucketFault]:
    """Read a LookupResponse; a key that was not found has no value, any other has one."""
    if len(body) <= _SMALL_BYTES_MAX:
        message = decode_message(pb.LookupResponse, bytes(body), api="LOOKUP")
        return [_few(bucket) for bucket in message.buckets_resp]
    return [
        _bucket(value)
        for number, value in iterate_fields(body)
        if number == _BUCKETS_RESP and isinstance(value, memoryview)
    ]


def decode_prefix_lookup_answer(body: memoryview) -> list[BucketFound | BucketFault]:
    """Read a PrefixLookupResponse."""
    message = decode_message(pb.PrefixLookupResponse, bytes(body), api="PREFIX_LOOKUP")
    answers: list[BucketFound | BucketFault] = []
    for bucket in message.buckets_resp:
        lists = [each.values for each in bucket.value_lists]
        values = RowBytes.of([value for each in lists for value in each])
        counts = np.array([len(each) for each in lists], np.int64)
        answers.append(_fault(bucket) or _found(bucket, values, counts))
    return answers


def _few(bucket: pb.LookupBucketResponse) -> BucketFound | BucketFault:
    found = [each.values for each in bucket.values if each.HasField("values")]
    counts = np.array([each.HasField("values") for each in bucket.values], np.int64)
    return _fault(bucket) or _found(bucket, RowBytes.of(found), counts)


def _found(
    bucket: pb.LookupBucketResponse | pb.PrefixLookupBucketResponse, values: RowBytes, counts: Longs
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
    """Read one bucket whose values stand behind everything else, as writers place them."""
    ids: dict[int, int] = {}
    start = 0
    for number, value in iterate_fields(message):
        if number == _VALUES or not isinstance(value, int):
            break
        ids[number] = value
        start += len(number_field(number, value))
    if ids.keys() <= {_PARTITION_ID, _BUCKET_ID} and _BUCKET_ID in ids:
        try:
            values, counts = _many(message, start)
            return BucketFound(ids[_BUCKET_ID], ids.get(_PARTITION_ID), values, counts)
        except CorruptBatchError:
            pass  # Fields of other kinds stand among the values, or the message is damaged.
    return _few(decode_message(pb.LookupBucketResponse, bytes(message), api="LOOKUP"))


def _many(message: memoryview, start: int) -> tuple[RowBytes, Longs]:
    end = len(message)
    data: Bytes = np.zeros(end + PADDING, np.uint8)
    data[:end] = np.frombuffer(message, np.uint8)
    starts, ends = _fields(data, start, end=end)
    counts = (ends > starts).astype(np.int64)
    starts, ends = starts[counts > 0], ends[counts > 0]
    if (data[starts] != _INNER_TAG).any():
        raise CorruptBatchError("A value is wrapped in an unknown field.")
    lengths = read_varints(overlapping_words(data), starts + 1, bytes_max=INT_BYTES_MAX)
    if not np.array_equal(lengths.ends + lengths.values.view(np.int64), ends):
        raise CorruptBatchError("A value does not fill its field.")
    return RowBytes(data, lengths.ends, ends), counts


def _fields(data: Bytes, start: int, *, end: int) -> tuple[Longs, Longs]:
    """Return where the contents of all fields begin and end that follow each other."""
    places = np.flatnonzero(data[start:end] == _OUTER_TAG) + start
    lengths = read_varints(overlapping_words(data), places + 1, bytes_max=INT_BYTES_MAX)
    nexts = lengths.ends + lengths.values.view(np.int64)
    fits = (nexts <= end) & (lengths.ends <= end)
    if lengths.too_long is not None:
        fits &= ~lengths.too_long
    chain = follow_chain(places[fits], nexts[fits], start=start, end=end)
    if chain is None:
        raise CorruptBatchError("The values do not follow each other.")
    found = np.flatnonzero(fits)[chain]
    return lengths.ends[found], nexts[found]
