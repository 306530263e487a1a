"""The catalog `generic_in_memory`: tables with connectors and views, gone with the session."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from headwater.errors import (
    DatabaseExistsError,
    DatabaseNotEmptyError,
    TableExistsError,
)
from headwater.pipelines.catalogs.spi import TableText, cannot_alter
from headwater.pipelines.connectors.spi import CONNECTOR
from headwater.pipelines.sql import statements
from headwater.pipelines.sql.names import (
    DEFAULT_DATABASE,
    DeclaredTable,
    DeclaredView,
    TableName,
)
from headwater.pipelines.tables import declared, missing_database


@dataclass(slots=True)
class MemoryCatalog:
    """Tables and views of one session."""

    options: Mapping[str, str]
    default_database: str = DEFAULT_DATABASE
    _databases: dict[str, dict[str, statements.TableDefinition | DeclaredView]] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        self._databases.setdefault(self.default_database, {})

    def databases(self) -> Sequence[str]:
        """The names of all databases."""
        return sorted(self._databases)

    def create_database(
        self, name: str, *, comment: str | None, options: statements.Options
    ) -> None:
        """Create a database; it keeps neither comment nor options, as nothing asks for them."""
        del comment, options
        if name in self._databases:
            raise DatabaseExistsError(f"The database '{name}' already exists.")
        self._databases[name] = {}

    def drop_database(self, name: str, *, is_cascade: bool) -> None:
        """Drop a database."""
        if self._database(name) and not is_cascade:
            raise DatabaseNotEmptyError(
                f"The database '{name}' has tables.", hint="Write DROP DATABASE … CASCADE."
            )
        del self._databases[name]

    def tables(self, database: str) -> Sequence[str]:
        """The names of all tables of a database."""
        held = self._database(database)
        return sorted(
            name for name, each in held.items() if isinstance(each, statements.TableDefinition)
        )

    def views(self, database: str) -> Sequence[str]:
        """The names of all views of a database."""
        held = self._database(database)
        return sorted(name for name, each in held.items() if isinstance(each, DeclaredView))

    def find(self, name: TableName) -> DeclaredTable | DeclaredView | None:
        """What has this name."""
        found = self._databases.get(name.database, {}).get(name.table)
        return declared(name, found) if isinstance(found, statements.TableDefinition) else found

    def text(self, table: DeclaredTable) -> TableText:
        """What SHOW CREATE TABLE says of a table."""
        held = self._definition(table.name)
        return TableText(options=held.options, comment=held.comment)

    def create_table(self, name: TableName, definition: statements.TableDefinition) -> None:
        """Create a table."""
        held = self._database(name.database)
        if name.table in held:
            raise TableExistsError(f"{name} already exists.")
        declared(name, definition)
        held[name.table] = definition

    def drop_table(self, name: TableName) -> None:
        """Drop a table."""
        del self._database(name.database)[name.table]

    def alter_table(self, table: DeclaredTable, change: statements.TableChange) -> None:
        """Change a definition."""
        held = self._definition(table.name)
        if isinstance(change, statements.RenameTable):
            name = replace(table.name, table=change.to[-1])
            self.create_table(name, held)
            self.drop_table(table.name)
            return
        changed = altered(held, table, change)
        declared(table.name, changed)
        self._databases[table.name.database][table.name.table] = changed

    def put_view(self, view: DeclaredView) -> None:
        """Create or replace a view."""
        self._database(view.name.database)[view.name.table] = view

    def drop_view(self, name: TableName) -> None:
        """Drop a view."""
        del self._database(name.database)[name.table]

    def partitions(self, table: DeclaredTable) -> Sequence[Mapping[str, str]]:
        """None: what partitions there are is known to the connector only."""
        del table
        return ()

    def _database(self, name: str) -> dict[str, statements.TableDefinition | DeclaredView]:
        if name not in self._databases:
            raise missing_database(name, self.databases())
        return self._databases[name]

    def _definition(self, name: TableName) -> statements.TableDefinition:
        found = self._database(name.database)[name.table]
        assert isinstance(found, statements.TableDefinition)
        return found


def altered(
    held: statements.TableDefinition, table: DeclaredTable, change: statements.TableChange
) -> statements.TableDefinition:
    """A definition after a change."""
    match change:
        case statements.SetTableOptions(options=options):
            return replace(held, options={**held.options, **options})
        case statements.ResetTableOptions(keys=keys):
            kept = {key: text for key, text in held.options.items() if key not in keys}
            return replace(held, options={CONNECTOR: held.options[CONNECTOR], **kept})
        case statements.AddTableColumns(columns=added):
            return replace(held, columns=reduce(_placed, added, held.columns))
        case statements.ModifyTableColumns(columns=modified):
            return replace(held, columns=_modified(held.columns, modified))
        case statements.DropTableColumns(columns=names):
            return replace(held, columns=tuple(c for c in held.columns if c.name not in names))
        case statements.RenameTableColumn(column=old, to=new):
            renamed = tuple(replace(c, name=new) if c.name == old else c for c in held.columns)
            key = tuple(new if name == old else name for name in held.key)
            return replace(held, columns=renamed, key=key)
        case statements.SetTableWatermark(watermark=watermark):
            return replace(held, watermark=watermark)
        case _:
            raise cannot_alter(table, change, hint="Its connector decides about its partitions.")


def _placed(
    columns: tuple[statements.TableColumn, ...], new: statements.PlacedColumn
) -> tuple[statements.TableColumn, ...]:
    names = [each.name for each in columns]
    if new.column.name in names:
        raise TableExistsError(f"There already is a column '{new.column.name}'.")
    at = 0 if new.is_first else len(columns)
    if new.after is not None:
        at = names.index(new.after) + 1
    return (*columns[:at], new.column, *columns[at:])


def _modified(
    columns: tuple[statements.TableColumn, ...], changes: Sequence[statements.PlacedColumn]
) -> tuple[statements.TableColumn, ...]:
    for change in changes:
        others = tuple(each for each in columns if each.name != change.column.name)
        at = next(n for n, each in enumerate(columns) if each.name == change.column.name)
        is_moved = change.is_first or change.after is not None
        columns = (
            _placed(others, change) if is_moved else (*others[:at], change.column, *others[at:])
        )
    return columns
