"""The hand-made codecs of requests to write agree with protobuf and refuse what is broken."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptBatchError
from headwater.wire import fluss_pb2 as pb
from headwater.wire.write import (
    COPY_BYTES_MAX,
    BucketRecords,
    ProduceRequest,
    PutRequest,
    decode_produce,
    decode_put,
    encode_produce,
    encode_put,
)

buckets = st.builds(
    BucketRecords,
    bucket_id=st.integers(-(2**31), 2**31 - 1),
    records=st.binary(max_size=200) | st.binary(max_size=2).map(lambda tail: tail * 20_000),
    partition_id=st.none() | st.integers(-(2**63), 2**63 - 1),
)
fields = {
    "acks": st.integers(-2, 2),
    "table_id": st.integers(0, 2**63 - 1),
    "timeout_ms": st.integers(0, 2**31 - 1),
    "buckets": st.lists(
        buckets, max_size=4, unique_by=lambda each: (each.partition_id, each.bucket_id)
    ),
}
columns = st.none() | st.lists(st.integers(-1, 4096), min_size=1, max_size=4).map(tuple)


@dataclass(frozen=True)
class Codec:
    """Name what reads and writes one kind of request."""

    requests: st.SearchStrategy[Any]
    encode: Any
    decode: Any
    message: Any


APPEND = Codec(
    st.builds(ProduceRequest, **fields), encode_produce, decode_produce, pb.ProduceLogRequest
)
PUT = Codec(
    st.builds(PutRequest, **fields, target_columns=columns, agg_mode=st.integers(0, 2)),
    encode_put,
    decode_put,
    pb.PutKvRequest,
)
every_codec = pytest.mark.parametrize("codec", [APPEND, PUT], ids=["append", "put"])


def as_message(codec: Codec, request):
    message = codec.message(
        acks=request.acks, table_id=request.table_id, timeout_ms=request.timeout_ms
    )
    for each in request.buckets:
        message.buckets_req.add(
            bucket_id=each.bucket_id, records=each.records, partition_id=each.partition_id
        )
    if isinstance(request, PutRequest):
        message.target_columns.extend(request.target_columns or ())
        if request.agg_mode:
            message.agg_mode = request.agg_mode
    return message


def large_message(codec: Codec):
    message = codec.message(acks=1, table_id=2, timeout_ms=3)
    message.buckets_req.add(bucket_id=4, records=b"x" * 2 * COPY_BYTES_MAX)
    return message


@every_codec
@given(data=st.data())
def test_protobuf_reads_what_was_encoded_by_hand(codec, data):
    request = data.draw(codec.requests)

    encoded = b"".join(codec.encode(request))

    assert codec.message.FromString(encoded) == as_message(codec, request)


@every_codec
@given(data=st.data())
def test_what_protobuf_wrote_is_decoded_by_hand(codec, data):
    request = data.draw(codec.requests)

    decoded = codec.decode(memoryview(as_message(codec, request).SerializeToString()))

    assert decoded == request


@every_codec
@given(data=st.data())
def test_damaged_bytes_are_refused_or_read_but_never_crash(codec, data):
    encoded = bytearray(as_message(codec, data.draw(codec.requests)).SerializeToString())
    position = data.draw(st.integers(0, len(encoded) - 1))
    encoded[position] ^= data.draw(st.integers(1, 255))

    try:
        codec.decode(memoryview(bytes(encoded)))
    except CorruptBatchError as refused:
        assert str(refused)


@every_codec
@pytest.mark.parametrize("body", [b"", b"\x08", b"\x08\x01", b"\x22\x05ab", b"\x0b", b"\xff" * 12])
def test_an_incomplete_request_is_refused(codec, body):
    with pytest.raises(CorruptBatchError):
        codec.decode(memoryview(body))


@every_codec
@pytest.mark.parametrize("left_out", ["acks", "table_id", "timeout_ms"])
def test_a_large_request_without_a_required_field_is_refused(codec, left_out):
    message = large_message(codec)
    message.ClearField(left_out)

    with pytest.raises(CorruptBatchError, match="required field"):
        codec.decode(memoryview(message.SerializePartialToString()))


@every_codec
@pytest.mark.parametrize("left_out", ["bucket_id", "records"])
def test_a_large_request_without_a_bucket_or_records_is_refused(codec, left_out):
    message = large_message(codec)
    message.buckets_req.add(bucket_id=5, records=b"y").ClearField(left_out)

    with pytest.raises(CorruptBatchError, match="lacks a bucket"):
        codec.decode(memoryview(message.SerializePartialToString()))


@every_codec
def test_the_records_of_a_large_request_are_not_copied(codec):
    body = memoryview(large_message(codec).SerializeToString())

    (bucket,) = codec.decode(body).buckets

    assert isinstance(bucket.records, memoryview)
    assert bucket.records.obj is body.obj
