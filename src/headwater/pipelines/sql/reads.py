"""The views that a plan begins with: which columns of which tables are read, and how."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from headwater.pipelines.sql.dialect import parse_expression_tokens, spark_sql, tokenize
from headwater.pipelines.sql.faults import meant
from headwater.pipelines.sql.functions import spark_functions
from headwater.pipelines.sql.names import Ability, DeclaredTable
from headwater.pipelines.sql.relations import Relation, RowKind, refusal
from headwater.pipelines.sql.statements import (
    ComputedColumn,
    MetadataColumn,
    Options,
    PhysicalColumn,
    SourceText,
)
from headwater.pipelines.sql.steps import CHANGE_COLUMN, EventTime, ReadTable, SqlView, ViewStep

_UNSAFE = re.compile(r"\W+")


@dataclass(slots=True)
class PendingRead:
    """A table that is read; which columns of it is known when the whole query is."""

    view: str
    table: DeclaredTable
    hints: Options
    is_streaming: bool
    watermark: EventTime | None
    has_changes: bool


@dataclass(slots=True)
class PlanSteps:
    """The views of a plan while it grows, shared by all queries of a statement."""

    label: str
    steps: list[ViewStep | PendingRead] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    """Lower-case names in all queries; columns that are not among them need not be read."""
    uses_all: bool = False
    count: int = 0
    reads: dict[tuple[object, ...], PendingRead] = field(default_factory=dict)

    def view_name(self, of: str) -> str:
        """Make a name for the next view."""
        self.count += 1
        return f"{self.label}_{self.count}_{_UNSAFE.sub('_', of).lower()}"

    def add_sql(self, of: str, tree: exp.Expr, watermark: EventTime | None = None) -> str:
        """Add a view of a query that is already in Spark's words, except for functions."""
        view = self.view_name(of)
        sql = spark_sql(spark_functions(tree))
        self.steps.append(SqlView(view=view, sql=sql, watermark=watermark))
        return view

    def note_uses(self, tree: exp.Expr) -> None:
        """Remember the names in a query."""
        for node in tree.walk():
            if isinstance(node, exp.Identifier):
                self.used.add(node.name.lower())
            elif isinstance(node, exp.Star) and not _is_counted(node):
                self.uses_all = True

    def finished(self) -> tuple[ViewStep, ...]:
        """Return the views, each read with the columns that are needed."""
        return tuple(
            _finished(each, None if self.uses_all else self.used)
            if isinstance(each, PendingRead)
            else each
            for each in self.steps
        )


def _is_counted(star: exp.Star) -> bool:
    parent = star.parent
    return isinstance(parent, exp.Anonymous) and parent.name.upper() == "COUNT"


def _finished(read: PendingRead, used: set[str] | None) -> ReadTable:
    table = read.table
    needed = None if used is None else _needed(table, used, read)
    computed = [
        (column.name, spark_expression(column.expression))
        for column in table.columns
        if isinstance(column, ComputedColumn) and (needed is None or column.name.lower() in needed)
    ]
    physical = tuple(
        column.name
        for column in table.columns
        if isinstance(column, PhysicalColumn) and (needed is None or column.name.lower() in needed)
    )
    first = next((each.name for each in table.columns if isinstance(each, PhysicalColumn)), None)
    metadata = {
        column.name: column.key
        for column in table.columns
        if isinstance(column, MetadataColumn) and (needed is None or column.name.lower() in needed)
    }
    return ReadTable(
        view=read.view,
        table=table,
        is_streaming=read.is_streaming,
        columns=physical or (() if metadata or first is None else (first,)),
        options={**table.options, **read.hints},
        hints=read.hints,
        metadata=metadata,
        computed=tuple(computed),
        watermark=read.watermark,
        has_changes=read.has_changes,
    )


def _needed(table: DeclaredTable, used: set[str], read: PendingRead) -> set[str]:
    """Lower-case names of the columns that are used, also by those that are computed."""
    needed = {each.name.lower() for each in table.columns if each.name.lower() in used}
    if read.watermark is not None:
        needed.add(read.watermark.column.lower())
    for column in reversed(table.columns):
        if isinstance(column, ComputedColumn) and column.name.lower() in needed:
            needed |= {
                each.name.lower()
                for each in expression_tree(column.expression).find_all(exp.Identifier)
            }
    return needed


def expression_tree(text: str) -> exp.Expr:
    """Parse an expression that was checked before, when its table was created."""
    return parse_expression_tokens(tokenize(text), text)


def spark_expression(text: str) -> str:
    """Write an expression of Flink in Spark's words."""
    return spark_sql(spark_functions(expression_tree(text)))


def process_times(table: DeclaredTable) -> frozenset[str]:
    """Lower-case names of the columns that are the time of processing."""
    return frozenset(
        column.name.lower()
        for column in table.columns
        if isinstance(column, ComputedColumn) and is_process_time(column.expression)
    )


def is_process_time(expression: str) -> bool:
    """Tell whether an expression is `PROCTIME()`."""
    return _UNSAFE.sub("", expression).upper() == "PROCTIME"


def read_relation(read: PendingRead) -> Relation:
    """What is known about the rows of a table."""
    table = read.table
    types = {
        column.name.lower(): column.type
        for column in table.columns
        if isinstance(column, PhysicalColumn | MetadataColumn)
    }
    return Relation(
        columns=tuple(column.name for column in table.columns),
        types=types,
        is_streaming=read.is_streaming,
        kind=RowKind.CHANGES if read.has_changes else RowKind.INSERTS,
        time=read.watermark,
        process_times=process_times(table),
        key=table.key or None,
        has_changes=read.has_changes,
        hidden=(CHANGE_COLUMN,) if read.has_changes else (),
        table=str(table.name),
    )


def check_hints(
    table: DeclaredTable, hints: Mapping[str, str], node: exp.Expr, source: SourceText
) -> None:
    """Raise for an option in a hint that the table's connector does not know."""
    if table.hint_options is None:
        return
    for key in hints:
        if key not in table.hint_options:
            raise refusal(
                source,
                node,
                f"The connector '{table.connector}' has no option '{key}'.",
                meant(key, table.hint_options)
                or f"Its options are {', '.join(sorted(table.hint_options))}.",
            )


def check_readable(
    table: DeclaredTable, node: exp.Expr, source: SourceText, *, is_streaming: bool
) -> bool:
    """Tell whether a table is read as a stream; raises if it cannot be read at all."""
    if is_streaming and Ability.STREAM_READ in table.abilities:
        return True
    if Ability.BATCH_READ in table.abilities:
        return False
    if Ability.STREAM_READ in table.abilities:
        raise refusal(
            source,
            node,
            f"{table.name} never ends, so a batch cannot read it.",
            "Write SET 'execution.runtime-mode' = 'streaming', or bound the table, for instance"
            " with 'number-of-rows'.",
        )
    raise refusal(
        source, node, f"{table.name} ('{table.connector}') cannot be read.", "It is a sink."
    )
