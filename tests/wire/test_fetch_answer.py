"""The hand-made encoding of fetch answers is what protobuf reads."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.wire import fluss_pb2 as pb
from headwater.wire.fetch import BucketAnswer, TableAnswer, decode_fetch_answer, encode_fetch_answer

records = st.lists(st.binary(min_size=1, max_size=300), max_size=4)
buckets = st.builds(
    lambda number, partition, parts: (number, partition, parts),
    st.integers(0, 2**31 - 1),
    st.none() | st.integers(0, 2**62),
    records,
)
tables = st.lists(st.tuples(st.integers(0, 2**62), st.lists(buckets, max_size=4)), max_size=3)


def answers_of(tables) -> list[TableAnswer]:
    return [
        TableAnswer(
            table_id,
            [
                BucketAnswer(
                    pb.FetchLogBucketResponse(
                        bucket_id=number, partition_id=partition, high_watermark=7
                    ),
                    parts,
                )
                for number, partition, parts in buckets
            ],
        )
        for table_id, buckets in tables
    ]


def told(bucket) -> tuple[int, int, int]:
    return bucket.bucket_id, bucket.partition_id, bucket.high_watermark


@given(tables)
def test_protobuf_reads_what_was_encoded_by_hand(tables):
    answers = answers_of(tables)

    decoded = pb.FetchLogResponse.FromString(b"".join(encode_fetch_answer(answers)))

    assert [table.table_id for table in decoded.tables_resp] == [each.table_id for each in answers]
    for table, answer in zip(decoded.tables_resp, answers, strict=True):
        for bucket, expected in zip(table.buckets_resp, answer.buckets, strict=True):
            assert told(bucket) == told(expected.fields)
            assert bucket.records == b"".join(expected.records)
            # The Java client drops the whole answer where a bucket without records has none.
            assert bucket.HasField("records")


def test_a_bucket_that_was_refused_has_no_records():
    refused = BucketAnswer(pb.FetchLogBucketResponse(bucket_id=1, error_code=2))

    encoded = encode_fetch_answer([TableAnswer(3, [refused])])

    (bucket,) = pb.FetchLogResponse.FromString(b"".join(encoded)).tables_resp[0].buckets_resp
    assert (bucket.error_code, bucket.HasField("records")) == (2, False)


@given(tables)
def test_an_answer_is_decoded_as_it_was_encoded(tables):
    answers = answers_of(tables)

    decoded = decode_fetch_answer(memoryview(b"".join(encode_fetch_answer(answers))))

    assert [table.table_id for table in decoded] == [each.table_id for each in answers]
    for table, answer in zip(decoded, answers, strict=True):
        for bucket, expected in zip(table.buckets, answer.buckets, strict=True):
            assert bucket.fields == expected.fields
            assert b"".join(bucket.records) == b"".join(expected.records)
