"""What somebody wrote: one frozen value for each statement, with its place in the script.

Names are tuples of one to three parts, as written and without backticks: `("orders",)`,
`("shop", "orders")`, `("fluss", "shop", "orders")`. Which catalog and database an incomplete name
belongs to is decided later, by `headwater.pipelines.sql.names.qualified`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sqlglot import exp

from headwater.model.types import DataType

Name = tuple[str, ...]
Options = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SourceText:
    """A piece of a script as it was written, and where it starts: lines and columns count from 1.

    `script` is the whole text that the piece belongs to, so that an error can show its line.
    """

    text: str
    line: int
    column: int
    script: str = field(default="", repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A `SELECT`, `WITH` or `VALUES`. Only the planner reads the tree, and never changes it."""

    source: SourceText
    tree: exp.Expr = field(repr=False, compare=False)


# Columns of a table, as declared.


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalColumn:
    """A column whose values the table has."""

    name: str
    type: DataType
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedColumn:
    """`name AS expression`: computed whenever the table is read, and never written.

    The expression is in the words of its author; the planner turns it into Spark's.
    """

    name: str
    expression: str
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataColumn:
    """`name TYPE METADATA [FROM 'key'] [VIRTUAL]`: what the connector knows about a row."""

    name: str
    type: DataType
    key: str
    is_virtual: bool = False
    """A virtual one is read only; the others are written too."""
    comment: str | None = None


TableColumn = PhysicalColumn | ComputedColumn | MetadataColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkClause:
    """`WATERMARK FOR column AS expression`: rows come at most `delay_ms` late."""

    column: str
    expression: str
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """`DISTRIBUTED BY HASH(a, b) INTO 4 BUCKETS`, or `DISTRIBUTED INTO 4 BUCKETS`."""

    columns: tuple[str, ...] = ()
    buckets: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LikeClause:
    """`LIKE table (INCLUDING ALL …)`: what to take over from another table.

    `rules` are pairs such as `("INCLUDING", "OPTIONS")`, in the order in which they are written.
    """

    table: Name
    rules: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDefinition:
    """What `CREATE TABLE` says about a table besides its name."""

    columns: tuple[TableColumn, ...] = ()
    key: tuple[str, ...] = ()
    watermark: WatermarkClause | None = None
    comment: str | None = None
    partitioned_by: tuple[str, ...] = ()
    distribution: Distribution | None = None
    options: Options = field(default_factory=dict)
    like: LikeClause | None = None


