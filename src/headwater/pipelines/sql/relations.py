"""What the planner knows about the rows of a table, a subquery or a join while it plans."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from sqlglot import exp

from headwater.errors import StatementError
from headwater.model.types import DataType
from headwater.pipelines.sql.faults import fault
from headwater.pipelines.sql.statements import SourceText
from headwater.pipelines.sql.steps import CHANGE_COLUMN, EventTime


class RowKind(StrEnum):
    """What the rows of a stream do to what came before them."""

    INSERTS = "new rows"
    CHANGES = "changes of a table, told apart by _change_type"
    UPDATES = "results that replace earlier ones of the same key"


class WindowPart(StrEnum):
    """What can be asked of a window."""

    START = "start"
    END = "end"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class WindowColumns:
    """How the windows of rows can be grouped by, and under which names their parts are known."""

    grouped: tuple[str, ...]
    """Hidden columns that identify a window: a struct of Spark, for CUMULATE also the end."""
    parts: Mapping[str, WindowPart]
    """Lower-case names of columns -> what they are of the window."""
    is_virtual: bool
    """The names are not columns yet, since the rows come straight from a window function."""
    is_final: bool
    """The event time is watermarked, so that a window has an end."""
    needs_both: bool = False
    """Start and end together identify a window, and not one of them alone."""

    def part(self, part: WindowPart) -> exp.Expr:
        """Write a part of the window as an expression of the hidden columns."""
        struct = exp.column(self.grouped[0])
        if part is WindowPart.START:
            return exp.Dot(this=struct, expression=exp.to_identifier("start"))
        end: exp.Expr = exp.Dot(this=struct, expression=exp.to_identifier("end"))
        if len(self.grouped) > 1:
            end = exp.column(self.grouped[1])
        if part is WindowPart.END:
            return end
        return exp.Sub(this=end, expression=interval("1", "MILLISECOND"))


def interval(count: str, unit: str) -> exp.Interval:
    """Write an interval."""
    return exp.Interval(this=exp.Literal.string(count), unit=exp.var(unit))


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """Rows that something can be selected from."""

    columns: tuple[str, ...] | None
    """Names that can be seen, in order; None if they are not known before Spark runs."""
    types: Mapping[str, DataType] = field(default_factory=dict)
    is_streaming: bool = False
    kind: RowKind = RowKind.INSERTS
    time: EventTime | None = None
    process_times: frozenset[str] = frozenset()
    window: WindowColumns | None = None
    hidden: tuple[str, ...] = ()
    """Columns that are there and must not be seen."""
    key: tuple[str, ...] | None = None
    """Of updates: the columns that identify a result; () for the only one there is."""
    constants: frozenset[str] = frozenset()
    has_changes: bool = False
    is_filtered: bool = False
    """Rows of a changelog were left out, so that an update may come without its other half."""
    is_windowed: bool = False
    """Some windows were aggregated, and come out when the watermark has passed them."""
    table: str | None = None
    """The name of the table, if this is nothing but one."""

    def has(self, column: str) -> bool:
        """Tell whether a column of this name can be seen."""
        lower = column.lower()
        named = self.columns is not None and any(each.lower() == lower for each in self.columns)
        return named or (self.window is not None and lower in self.window.parts)

    def renamed(self, names: tuple[str, ...]) -> "Relation":
        """The same rows under other names, as `AS t(a, b)` gives them."""
        plain = self.unwindowed()
        if self.columns is None:
            return replace(plain, columns=names, types={}, time=None, key=None)
        new = dict(zip(self.columns, names, strict=False))
        lower = {old.lower(): name.lower() for old, name in new.items()}
        time = self.time
        if time is not None:
            is_named = time.column in new
            time = replace(time, column=new[time.column]) if is_named else None
        key = self.key
        if key is not None:
            key = tuple(new[each] for each in key) if set(key) <= set(new) else None
        return replace(
            plain,
            columns=names,
            types={lower[each]: kind for each, kind in self.types.items() if each in lower},
            time=time,
            process_times=frozenset(lower[each] for each in self.process_times if each in lower),
            key=key,
            constants=frozenset(new[each] for each in self.constants if each in new),
            hidden=(CHANGE_COLUMN,) if self.has_changes else (),
            table=None,
        )

    def unwindowed(self) -> "Relation":
        """Forget the windows."""
        hidden = (CHANGE_COLUMN,) if self.has_changes else ()
        return replace(self, window=None, hidden=hidden)


@dataclass(slots=True)
class FromItem:
    """One of the things after FROM or JOIN."""

    alias: str
    node: exp.Expr
    relation: Relation
    join: exp.Join | None = None

    @property
    def version(self) -> exp.Expr | None:
        """What stands in FOR SYSTEM_TIME AS OF, if it does."""
        found = self.node.args.get("version")
        return found.expression if isinstance(found, exp.Version) else None


def position(node: exp.Expr) -> int:
    """Where in its script a node was written, as far as it is known."""
    starts = (each.meta["start"] for each in node.walk() if each.meta and "start" in each.meta)
    found: int | None = min(starts, default=None)
    if found is None and node.parent is not None:
        return position(node.parent)
    return found or 0


def refusal(source: SourceText, node: exp.Expr, message: str, hint: str) -> StatementError:
    """Make an error at a node of a query."""
    script = source.script or source.text
    return fault(SourceText(script, 1, 1, script), message, hint=hint, at=position(node))


def own_nodes(node: exp.Expr) -> Iterator[exp.Expr]:
    """Walk a tree without going into subqueries."""
    yield node
    for child in node.iter_expressions():
        if not isinstance(child, exp.Query):
            yield from own_nodes(child)


def own_columns(nodes: Sequence[exp.Expr | None]) -> list[exp.Column]:
    """All columns in some trees, outside their subqueries."""
    return [
        each
        for node in nodes
        if node is not None
        for each in own_nodes(node)
        if isinstance(each, exp.Column)
    ]


def column_parts(column: exp.Column) -> list[exp.Identifier]:
    """The names of a column as written: alias, column and fields, whatever each of them is."""
    parts = (column.args.get(each) for each in ("catalog", "db", "table", "this"))
    return [each for each in parts if isinstance(each, exp.Identifier)]


def conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    """The parts of a condition that must all hold."""
    if condition is None:
        return []
    if isinstance(condition, exp.Paren):
        return conjuncts(condition.this)
    if isinstance(condition, exp.And):
        return [*conjuncts(condition.this), *conjuncts(condition.expression)]
    return [condition]
