"""The first rows of each key in a stream: `ROW_NUMBER() OVER (…)` with `WHERE rownum <= n`.

Spark cannot number the rows of a stream, but it can aggregate: `MAX_BY(row, order, n)` holds the
best n rows of a key, and every change of a key gives them anew, each under its number.
"""

from dataclasses import dataclass, replace

from sqlglot import exp

from headwater.model.types import (
    BigIntType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    SmallIntType,
    TimestampLtzType,
    TimestampType,
    TinyIntType,
)
from headwater.pipelines.sql.reads import PlanSteps
from headwater.pipelines.sql.relations import Relation, RowKind, conjuncts, refusal
from headwater.pipelines.sql.statements import SourceText
from headwater.pipelines.sql.steps import FirstRows

_NUMBERS = (TinyIntType, SmallIntType, IntType, BigIntType, FloatType, DoubleType, DecimalType)
_TIMES = (TimestampType, TimestampLtzType)
_ROWS_MAX = 10_000


@dataclass(slots=True)
class TopRows:
    """The pattern, taken apart: the rows without their number, and what they are numbered by."""

    base: exp.Select
    number: str
    count: int
    order: list[exp.Ordered]
    partition_names: list[str]
    order_names: list[str]
    partition_columns: list[exp.Expr]
    source: SourceText

    def rewrite(self, node: exp.Subquery, base: Relation, steps: PlanSteps) -> Relation:
        """Put the aggregate in the place of the numbering; `base` is the planned inner query."""
        self._check(base)
        if self._is_first(base):
            return self._first_rows(node, base, steps)
        assert base.columns is not None
        columns = [each for each in base.columns if not self._is_internal(each)]
        window = base.window
        groups = self._groups(base)
        row = exp.Anonymous(
            this="STRUCT",
            expressions=[exp.column(exp.to_identifier(each, quoted=True)) for each in columns],
        )
        name, order = self._ordering(base)
        best = exp.Anonymous(this=name, expressions=[row, order, exp.Literal.number(self.count)])
        exploded = exp.Aliases(
            this=exp.Anonymous(this="POSEXPLODE", expressions=[best]),
            expressions=[exp.to_identifier("position__"), exp.to_identifier("row__")],
        )
        hidden = window.grouped if window is not None and self._by_window(base) else ()
        inner = exp.Select(expressions=[*(exp.column(each) for each in hidden), exploded])
        inner = inner.from_(exp.Subquery(this=self.base, alias=_alias("base__")))
        inner.set("group", exp.Group(expressions=groups))
        node.set("this", self._outer(inner, columns, hidden))
        return self._relation(base, columns, hidden)

    def _check(self, base: Relation) -> None:
        if base.columns is None:
            raise refusal(
                self.source, self.base, "The columns of the numbered rows are not known.",
                "Name them.",
            )  # fmt: skip
        if base.is_streaming and base.kind is not RowKind.INSERTS:
            raise refusal(
                self.source,
                self.base,
                f"Spark cannot number rows of a stream of {base.kind.value}.",
                "Aggregate by a window with a WATERMARK first, or run it in a batch.",
            )
        if base.is_windowed and not self._by_window(base):
            raise refusal(
                self.source,
                self.base,
                "Spark cannot number the results of windows across windows in one stream.",
                "Add window_start and window_end to PARTITION BY.",
            )

    def _is_internal(self, name: str) -> bool:
        return name in self.partition_names or name in self.order_names

    def _by_window(self, base: Relation) -> bool:
        window = base.window
        if window is None:
            return False
        parts = [each.name.lower() for each in self.partition_columns]
        return window.is_final and any(each in window.parts for each in parts)

    def _groups(self, base: Relation) -> list[exp.Expr]:
        window = base.window
        groups: list[exp.Expr] = []
        for name, column in zip(self.partition_names, self.partition_columns, strict=True):
            if window is not None and self._by_window(base) and column.name.lower() in window.parts:
                continue
            groups.append(exp.column(name))
        if window is not None and self._by_window(base):
            groups.extend(exp.column(each) for each in window.grouped)
        return groups or [exp.Literal.string("")]

    # The first row of each key by the time of processing.

    def _is_first(self, base: Relation) -> bool:
        if self.count != 1 or len(self.order) != 1 or not base.is_streaming:
            return False
        ordered = self.order[0]
        is_now = self.order_names[0].lower() in base.process_times
        return is_now and not ordered.args.get("desc")

    def _first_rows(self, node: exp.Subquery, base: Relation, steps: PlanSteps) -> Relation:
        assert base.columns is not None
        view = steps.add_sql("rows", self.base)
        first = steps.view_name("first")
        steps.steps.append(FirstRows(view=first, rows=view, keys=tuple(self.partition_names)))
        columns = [each for each in base.columns if not self._is_internal(each)]
        outputs: list[exp.Expr] = [
            exp.column(exp.to_identifier(each, quoted=True)) for each in columns
        ]
        one = exp.Cast(
            this=exp.Literal.number(1),
            to=exp.DataType(this=exp.DType.USERDEFINED, kind="BIGINT"),
        )
        outputs.append(exp.alias_(one, self.number, quoted=True))
        node.set("this", exp.Select(expressions=outputs).from_(exp.to_table(first)))
        return replace(base.unwindowed(), columns=(*columns, self.number), time=None, table=None)

    # The best rows of each key by any order.

    def _ordering(self, base: Relation) -> tuple[str, exp.Expr]:
        """`MAX_BY` or `MIN_BY`, and what they compare."""
        descending = bool(self.order[0].args.get("desc"))
        keys: list[exp.Expr] = []
        for ordered, name in zip(self.order, self.order_names, strict=True):
            key: exp.Expr = exp.column(name)
            # Within a struct null is the smallest of all: first for MIN_BY, last for MAX_BY.
            if bool(ordered.args.get("nulls_first")) is descending:
                keys.append(exp.Is(this=key.copy(), expression=exp.Null()))
            if bool(ordered.args.get("desc")) != descending:
                key = self._reversed(key, base.types.get(name.lower()), ordered)
            keys.append(key)
        # A struct, because both leave out rows whose order itself is null.
        by = exp.Anonymous(this="STRUCT", expressions=keys)
        return ("MAX_BY" if descending else "MIN_BY"), by

    def _reversed(self, key: exp.Expr, kind: DataType | None, node: exp.Expr) -> exp.Expr:
        if isinstance(kind, _NUMBERS):
            return exp.Neg(this=key)
        if isinstance(kind, _TIMES):
            instant = exp.Cast(
                this=key, to=exp.DataType(this=exp.DType.USERDEFINED, kind="TIMESTAMP")
            )
            return exp.Neg(this=exp.Anonymous(this="UNIX_MICROS", expressions=[instant]))
        if isinstance(kind, DateType):
            return exp.Neg(this=exp.Anonymous(this="UNIX_DATE", expressions=[key]))
        raise refusal(
            self.source,
            node,
            "A stream can number rows by columns in both directions only if they are numbers or"
            " times.",
            "Write all of ORDER BY in one direction.",
        )

    def _outer(self, inner: exp.Select, columns: list[str], hidden: tuple[str, ...]) -> exp.Select:
        row = exp.column("row__")
        outputs: list[exp.Expr] = [
            exp.alias_(
                exp.Dot(this=row.copy(), expression=exp.to_identifier(each, quoted=True)),
                each,
                quoted=True,
            )
            for each in columns
        ]
        number = exp.Cast(
            this=exp.Add(this=exp.column("position__"), expression=exp.Literal.number(1)),
            to=exp.DataType(this=exp.DType.USERDEFINED, kind="BIGINT"),
        )
        outputs.append(exp.alias_(number, self.number, quoted=True))
        outputs.extend(exp.column(each) for each in hidden)
        return exp.Select(expressions=outputs).from_(
            exp.Subquery(this=inner, alias=_alias("best__"))
        )

    def _relation(self, base: Relation, columns: list[str], hidden: tuple[str, ...]) -> Relation:
        names = (*columns, self.number)
        if hidden:
            return replace(base, columns=names, hidden=hidden, time=None, table=None)
        key = tuple(each.name for each in self.partition_columns)
        is_known = all(each in columns for each in key)
        with_number = key if self.count == 1 else (*key, self.number)
        return replace(
            base.unwindowed(),
            columns=names,
            kind=RowKind.UPDATES,
            key=with_number if is_known else None,
            constants=frozenset({self.number}) if self.count == 1 else frozenset(),
            time=None,
            table=None,
        )


