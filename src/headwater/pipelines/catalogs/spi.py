"""What a catalog does: it keeps databases, and in them tables and perhaps views."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from headwater.errors import UnsupportedError
from headwater.pipelines.sql.names import DeclaredTable, DeclaredView, TableName
from headwater.pipelines.sql.statements import Options, TableChange, TableDefinition


@dataclass(frozen=True, slots=True, kw_only=True)
class TableText:
    """What SHOW CREATE TABLE says beside the columns."""

    options: Options
    comment: str | None = None


class PipelineCatalog(Protocol):
    """Keeps databases, tables and views; names in its arguments are complete."""

    @property
    def options(self) -> Mapping[str, str]:
        """What `CREATE CATALOG … WITH` said."""

    @property
    def default_database(self) -> str:
        """The database that `USE CATALOG` makes current."""

    def databases(self) -> Sequence[str]:
        """The names of all databases."""

    def create_database(self, name: str, *, comment: str | None, options: Options) -> None:
        """Create a database; raises if it exists."""

    def drop_database(self, name: str, *, is_cascade: bool) -> None:
        """Drop a database; raises if it has tables, unless they go with it."""

    def tables(self, database: str) -> Sequence[str]:
        """The names of all tables of a database."""

    def views(self, database: str) -> Sequence[str]:
        """The names of all views of a database."""

    def find(self, name: TableName) -> DeclaredTable | DeclaredView | None:
        """What has this name."""

    def text(self, table: DeclaredTable) -> TableText:
        """What SHOW CREATE TABLE says of a table."""

    def create_table(self, name: TableName, definition: TableDefinition) -> None:
        """Create a table; raises if it exists."""

    def drop_table(self, name: TableName) -> None:
        """Drop a table that exists."""

    def alter_table(self, table: DeclaredTable, change: TableChange) -> None:
        """Change a table."""

    def put_view(self, view: DeclaredView) -> None:
        """Create or replace a view."""

    def drop_view(self, name: TableName) -> None:
        """Drop a view that exists."""

    def partitions(self, table: DeclaredTable) -> Sequence[Mapping[str, str]]:
        """The partitions of a table."""


def no_views(catalog: str) -> UnsupportedError:
    """Make the error for a catalog that keeps no views."""
    return UnsupportedError(
        f"The catalog '{catalog}' keeps no views.", hint="Write CREATE TEMPORARY VIEW."
    )


def cannot_alter(table: DeclaredTable, change: TableChange, *, hint: str) -> UnsupportedError:
    """Make the error for a change that a catalog cannot make."""
    words = "".join(
        f" {each.lower()}" if each.isupper() else each for each in type(change).__name__
    )
    return UnsupportedError(f"{table.name} cannot be changed by{words}.", hint=hint)
