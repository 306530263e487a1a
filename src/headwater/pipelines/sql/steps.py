"""What the conductor does for a statement: make views in order, then one action.

`plan(statement, names, label=…)` returns a `Plan`. Its views are temporary views of the Spark
session, each made from the ones before it; their names begin with the label that the caller gave,
which should differ from statement to statement. An action names the view that it takes its rows
from. A statement without a query has no views, and is its own action.

Expressions and queries in steps are Spark SQL, ready for `spark.sql` or `F.expr`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from headwater.pipelines.sql.names import DeclaredTable
from headwater.pipelines.sql.statements import (
    AlterDatabase,
    AlterMaterializedTable,
    AlterTable,
    AlterView,
    ClearStatement,
    CreateCatalog,
    CreateDatabase,
    CreateMaterializedTable,
    CreateTable,
    CreateView,
    DescribeStatement,
    DropCatalog,
    DropDatabase,
    DropMaterializedTable,
    DropTable,
    DropView,
    HelpStatement,
    Options,
    QuitStatement,
    ResetSetting,
    SetSetting,
    ShowStatement,
    StopJob,
    UseCatalog,
    UseDatabase,
)

CHANGE_COLUMN = "_change_type"
"""In the rows of an updating stream: `insert`, `update_before`, `update_after` or `delete`."""


# Views.


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTime:
    """`withWatermark(column, delay)`."""

    column: str
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTable:
    """Make a view of a table's rows: a stream, or all of them at once.

    1. Read the physical columns named in `columns`, in that order, with `options` (the table's own
       with those of the hint over them). For each of `metadata`, a column of that name with what
       the connector knows under that key.
    2. Add `computed` one by one, so that a later one can use an earlier one.
    3. Apply the watermark, if the read is a stream. Spark wants an instant for it, so a column of
       type TIMESTAMP is cast to one first.

    With `has_changes`, the view also has the column `_change_type`, and updates come as two rows.
    """

    view: str
    table: DeclaredTable
    is_streaming: bool
    columns: tuple[str, ...]
    options: Options
    hints: Options = field(default_factory=dict)
    """Only what the hint gave; it is in `options` too."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Name of the column in the view -> key of the connector's metadata."""
    computed: tuple[tuple[str, str], ...] = ()
    """Name of the column -> expression."""
    watermark: EventTime | None = None
    has_changes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlView:
    """Make a view of a query over the views before it."""

    view: str
    sql: str
    watermark: EventTime | None = None
    """A watermark to apply to the result, if any."""


class MatchKind(StrEnum):
    """Which rows of the probe side are kept: those with a match, or all."""

    INNER = "inner"
    LEFT = "left"


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupJoin:
    """Make a view of the probe's rows with columns of a table, looked up while each batch runs.

    The view has all columns of the probe, then `columns` of the table under the names given there.
    The names are new, so they clash with none of the probe.
    """

    view: str
    probe: str
    table: DeclaredTable
    keys: Mapping[str, str]
    """Column of the probe -> column of the table: its whole key, or one of its `lookup_keys`."""
    kind: MatchKind
    columns: Mapping[str, str]
    """Column of the table -> its name in the view; columns of the key may be among them."""
    options: Options = field(default_factory=dict)
    hints: Options = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionJoin:
    """Make a view of the probe's rows with the version of a table's row at the probe's event time.

    Like `LookupJoin`, but with what the row was at `time`, a column of the probe.
    """

    view: str
    probe: str
    table: DeclaredTable
    keys: Mapping[str, str]
    time: str
    kind: MatchKind
    columns: Mapping[str, str]
    options: Options = field(default_factory=dict)
    hints: Options = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRows:
    """Make a view of the first row of each key, as they come: `dropDuplicates(keys)`.

    With `within_watermark`, state is kept only as long as the watermark says.
    """

    view: str
    rows: str
    keys: tuple[str, ...]
    within_watermark: bool = False


ViewStep = ReadTable | SqlView | LookupJoin | VersionJoin | FirstRows


# Actions.


class ResultMode(StrEnum):
    """Spark's output mode of a stream."""

    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowRows:
    """Show the rows of a view: all of a batch, or those of a stream as they come."""

    view: str
    is_streaming: bool = False
    mode: ResultMode = ResultMode.APPEND
    key: tuple[str, ...] = ()
    """Columns that identify a row of the result when the mode is update, if known."""
    has_changes: bool = False
    """The view has `_change_type`, which says what each row does."""
    limit: int | None = None
    """Stop a stream after this many rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertRows:
    """Write the rows of a view into a table.

    The view's columns are those of `columns`, by position and by name. Columns of the table that
    are missing there get null, or keep their value if the table takes partial updates by key.
    """

    view: str
    table: DeclaredTable
    columns: tuple[str, ...]
    is_streaming: bool = False
    mode: ResultMode = ResultMode.APPEND
    key: tuple[str, ...] = ()
    """The table's key, if rows are written by key."""
    is_overwrite: bool = False
    is_partial: bool = False
    """Some columns of a table by key are not written, and keep their values."""
    has_changes: bool = False
    """The view also has `_change_type`, last, which says what each row does."""
    options: Options = field(default_factory=dict)
    hints: Options = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertRowsSet:
    """Several writes that start together as one job."""

    writes: tuple[InsertRows, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRows:
    """Delete the rows whose keys are in a view (a batch): its columns are the table's key."""

    view: str
    table: DeclaredTable


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTableAs:
    """Create a table with the columns of a view, then write the view's rows into it.

    The columns of the statement's definition, if it has any, come before those of the view; `key`
    decides whether rows are appended or written by key, as the mode says.
    """

    statement: CreateTable
    view: str
    is_streaming: bool = False
    mode: ResultMode = ResultMode.APPEND
    has_changes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Materialize:
    """Create a materialized table (or change its query), and keep it fresh.

    A continuous one is a stream that writes as `mode` says; a full one is computed anew, in a
    batch, each time that `freshness_ms` is over.
    """

    statement: CreateMaterializedTable | AlterMaterializedTable
    view: str
    is_streaming: bool
    freshness_ms: int | None
    mode: ResultMode = ResultMode.APPEND
    has_changes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainPlan:
    """Show what would be done: our steps, then Spark's plan of the views."""

    plan: "Plan"
    details: tuple[str, ...] = ()


PlainAction = (
    CreateCatalog
    | DropCatalog
    | UseCatalog
    | UseDatabase
    | CreateDatabase
    | DropDatabase
    | AlterDatabase
    | CreateTable
    | AlterTable
    | DropTable
    | CreateView
    | AlterView
    | DropView
    | AlterMaterializedTable
    | DropMaterializedTable
    | SetSetting
    | ResetSetting
    | ShowStatement
    | DescribeStatement
    | StopJob
    | QuitStatement
    | HelpStatement
    | ClearStatement
)
"""Statements without rows: the conductor does what they say."""

Action = (
    ShowRows
    | InsertRows
    | InsertRowsSet
    | DeleteRows
    | CreateTableAs
    | Materialize
    | ExplainPlan
    | PlainAction
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Views in order, then one action."""

    action: Action
    views: tuple[ViewStep, ...] = ()
    notes: tuple[str, ...] = ()
    """What the user should know about this plan, such as what an approximation leaves out."""
