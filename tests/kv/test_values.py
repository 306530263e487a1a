"""Values are framed where they lie, as protobuf would write them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.kv.heap import Heap, framed, values_of, with_lengths
from headwater.rows.kv_batch import build_records
from headwater.rows.row_bytes import PADDING, RowBytes
from headwater.wire import fluss_pb2 as pb
from headwater.wire.lookup import VALUE_TAGS

rows = st.binary(min_size=1, max_size=30) | st.sampled_from([100, 125, 126, 16_500]).map(bytes)
records = st.lists(st.tuples(st.binary(max_size=9), rows), max_size=8)


def read(pairs, schema_id):
    """Keep keys and rows in a heap and read them back."""
    data, starts = build_records(
        RowBytes.of([key for key, _ in pairs]), RowBytes.of([row for _, row in pairs])
    )
    heap = Heap(1 << 20)
    base = heap.append(data[: len(data) - PADDING], schema_id=schema_id)
    return heap.view().read(base + starts)


@given(records, st.integers(0, 2**15 - 1))
def test_a_value_is_the_schema_id_and_the_row(pairs, schema_id):
    values = values_of(read(pairs, schema_id))

    assert values.to_list() == [schema_id.to_bytes(2, "little") + row for _, row in pairs]


@given(records, st.integers(0, 2**15 - 1))
def test_a_value_has_its_length_before_it(pairs, schema_id):
    values = values_of(read(pairs, schema_id)).to_list()

    found = with_lengths(values_of(read(pairs, schema_id))).to_list()

    assert found == [len(value).to_bytes(4, "little") + value for value in values]


@given(records, st.integers(0, 2**15 - 1))
def test_framed_values_are_what_protobuf_reads(pairs, schema_id):
    values = values_of(read(pairs, schema_id)).to_list()
    outer_tag, inner_tag = VALUE_TAGS

    fields = framed(
        values_of(read(pairs, schema_id)), outer_tag=outer_tag, inner_tag=inner_tag
    ).to_list()

    answer = pb.LookupBucketResponse.FromString(b"".join(fields) + b"\x10\x01")
    assert [each.values for each in answer.values] == values
    assert (
        b"".join(fields)
        == pb.LookupBucketResponse(
            values=[pb.LookupValue(values=value) for value in values]
        ).SerializePartialToString()
    )


def test_no_values_are_framed_as_nothing():
    nothing = RowBytes(np.zeros(PADDING, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64))

    assert len(framed(nothing, outer_tag=1, inner_tag=2)) == 0
    assert len(with_lengths(nothing)) == 0
