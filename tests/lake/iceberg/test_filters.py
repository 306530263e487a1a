"""A filter is handed to Iceberg only if no row can be lost by it."""

from decimal import Decimal

from pyiceberg.expressions import EqualTo, GreaterThan, IsNull, Or

from headwater.lake.iceberg.read import NamedColumn, iceberg_filter
from headwater.model.predicate import And as All
from headwater.model.predicate import Leaf, LeafFunction
from headwater.model.predicate import Or as Any
from headwater.model.types import (
    ArrayType,
    BigIntType,
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    StringType,
    TimestampType,
    TimeType,
)
from tests.cases import cases

F = LeafFunction


def made(leaf, data_type):
    return iceberg_filter(leaf, {1: NamedColumn("c", data_type)})


@cases(
    ("data_type", "function", "value"),
    [
        (DoubleType(), F.GREATER_THAN, 1.0),
        (DoubleType(), F.GREATER_OR_EQUAL, 1.0),
        (DoubleType(), F.EQUAL, float("nan")),
        (FloatType(), F.EQUAL, 0.1),
        (BooleanType(), F.LESS_THAN, True),
        (BigIntType(), F.EQUAL, 2**63),
        (BigIntType(), F.EQUAL, None),
        (BigIntType(), F.NOT_EQUAL, 1),
        (StringType(), F.CONTAINS, "a"),
        (StringType(), F.STARTS_WITH, ""),
        (BinaryType(length=3), F.EQUAL, b"ab"),
        (DecimalType(precision=5, scale=2), F.LESS_THAN, Decimal("1.234")),
        (DecimalType(precision=5, scale=2), F.LESS_THAN, Decimal(123456)),
        (TimestampType(precision=6), F.EQUAL, 1_500),
        (TimeType(precision=6), F.EQUAL, 1),
        (ArrayType(element=IntType()), F.IS_NULL, None),
    ],
)
def test_what_could_lose_a_row_is_left_to_the_reader(data_type, function, value):
    assert made(Leaf(function, 1, (value,)), data_type) is None


@cases(
    ("data_type", "value", "expected"),
    [
        (IntType(), 7, 7),
        (TimestampType(precision=3), 2_000, 2),
        (TimeType(precision=3), 5, 5_000),
        (DecimalType(precision=5, scale=2), Decimal("1.5"), Decimal("1.50")),
        (FloatType(), 0.5, 0.5),
        (StringType(), "x", "x"),
    ],
)
def test_values_are_those_that_iceberg_keeps(data_type, value, expected):
    found = made(Leaf(F.EQUAL, 1, (value,)), data_type)

    assert isinstance(found, EqualTo)
    assert found.literal.value == expected


def test_of_filters_that_all_have_to_hold_some_are_enough():
    both = All((Leaf(F.CONTAINS, 1, ("a",)), Leaf(F.IS_NULL, 1)))

    assert made(both, StringType()) == IsNull("c")


def test_of_filters_of_which_one_has_to_hold_all_are_needed():
    is_null, is_one = Leaf(F.IS_NULL, 1), Leaf(F.EQUAL, 1, ("1",))

    assert made(Any((is_null, Leaf(F.CONTAINS, 1, ("a",)))), StringType()) is None
    assert isinstance(made(Any((is_null, is_one)), StringType()), Or)


def test_a_column_that_the_lake_does_not_have_filters_nothing():
    assert iceberg_filter(Leaf(F.EQUAL, 2, (1,)), {1: NamedColumn("c", IntType())}) is None
    assert isinstance(made(Leaf(F.GREATER_THAN, 1, (1,)), IntType()), GreaterThan)
