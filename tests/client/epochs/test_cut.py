"""Rows are cut into batches by their values alone."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.cluster.schema_in import schema_of
from headwater.epochs.batches import (
    BATCH_ROWS_MAX,
    GROUP_ROWS_MAX,
    Order,
    Sizes,
    batches_of,
    cuts_of,
)

SCHEMA = schema_of(
    {
        "id": "BIGINT",
        "is_new": "BOOLEAN",
        "city": "STRING",
        "code": "BINARY(4)",
        "tags": "ARRAY<STRING>",
        "price": "DECIMAL(10, 2)",
    }
)


def batch(rows):
    types = [
        pa.int64(),
        pa.bool_(),
        pa.string(),
        pa.binary(4),
        pa.list_(pa.string()),
        pa.decimal128(10, 2),
    ]
    fields = [(column.name, kind) for column, kind in zip(SCHEMA.columns, types, strict=True)]
    return pa.RecordBatch.from_pylist(rows, pa.schema(fields))


@given(
    st.lists(st.integers(0, 50), max_size=60),
    st.integers(1, 10),
    st.integers(1, 100),
)
def test_batches_hold_all_rows_in_order_within_the_limits(sizes, rows_max, bytes_max):
    cuts = cuts_of(np.array(sizes, np.int64), rows_max=rows_max, bytes_max=bytes_max)

    assert [row for cut in cuts for row in range(cut.start, cut.stop)] == list(range(len(sizes)))
    for cut in cuts:
        held = sizes[cut]
        assert 0 < len(held) <= rows_max
        assert sum(held) <= bytes_max or len(held) == 1


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60))
def test_a_batch_takes_as_many_rows_as_fit(sizes):
    cuts = cuts_of(np.array(sizes, np.int64), rows_max=100, bytes_max=80)

    for cut, following in pairwise(cuts):
        assert sum(sizes[cut.start : following.start + 1]) > 80


def test_the_size_of_a_row_does_not_depend_on_where_it_lies():
    rows = [
        {"id": 1, "city": "Ulm", "tags": ["a", "bc"], "code": b"abcd"},
        {"id": None, "city": None, "tags": None, "is_new": True},
        {"id": 3, "city": "Bonn", "tags": [], "is_new": None},
    ]
    whole = Sizes(SCHEMA).of(batch(rows))

    alone = [int(Sizes(SCHEMA).of(batch([row]))[0]) for row in rows]
    sliced = Sizes(SCHEMA).of(batch(rows).slice(1))

    assert whole.tolist() == alone
    assert sliced.tolist() == alone[1:]
    assert alone[0] > alone[1]


groups = st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=12), min_size=1, max_size=20)


@given(groups, st.integers(1, 10), st.integers(1, 100))
def test_rows_that_belong_together_are_in_one_batch(grouped, rows_max, bytes_max):
    sizes = np.concatenate([np.array(group, np.int64) for group in grouped])
    starts = np.concatenate([np.arange(len(group)) == 0 for group in grouped])

    cuts = cuts_of(sizes, rows_max=rows_max, bytes_max=bytes_max, starts=starts)

    assert [row for cut in cuts for row in range(cut.start, cut.stop)] == list(range(len(sizes)))
    assert all(starts[cut.start] for cut in cuts)
    for cut in cuts:
        is_small = cut.stop - cut.start <= rows_max and sizes[cut].sum() <= bytes_max
        assert is_small or starts[cut].sum() == 1


@given(groups, st.randoms(use_true_random=False))
def test_the_order_of_rows_within_a_group_does_not_move_the_cuts(grouped, chance):
    starts = np.concatenate([np.arange(len(group)) == 0 for group in grouped])
    mixed = [chance.sample(group, len(group)) for group in grouped]

    first, second = (
        cuts_of(np.concatenate(each).astype(np.int64), rows_max=9, bytes_max=90, starts=starts)
        for each in (grouped, mixed)
    )

    assert first == second


def test_a_group_too_large_for_one_request_is_parted_nevertheless():
    sizes = np.full(GROUP_ROWS_MAX + 1, 1, np.int64)
    starts = np.arange(len(sizes)) == 0

    found = batches_of(Order(np.arange(len(sizes)), starts), sizes)

    assert [len(batch) for batch in found] == [BATCH_ROWS_MAX] * 4 + [1]


def test_a_batch_ends_before_rows_of_one_key_that_do_not_fit_into_it():
    sizes = np.ones(BATCH_ROWS_MAX + 10, np.int64)
    starts = np.ones(len(sizes), np.bool_)
    starts[BATCH_ROWS_MAX - 2 : BATCH_ROWS_MAX + 3] = False

    first, second = batches_of(Order(np.arange(len(sizes)), starts), sizes)

    assert (len(first), len(second)) == (BATCH_ROWS_MAX - 3, 13)
