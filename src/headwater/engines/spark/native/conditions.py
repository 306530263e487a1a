"""Filters of ours as conditions of Spark, for rows that Spark reads itself."""

import math
from decimal import Decimal
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column
from pyspark.sql import functions as f

from headwater.client.reading.comparisons import Comparison
from headwater.client.reading.filters import Filter
from headwater.client.reading.literals import Native, scalar_of
from headwater.config.values import LONG_MAX
from headwater.engines.spark.types import spark_type
from headwater.model.arrow import arrow_type
from headwater.model.predicate import LeafFunction
from headwater.model.types import (
    BigIntType,
    DateType,
    DoubleType,
    FloatType,
    IntType,
    SmallIntType,
    TimestampLtzType,
    TimestampType,
    TinyIntType,
)

_WHOLE = (TinyIntType, SmallIntType, IntType, BigIntType)
_TIMES = (DateType, TimestampType, TimestampLtzType)


def condition_of(wanted: Filter) -> Column:
    """Return the condition that holds for the same rows."""
    return reduce(or_, (_all(branch) for branch in wanted.branches), f.lit(False))


def quoted(name: str) -> str:
    """Return a name as Spark reads it, whatever is in it."""
    return f"`{name.replace('`', '``')}`"


def _all(tests: tuple[Comparison, ...]) -> Column:
    return reduce(and_, map(_test, tests), f.lit(True))


def _test(test: Comparison) -> Column:
    column = f.col(quoted(test.column.name))
    match test.function:
        case LeafFunction.IS_NULL:
            return column.isNull()
        case LeafFunction.IS_NOT_NULL:
            return column.isNotNull()
        case LeafFunction.IN:
            return column.isin([_literal(value, test) for value in test.values])
        case LeafFunction.NOT_IN:
            listed = column.isin([_literal(value, test) for value in test.values])
            return column.isNotNull() & ~listed if test.values else f.lit(True)
        case LeafFunction.STARTS_WITH:
            return column.startswith(str(test.values[0]))
        case LeafFunction.CONTAINS:
            return column.contains(str(test.values[0]))
        case LeafFunction.ENDS_WITH:
            return column.endswith(str(test.values[0]))
        case _:
            return _compared(column, test)


def _compared(column: Column, test: Comparison) -> Column:
    value = test.values[0]
    if not isinstance(test.column.type, FloatType | DoubleType):
        return _order(column, _literal(value, test), test.function)
    # Spark has NaN above all numbers and equal to itself; with us it is beside them.
    is_unequal = test.function is LeafFunction.NOT_EQUAL
    if isinstance(value, float) and math.isnan(value):
        return column.isNotNull() & f.lit(is_unequal)
    held = _order(column, _literal(value, test), test.function)
    return held if is_unequal else held & ~f.isnan(column)


def _order(column: Column, value: Column, function: LeafFunction) -> Column:
    match function:
        case LeafFunction.EQUAL:
            return column == value
        case LeafFunction.NOT_EQUAL:
            return column != value
        case LeafFunction.LESS_THAN:
            return column < value
        case LeafFunction.LESS_OR_EQUAL:
            return column <= value
        case LeafFunction.GREATER_THAN:
            return column > value
        case _:
            assert function is LeafFunction.GREATER_OR_EQUAL, function
            return column >= value


def _literal(value: Native, test: Comparison) -> Column:
    kind = test.column.type
    if isinstance(value, int) and isinstance(kind, _WHOLE):
        # What the column cannot hold is compared as what it is.
        return f.lit(value if abs(value) <= LONG_MAX else Decimal(value))
    held = scalar_of(value, kind).as_py()
    if not isinstance(kind, _TIMES):
        return f.lit(held)
    # As texts, which no time zone of a process changes.
    return f.lit(str(held)).cast(spark_type(arrow_type(kind)))
