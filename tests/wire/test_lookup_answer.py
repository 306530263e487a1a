"""Answers to lookups, as clients read them."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptBatchError
from headwater.wire import fluss_pb2 as pb
from headwater.wire.lookup import (
    BucketFault,
    BucketFound,
    BucketValues,
    decode_lookup_answer,
    decode_prefix_lookup_answer,
    encoded_value_lists,
    encoded_values,
    lookup_answer,
)
from tests.cases import cases

# Bytes that look like the start of a field, among others.
binaries = st.one_of(
    st.binary(max_size=200), st.lists(st.sampled_from([0x2A, 0x0A, 0, 1, 5])).map(bytes)
)
values_lists = st.lists(st.one_of(st.none(), binaries), max_size=8)
partition_ids = st.none() | st.integers(0, 2**62)
LARGE = 5_000


def held(found: BucketFound) -> list[bytes | None]:
    values = iter(found.values.to_list())
    return [next(values) if count else None for count in found.counts.tolist()]


@given(st.lists(st.tuples(partition_ids, values_lists), max_size=3), st.booleans())
def test_every_key_has_its_value_or_none(buckets, is_large):
    if is_large:
        buckets = [(partition, [*values, bytes(LARGE)]) for partition, values in buckets]
    body = b"".join(
        lookup_answer(
            [
                BucketValues(number, partition, encoded_values(values))
                for number, (partition, values) in enumerate(buckets)
            ]
        )
    )

    found = decode_lookup_answer(memoryview(body))

    assert [(each.bucket_id, each.partition_id, held(each)) for each in found] == [
        (number, partition, values) for number, (partition, values) in enumerate(buckets)
    ]


@given(st.lists(st.lists(binaries, max_size=3), max_size=4), partition_ids)
def test_every_prefix_has_its_values(lists, partition):
    answer = lookup_answer([BucketValues(3, partition, encoded_value_lists(lists))])

    (found,) = decode_prefix_lookup_answer(memoryview(b"".join(answer)))

    assert found.counts.tolist() == [len(each) for each in lists]
    assert found.values.to_list() == [value for each in lists for value in each]


@cases("message", ["late", "late" * LARGE])
def test_a_bucket_tells_why_it_could_not_answer(message):
    fault = BucketFault(2, 5, 25, message)
    body = memoryview(b"".join(lookup_answer([fault])))

    assert decode_lookup_answer(body) == [fault]
    assert decode_prefix_lookup_answer(body) == [fault]


def test_fields_of_other_kinds_behind_the_values_do_no_harm():
    values = [b"a", None, bytes(LARGE)]
    (bucket,) = lookup_answer([BucketValues(1, None, encoded_values(values))])[1:]
    message = pb.LookupBucketResponse(bucket_id=1).SerializeToString() + bytes(bucket)
    odd = message + b"\x32\x03abc"
    body = b"\x0a" + _varint(len(odd)) + odd

    (found,) = decode_lookup_answer(memoryview(body))

    assert held(found) == values


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])


@given(values_lists, st.data())
def test_damaged_bytes_are_refused_or_read_but_never_crash(values, data):
    answer = lookup_answer([BucketValues(1, None, encoded_values([*values, bytes(LARGE)]))])
    body = bytearray(b"".join(answer))
    body[data.draw(st.integers(0, len(body) - 1))] ^= data.draw(st.integers(1, 255))

    try:
        decode_lookup_answer(memoryview(body))
    except CorruptBatchError as refused:
        assert str(refused)
