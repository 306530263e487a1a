"""Distinct keys, and answers beside rows, against plain Python."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.engines.spark import lookup_task as joining
from headwater.engines.spark.lookup_task import (
    NO_KEY,
    Cache,
    CacheRoom,
    JoinType,
    KeyReader,
    LookupAnswers,
    joined,
    owners_of,
)
from headwater.model.types import BigIntType, StringType
from tests.clocks import InstantClock

READER = KeyReader(
    ("a", "b"),
    pa.schema([("x", pa.int64()), ("y", pa.string())]),
    (BigIntType(nullable=False), StringType(nullable=False)),
)
KEYS = st.lists(
    st.tuples(st.integers(0, 3) | st.none(), st.sampled_from(["", "p", "q"]) | st.none()),
    min_size=1,
    max_size=30,
)


def rows_of(keys):
    return pa.record_batch(
        {
            "a": pa.array([a for a, _ in keys], pa.int32()),
            "b": pa.array([b for _, b in keys], pa.string()),
        }
    )


def answers_of(counts):
    """Answer key number n with counts[n] rows, which say n."""
    owners = np.repeat(np.arange(len(counts)), counts)
    return LookupAnswers.of(pa.record_batch({"n": pa.array(owners)}), owners, keys=len(counts))


@given(st.lists(KEYS, min_size=1, max_size=3))
def test_each_row_finds_its_key_among_the_distinct_ones(batches):
    distinct = READER.distinct([rows_of(keys) for keys in batches])

    found = [tuple(row.values()) for row in distinct.keys.to_pylist()]
    rows = [key for keys in batches for key in keys]
    assert len(set(found)) == len(found) == len(distinct.ids)
    assert [None if at == NO_KEY else found[at] for at in distinct.key_of_row] == [
        None if None in key else key for key in rows
    ]


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=5),
    st.data(),
    st.sampled_from(JoinType),
    st.integers(1, 5),
)
def test_rows_stand_beside_all_that_was_found_for_them(counts, data, how, rows_max):
    asked = data.draw(st.lists(st.integers(NO_KEY, len(counts) - 1), max_size=20))
    batch = pa.record_batch({"i": pa.array(range(len(asked)), pa.int64())})
    joining.ROWS_OUT_MAX, before = rows_max, joining.ROWS_OUT_MAX

    pieces = list(
        joined(batch, np.array(asked, np.int64), answers_of(counts), how=how, names=("key",))
    )

    joining.ROWS_OUT_MAX = before
    expected = []
    for i, at in enumerate(asked):
        times = 0 if at == NO_KEY else counts[at]
        expected += [(i, at)] * times
        expected += [(i, None)] if not times and how is JoinType.LEFT else []
    assert [tuple(row.values()) for piece in pieces for row in piece.to_pylist()] == expected


def test_rows_that_were_found_out_of_step_know_their_keys():
    owners = owners_of(pa.array(["b", "b", "c"]), pa.array(["a", "b", "c"]))

    assert owners.tolist() == [1, 1, 2]


class Storage:
    """Answer keys with themselves, and remember what was asked."""

    def __init__(self) -> None:
        self.asked: list[list[object]] = []

    def ask(self, keys, positions):
        values = keys.ids.take(pa.array(positions))
        self.asked.append(values.to_pylist())
        rows = pa.record_batch({"v": values})
        return LookupAnswers.of(rows, np.arange(len(positions)), keys=len(positions))


SINGLE = KeyReader(("a",), pa.schema([("x", pa.int64())]), (BigIntType(nullable=False),))


def answered(cache, storage, *values):
    keys = SINGLE.distinct([pa.record_batch({"a": pa.array(values, pa.int64())})])
    answers = cache.answer(keys, storage.ask)
    return answers.rows.take(pa.array(answers.starts)).column(0).to_pylist()


def test_a_cache_asks_only_for_what_it_does_not_hold():
    cache, storage = (
        Cache(InstantClock(), CacheRoom(rows_max=100, bytes_max=10_000, age_max_s=10)),
        Storage(),
    )

    first, second = answered(cache, storage, 1, 2), answered(cache, storage, 3, 2, 1)

    assert (first, second) == ([1, 2], [3, 2, 1])
    assert storage.asked == [[1, 2], [3]]


def test_a_cache_forgets_what_is_too_old():
    clock, storage = InstantClock(), Storage()
    cache = Cache(clock, CacheRoom(rows_max=100, bytes_max=10_000, age_max_s=10))
    answered(cache, storage, 1)
    clock.now_s += 6
    answered(cache, storage, 2)
    clock.now_s += 5

    assert answered(cache, storage, 1, 2) == [1, 2]
    assert storage.asked == [[1], [2], [1]]


def test_a_cache_that_is_full_keeps_what_was_asked_for_last():
    cache, storage = (
        Cache(InstantClock(), CacheRoom(rows_max=4, bytes_max=10_000, age_max_s=10)),
        Storage(),
    )
    answered(cache, storage, 1, 2)

    assert answered(cache, storage, 2, 3) == [2, 3]
    assert answered(cache, storage, 2, 3, 1) == [2, 3, 1]
    assert answered(cache, storage, 5) == [5]
    assert storage.asked == [[1, 2], [3], [1], [5]]


def test_a_cache_holds_no_more_bytes_than_it_may():
    storage = Storage()
    cache = Cache(InstantClock(), CacheRoom(rows_max=100, bytes_max=16, age_max_s=10))
    answered(cache, storage, 1, 2)

    assert answered(cache, storage, 1, 2, 3) == [1, 2, 3]
    assert answered(cache, storage, 1) == [1]
    assert storage.asked == [[1, 2], [3], [1]]
