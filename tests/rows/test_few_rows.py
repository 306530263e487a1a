"""A message of few rows has the bytes that Arrow writes for them."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.rows.admission import Expectation
from headwater.rows.few_rows import FewRowsMessage
from headwater.rows.message import read_layout

VALUES = {
    pa.int8(): st.integers(-128, 127),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(),
    pa.string(): st.text(max_size=12),
    pa.binary(): st.binary(max_size=12),
    pa.bool_(): st.booleans(),
}


@st.composite
def rows(draw):
    kinds = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=5))
    count = draw(st.integers(1, 20))
    columns = [
        tuple(draw(st.lists(st.none() | VALUES[kind], min_size=count, max_size=count)))
        for kind in kinds
    ]
    return pa.schema([(f"c{at}", kind) for at, kind in enumerate(kinds)]), columns


@given(rows())
def test_the_message_is_what_arrow_writes(given_rows):
    schema, columns = given_rows
    arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)

    message = FewRowsMessage.of(schema).write(columns, bytes_max=1 << 20)

    assert message == batch.serialize().to_pybytes()


@given(rows())
def test_a_known_layout_is_read_as_an_unknown_one(given_rows):
    schema, columns = given_rows
    message = memoryview(FewRowsMessage.of(schema).write(columns, bytes_max=1 << 20))

    known = Expectation.of(schema).layouts.read(message)

    unknown = read_layout(message, message_bytes=len(message))
    assert known.row_count == unknown.row_count == len(columns[0])
    assert known.nodes.tolist() == unknown.nodes.tolist()
    assert known.buffers.tolist() == unknown.buffers.tolist()
    assert (known.metadata_end, known.body_length) == (unknown.metadata_end, unknown.body_length)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int8(), 128),
        (pa.int64(), True),
        (pa.float64(), 1),
        (pa.string(), "\ud800"),
        (pa.bool_(), 1),
    ],
)
def test_values_that_do_not_fit_are_left_to_arrow(kind, value):
    assert FewRowsMessage.of(pa.schema([("c", kind)])).write([(value,)], bytes_max=100) is None


def test_types_and_sizes_beyond_the_plain_are_left_to_arrow():
    texts = FewRowsMessage.of(pa.schema([("c", pa.string())]))
    required = FewRowsMessage.of(pa.schema([pa.field("c", pa.string(), nullable=False)]))

    assert FewRowsMessage.of(pa.schema([("c", pa.list_(pa.int8()))])) is None
    assert texts.write([("x" * 100,)], bytes_max=100) is None
    assert required.write([(None,)], bytes_max=100) is None
