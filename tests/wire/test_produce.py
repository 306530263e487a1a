"""The hand-made codec of append requests agrees with protobuf and refuses what is broken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptBatchError
from headwater.wire import fluss_pb2 as pb
from headwater.wire.bucket_records import COPY_BYTES_MAX, BucketRecords
from headwater.wire.produce import ProduceRequest, decode_produce, encode_produce

buckets = st.builds(
    BucketRecords,
    bucket_id=st.integers(-(2**31), 2**31 - 1),
    records=st.binary(max_size=200) | st.binary(max_size=2).map(lambda tail: tail * 20_000),
    partition_id=st.none() | st.integers(-(2**63), 2**63 - 1),
)
requests = st.builds(
    ProduceRequest,
    acks=st.integers(-2, 2),
    table_id=st.integers(0, 2**63 - 1),
    timeout_ms=st.integers(0, 2**31 - 1),
    buckets=st.lists(buckets, max_size=4),
)


def as_message(request: ProduceRequest) -> pb.ProduceLogRequest:
    return pb.ProduceLogRequest(
        acks=request.acks,
        table_id=request.table_id,
        timeout_ms=request.timeout_ms,
        buckets_req=[
            pb.ProduceLogBucketRequest(
                bucket_id=each.bucket_id, records=each.records, partition_id=each.partition_id
            )
            for each in request.buckets
        ],
    )


@given(requests)
def test_protobuf_reads_what_was_encoded_by_hand(request):
    encoded = b"".join(encode_produce(request))

    assert pb.ProduceLogRequest.FromString(encoded) == as_message(request)


@given(requests)
def test_what_protobuf_wrote_is_decoded_by_hand(request):
    decoded = decode_produce(memoryview(as_message(request).SerializeToString()))

    assert decoded == request


@given(requests, st.data())
def test_damaged_bytes_are_refused_or_read_but_never_crash(request, data):
    encoded = bytearray(as_message(request).SerializeToString())
    position = data.draw(st.integers(0, len(encoded) - 1))
    encoded[position] ^= data.draw(st.integers(1, 255))

    try:
        decode_produce(memoryview(bytes(encoded)))
    except CorruptBatchError as refused:
        assert str(refused)


@pytest.mark.parametrize("body", [b"", b"\x08", b"\x08\x01", b"\x22\x05ab", b"\x0b", b"\xff" * 12])
def test_an_incomplete_request_is_refused(body):
    with pytest.raises(CorruptBatchError):
        decode_produce(memoryview(body))


@pytest.mark.parametrize("left_out", ["bucket_id", "records"])
def test_a_large_request_without_a_bucket_or_records_is_refused(left_out):
    request = ProduceRequest(1, 2, 3, [BucketRecords(4, b"x" * 2 * COPY_BYTES_MAX)])
    message = as_message(request)
    message.buckets_req.add(bucket_id=5, records=b"y").ClearField(left_out)

    with pytest.raises(CorruptBatchError, match="lacks a bucket"):
        decode_produce(memoryview(message.SerializePartialToString()))
