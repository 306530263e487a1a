"""Filters and projections of a read: pushed to the server, applied to rows, put in words."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa

from headwater.config.options import STATISTICS_COLUMNS
from headwater.config.table_options import statistics_columns
from headwater.errors import InvalidOptionError, InvalidProjectionError, RequestError
from headwater.lake.split import ColumnBounds
from headwater.model import Column, Schema, TableInfo, types
from headwater.model.arrow import arrow_schema
from headwater.model.predicate import And, Leaf, LeafFunction, Literal, Or, Predicate
from headwater.read import literals
from headwater.rows.compute import pc

# Filters: which rows a reader wants, told to the server and applied to what it sends.

Term = tuple[str, str] | tuple[str, str, literals.Value | Collection[literals.Value]]
"""A column, an operator and what to compare with, such as ("amount", ">", 10)."""

Where = Term | Sequence[Term] | Sequence[Sequence[Term]]
"""Terms that must all hold; a list of lists holds where any of its lists does."""

OPERATORS: dict[str, LeafFunction] = {
    "==": LeafFunction.EQUAL,
    "=": LeafFunction.EQUAL,
    "!=": LeafFunction.NOT_EQUAL,
    "<": LeafFunction.LESS_THAN,
    "<=": LeafFunction.LESS_OR_EQUAL,
    ">": LeafFunction.GREATER_THAN,
    ">=": LeafFunction.GREATER_OR_EQUAL,
    "in": LeafFunction.IN,
    "not in": LeafFunction.NOT_IN,
    "is null": LeafFunction.IS_NULL,
    "is not null": LeafFunction.IS_NOT_NULL,
    "starts with": LeafFunction.STARTS_WITH,
    "contains": LeafFunction.CONTAINS,
    "ends with": LeafFunction.ENDS_WITH,
}
_EQUALITIES = (LeafFunction.EQUAL, LeafFunction.NOT_EQUAL)
_TEXT_SEARCHES = (LeafFunction.STARTS_WITH, LeafFunction.CONTAINS, LeafFunction.ENDS_WITH)
# A literal between two values is rounded down to the lower: what that makes of a comparison.
_BETWEEN = {
    LeafFunction.LESS_THAN: LeafFunction.LESS_OR_EQUAL,
    LeafFunction.LESS_OR_EQUAL: LeafFunction.LESS_OR_EQUAL,
    LeafFunction.GREATER_THAN: LeafFunction.GREATER_THAN,
    LeafFunction.GREATER_OR_EQUAL: LeafFunction.GREATER_THAN,
}


@dataclass(frozen=True, slots=True)
class Filter:
    """Hold tests of which all must hold, or several lists of them of which any must."""

    branches: tuple[tuple[literals.Comparison, ...], ...]

    @classmethod
    def of(cls, where: Where, schema: Schema) -> "Filter":
        """Read a filter, or say what in it makes no sense for the columns of the schema."""
        return cls(
            tuple(tuple(_test(term, schema) for term in branch) for branch in branches_of(where))
        )

    @classmethod
    def of_predicate(cls, predicate: Predicate, schema: Schema) -> "Filter":
        """Return what `exact_predicate` made a predicate of."""
        columns = {column.column_id: column for column in schema.columns}
        branches = predicate.children if isinstance(predicate, Or) else (predicate,)
        return cls(
            tuple(
                tuple(_test_of(leaf, columns) for leaf in _leaves_of(branch)) for branch in branches
            )
        )

    def exact_predicate(self) -> Predicate:
        """Return all of the filter as a value that can be kept."""
        branches = tuple(And(tuple(test.leaf() for test in branch)) for branch in self.branches)
        return Or(branches)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns that are looked at."""
        return tuple(dict.fromkeys(test.column.name for branch in self.branches for test in branch))

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return which rows of a batch, with at least the columns looked at, are wanted."""
        wanted = pa.array(np.zeros(batch.num_rows, np.bool_))
        for branch in self.branches:
            held = pa.array(np.ones(batch.num_rows, np.bool_))
            for test in branch:
                held = pc.and_(held, test.mask(batch.column(test.column.name)))
            wanted = pc.or_(wanted, held)
        return wanted

    def predicate(self, column_ids: Collection[int]) -> Predicate | None:
        """Return what servers can tell from statistics of these columns, if anything.

        They may send more rows than are wanted, so parts can be left out of an AND.
        """
        children = []
        for branch in self.branches:
            leaves = [
                test.leaf()
                for test in branch
                if test.column.column_id in column_ids and test.is_pushed
            ]
            if not leaves:
                return None
            children.append(leaves[0] if len(leaves) == 1 else And(tuple(leaves)))
        return children[0] if len(children) == 1 else Or(tuple(children))


def _leaves_of(branch: Predicate) -> tuple[Predicate, ...]:
    return branch.children if isinstance(branch, And) else (branch,)


def _test_of(leaf: Predicate, columns: Mapping[int, Column]) -> literals.Comparison:
    if not isinstance(leaf, Leaf):
        raise RequestError(
            "The filter of a rule is nested.", hint="Write alternatives, each a list of tests."
        )
    column = columns.get(leaf.column_id)
    if column is None:
        raise RequestError(f"The filter names column {leaf.column_id}, which is no longer there.")
    if leaf.function not in (*literals.NULL_CHECKS, *literals.LISTS):
        _check_order(column, leaf.function)
        if len(leaf.literals) != 1:
            raise RequestError(f"The filter compares '{column.name}' with several values.")
    return literals.Comparison.of_leaf(leaf, column)


def branches_of(where: Where) -> Iterable[Sequence[Term]]:
    """Return the lists of terms of which one must hold, however they are written."""
    given: object = where
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise _malformed(where)
    if not given:
        return [()]
    first: object = given[0]
    if isinstance(first, str):
        return [[cast(Term, where)]]
    if isinstance(first, Sequence) and first and isinstance(first[0], str):
        return [cast(Sequence[Term], where)]
    return cast(Sequence[Sequence[Term]], where)


def _malformed(term: object) -> RequestError:
    return RequestError(
        f"{term!r} is not a filter.",
        hint='Write [("column", ">", value), …], with a list of lists for alternatives.',
    )


def _test(term: Term, schema: Schema) -> literals.Comparison:
    given: object = term
    if not isinstance(given, Sequence) or not all(isinstance(part, str) for part in given[:2]):
        raise _malformed(term)
    name, spelled = term[0], " ".join(str(term[1]).lower().split())
    if schema.index_of(name) < 0:
        raise RequestError(
            f"The filter names '{name}', which is not a column.",
            hint=f"The columns are {', '.join(schema.names)}.",
        )
    function, column = OPERATORS.get(spelled), schema.column(name)
    if function is None:
        raise RequestError(
            f"The filter has the unknown operator '{term[1]}'.",
            hint=f"The operators are {', '.join(OPERATORS)}.",
        )
    if len(term) != (2 if function in literals.NULL_CHECKS else 3):
        raise _malformed(term)
    if function in literals.NULL_CHECKS:
        return literals.Comparison(column, function)
    assert len(term) == 3  # noqa: PLR2004 - column, operator, value
    return _with_values(column, function, term[2])


def _with_values(
    column: Column, function: LeafFunction, given: literals.Value | Collection[literals.Value]
) -> literals.Comparison:
    if function in literals.LISTS:
        return _listed(column, function, given)
    if given is None:
        return literals.Comparison(column, LeafFunction.IN)
    _check_order(column, function)
    bound = literals.bound_of(cast(literals.Value, given), column)
    if bound.is_exact:
        return literals.Comparison(column, function, (bound.value,))
    # Nothing equals a literal between two values, and every other comparison has an equal.
    if function in _EQUALITIES:
        never = function is LeafFunction.EQUAL
        return literals.Comparison(column, LeafFunction.IN if never else LeafFunction.IS_NOT_NULL)
    return _between(column, _BETWEEN[function], int(bound.value))


def _between(column: Column, function: LeafFunction, lower: int) -> literals.Comparison:
    try:
        literals.scalar_of(lower, column.type)
    except (pa.ArrowInvalid, OverflowError):
        # Below all values that the column can hold.
        never = function is LeafFunction.LESS_OR_EQUAL
        return literals.Comparison(column, LeafFunction.IN if never else LeafFunction.IS_NOT_NULL)
    return literals.Comparison(column, function, (lower,))


def _check_order(column: Column, function: LeafFunction) -> None:
    kind = column.type
    searches_no_text = function in _TEXT_SEARCHES and not isinstance(
        kind, types.StringType | types.CharType
    )
    has_no_order = isinstance(kind, types.BooleanType) and function not in _EQUALITIES
    if searches_no_text or has_no_order or isinstance(kind, types.NESTED_TYPES):
        spelled = next(text for text, each in OPERATORS.items() if each is function)
        raise RequestError(
            f"'{spelled}' cannot be used with '{column.name}' of type {kind}.",
            hint="Use another operator, or filter the rows after reading them.",
        )


def _listed(
    column: Column, function: LeafFunction, given: literals.Value | Collection[literals.Value]
) -> literals.Comparison:
    if isinstance(given, str | bytes) or not isinstance(given, Collection):
        raise RequestError(
            f"'{column.name}' is compared with {given!r}, which is not a list.",
            hint='Write ("column", "in", [value, …]).',
        )
    if function is LeafFunction.NOT_IN and None in given:
        return literals.Comparison(column, LeafFunction.IN)
    bounds = [literals.bound_of(value, column) for value in given if value is not None]
    values = tuple(_told_apart(dict.fromkeys(bound.value for bound in bounds if bound.is_exact)))
    if not values and given and function is LeafFunction.NOT_IN:
        return literals.Comparison(column, LeafFunction.IS_NOT_NULL)
    return literals.Comparison(column, function, values)


def _told_apart(values: Iterable[literals.Native]) -> Iterable[literals.Native]:
    """Leave out NaN, which equals nothing; have both zeros, which Arrow tells apart in lists."""
    for value in values:
        if isinstance(value, float) and math.isnan(value):
            continue
        yield value
        if isinstance(value, float) and value == 0:
            yield -value


# What a reader wants of a table: which columns, in which order, and which rows.


@dataclass(frozen=True, slots=True, eq=False)
class RowView:
    """Hold what is given to the caller, and what has to be read for it."""

    table: TableInfo
    names: tuple[str, ...]
    """The columns given, in the caller's order."""
    schema: pa.Schema
    """The Arrow schema of what is given."""
    read_columns: tuple[Column, ...]
    """The columns read, in the order of the table: those given, and those the filter looks at."""
    positions: tuple[int, ...] | None
    """Where the columns read stand in the table; None for all of them."""
    filter: Filter | None
    predicate: Predicate | None
    """The part of the filter that a server can make use of."""

    @classmethod
    def of(
        cls,
        table: TableInfo,
        *,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
    ) -> "RowView":
        """Work out what has to be read, or say what there is not."""
        names = table.schema.names if columns is None else _checked(columns, table.schema)
        wanted = None if where is None else Filter.of(where, table.schema)
        needed = {*names, *(wanted.columns if wanted else ())}
        positions = tuple(at for at, name in enumerate(table.schema.names) if name in needed)
        given = tuple(table.schema.column(name) for name in names)
        return cls(
            table=table,
            names=names,
            schema=arrow_schema(Schema(columns=given)),
            read_columns=tuple(table.schema.columns[at] for at in positions),
            positions=None if len(positions) == len(table.schema.columns) else positions,
            filter=wanted,
            predicate=None if wanted is None else wanted.predicate(_counted(table)),
        )

    @property
    def column_ids(self) -> tuple[int, ...]:
        """Return what servers are told of the columns read; nothing for all of them."""
        if self.positions is None:
            return ()
        return tuple(column.column_id for column in self.read_columns)

    def given(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns that the caller wants of those that were read."""
        if batch.schema.names == list(self.names):
            return batch
        return batch.select(list(self.names))

    def filtered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the wanted columns of the wanted rows."""
        return self.given(batch if self.filter is None else batch.filter(self.filter.mask(batch)))


def _checked(columns: Sequence[str], schema: Schema) -> tuple[str, ...]:
    hint = f"The columns are {', '.join(schema.names)}."
    if isinstance(columns, str):
        columns = [columns]
    if not columns:
        raise InvalidProjectionError("No columns were requested.", hint=hint)
    if unknown := [name for name in columns if name not in schema.names]:
        raise InvalidProjectionError(f"There is no column '{unknown[0]}'.", hint=hint)
    if len(set(columns)) < len(columns):
        raise InvalidProjectionError(f"A column was requested twice: {', '.join(columns)}.")
    return tuple(columns)


def _counted(table: TableInfo) -> frozenset[int]:
    """Return the ids of the columns whose statistics writers note; others cannot help."""
    names = STATISTICS_COLUMNS.of(table.descriptor.properties) or ()
    try:
        columns = statistics_columns(names, table.schema)
    except InvalidOptionError:
        # The column was renamed or dropped meanwhile, which only makes for slower reads.
        columns = ()
    return frozenset(column.column_id for column in columns)


# Filters and bounds in the words of people, for plans that explain themselves.

VALUES_SHOWN_MAX = 5
TEXT_SHOWN_MAX = 40
_SPELLED = {function: spelled for spelled, function in OPERATORS.items()}


def filter_text(wanted: Filter, *, only: Collection[str] | None = None) -> str:
    """Return a filter, or what it says of some columns, as a person would write it."""
    branches = [
        " and ".join(
            _test_text(test) for test in branch if only is None or test.column.name in only
        )
        for branch in wanted.branches
    ]
    told = list(dict.fromkeys(filter(None, branches)))
    return " or ".join(f"({each})" for each in told) if len(told) > 1 else "".join(told)


def bounds_text(column: Column, bounds: ColumnBounds) -> str:
    """Return between which values a column lies."""
    if bounds.lower is None and bounds.upper is None:
        return f"{column.name} is null"
    low, high = (
        "…" if each is None else literal_text(each, column.type)
        for each in (bounds.lower, bounds.upper)
    )
    return f"{column.name} in [{low}, {high}]"


def literal_text(literal: Literal, kind: types.DataType) -> str:
    """Return a literal as a person would write it."""
    match literal, kind:
        case int(days), types.DateType():
            return str(np.datetime64(days, "D"))
        case int(millis), types.TimeType():
            return str(np.datetime64(millis, "ms")).partition("T")[2]
        case int(nanos), types.TimestampType() | types.TimestampLtzType():
            return _moment_text(nanos)
        case str(text), _:
            return repr(text if len(text) <= TEXT_SHOWN_MAX else f"{text[:TEXT_SHOWN_MAX]}…")
        case bytes(data), _:
            return f"x'{data[:TEXT_SHOWN_MAX].hex()}'"
        case _:
            return str(literal)


def _moment_text(nanos: int) -> str:
    try:
        text = str(np.datetime64(nanos, "ns"))
    except OverflowError:
        return f"{nanos} ns"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _test_text(test: literals.Comparison) -> str:
    name, spelled = test.column.name, _SPELLED[test.function]
    if test.function in literals.NULL_CHECKS:
        return f"{name} {spelled}"
    texts = [
        literal_text(literals.literal_of(value, test.column.type), test.column.type)
        for value in test.values[:VALUES_SHOWN_MAX]
    ]
    if len(test.values) > VALUES_SHOWN_MAX:
        texts.append(f"… {len(test.values)} values")
    listed = ", ".join(texts)
    return (
        f"{name} {spelled} ({listed})"
        if test.function in literals.LISTS
        else f"{name} {spelled} {listed}"
    )
