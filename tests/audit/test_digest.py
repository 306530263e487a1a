"""Digests stand for rows in any order, and can be added and taken away."""

import math

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.audit.digest import NOTHING, Digest, RowHasher, digest_of
from headwater.model.arrow import arrow_type
from headwater.model.type_text import parse_type
from tests.cases import cases
from tests.rows.strategies import record_batches, schemas

WORDS = st.lists(st.integers(0, 2**64 - 1), max_size=20)
NESTED = "ROW<a DOUBLE, b ARRAY<FLOAT>, c MAP<INT, ROW<d DOUBLE>>>"


def hashed(numbers: list[int]) -> Digest:
    return digest_of(np.array(numbers, np.uint64))


def hasher_of(text: str):
    kind = parse_type(text)

    def hashes(values):
        rows = pa.record_batch([pa.array(values, arrow_type(kind))], names=["a"])
        return RowHasher([kind]).hashes(rows).tolist()

    return hashes


@given(WORDS, WORDS)
def test_rows_that_come_and_go_leave_what_was_there(held, others):
    assert hashed(held) + hashed(others) == hashed(others + held)
    assert hashed(held) + hashed(others) - hashed(others) == hashed(held)
    assert hashed(held) - hashed(held) == NOTHING


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20), st.data())
def test_a_digest_tells_one_row_that_is_another(held, data):
    at = data.draw(st.integers(0, len(held) - 1))
    other = data.draw(st.integers(0, 2**64 - 1).filter(lambda each: each != held[at]))

    assert hashed(held) != hashed([*held[:at], other, *held[at + 1 :]])


@cases("kind", ["DOUBLE", "FLOAT"])
def test_zeros_are_one_and_so_are_all_that_are_no_numbers(kind):
    odd = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)

    hashes = hasher_of(kind)([0.0, -0.0, math.nan, *odd, 1.0, None])

    assert hashes[0] == hashes[1]
    assert hashes[2] == hashes[3] == hashes[4]
    assert len(set(hashes)) == 4


def test_zeros_inside_of_other_values_are_one():
    hashes = hasher_of(NESTED)
    one = {"a": 0.0, "b": [0.0, None, math.nan], "c": [(1, {"d": -0.0}), (2, None)]}
    other = {"a": -0.0, "b": [-0.0, None, -math.nan], "c": [(1, {"d": 0.0}), (2, None)]}
    third = {"a": 0.0, "b": None, "c": []}

    found = hashes([one, None, third, other, {"a": None, "b": [], "c": None}, third])

    assert found[0] == found[3]
    assert found[2] == found[5]
    assert len(set(found)) == 4


def test_a_part_of_a_batch_has_the_hashes_of_its_rows():
    kind = parse_type(NESTED)
    rows = [{"a": float(at), "b": [1.0] * at, "c": [(at, {"d": 2.0})]} for at in range(5)]
    batch = pa.record_batch([pa.array([None, *rows], arrow_type(kind))], names=["a"])
    hasher = RowHasher([kind])

    assert hasher.hashes(batch.slice(2, 3)).tolist() == hasher.hashes(batch).tolist()[2:5]


@settings(max_examples=20)
@given(st.data())
def test_rows_of_any_schema_have_hashes_that_depend_on_nothing_but_their_values(data):
    schema = data.draw(schemas(columns_max=3))
    rows = data.draw(record_batches(schema, rows_max=5, nan=True))
    hasher = RowHasher([column.type for column in schema.columns])
    copied = pa.RecordBatch.from_pylist(rows.to_pylist(), schema=rows.schema)

    hashes = hasher.hashes(rows)

    assert hasher.hashes(copied).tolist() == hashes.tolist()
    assert hasher.hashes(rows.slice(1)).tolist() == hashes.tolist()[1:]
