"""Conditions of the JVM as plain values."""

from headwater.engines.spark.catalog.filters import (
    CHILDREN_MAX,
    Call,
    Literal,
    Reference,
    read_predicate,
)
from tests.engines.spark.catalog.java_fakes import Applied, Field, Text, Value


def test_a_comparison_is_read_with_its_column_and_literal():
    java = Applied(">", Field("a"), Value(1))

    assert read_predicate(java) == Call(">", (Reference(("a",)), Literal(1)))


def test_conditions_within_others_are_read():
    inner = Applied("=", Field("s", "x"), Value(Text("Bern")))
    java = Applied("NOT", Applied("OR", inner, inner, kind="Or"), kind="Not")

    read = read_predicate(java)

    same = Call("=", (Reference(("s", "x")), Literal("Bern")))
    assert read == Call("NOT", (Call("OR", (same, same)),))


def test_what_is_of_no_known_kind_leaves_the_whole_unread():
    cast = Applied("CAST", Field("a"), kind="Cast")

    assert read_predicate(Applied("=", cast, Value(1))) is None


def test_a_list_that_is_too_long_is_left_unread():
    values = [Value(number) for number in range(CHILDREN_MAX)]

    assert read_predicate(Applied("IN", Field("a"), *values)) is None
