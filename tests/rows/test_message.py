import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptBatchError
from headwater.rows.message import MessageTemplate, metadata_bytes, read_layout
from tests.cases import cases
from tests.rows.strategies import COMPRESSIONS, compressions, message_of

ROWS = pa.record_batch({"id": pa.array([1, 2, 3], pa.int32()), "name": ["a", None, "c"]})


def layout_of(message):
    return read_layout(message, message_bytes=len(message))


@cases("compression", COMPRESSIONS)
def test_a_layout_tells_rows_nodes_buffers_and_codec(compression):
    layout = layout_of(message_of(ROWS, compression))

    assert layout.row_count == 3
    assert layout.nodes.tolist() == [[3, 0], [3, 1]]
    assert len(layout.buffers) == 5
    assert layout.compression == compression


def test_the_first_eight_bytes_tell_where_the_body_starts():
    message = message_of(ROWS)

    assert metadata_bytes(message[:8]) == layout_of(message).metadata_end


def test_a_layout_is_read_without_the_body():
    message = message_of(ROWS)

    layout = read_layout(message[: metadata_bytes(message)], message_bytes=len(message))

    assert layout.body_length == len(message) - layout.metadata_end


@given(
    pairs=st.lists(st.integers(0, 2**40), max_size=9),
    body_words=st.integers(0, 1000),
    codec=compressions(),
)
def test_a_written_layout_reads_back(pairs, body_words, codec):
    nodes = np.array([(length, 0) for length in pairs], np.int64).reshape(-1, 2)
    buffers = np.array([(0, 0) for _ in pairs], np.int64).reshape(-1, 2)
    template = MessageTemplate.of(len(nodes), len(buffers), codec=codec)

    prefix = template.fill(7, nodes=nodes, buffers=buffers, body_length=8 * body_words)
    layout = read_layout(prefix, message_bytes=len(prefix) + 8 * body_words)

    assert (layout.row_count, layout.compression) == (7, codec)
    assert np.array_equal(layout.nodes, nodes)
    assert np.array_equal(layout.buffers, buffers)


@cases("compression", COMPRESSIONS)
def test_pyarrow_reads_metadata_that_we_wrote(compression):
    message = message_of(ROWS, compression)
    layout = layout_of(message)
    template = MessageTemplate.of(2, 5, codec=compression)

    prefix = template.fill(
        3, nodes=layout.nodes, buffers=layout.buffers, body_length=layout.body_length
    )

    again = pa.ipc.read_record_batch(prefix + message[layout.metadata_end :], ROWS.schema)
    assert again.equals(ROWS)


@given(cut=st.integers(0, len(message_of(ROWS)) - 1))
def test_a_truncated_message_is_refused(cut):
    message = message_of(ROWS)[:cut]

    with pytest.raises(CorruptBatchError):
        layout_of(message)


@given(position=st.integers(0, 300), value=st.binary(min_size=1, max_size=8))
def test_damaged_metadata_is_read_or_refused(position, value):
    message = bytearray(message_of(ROWS))
    message[position : position + len(value)] = value

    try:
        layout = layout_of(bytes(message))
    except CorruptBatchError:
        return

    assert (layout.buffers.sum(axis=1) <= layout.body_length).all()


def test_a_schema_message_is_refused():
    message = bytes(ROWS.schema.serialize())

    with pytest.raises(CorruptBatchError, match="not a record batch"):
        layout_of(message)


@cases(
    ("buffers", "reason"),
    [
        ([(0, 8), (64, 8)], "outside"),
        ([(0, -8), (0, 0)], "outside"),
        ([(-8, 8), (0, 0)], "outside"),
        ([(2**62, 2**62), (0, 0)], "outside"),
        ([(4, 8), (0, 0)], "aligned"),
        ([(0, 40), (0, 40)], "overlap"),
    ],
)
def test_buffers_stay_inside_the_body_and_apart(buffers, reason):
    nodes = np.array([(3, 0)], np.int64)
    template = MessageTemplate.of(1, 2, codec=None)
    prefix = template.fill(3, nodes=nodes, buffers=np.array(buffers, np.int64), body_length=64)

    with pytest.raises(CorruptBatchError, match=reason):
        read_layout(prefix, message_bytes=len(prefix) + 64)


def test_a_node_with_more_nulls_than_rows_is_refused():
    template = MessageTemplate.of(1, 0, codec=None)
    nothing = np.empty((0, 2), np.int64)
    prefix = template.fill(3, nodes=np.array([(3, 4)], np.int64), buffers=nothing, body_length=0)

    with pytest.raises(CorruptBatchError, match="nulls"):
        read_layout(prefix, message_bytes=len(prefix))


def test_a_vector_larger_than_its_metadata_is_refused():
    message = bytearray(MessageTemplate.of(0, 0, codec=None).words.tobytes())
    struct.pack_into("<I", message, 8 + 92, 2**28)

    with pytest.raises(CorruptBatchError, match="declares 268435456 nodes"):
        layout_of(bytes(message))
