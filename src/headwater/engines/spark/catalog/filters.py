"""Translate Spark conditions to our filters, where both mean exactly the same.

An expression of the JVM becomes plain values, then branches of filters, then what a scan applies or
the keys that a DELETE names.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from itertools import product
from typing import TypeAlias, cast

from py4j.java_gateway import JavaObject

from headwater.errors import RequestError, UnsupportedError
from headwater.model import Schema, types
from headwater.read.filters import Filter, Term, Where, branches_of
from headwater.read.literals import Value

# Spark expressions as plain values: columns, literals, and calls.

# Fetching more would take longer than letting Spark test all rows.
CHILDREN_MAX = 256


@dataclass(frozen=True, slots=True)
class Reference:
    """A column, or a field within one."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """A value in Spark's internal form: days and microseconds as numbers, the rest as text."""

    value: object


@dataclass(frozen=True, slots=True)
class Call:
    """A function or operator applied to arguments."""

    name: str
    children: tuple["Expression", ...]


Expression: TypeAlias = Reference | Literal | Call


def items(array: JavaObject) -> list[JavaObject]:
    """The elements of an array; iterating over it would call the JVM for each."""
    return [array[place] for place in range(len(array))]


def read_predicate(java: JavaObject) -> Call | None:
    """Read a condition of the JVM; None if some part of it is unknown here."""
    children = java.children()
    if len(children) > CHILDREN_MAX:
        return None
    read: list[Expression] = []
    for child in items(children):
        expression = _read(child)
        if expression is None:
            return None
        read.append(expression)
    return Call(java.name(), tuple(read))


def _read(java: JavaObject) -> Expression | None:
    match java.getClass().getSimpleName():
        case "FieldReference":
            return Reference(tuple(items(java.fieldNames())))
        case "LiteralValue":
            return Literal(plain_value(java.value()))
        case "Predicate" | "And" | "Or" | "Not":
            return read_predicate(java)
        case _:
            return None


def plain_value(value: object) -> object:
    """A value from the JVM, as text if Python has no type for it."""
    to_string = getattr(value, "toString", None)
    return value if to_string is None else to_string()


# Spark's internal values as values that filters compare columns with.

# Spark has microseconds: finer times are not what it compares.
SPARK_PRECISION_MAX = 6
_NANOS_PER_MICRO = 1000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def value_of(given: object, data_type: types.DataType) -> Value:
    """Convert a Spark value for a column; None if the comparison is better left to Spark."""
    match data_type:
        case types.BooleanType():
            return given if isinstance(given, bool) else None
        case types.TinyIntType() | types.SmallIntType() | types.IntType() | types.BigIntType():
            return given if isinstance(given, int) else None
        case types.FloatType() | types.DoubleType():
            return given if isinstance(given, float) and not math.isnan(given) else None
        case types.StringType() | types.CharType():
            return given if isinstance(given, str) else None
        case types.BytesType() | types.BinaryType():
            return bytes(given) if isinstance(given, bytes | bytearray) else None
        case types.DecimalType():
            return _decimal(given)
        case _:
            return _moment(given, data_type)


def _decimal(given: object) -> Decimal | None:
    try:
        return Decimal(given) if isinstance(given, str | Decimal) else None
    except InvalidOperation:
        return None


def _moment(given: object, data_type: types.DataType) -> date | time | datetime | None:
    if not isinstance(given, int):
        return None
    try:
        match data_type:
            case types.DateType():
                return date.fromordinal(_EPOCH.toordinal() + given)
            case types.TimeType(precision=precision) if precision <= SPARK_PRECISION_MAX:
                return _time(given)
            case types.TimestampType(precision=precision) if precision <= SPARK_PRECISION_MAX:
                return (_EPOCH + timedelta(microseconds=given)).replace(tzinfo=None)
            case types.TimestampLtzType(precision=precision) if precision <= SPARK_PRECISION_MAX:
                return _EPOCH + timedelta(microseconds=given)
            case _:
                return None
    except (ValueError, OverflowError):
        # Python's calendar is shorter than Spark's.
        return None