def top_rows(select: exp.Select, source: SourceText) -> TopRows | None:
    """Recognise the pattern in a SELECT; the condition and the number are taken out of it."""
    from_ = select.args.get("from_")
    subquery = from_.this if from_ is not None else None
    inner = subquery.this if isinstance(subquery, exp.Subquery) else None
    if not isinstance(inner, exp.Select) or select.args.get("joins"):
        return None
    numbered = [each for each in inner.expressions if _is_number(each)]
    if len(numbered) != 1:
        return None
    name = numbered[0].alias
    where = select.args.get("where")
    limits = [
        (each, count)
        for each in conjuncts(where.this if where is not None else None)
        if (count := _limit(each, name)) is not None
    ]
    if not limits:
        return None
    condition, count = limits[0]
    _take_out(select, condition)
    return _taken_apart(inner, numbered[0], min(count, _ROWS_MAX), source)


def _is_number(node: exp.Expr) -> bool:
    window = node.this if isinstance(node, exp.Alias) else None
    call = window.this if isinstance(window, exp.Window) else None
    return isinstance(call, exp.Anonymous) and call.name.upper() == "ROW_NUMBER"


def _limit(condition: exp.Expr, name: str) -> int | None:
    """The n of `rownum <= n`, `rownum < n`, `rownum = 1` or `n >= rownum`."""
    if not isinstance(condition, exp.LTE | exp.LT | exp.EQ | exp.GTE | exp.GT):
        return None
    left, right = condition.this, condition.expression
    is_turned = isinstance(condition, exp.GTE | exp.GT)
    column, number = (right, left) if is_turned else (left, right)
    is_ours = isinstance(column, exp.Column) and column.name.lower() == name.lower()
    if not is_ours or not isinstance(number, exp.Literal) or not number.name.isdigit():
        return None
    count = int(number.name) - isinstance(condition, exp.LT | exp.GT)
    if isinstance(condition, exp.EQ) and count != 1:
        return None
    return count if count > 0 else None


