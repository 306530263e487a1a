"""Batches of values without keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptBatchError
from headwater.wire.value_batch import HEAD_BYTES, read_value_batch, value_batch, value_batch_head

values_lists = st.lists(st.binary(max_size=100), max_size=8)


@given(values_lists)
def test_values_are_read_as_they_were_written(values):
    assert read_value_batch(memoryview(value_batch(values))).to_list() == values


def test_a_batch_has_the_bytes_that_clients_expect():
    batch = value_batch([b"\x01\x00row", b"\x02\x00"])

    assert batch.hex(" ") == (
        "14 00 00 00 00 02 00 00 00 05 00 00 00 01 00 72 6f 77 02 00 00 00 02 00"
    )
    assert batch[:HEAD_BYTES] == value_batch_head(2, len(batch) - HEAD_BYTES)


@given(values_lists, st.data())
def test_damaged_bytes_are_refused_or_read_but_never_crash(values, data):
    batch = bytearray(value_batch(values))
    batch[data.draw(st.integers(0, len(batch) - 1))] ^= data.draw(st.integers(1, 255))

    try:
        read_value_batch(memoryview(batch))
    except CorruptBatchError as refused:
        assert str(refused)


@given(values_lists, st.data())
def test_a_batch_that_was_cut_off_is_refused(values, data):
    batch = value_batch(values)
    end = data.draw(st.integers(0, len(batch) - 1))

    with pytest.raises(CorruptBatchError):
        read_value_batch(memoryview(batch[:end]))


def test_a_batch_with_bytes_left_over_is_refused():
    batch = value_batch_head(0, 4) + bytes(4)

    with pytest.raises(CorruptBatchError, match="its header says 0"):
        read_value_batch(memoryview(batch))
