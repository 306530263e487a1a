"""The hand-made codec of requests to put rows agrees with protobuf and refuses what is broken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptBatchError
from headwater.wire import fluss_pb2 as pb
from headwater.wire.bucket_records import COPY_BYTES_MAX, BucketRecords
from headwater.wire.put import PutRequest, decode_put, encode_put
from tests.wire.test_produce import buckets

requests = st.builds(
    PutRequest,
    acks=st.integers(-2, 2),
    table_id=st.integers(0, 2**63 - 1),
    timeout_ms=st.integers(0, 2**31 - 1),
    target_columns=st.none() | st.lists(st.integers(-1, 4096), min_size=1, max_size=4).map(tuple),
    agg_mode=st.integers(0, 2),
    buckets=st.lists(buckets, max_size=4),
)


def as_message(request: PutRequest) -> pb.PutKvRequest:
    return pb.PutKvRequest(
        acks=request.acks,
        table_id=request.table_id,
        timeout_ms=request.timeout_ms,
        target_columns=request.target_columns,
        agg_mode=request.agg_mode or None,
        buckets_req=[
            pb.PutKvBucketRequest(
                bucket_id=each.bucket_id, records=each.records, partition_id=each.partition_id
            )
            for each in request.buckets
        ],
    )


@given(requests)
def test_protobuf_reads_what_was_encoded_by_hand(request):
    encoded = b"".join(encode_put(request))

    assert pb.PutKvRequest.FromString(encoded) == as_message(request)


@given(requests)
def test_what_protobuf_wrote_is_decoded_by_hand(request):
    decoded = decode_put(memoryview(as_message(request).SerializeToString()))

    assert decoded == request


@given(requests, st.data())
def test_damaged_bytes_are_refused_or_read_but_never_crash(request, data):
    encoded = bytearray(as_message(request).SerializeToString())
    position = data.draw(st.integers(0, len(encoded) - 1))
    encoded[position] ^= data.draw(st.integers(1, 255))

    try:
        decode_put(memoryview(bytes(encoded)))
    except CorruptBatchError as refused:
        assert str(refused)


def test_the_records_of_a_large_request_are_not_copied():
    message = pb.PutKvRequest(acks=1, table_id=2, timeout_ms=3)
    message.buckets_req.add(bucket_id=4, records=b"x" * COPY_BYTES_MAX)
    body = memoryview(message.SerializeToString())

    (bucket,) = decode_put(body).buckets

    assert isinstance(bucket.records, memoryview)
    assert bucket.records.obj is body.obj


@pytest.mark.parametrize("left_out", ["acks", "table_id", "timeout_ms"])
@pytest.mark.parametrize("size", [1, 2 * COPY_BYTES_MAX])
def test_a_request_without_a_required_field_is_refused(left_out, size):
    records = BucketRecords(4, b"x" * size)
    message = as_message(PutRequest(acks=1, table_id=2, timeout_ms=3, buckets=[records]))
    message.ClearField(left_out)

    with pytest.raises(CorruptBatchError, match="PUT_KV"):
        decode_put(memoryview(message.SerializePartialToString()))
