"""Rows are folded by key as a dictionary of Python would fold them."""

import time
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.lake.keys import KeySet, in_key_order, last_of_each
from tests.cases import cases

_VALUES = {
    pa.int8(): st.integers(-3, 3),
    pa.int64(): st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1]),
    pa.bool_(): st.booleans(),
    pa.string(): st.sampled_from(["", "a", "é", "aa", "b"]),
    pa.binary(): st.sampled_from([b"", b"\x00", b"\x00\x00", b"x"]),
    pa.binary(2): st.sampled_from([b"aa", b"ab", b"\x00\x00"]),
    pa.decimal128(38, 2): st.sampled_from([Decimal("1.20"), Decimal(-3), Decimal(0)]),
    pa.date32(): st.sampled_from([date(2024, 1, 1), date(1969, 12, 31)]),
    pa.timestamp("us", "UTC"): st.sampled_from([datetime(2024, 1, 1), datetime(1960, 1, 1)]),
    pa.time32("ms"): st.integers(0, 3),
}
_TYPES = st.lists(st.sampled_from(list(_VALUES)), min_size=1, max_size=3)


@st.composite
def _keyed(draw: st.DrawFn, sides: int) -> list[list[pa.Array]]:
    types = draw(_TYPES)
    made = []
    for _ in range(sides):
        rows = draw(st.lists(st.tuples(*(_VALUES[each] for each in types)), max_size=30))
        made.append([pa.array([row[at] for row in rows], each) for at, each in enumerate(types)])
    return made


def _rows(keys: list[pa.Array]) -> list[tuple[object, ...]]:
    return list(zip(*(column.to_pylist() for column in keys), strict=True))


@given(_keyed(1))
def test_the_last_row_of_each_key_stays(sides: list[list[pa.Array]]) -> None:
    (keys,) = sides

    found = last_of_each(keys)

    last = {row: position for position, row in enumerate(_rows(keys))}
    assert found.tolist() == sorted(last.values())


@given(_keyed(1), st.integers(0, 30))
def test_chunks_do_not_matter(sides: list[list[pa.Array]], cut: int) -> None:
    (keys,) = sides
    chunked = [pa.chunked_array([key.slice(0, cut), key.slice(cut)], key.type) for key in keys]

    found = last_of_each(chunked)

    assert found.tolist() == last_of_each(keys).tolist()
    assert KeySet.of(chunked).mask(chunked).all()


@given(_keyed(2))
def test_the_rows_that_have_a_key_are_found(sides: list[list[pa.Array]]) -> None:
    held, changed = sides

    found = KeySet.of(changed).mask(held)

    among = set(_rows(changed))
    assert found.tolist() == [row in among for row in _rows(held)]


@given(_keyed(1))
def test_rows_come_in_the_order_of_their_keys(sides: list[list[pa.Array]]) -> None:
    (keys,) = sides

    order = in_key_order(keys)

    rows = _rows(keys)
    assert order.tolist() == sorted(range(len(rows)), key=lambda at: rows[at])


def test_floats_are_told_apart_by_their_bits() -> None:
    keys = [pa.array([0.0, -0.0, float("nan"), float("nan"), 1.5])]

    assert last_of_each(keys).tolist() == [0, 1, 3, 4]
    assert KeySet.of([pa.array([-0.0])]).mask(keys).tolist() == [False, True, False, False, False]


def test_rows_with_a_null_have_no_key() -> None:
    held = [pa.array([1, None, 2]), pa.array(["a", "a", None])]

    assert KeySet.of([pa.array([1, 2]), pa.array(["a", "a"])]).mask(held).tolist() == [
        True,
        False,
        False,
    ]


@cases("kind", [pa.int64(), pa.string()])
def test_a_million_rows_are_folded_in_less_than_seconds(kind: pa.DataType) -> None:
    numbers = np.random.default_rng(1).integers(0, 500_000, 1_000_000)
    keys = [pa.array(numbers).cast(kind)]

    started = time.process_time()
    found = last_of_each(keys)

    assert time.process_time() - started < 2
    assert len(found) == len(np.unique(numbers))
