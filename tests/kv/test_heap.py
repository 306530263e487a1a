"""Records of any size are read back from wherever they lie, one by one and many at once."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.kv.heap import LEAD, LENGTH_BYTES, Heap, segment_of
from headwater.rows.kv_batch import build_records
from headwater.rows.row_bytes import PADDING, RowBytes

sizes = st.integers(0, 20) | st.sampled_from([127, 128, 300, 20_000])
records = st.tuples(sizes, sizes, st.integers(0, 2**15 - 1))
batches = st.lists(st.lists(records, min_size=1, max_size=6), min_size=1, max_size=8)


def some(number, size):
    return bytes((number + at * 7) % 251 for at in range(size))


class Filled:
    """Append batches to a heap and remember what lies where."""

    def __init__(self, wanted, *, segment_bytes_max=300):
        self.heap = Heap(segment_bytes_max)
        self.locations, self.expected, self.sizes = [], [], []
        for batch in wanted:
            self.append(batch)

    def append(self, batch):
        schema_id = batch[0][2]
        keys = [some(len(self.expected) + at, size) for at, (size, _, _) in enumerate(batch)]
        rows = [some(at + 99, size + 1) for at, (_, size, _) in enumerate(batch)]
        data, starts = build_records(RowBytes.of(keys), RowBytes.of(rows))
        data = data[: len(data) - PADDING]
        base = self.heap.append(data, schema_id=schema_id)
        self.locations += (base + starts).tolist()
        self.sizes += np.diff(np.append(starts, len(data))).tolist()
        self.expected += [(key, row, schema_id) for key, row in zip(keys, rows, strict=True)]


def read(view, locations):
    found = view.read(np.array(locations, np.int64))
    triples = zip(
        found.keys.to_list(), found.rows.to_list(), found.schema_ids.tolist(), strict=True
    )
    return list(triples)


@given(batches, st.randoms(use_true_random=False))
def test_records_are_read_back_in_any_order_and_again(wanted, random):
    filled = Filled(wanted)
    order = random.choices(range(len(filled.expected)), k=2 * len(filled.expected))

    found = read(filled.heap.view(), [filled.locations[at] for at in order])

    assert found == [filled.expected[at] for at in order]


@given(batches)
def test_one_record_is_read_as_many_are(wanted):
    filled = Filled(wanted)

    found = [filled.heap.read_one(location) for location in filled.locations]

    assert found == [
        (key, schema_id.to_bytes(2, "little") + row) for key, row, schema_id in filled.expected
    ]


@given(batches, st.randoms(use_true_random=False))
def test_whole_records_are_copied_as_they_are(wanted, random):
    filled = Filled(wanted)
    order = random.sample(range(len(filled.sizes)), k=len(filled.sizes))
    locations = np.array([filled.locations[at] for at in order], np.int64)

    data, starts = filled.heap.view().copy(locations)
    lengths = filled.heap.view().lengths(locations)

    assert np.diff(starts).tolist() == [filled.sizes[at] for at in order]
    assert (lengths + LENGTH_BYTES).tolist() == [filled.sizes[at] for at in order]
    again = Heap(1 << 20)
    base = again.append(data, schema_id=0)
    expected = [filled.expected[at][:2] for at in order]
    assert [each[:2] for each in read(again.view(), starts[:-1] + base)] == expected


@given(batches, batches)
def test_who_holds_a_view_goes_on_reading_what_was_there(first, second):
    filled = Filled(first, segment_bytes_max=100_000)
    view, locations, expected = filled.heap.frozen(), filled.locations[:], filled.expected[:]

    for batch in second:
        filled.append(batch)
    for number in list(filled.heap.segments):
        filled.heap.remove(number)

    assert read(view, locations) == expected


def test_nothing_is_read_from_nowhere():
    found = Heap(100).view().read(np.empty(0, np.int64))

    assert (len(found.keys), len(found.rows), found.lengths.tolist()) == (0, 0, [])


@given(batches)
def test_a_segment_is_full_before_the_next_one_begins(wanted):
    filled = Filled(wanted)

    for segment in list(filled.heap.segments.values())[:-1]:
        assert segment.end > LEAD
    assert filled.heap.size_bytes == sum(filled.sizes)
    assert all(
        segment.end <= 300 or segment_count(filled, number) == 1
        for number, segment in filled.heap.segments.items()
    )


def segment_count(filled, number):
    """Return how many batches lie in a segment."""
    numbers = segment_of(np.array(filled.locations, np.int64)).tolist()
    return 1 if numbers.count(number) else 0


def test_a_number_is_given_again_once_its_segment_is_gone():
    filled = Filled([[(5, 5, 1)]] * 3, segment_bytes_max=LEAD + 20)
    assert sorted(filled.heap.segments) == [0, 1, 2]

    filled.heap.remove(1)
    filled.append([(5, 5, 1)])

    assert sorted(filled.heap.segments) == [0, 1, 2]
    assert filled.heap.active == 1


def test_live_bytes_are_counted_by_segment():
    filled = Filled([[(5, 5, 1), (6, 6, 1)], [(5, 5, 1)]], segment_bytes_max=LEAD + 30)
    locations, sizes = np.array(filled.locations), np.array(filled.sizes)

    filled.heap.account(locations, sizes, sign=1)
    filled.heap.account(locations[:1], sizes[:1], sign=-1)

    live = [segment.live_bytes for segment in filled.heap.segments.values()]
    assert live == filled.sizes[1:]
    assert filled.heap.live_bytes == sum(filled.sizes[1:])
