"""The hand-made encoding of fetch answers is what protobuf reads."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.wire import fluss_pb2 as pb
from headwater.wire.fetch_answer import BucketAnswer, TableAnswer, encode_fetch_answer

records = st.lists(st.binary(min_size=1, max_size=300), max_size=4)
buckets = st.builds(
    lambda number, partition, parts: (number, partition, parts),
    st.integers(0, 2**31 - 1),
    st.none() | st.integers(0, 2**62),
    records,
)
tables = st.lists(st.tuples(st.integers(0, 2**62), st.lists(buckets, max_size=4)), max_size=3)


@given(tables)
def test_protobuf_reads_what_was_encoded_by_hand(tables):
    answers = [
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

    decoded = pb.FetchLogResponse.FromString(b"".join(encode_fetch_answer(answers)))

    assert [
        (
            table.table_id,
            [
                (each.bucket_id, each.partition_id, each.high_watermark, each.records)
                for each in table.buckets_resp
            ],
        )
        for table in decoded.tables_resp
    ] == [
        (
            table_id,
            [(number, partition or 0, 7, b"".join(parts)) for number, partition, parts in buckets],
        )
        for table_id, buckets in tables
    ]
