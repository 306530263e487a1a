"""Rows are held in memory, and in files where they are many."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.epochs.intake import ChunkedRows, HeldRows
from headwater.read.offsets import Place

PLACES = [Place(None, 0), Place("d1", 0)]


def chunk(first, count):
    numbers = range(first, first + count)
    return pa.record_batch(
        {"id": pa.array(numbers, pa.int64()), "name": [f"row {number}" for number in numbers]}
    )


def filled(*, memory_bytes_max):
    held = HeldRows(memory_bytes_max=memory_bytes_max)
    for number in range(20):
        held.add(PLACES[number % 2], chunk(number * 10, 10), deletes=None)
        if held.is_full:
            held.spill()
    return held


def test_rows_in_files_are_the_same_as_in_memory():
    spilled, kept = filled(memory_bytes_max=500), filled(memory_bytes_max=1 << 30)

    for place in PLACES:
        found, expected = spilled.pop(place), kept.pop(place)
        assert len(found.chunks) == 10
        assert len(expected.chunks) == 1
        assert found.count == expected.count == 100
        assert pa.Table.from_batches(found.chunks) == pa.Table.from_batches(expected.chunks)


def test_files_take_no_memory_and_leave_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = pa.total_allocated_bytes()

    held = filled(memory_bytes_max=0)

    assert pa.total_allocated_bytes() - before < 1000
    assert list(tmp_path.iterdir()) == []
    assert held.pop(PLACES[0]).chunks[-1].column("name")[9].as_py() == "row 189"


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.data())
def test_rows_that_lie_one_after_the_other_are_taken_as_they_lie(sizes, data):
    starts = np.cumsum([0, *sizes]).tolist()
    chunks = [chunk(start, size) for start, size in zip(starts, sizes, strict=False)]
    first = data.draw(st.integers(0, sum(sizes) - 1))
    end = data.draw(st.integers(first + 1, sum(sizes)))

    found = ChunkedRows(chunks).take(np.arange(first, end))

    assert found.column("id").to_pylist() == list(range(first, end))
    assert found.column("name").to_pylist() == [f"row {number}" for number in range(first, end)]


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=6),
    st.data(),
)
def test_rows_are_taken_from_many_chunks_as_from_one(sizes, data):
    starts = np.cumsum([0, *sizes]).tolist()
    chunks = [chunk(start, size) for start, size in zip(starts, sizes, strict=False)]
    places = data.draw(st.lists(st.integers(0, sum(sizes) - 1), min_size=1, max_size=20))

    found = ChunkedRows(chunks).take(np.array(places))

    assert found.column("id").to_pylist() == places


def test_only_deletes_are_told_from_rows_to_write():
    held = HeldRows()
    held.add(PLACES[0], chunk(0, 2), deletes=np.array([True, True]))
    held.add(PLACES[1], chunk(0, 2), deletes=np.array([True, False]))

    assert held.pop(PLACES[0]).only_deletes
    assert not held.pop(PLACES[1]).only_deletes
