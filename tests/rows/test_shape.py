import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import UnsupportedError
from headwater.model.arrow import arrow_type
from headwater.rows.message import Shape, null_column, read_layout, shape_of, struct_members
from tests.cases import cases
from tests.rows.strategies import data_types, message_of


def layout_of(array):
    message = message_of(pa.record_batch([array], names=["c"]))
    return read_layout(message, message_bytes=len(message))


@given(data_type=data_types())
def test_a_shape_counts_what_arrow_writes(data_type):
    kind = arrow_type(data_type)

    layout = layout_of(pa.nulls(2, kind))

    assert shape_of(kind) == Shape(len(layout.nodes), len(layout.buffers))


@given(data_type=data_types(), count=st.integers(0, 20))
def test_a_null_column_has_the_nodes_that_arrow_writes(data_type, count):
    kind = arrow_type(data_type)

    column = null_column(kind, count)

    assert [list(node) for node in column.nodes] == layout_of(pa.nulls(count, kind)).nodes.tolist()
    assert len(column.buffer_lengths) == shape_of(kind).buffer_count


@cases("kind", [pa.string_view(), pa.dictionary(pa.int8(), pa.string())])
def test_types_that_fluss_does_not_know_have_no_shape(kind):
    with pytest.raises(UnsupportedError):
        shape_of(kind)


def test_struct_fields_are_paired_with_their_struct():
    inner = pa.struct([("x", pa.int8()), ("y", pa.list_(pa.struct([("z", pa.int8())])))])

    pairs = struct_members([pa.int8(), inner, pa.map_(pa.string(), pa.int8())])

    assert pairs == [(2, 1), (3, 1), (5, 4), (8, 7), (9, 7)]