# Statements.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Statement:
    source: SourceText


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectStatement(_Statement):
    """A query whose rows are shown."""

    query: ParsedQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertStatement(_Statement):
    """`INSERT INTO | OVERWRITE table [PARTITION (…)] [(columns)] query`."""

    table: Name
    query: ParsedQuery
    columns: tuple[str, ...] = ()
    """The columns that are written, or none of them if the query has all."""
    partition: Mapping[str, str | None] = field(default_factory=dict)
    """Fixed values of partition columns, as SQL literals; None where the query has the value."""
    hints: Options = field(default_factory=dict)
    is_overwrite: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertSetStatement(_Statement):
    """`EXECUTE STATEMENT SET BEGIN … END`: inserts that run as one job."""

    inserts: tuple[InsertStatement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateStatement(_Statement):
    """`UPDATE table SET column = expression, … WHERE condition`."""

    table: Name
    assignments: tuple[tuple[str, exp.Expr], ...] = field(repr=False, compare=False)
    condition: exp.Expr | None = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteStatement(_Statement):
    """`DELETE FROM table WHERE condition`, or `TRUNCATE TABLE table`."""

    table: Name
    condition: exp.Expr | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateCatalog(_Statement):
    """`CREATE CATALOG name WITH (…)`; the option `type` says which kind."""

    name: str
    options: Options
    comment: str | None = None
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropCatalog(_Statement):
    """`DROP CATALOG name`."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UseCatalog(_Statement):
    """`USE CATALOG name`."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UseDatabase(_Statement):
    """`USE [catalog.]database`."""

    name: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDatabase(_Statement):
    """`CREATE DATABASE [IF NOT EXISTS] [catalog.]name [COMMENT …] [WITH (…)]`."""

    name: Name
    comment: str | None = None
    options: Options = field(default_factory=dict)
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropDatabase(_Statement):
    """`DROP DATABASE [IF EXISTS] [catalog.]name [RESTRICT | CASCADE]`."""

    name: Name
    if_exists: bool = False
    is_cascade: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterDatabase(_Statement):
    """`ALTER DATABASE [catalog.]name SET (…)`."""

    name: Name
    options: Options


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable(_Statement):
    """`CREATE [TEMPORARY] TABLE`, with columns, `LIKE` or `AS SELECT`."""

    name: Name
    definition: TableDefinition
    query: ParsedQuery | None = None
    is_temporary: bool = False
    if_not_exists: bool = False
    is_replacing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTable(_Statement):
    """`DROP [TEMPORARY] TABLE [IF EXISTS] name`."""

    name: Name
    is_temporary: bool = False
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateView(_Statement):
    """`CREATE [TEMPORARY] VIEW name [(columns)] AS query`."""

    name: Name
    query: ParsedQuery
    columns: tuple[str, ...] = ()
    comment: str | None = None
    is_temporary: bool = False
    if_not_exists: bool = False
    is_replacing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropView(_Statement):
    """`DROP [TEMPORARY] VIEW [IF EXISTS] name`."""

    name: Name
    is_temporary: bool = False
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterView(_Statement):
    """`ALTER VIEW name RENAME TO other`, or `ALTER VIEW name AS query`."""

    name: Name
    new_name: Name | None = None
    query: ParsedQuery | None = None


# What `ALTER TABLE` changes.


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameTable:
    """`RENAME TO other`."""

    to: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTableOptions:
    """`SET ('key' = 'value', …)`."""

    options: Options


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetTableOptions:
    """`RESET ('key', …)`."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedColumn:
    """A column, and where it goes: first, after another, or last if neither is said."""

    column: TableColumn
    is_first: bool = False
    after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddTableColumns:
    """`ADD column`, or `ADD (column, …)`."""

    columns: tuple[PlacedColumn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModifyTableColumns:
    """`MODIFY column`, or `MODIFY (column, …)`."""

    columns: tuple[PlacedColumn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTableColumns:
    """`DROP column`, or `DROP (column, …)`."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameTableColumn:
    """`RENAME column TO other`."""

    column: str
    to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTableWatermark:
    """`ADD WATERMARK FOR …` or `MODIFY WATERMARK FOR …`; None for `DROP WATERMARK`."""

    watermark: WatermarkClause | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddTablePartition:
    """`ADD [IF NOT EXISTS] PARTITION (day = '…')`."""

    values: Options
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTablePartition:
    """`DROP [IF EXISTS] PARTITION (day = '…')`."""

    values: Options
    if_exists: bool = False


TableChange = (
    RenameTable
    | SetTableOptions
    | ResetTableOptions
    | AddTableColumns
    | ModifyTableColumns
    | DropTableColumns
    | RenameTableColumn
    | SetTableWatermark
    | AddTablePartition
    | DropTablePartition
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTable(_Statement):
    """`ALTER TABLE [IF EXISTS] name change`."""

    name: Name
    change: TableChange
    if_exists: bool = False


# Materialized tables.


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateMaterializedTable(_Statement):
    """`CREATE MATERIALIZED TABLE name … FRESHNESS = INTERVAL … AS query`."""

    name: Name
    query: ParsedQuery
    key: tuple[str, ...] = ()
    comment: str | None = None
    partitioned_by: tuple[str, ...] = ()
    distribution: Distribution | None = None
    options: Options = field(default_factory=dict)
    freshness_ms: int | None = None
    refresh_mode: str | None = None
    """`CONTINUOUS` (a stream) or `FULL` (computed anew each time), or None: by freshness."""
    if_not_exists: bool = False


class MaterializedChange(StrEnum):
    """What to do with a materialized table."""

    SUSPEND = "suspend"
    RESUME = "resume"
    REFRESH = "refresh"
    QUERY = "query"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterMaterializedTable(_Statement):
    """`ALTER MATERIALIZED TABLE name SUSPEND | RESUME | REFRESH [PARTITION …] | AS query`."""

    name: Name
    change: MaterializedChange
    options: Options = field(default_factory=dict)
    """For RESUME WITH (…)."""
    partition: Options = field(default_factory=dict)
    query: ParsedQuery | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DropMaterializedTable(_Statement):
    """`DROP MATERIALIZED TABLE [IF EXISTS] name`."""

    name: Name
    if_exists: bool = False


# Settings, lists and jobs.


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSetting(_Statement):
    """`SET 'key' = 'value'`."""

    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetSetting(_Statement):
    """`RESET 'key'`, or `RESET` for all."""

    key: str | None = None


class ShowKind(StrEnum):
    """What `SHOW` lists. `SETTINGS` is a bare `SET`."""

    CATALOGS = "catalogs"
    CURRENT_CATALOG = "current catalog"
    CREATE_CATALOG = "create catalog"
    DATABASES = "databases"
    CURRENT_DATABASE = "current database"
    TABLES = "tables"
    VIEWS = "views"
    MATERIALIZED_TABLES = "materialized tables"
    COLUMNS = "columns"
    PARTITIONS = "partitions"
    CREATE_TABLE = "create table"
    CREATE_VIEW = "create view"
    FUNCTIONS = "functions"
    CONNECTORS = "connectors"
    JOBS = "jobs"
    SETTINGS = "settings"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowStatement(_Statement):
    """`SHOW kind [FROM | IN name] [[NOT] LIKE | ILIKE 'pattern']`."""

    kind: ShowKind
    name: Name = ()
    """The table, view, database or catalog that the list is of, or () for the current one."""
    pattern: str | None = None
    is_not: bool = False
    ignores_case: bool = False
    partition: Options = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeStatement(_Statement):
    """`DESCRIBE [EXTENDED] table`, or `DESCRIBE CATALOG | DATABASE | JOB name`."""

    name: Name
    what: str = "table"
    """`table` (or view), `catalog`, `database` or `job`."""
    is_extended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StopJob(_Statement):
    """`STOP JOB 'id or name' [WITH DRAIN]`."""

    job: str
    is_drain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QuitStatement(_Statement):
    """`QUIT`, `EXIT`: ends a shell or script."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HelpStatement(_Statement):
    """`HELP`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearStatement(_Statement):
    """`CLEAR`: clears the screen of a shell."""


PlainStatement = (
    SelectStatement
    | InsertStatement
    | InsertSetStatement
    | UpdateStatement
    | DeleteStatement
    | CreateCatalog
    | DropCatalog
    | UseCatalog
    | UseDatabase
    | CreateDatabase
    | DropDatabase
    | AlterDatabase
    | CreateTable
    | DropTable
    | AlterTable
    | CreateView
    | DropView
    | AlterView
    | CreateMaterializedTable
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainStatement(_Statement):
    """`EXPLAIN [details] statement`."""

    statement: PlainStatement
    details: tuple[str, ...] = ()
    """Such as `ESTIMATED_COST` or `JSON_EXECUTION_PLAN`, in capitals."""


Statement = PlainStatement | ExplainStatement
