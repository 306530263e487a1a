"""Every engine does what the naive merge does, record by record."""

import dataclasses
import math
import struct
from decimal import Decimal
from random import Random

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from headwater.config.options import ChangelogImage, DeleteBehavior, MergeEngine
from headwater.errors import DeletionDisabledError
from headwater.kv.merge import aggregate as rounds
from headwater.model.types import (
    BigIntType,
    BooleanType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    SmallIntType,
    StringType,
    TinyIntType,
)
from tests.choices import examples
from tests.kv.merge.oracle import Oracle
from tests.kv.merge.tables import Table, folded, plain, table

PLAIN = table(plain("a"), plain("b", StringType()), plain("c", DoubleType()))
NUMBERED = table(plain("id", IntType()), plain("a"), plain("b", StringType()), numbered="id")
AGGREGATED = table(
    folded("tiny", "sum", TinyIntType()),
    folded("small", "product", SmallIntType()),
    folded("sum", "sum", IntType()),
    folded("big", "product", BigIntType()),
    folded("float", "sum", FloatType()),
    folded("double", "product", DoubleType()),
    folded("high", "max", DoubleType()),
    folded("low", "min", FloatType()),
    folded("word", "max", StringType()),
    folded("decimal", "sum", DecimalType(precision=20, scale=2)),
    folded("area", "product", DecimalType(precision=6, scale=2)),
    folded("widest", "sum", DecimalType(precision=38, scale=0)),
    folded("list", "listagg", StringType()),
    folded("lines", "string_agg", StringType(), delimiter="; "),
    folded("all", "bool_and", BooleanType()),
    folded("any", "bool_or", BooleanType()),
    folded("last", "last_value"),
    folded("latest", "last_value_ignore_nulls"),
    folded("first", "first_value"),
    folded("earliest", "first_value_ignore_nulls", StringType()),
    plain("default"),
)


def whole(bits):
    edge = 2 ** (bits - 1)
    return [-edge, edge - 1, -2, -1, 0, 1, 2, 3, 77]


FLOATS = [math.nan, math.inf, -math.inf, -0.0, 0.0, 1.5, -2.25, 3.0e38, 16777217.0, 0.1]
POOLS = {
    TinyIntType: whole(8),
    SmallIntType: whole(16),
    IntType: whole(32),
    BigIntType: whole(64),
    FloatType: [struct.unpack("<f", struct.pack("<f", number))[0] for number in FLOATS],
    DoubleType: [*FLOATS, 1e308, 5e-324],
    StringType: ["", "a", "b", "é", "\U0001f600", "\uffff", "ab"],
    BooleanType: [True, False],
}


def pool(data_type):
    if not isinstance(data_type, DecimalType):
        return POOLS[type(data_type)]
    limit = 10**data_type.precision - 1
    numbers = [-limit, limit, -150, -1, 0, 1, 5, 149, 150, 151, 1234, limit // 2]
    return [Decimal(f"{number}e-{data_type.scale}") for number in numbers]


@st.composite
def batches(draw, schema):
    """Draw sizes and a seed; values come from pools of edge cases, which is quick."""
    random = Random(draw(st.integers(0, 2**32)))
    key_count, record_count = draw(st.integers(1, 20)), draw(st.integers(1, 40))
    pools = [pool(column.type) for column in schema.columns[1:]]

    def row(key):
        return (key, *(random.choice([None, *some]) for some in pools))

    keys = [random.randrange(key_count) for _ in range(record_count)]
    return [(key, None if random.random() < 0.2 else row(key)) for key in keys]


def shown(changes):
    """Make NaN equal to itself, and tell -0.0 from 0.0."""
    return repr(changes)


def compare(oracle, merged, batch, **how):
    rows, changes = oracle.apply(dict(merged.rows), batch)
    found = merged.put(batch, **how)
    assert shown(found) == shown(changes)
    assert shown(sorted(merged.rows.items())) == shown(sorted(rows.items()))


images = st.sampled_from(ChangelogImage)
engines = st.sampled_from([None, *MergeEngine])


@pytest.fixture(params=[2, 1000], ids=["as vectors", "value by value"], autouse=True)
def round_keys_min(request, monkeypatch):
    monkeypatch.setattr(rounds, "ROUND_KEYS_MIN", request.param)


@settings(max_examples=examples(100), deadline=None)
@given(st.data(), images, engines, st.sampled_from([None, *DeleteBehavior]))
def test_whole_rows_are_merged_one_after_the_other(data, image, engine, deletes):
    if engine in (MergeEngine.FIRST_ROW, MergeEngine.VERSIONED) and deletes == "allow":
        deletes = None
    properties = {"table.merge-engine": engine} if engine else {}
    properties |= {"table.delete.behavior": deletes} if deletes else {}
    properties |= {"table.merge-engine.versioned.ver-column": "a"}
    merged = Table(PLAIN, properties, image)
    default = DeleteBehavior.IGNORE if engine else DeleteBehavior.ALLOW
    oracle = Oracle(PLAIN, engine, deletes or default, image, version=1)

    for batch in data.draw(st.lists(batches(PLAIN), max_size=3)):
        if deletes == "disable" and any(row is None for _, row in batch):
            with pytest.raises(DeletionDisabledError):
                merged.put(batch)
        else:
            compare(oracle, merged, batch)


@settings(max_examples=examples(150), deadline=None)
@given(st.data(), images, st.sampled_from(["allow", "ignore"]))
def test_every_aggregate_function_folds_one_value_after_the_other(data, image, deletes):
    properties = {"table.merge-engine": "aggregation", "table.delete.behavior": deletes}
    merged = Table(AGGREGATED, properties, image)
    oracle = Oracle(AGGREGATED, MergeEngine.AGGREGATION, DeleteBehavior(deletes), image)

    for batch in data.draw(st.lists(batches(AGGREGATED), max_size=2)):
        compare(oracle, merged, batch)


@settings(max_examples=examples(150), deadline=None)
@given(st.data(), images, st.sampled_from([PLAIN, NUMBERED, AGGREGATED]), st.booleans())
def test_a_partial_write_leaves_the_other_columns_alone(data, image, schema, overwrite):
    is_aggregated = schema is AGGREGATED
    properties = {"table.merge-engine": "aggregation"} if is_aggregated else {}
    merged = Table(schema, {**properties, "table.delete.behavior": "allow"}, image)
    engine = MergeEngine.AGGREGATION if is_aggregated and not overwrite else None
    oracle = Oracle(schema, engine, DeleteBehavior.ALLOW, image)
    free = range(2 if schema is NUMBERED else 1, len(schema.columns))

    for batch in data.draw(st.lists(batches(schema), max_size=3)):
        targets = frozenset({0, *data.draw(st.sets(st.sampled_from(free)))})
        current = dataclasses.replace(oracle, targets=targets, next_id=merged.next_id)
        compare(current, merged, batch, targets=sorted(targets), overwrite=overwrite)
