"""Lookups: what protobuf wrote is read, and it reads what was encoded by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptBatchError, RequestError
from headwater.wire import fluss_pb2 as pb
from headwater.wire.lookup import (
    BucketFault,
    BucketKeys,
    BucketValues,
    LookupRequest,
    decode_lookup,
    encoded_value_lists,
    encoded_values,
    lookup_answer,
    value_field_head,
)
from tests.cases import cases

bucket_ids = st.integers(0, 2**31 - 1)
partition_ids = st.none() | st.integers(0, 2**62)
binaries = st.binary(max_size=300)
faults = st.builds(
    BucketFault, bucket_ids, partition_ids, st.integers(-1, 80), st.text(min_size=1, max_size=40)
)
found = st.tuples(bucket_ids, partition_ids, st.lists(st.none() | binaries, max_size=5))
found_lists = st.tuples(bucket_ids, partition_ids, st.lists(st.lists(binaries, max_size=3)))
requests = st.builds(
    LookupRequest,
    table_id=st.integers(0, 2**62),
    buckets=st.lists(
        st.builds(BucketKeys, bucket_ids, st.lists(binaries), partition_ids),
        unique_by=lambda each: (each.partition_id, each.bucket_id),
    ),
    insert_if_not_exists=st.booleans(),
    acks=st.none() | st.integers(-1, 1),
    timeout_ms=st.none() | st.integers(0, 2**31 - 1),
)


def as_message(request: LookupRequest) -> pb.LookupRequest:
    return pb.LookupRequest(
        table_id=request.table_id,
        buckets_req=[
            pb.LookupBucketRequest(
                bucket_id=each.bucket_id, keys=each.keys, partition_id=each.partition_id
            )
            for each in request.buckets
        ],
        insert_if_not_exists=request.insert_if_not_exists or None,
        acks=request.acks,
        timeout_ms=request.timeout_ms,
    )


@given(requests)
def test_a_lookup_that_protobuf_wrote_is_read(request):
    assert decode_lookup(memoryview(as_message(request).SerializeToString())) == request


def test_a_lookup_that_names_a_bucket_twice_is_refused():
    bucket = BucketKeys(1, [b"k"], None)
    request = LookupRequest(table_id=1, buckets=[bucket, BucketKeys(1, [b"k"], 5), bucket])

    with pytest.raises(RequestError, match="names a bucket more than once"):
        decode_lookup(memoryview(as_message(request).SerializeToString()))


def test_a_prefix_lookup_that_protobuf_wrote_is_read():
    message = pb.PrefixLookupRequest(table_id=7)
    message.buckets_req.add(bucket_id=1, partition_id=2, keys=[b"a", b"b"])

    request = decode_lookup(memoryview(message.SerializeToString()), api="PREFIX_LOOKUP")

    assert request == LookupRequest(table_id=7, buckets=[BucketKeys(1, [b"a", b"b"], 2)])


@cases("body", [b"", b"\x08", b"\x12\x05ab", b"\xff" * 12])
def test_an_incomplete_lookup_is_refused(body):
    with pytest.raises(CorruptBatchError, match="PREFIX_LOOKUP"):
        decode_lookup(memoryview(body), api="PREFIX_LOOKUP")


@given(st.lists(found | faults, max_size=4))
def test_protobuf_reads_an_answer_to_a_lookup(buckets):
    def fill(bucket, values):
        bucket.values.extend(pb.LookupValue(values=value) for value in values)
        return encoded_values(values)

    check_answer(buckets, pb.LookupResponse(), fill)


@given(st.lists(found_lists | faults, max_size=4))
def test_protobuf_reads_an_answer_to_a_prefix_lookup(buckets):
    def fill(bucket, lists):
        bucket.value_lists.extend(pb.LookupValueList(values=values) for values in lists)
        return encoded_value_lists(lists)

    check_answer(buckets, pb.PrefixLookupResponse(), fill)


def check_answer(buckets, expected, fill) -> None:
    answers: list[BucketValues | BucketFault] = []
    for bucket in buckets:
        if isinstance(bucket, BucketFault):
            answers.append(add_fault(expected.buckets_resp, bucket))
            continue
        number, partition, values = bucket
        added = expected.buckets_resp.add(bucket_id=number, partition_id=partition)
        answers.append(BucketValues(number, partition, fill(added, values)))

    assert type(expected).FromString(b"".join(lookup_answer(answers))) == expected


def add_fault(messages, fault: BucketFault) -> BucketFault:
    messages.add(
        bucket_id=fault.bucket_id,
        partition_id=fault.partition_id,
        error_code=fault.code,
        error_message=fault.message,
    )
    return fault


@cases("length", [0, 1, 125, 126, 127, 128, 16_381, 16_384, 2_100_000])
def test_the_head_of_a_value_is_what_protobuf_writes_before_it(length):
    value = b"x" * length
    answer = pb.LookupBucketResponse(bucket_id=0, values=[pb.LookupValue(values=value)])
    without = pb.LookupBucketResponse(bucket_id=0)

    assert answer.SerializeToString() == (
        without.SerializeToString() + value_field_head(length) + value
    )
