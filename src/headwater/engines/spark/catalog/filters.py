"""Conditions of Spark as filters of ours, where both mean exactly the same."""

from collections.abc import Callable, Sequence
from itertools import product

from headwater.client.reading.filters import Filter, Term
from headwater.client.reading.literals import Value
from headwater.engines.spark.catalog.expressions import Call, Expression, Literal, Reference
from headwater.engines.spark.catalog.values import value_of
from headwater.errors import RequestError
from headwater.model.schema import Schema
from headwater.model.types import DoubleType, FloatType

Branches = tuple[tuple[Term, ...], ...]
"""Lists of terms, of which one must hold, as `Where` has them."""

# A condition that takes more alternatives than this is left to Spark.
BRANCHES_MAX = 64
EVERYTHING: Branches = ((),)
_PAIR = 2
_OPERATORS = {"=": "==", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_SWAPPED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
# Of what compares to null neither holds, in Spark and here.
_NEGATED = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_SEARCHES = {"STARTS_WITH": "starts with", "ENDS_WITH": "ends with", "CONTAINS": "contains"}
# Spark has NaN above all numbers, and Arrow beside them.
_NOT_FOR_FLOATS = frozenset({">", ">=", "in", "not in"})


def branches_of(condition: Expression, schema: Schema) -> Branches | None:
    """Return the filter that a condition is, or None if there is none that is the same."""
    branches = _Translation(schema).of(condition, negated=False)
    if branches is None:
        return None
    try:
        Filter.of(branches, schema)
    except RequestError:
        return None
    return branches


def both(first: Branches, second: Branches) -> Branches | None:
    """Return the filter for rows that two filters want, or None if it grows too large."""
    if len(first) * len(second) > BRANCHES_MAX:
        return None
    return tuple((*left, *right) for left, right in product(first, second))


def either(first: Branches, second: Branches) -> Branches | None:
    """Return the filter for rows that one of two filters wants, or None if it grows too large."""
    joined = (*first, *second)
    return joined if len(joined) <= BRANCHES_MAX else None


class _Translation:
    """Translate conditions upon the columns of a table."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def of(self, condition: Expression, *, negated: bool) -> Branches | None:
        """Return the filter for the rows of which a condition, or its negation, is true."""
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
        """Translate `<=>`, which has nulls equal to each other."""
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
                # There is no operator for the rows that do not.
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
        is_float = isinstance(kind, FloatType | DoubleType)
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
