"""Byte strings anywhere in a buffer."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.rows import row_bytes
from headwater.rows.row_bytes import PADDING, RowBytes

strings = st.lists(st.binary(max_size=40), max_size=12)


@given(strings, st.integers(0, 3))
def test_strings_pass_through_arrow(values, skipped):
    array = pa.array(values, pa.binary()).slice(skipped)

    rows = RowBytes.from_arrow(array)

    assert rows.to_list() == values[skipped:]
    assert rows.to_arrow().equals(array)


@given(strings, st.data())
def test_strings_are_taken_in_any_order(values, data):
    order = data.draw(st.permutations(range(len(values))))

    taken = RowBytes.of(values).take(np.array(order, np.int64))

    assert taken.to_list() == taken.to_arrow().to_pylist() == [values[i] for i in order]
    assert taken.lengths.tolist() == [len(values[i]) for i in order]


@given(st.lists(st.lists(st.binary(max_size=20), max_size=4), max_size=4))
def test_parts_are_joined_in_their_order(parts):
    joined = RowBytes.joined([RowBytes.of(part) for part in parts])

    assert joined.to_list() == [value for part in parts for value in part]
    assert len(joined.data) >= int(joined.ends.max(initial=0)) + PADDING


def test_a_null_becomes_an_empty_string():
    array = pa.array([b"a", None, b"bc"], pa.binary())

    assert RowBytes.from_arrow(array).to_list() == [b"a", b"", b"bc"]


@pytest.mark.parametrize("window_bits", [6, 8])
def test_strings_are_found_beyond_the_reach_of_one_view(monkeypatch, window_bits):
    monkeypatch.setattr(row_bytes, "_WINDOW_BITS", window_bits)
    values = [bytes([i]) * (i % 60) for i in range(100)]

    assert RowBytes.of(values).to_arrow().to_pylist() == values
