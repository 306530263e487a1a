"""Rows written under one schema, seen under another."""

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InvalidTableError
from headwater.model.arrow import arrow_schema
from headwater.model.schema import Column, Schema
from headwater.model.types import BigIntType, IntType, StringType
from headwater.rows.compacted.coders import adapted, decoder_of, encoder_of, key_encoder_of
from tests.rows.strategies import record_batches, schemas

A = Column(name="a", type=IntType(nullable=False), column_id=0)
B = Column(name="b", type=StringType(), column_id=1)
C = Column(name="c", type=BigIntType(), column_id=2)
WRITTEN = Schema(columns=(A, B), primary_key=("a",))
ROWS = [pa.array([1, 2], pa.int32()), pa.array(["x", None])]


def test_a_column_added_later_is_null():
    seen = adapted(ROWS, WRITTEN, Schema(columns=(A, B, C)))

    assert seen.to_pylist() == [{"a": 1, "b": "x", "c": None}, {"a": 2, "b": None, "c": None}]


def test_a_dropped_column_is_left_out():
    seen = adapted(ROWS, WRITTEN, Schema(columns=(A,)))

    assert seen.to_pylist() == [{"a": 1}, {"a": 2}]


def test_columns_follow_their_id_and_not_their_name():
    wanted = Schema(columns=(replace(B, name="a"), replace(A, name="b")))

    seen = adapted(ROWS, WRITTEN, wanted)

    assert seen.schema == arrow_schema(wanted)
    assert seen.to_pylist() == [{"a": "x", "b": 1}, {"a": None, "b": 2}]


def test_a_column_dropped_and_added_again_is_another_column():
    seen = adapted(ROWS, WRITTEN, Schema(columns=(A, replace(B, column_id=5))))

    assert seen.column("b").null_count == 2


@given(st.data())
def test_rows_seen_under_their_own_schema_are_the_same(data):
    schema = data.draw(schemas())
    rows = data.draw(record_batches(schema))

    assert adapted(rows.columns, schema, schema).equals(rows)


def test_rows_pass_through_the_codecs_of_their_schema():
    encoded = encoder_of(WRITTEN).encode(ROWS)

    assert decoder_of(WRITTEN).decode(encoded) == ROWS


def test_a_key_takes_the_columns_that_are_named():
    encoder = key_encoder_of(WRITTEN, ["b", "a"])

    assert encoder.encode([pa.array(["x"]), pa.array([1], pa.int32())]).to_list() == [b"\1x\1"]
    with pytest.raises(InvalidTableError):
        key_encoder_of(WRITTEN, ["nobody"])
