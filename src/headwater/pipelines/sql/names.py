"""What the planner may ask about names while it plans: tables, views and settings.

The conductor implements `Names`. Its answers are values, so that a plan is a function of a
statement and of what the names stood for at that moment.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from headwater.pipelines.sql.statements import Name, Options, TableColumn, WatermarkClause

DEFAULT_CATALOG = "default_catalog"
DEFAULT_DATABASE = "default_database"
NAME_PARTS_MAX = 3


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """The full name of a table or view."""

    catalog: str
    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.catalog}.{self.database}.{self.table}"


class Ability(StrEnum):
    """What a table's connector can do. The planner refuses what a table cannot."""

    BATCH_READ = "read all its rows"
    STREAM_READ = "read its rows as a stream"
    LOOKUP = "look up rows by key"
    VERSIONS = "tell the version of a row at a time"
    APPEND = "take new rows"
    UPSERT = "take updates and deletes by key"
    OVERWRITE = "replace all its rows"
    PRINT_CHANGES = "take changes without a key"
    """For sinks such as `print` and `blackhole`, which take updates of any kind as they come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTable:
    """A table as its catalog declares it."""

    name: TableName
    columns: tuple[TableColumn, ...]
    """In the order of the declaration: physical, computed and metadata columns."""
    key: tuple[str, ...] = ()
    lookup_keys: tuple[tuple[str, ...], ...] = ()
    """Prefixes of the key by which rows can be looked up as well, such as the bucket key."""
    watermark: WatermarkClause | None = None
    connector: str = "fluss"
    options: Options = field(default_factory=dict)
    """As declared. Hints are laid over them in `ReadTable.options`."""
    hint_options: frozenset[str] | None = None
    """The options that a hint may give; None if any. The planner names the nearest one."""
    partitioned_by: tuple[str, ...] = ()
    abilities: frozenset[Ability] = frozenset()
    is_updating: bool = False
    """A stream of it has updates and deletes, and a column `_change_type` that tells them apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredView:
    """A view: the planner puts its query in the place of its name."""

    name: TableName
    query: str
    """As written by its author, in the dialect of `parse`."""
    columns: tuple[str, ...] = ()
    catalog: str = DEFAULT_CATALOG
    """Where the names in the query are looked up: current when the view was created."""
    database: str = DEFAULT_DATABASE


class Names(Protocol):
    """What names stand for at this moment."""

    @property
    def catalog(self) -> str:
        """The current catalog."""

    @property
    def database(self) -> str:
        """The current database."""

    def find(self, name: TableName) -> DeclaredTable | DeclaredView | None:
        """Return what has this name, or None. Temporary tables and views come first."""

    def near(self, name: TableName) -> Sequence[str]:
        """Return names of tables and views that may have been meant, for an error's hint.

        All of the same database will do; the planner picks the nearest.
        """

    def setting(self, key: str) -> str | None:
        """Return what `SET` gave a key, or None."""


def qualified(name: Name, *, catalog: str, database: str) -> TableName:
    """Complete a name of one to three parts with the current catalog and database."""
    match name:
        case (table,):
            return TableName(catalog, database, table)
        case (inner, table):
            return TableName(catalog, inner, table)
        case (outer, inner, table):
            return TableName(outer, inner, table)
        case _:
            raise AssertionError(f"a table name of {len(name)} parts")