def _take_out(select: exp.Select, condition: exp.Expr) -> None:
    where = select.args["where"]
    kept = [each for each in conjuncts(where.this) if each is not condition]
    select.set("where", exp.Where(this=exp.and_(*kept)) if kept else None)


def _taken_apart(inner: exp.Select, numbered: exp.Expr, count: int, source: SourceText) -> TopRows:
    window = numbered.this
    partition = list(window.args.get("partition_by") or ())
    order = window.args.get("order")
    ordered = list(order.expressions) if order is not None else []
    if not ordered:
        raise refusal(source, window, "ROW_NUMBER() needs ORDER BY.", "Add it to OVER (…).")
    inner.set("expressions", [each for each in inner.expressions if each is not numbered])
    partition_names = [f"partition__{at}" for at in range(len(partition))]
    order_names = [f"order__{at}" for at in range(len(ordered))]
    for each, name in zip(partition, partition_names, strict=True):
        inner.append("expressions", exp.alias_(each.copy(), name))
    for each, name in zip(ordered, order_names, strict=True):
        inner.append("expressions", exp.alias_(each.this.copy(), name))
    return TopRows(
        base=inner,
        number=numbered.alias,
        count=count,
        order=ordered,
        partition_names=partition_names,
        order_names=order_names,
        partition_columns=partition,
        source=source,
    )


def _alias(name: str) -> exp.TableAlias:
    return exp.TableAlias(this=exp.to_identifier(name))