def _time(nanos: int) -> time | None:
    micros, rest = divmod(nanos, _NANOS_PER_MICRO)
    return None if rest else (_EPOCH + timedelta(microseconds=micros)).time()


# Conditions as filters.

Branches = tuple[tuple[Term, ...], ...]
"""Lists of terms, one of which must hold, as in `Where`."""

# A condition with more alternatives than this is left to Spark.
BRANCHES_MAX = 64
EVERYTHING: Branches = ((),)
_PAIR = 2
_OPERATORS = {"=": "==", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_SWAPPED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
# For a comparison with null neither holds, in Spark and here.
_NEGATED = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_SEARCHES = {"STARTS_WITH": "starts with", "ENDS_WITH": "ends with", "CONTAINS": "contains"}
# Spark sorts NaN above all numbers; Arrow compares it with nothing.
_NOT_FOR_FLOATS = frozenset({">", ">=", "in", "not in"})


def branches_of_predicate(condition: Expression, schema: Schema) -> Branches | None:
    """Translate a condition to an equivalent filter; None if there is none."""
    branches = _Translation(schema).of(condition, negated=False)
    if branches is None:
        return None
    try:
        Filter.of(branches, schema)
    except RequestError:
        return None
    return branches


def both(first: Branches, second: Branches) -> Branches | None:
    """The filter for rows that pass both; None if it grows too large."""
    if len(first) * len(second) > BRANCHES_MAX:
        return None
    return tuple((*left, *right) for left, right in product(first, second))


def either(first: Branches, second: Branches) -> Branches | None:
    """The filter for rows that pass either; None if it grows too large."""
    joined = (*first, *second)
    return joined if len(joined) <= BRANCHES_MAX else None


class _Translation:
    """Translates conditions on the columns of a table."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def of(self, condition: Expression, *, negated: bool) -> Branches | None:
        """Translate a condition or its negation."""
        match condition:
            case Call("NOT", (inner,)):
                return self.of(inner, negated=not negated)
            case Call("AND" | "OR" as name, (left, right)):
                is_and = (name == "AND") is not negated
                return self._joined(left, right, negated=negated, join=both if is_and else either)
            case Call("<=>", (Reference() as column, Literal(value))):
                return self._same(column, value, negated=negated)
            case Call(name, (Reference((column,)),)) if column in self._schema.names:
                return _null_check(name, column, negated=negated)
            case Call(name, children):
                return _one(self._term(name, children, negated=negated))
            case _:
                return None

    def _joined(
        self,
        left: Expression,
        right: Expression,
        *,
        negated: bool,
        join: Callable[[Branches, Branches], Branches | None],
    ) -> Branches | None:
        first, second = self.of(left, negated=negated), self.of(right, negated=negated)
        return None if first is None or second is None else join(first, second)

    def _same(self, column: Reference, value: object, *, negated: bool) -> Branches | None:
        """Translate `<=>`, for which nulls are equal."""
        if value is None:
            return self.of(Call("IS_NULL", (column,)), negated=negated)
        equal = self.of(Call("=", (column, Literal(value))), negated=negated)
        if equal is None or not negated:
            return equal
        return either(equal, (((column.names[0], "is null"),),))

    def _term(self, name: str, children: Sequence[Expression], *, negated: bool) -> Term | None:
        match name, tuple(children):
            case _, (Literal() as literal, Reference() as column) if name in _OPERATORS:
                return self._compared(column, _SWAPPED[_OPERATORS[name]], literal, negated=negated)
            case _, (Reference() as column, Literal() as literal) if name in _OPERATORS:
                return self._compared(column, _OPERATORS[name], literal, negated=negated)
            case _, (Reference() as column, Literal() as literal) if name in _SEARCHES:
                # There is no operator for the negation.
                return None if negated else self._valued(column, _SEARCHES[name], literal)
            case "IN", (Reference() as column, *literals):
                return self._listed(column, "not in" if negated else "in", literals)
            case _:
                return None

    def _compared(
        self, column: Reference, operator: str, literal: Literal, *, negated: bool
    ) -> Term | None:
        return self._valued(column, _NEGATED[operator] if negated else operator, literal)

    def _valued(self, column: Reference, operator: str, literal: Literal) -> Term | None:
        value = self._value(column, operator, literal)
        return None if value is None else (column.names[0], operator, value)

    def _listed(
        self, column: Reference, operator: str, literals: Sequence[Expression]
    ) -> Term | None:
        values: list[Value] = []
        for literal in literals:
            value = self._value(column, operator, literal)
            is_null = isinstance(literal, Literal) and literal.value is None
            if value is None and not is_null:
                return None
            values.append(value)
        return None if len(column.names) > 1 else (column.names[0], operator, tuple(values))

    def _value(self, column: Reference, operator: str, literal: Expression) -> Value:
        if len(column.names) > 1 or self._schema.index_of(column.names[0]) < 0:
            return None
        kind = self._schema.column(column.names[0]).type
        is_float = isinstance(kind, types.FloatType | types.DoubleType)
        if not isinstance(literal, Literal) or (is_float and operator in _NOT_FOR_FLOATS):
            return None
        return value_of(literal.value, kind)


def _null_check(name: str, column: str, *, negated: bool) -> Branches | None:
    if name not in ("IS_NULL", "IS_NOT_NULL"):
        return None
    is_null = (name == "IS_NULL") is not negated
    return (((column, "is null" if is_null else "is not null"),),)


def _one(term: Term | None) -> Branches | None:
    return None if term is None else ((term,),)


# The keys that a DELETE names.

KEYS_MAX = 100_000


def keys_of(branches: Branches | None, primary_key: Sequence[str]) -> list[dict[str, Value]]:
    """The keys of all rows that a filter can match; raises if it does not name whole keys."""
    if branches is None:
        raise _refused(primary_key)
    keys = [key for branch in branches for key in _keys_of_branch(branch, primary_key)]
    if len(keys) > KEYS_MAX:
        raise UnsupportedError(
            f"The condition names {len(keys)} keys, but a DELETE can have at most {KEYS_MAX}.",
            hint="Write the keys with a column '_change_type' of 'delete' instead.",
        )
    return keys


def _keys_of_branch(branch: Sequence[Term], primary_key: Sequence[str]) -> list[dict[str, Value]]:
    values: dict[str, tuple[Value, ...]] = {}
    for term in branch:
        if term[1] == "is not null" and term[0] in primary_key:
            continue
        if term[0] in values or term[0] not in primary_key:
            raise _refused(primary_key)
        values[term[0]] = _values_of_term(term, primary_key)
    if len(values) != len(primary_key):
        raise _refused(primary_key)
    return [dict(zip(values, key, strict=True)) for key in product(*values.values())]


def _values_of_term(term: Term, primary_key: Sequence[str]) -> tuple[Value, ...]:
    match term:
        case (_, "==", float() as number) if number == 0:
            # They compare as equal, but are two keys.
            return (0.0, -0.0)
        case (_, "==", value):
            return (cast(Value, value),)
        case (_, "in", tuple() as values):
            return tuple(dict.fromkeys(value for value in values if value is not None))
        case _:
            raise _refused(primary_key)


def _refused(primary_key: Sequence[str]) -> UnsupportedError:
    names = " and ".join(f"{name} = …" for name in primary_key)
    return UnsupportedError(
        "A DELETE must name rows by their whole primary key.",
        hint=f"Write WHERE {names}, or with IN; for other conditions read the keys first and write"
        " them with a column '_change_type' of 'delete'.",
    )


# Conditions as EXPLAIN shows them.


def where_text(where: Where) -> str:
    """A condition as people write it."""
    texts = [" and ".join(map(_term, branch)) for branch in branches_of(where)]
    return texts[0] if len(texts) == 1 else " or ".join(f"({text})" for text in texts)


def _term(term: Term) -> str:
    column, operator, *value = term
    return " ".join((column, operator, *map(repr, value)))
