"""Filters leave files out, and never a row that passes them."""

import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.model.predicate import And, Leaf, LeafFunction, Or
from headwater.model.types import (
    BigIntType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IntType,
    StringType,
    TimestampType,
)
from tests.choices import examples
from tests.lake.contract.changes import added, renamed
from tests.lake.contract.matching import matches

F = LeafFunction
COLUMNS = {
    "id": BigIntType(nullable=False),
    "part": IntType(nullable=False),
    "flag": BooleanType(),
    "text": StringType(),
    "number": DoubleType(),
    "day": DateType(),
    "moment": TimestampType(precision=6),
    "price": DecimalType(precision=10, scale=2),
}
TEXTS = ["", "a", "ab", "b", "ba", "é", "\uffff", "\U0001f600", "z" * 40]
NUMBERS = [-math.inf, -1.5, -0.0, 0.0, 2.5, math.inf, math.nan]
PRICES = [Decimal("-1.00"), Decimal("0.00"), Decimal("0.01"), Decimal("12345678.99")]
LITERALS = {
    "id": st.integers(-1, 41),
    "part": st.integers(-1, 3),
    "flag": st.booleans(),
    "text": st.sampled_from([*TEXTS, "aa", "y", "\U0010ffff"]),
    "number": st.sampled_from([*NUMBERS, 1.0, -3.0]),
    "day": st.integers(-2, 12),
    "moment": st.integers(-3, 12).map(lambda micros: micros * 1000 + 500),
    "price": st.sampled_from([*PRICES, Decimal("0.005"), Decimal("0.02")]),
}
COMPARED = (F.EQUAL, F.NOT_EQUAL, F.LESS_THAN, F.LESS_OR_EQUAL, F.GREATER_THAN)
COMPARED += (F.GREATER_OR_EQUAL, F.IN, F.NOT_IN)
OF_TEXT = (F.STARTS_WITH, F.CONTAINS, F.ENDS_WITH)


def row(at: int) -> dict[str, object]:
    """Return a row whose values stay near each other for rows of one round."""
    turn = at // 8
    return {
        "id": at,
        "part": at % 2,
        "flag": None if at % 5 == 4 else turn % 2 == 0,
        "text": None if at % 7 == 3 else TEXTS[(turn * 2 + at % 3) % len(TEXTS)],
        "number": None if at % 6 == 5 else NUMBERS[(turn + at % 2) % len(NUMBERS)],
        "day": None if turn == 3 else turn * 2 + at % 2,
        "moment": None if at % 4 == 3 else turn * 2 + at % 2,
        "price": None if turn == 2 else PRICES[(turn + at % 2) % len(PRICES)],
    }


@pytest.fixture(params=["log", "keyed"], scope="session")
def table(tables, request):
    key = ("id", "part") if request.param == "keyed" else ()
    table = tables.make(
        COLUMNS, key=key, partition_keys=("part",), bucket_keys=("id",), bucket_count=2
    )
    for turn in range(5):
        table.tier([row(at) for at in range(turn * 8, turn * 8 + 8)])
    if key:
        again = [{**row(at), "text": "b", "day": 11} for at in range(6)]
        table.tier([*again, row(20)], deleted=[False] * 6 + [True])
    return table


@pytest.fixture(scope="session")
def whole(table) -> pa.Table:
    return table.rows().sort_by("id")


def column_id(name: str) -> int:
    return list(COLUMNS).index(name)


@st.composite
def leaves(draw):
    name = draw(st.sampled_from(list(COLUMNS)))
    functions = (*COMPARED, F.IS_NULL, F.IS_NOT_NULL, *(OF_TEXT if name == "text" else ()))
    function = draw(st.sampled_from(functions))
    if function in (F.IS_NULL, F.IS_NOT_NULL):
        return Leaf(function, column_id(name))
    count = draw(st.integers(1, 3)) if function in (F.IN, F.NOT_IN) else 1
    return Leaf(function, column_id(name), tuple(draw(LITERALS[name]) for _ in range(count)))


def joined(inner):
    children = st.lists(inner, min_size=1, max_size=3).map(tuple)
    return st.builds(And, children) | st.builds(Or, children)


PREDICATES = st.recursive(leaves(), joined, max_leaves=4)


def passing(rows: pa.Table, filters, schema, *, java: bool = False) -> list[int]:
    kept = matches(And(tuple(filters)), rows, schema, java=java)
    return sorted(rows.filter(pa.array(kept, pa.bool_()))["id"].to_pylist())


@settings(max_examples=examples(60))
@given(filters=st.lists(PREDICATES, min_size=1, max_size=2))
def test_filters_lose_no_row_and_what_remains_makes_the_answer_exact(table, whole, filters):
    schema = table.spec.schema

    source, answer = table.source.with_filters(filters)

    found = table.rows(source=source)
    expected = passing(whole, filters, schema)
    assert passing(found, answer.remaining, schema) == expected
    assert set(passing(whole, filters, schema, java=True)) <= set(found["id"].to_pylist())
    assert set(answer.accepted) | set(answer.remaining) >= set(filters)


def test_no_filter_leaves_everything(table, whole):
    source, answer = table.source.with_filters([])

    assert table.rows(source=source).num_rows == whole.num_rows
    assert answer.remaining == ()


def test_a_partition_that_cannot_match_is_not_planned(tables):
    columns = {"id": BigIntType(nullable=False), "land": StringType(nullable=False)}
    table = tables.make(columns, partition_keys=("land",))
    table.tier([{"id": 1, "land": "de"}, {"id": 2, "land": "fr"}, {"id": 3, "land": "it"}])

    source, answer = table.source.with_filters([Leaf(F.EQUAL, 1, ("fr",))])

    splits = source.plan(table.head().snapshot_id)
    assert [split.partition for split in splits] == [(("land", "fr"),)]
    assert answer.accepted == (Leaf(F.EQUAL, 1, ("fr",)),)


def test_an_accepted_filter_leaves_files_out_whose_values_lie_elsewhere(tables):
    table = tables.make()
    for turn in range(3):
        table.tier([{"id": turn * 10 + at, "name": "x"} for at in range(10)])
    wanted = Leaf(F.GREATER_OR_EQUAL, 0, (25,))

    source, answer = table.source.with_filters([wanted])
    if wanted not in answer.accepted:
        pytest.skip("the format does not look at the values of files")

    assert sum(split.row_count for split in source.plan(table.head().snapshot_id)) == 10


def test_a_filter_on_a_renamed_column_finds_it_by_its_id(tables):
    table = tables.make({"id": BigIntType(), "a": IntType()})
    table.tier([{"id": 1, "a": 10}])
    table = table.evolved(renamed(table.spec, "a", "b"))
    table.tier([{"id": 2, "b": 20}])

    source, answer = table.source.with_filters([Leaf(F.EQUAL, 1, (10,))])

    found = table.rows(source=source)
    assert passing(found, answer.remaining, table.spec.schema) == [1]


def test_a_column_added_later_is_null_for_filters_too(tables):
    table = tables.make({"id": BigIntType()})
    table.tier([{"id": 1}])
    table = table.evolved(added(table.spec, "a", IntType()))
    table.tier([{"id": 2, "a": 5}])

    kept = {}
    for function, literals in ((F.IS_NULL, ()), (F.IS_NOT_NULL, ()), (F.EQUAL, (5,))):
        source, answer = table.source.with_filters([Leaf(function, 1, literals)])
        found = table.rows(source=source)
        kept[function] = passing(found, answer.remaining, table.spec.schema)

    assert kept == {F.IS_NULL: [1], F.IS_NOT_NULL: [2], F.EQUAL: [2]}
