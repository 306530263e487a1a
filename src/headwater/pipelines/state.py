"""What a session knows: catalogs, where it is in them, temporary tables and views, settings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from headwater.config.values import shown
from headwater.errors import ConflictError, InvalidOptionError, MissingError, TableExistsError
from headwater.pipelines.catalogs.fluss import FlussCatalog
from headwater.pipelines.catalogs.memory import MemoryCatalog
from headwater.pipelines.catalogs.spark import CLASSES, SparkTables
from headwater.pipelines.catalogs.spi import PipelineCatalog, TableText
from headwater.pipelines.settings import SessionSettings
from headwater.pipelines.sql.faults import meant
from headwater.pipelines.sql.names import (
    DEFAULT_CATALOG,
    DEFAULT_DATABASE,
    DeclaredTable,
    DeclaredView,
    TableName,
    qualified,
)
from headwater.pipelines.sql.statements import Name, Options, TableDefinition
from headwater.pipelines.tables import declared, missing_database

_TYPE = "type"
_MEMORY = "generic_in_memory"


@dataclass(slots=True)
class SessionState:
    """The names of a session; what the planner asks."""

    spark: SparkSession
    settings: SessionSettings
    catalogs: dict[str, PipelineCatalog] = field(default_factory=dict)
    catalog: str = DEFAULT_CATALOG
    database: str = DEFAULT_DATABASE
    temporary: dict[TableName, TableDefinition | DeclaredView] = field(default_factory=dict)
    materialized: set[TableName] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.catalogs.setdefault(DEFAULT_CATALOG, MemoryCatalog({_TYPE: _MEMORY}))

    # ---- what the planner asks

    def find(self, name: TableName) -> DeclaredTable | DeclaredView | None:
        """What has this name; temporary tables and views come first."""
        held = self.temporary.get(name)
        if held is not None:
            return declared(name, held) if isinstance(held, TableDefinition) else held
        catalog = self.catalogs.get(name.catalog)
        return None if catalog is None else catalog.find(name)

    def near(self, name: TableName) -> Sequence[str]:
        """Names of tables and views that may have been meant."""
        catalog = self.catalogs.get(name.catalog)
        place = (name.catalog, name.database)
        names = [n.table for n in self.temporary if (n.catalog, n.database) == place]
        if catalog is not None and name.database in catalog.databases():
            names += [*catalog.tables(name.database), *catalog.views(name.database)]
        return sorted(names)

    def setting(self, key: str) -> str | None:
        """What `SET` gave a key."""
        return self.settings.values.get(key)

    # ---- where it is

    def full(self, name: Name) -> TableName:
        """Complete a name with the current catalog and database."""
        return qualified(name, catalog=self.catalog, database=self.database)

    def place(self, name: Name) -> tuple[str, str]:
        """Complete the name of a database with the current catalog."""
        match name:
            case ():
                return self.catalog, self.database
            case (database,):
                return self.catalog, database
            case (catalog, database):
                return catalog, database
            case _:
                raise MissingError(f"There is no database '{'.'.join(name)}'.")

    def the_catalog(self, name: str) -> PipelineCatalog:
        """The catalog of a name; raises if there is none."""
        if name not in self.catalogs:
            raise MissingError(
                f"There is no catalog '{name}'.",
                hint=f"{meant(name, self.catalogs)} The catalogs are "
                f"{', '.join(sorted(self.catalogs))}.".strip(),
            )
        return self.catalogs[name]

    def use_catalog(self, name: str) -> None:
        """Make a catalog current, with its default database."""
        database = self.the_catalog(name).default_database
        self.catalog, self.database = name, database

    def use_database(self, name: Name) -> None:
        """Make a database current."""
        catalog, database = self.place(name)
        known = self.the_catalog(catalog).databases()
        if database not in known:
            raise missing_database(database, known)
        self.catalog, self.database = catalog, database

    # ---- catalogs

    def create_catalog(self, name: str, options: Options, *, if_not_exists: bool) -> bool:
        """Create a catalog; returns whether it is new."""
        if name in self.catalogs:
            if if_not_exists:
                return False
            raise ConflictError(
                f"The catalog '{name}' already exists.",
                hint="Write CREATE CATALOG IF NOT EXISTS, or DROP CATALOG first.",
            )
        self.catalogs[name] = self._opened(name, options)
        return True

    def _opened(self, name: str, options: Options) -> PipelineCatalog:
        kinds: Mapping[str, Callable[[], PipelineCatalog]] = {
            "fluss": lambda: FlussCatalog.of(name, options),
            _MEMORY: lambda: MemoryCatalog(
                options, options.get("default-database", DEFAULT_DATABASE)
            ),
            **dict.fromkeys(CLASSES, lambda: SparkTables.of(name, options, self.spark)),
        }
        kind = options.get(_TYPE)
        if kind is None or kind not in kinds:
            said = "has no type" if kind is None else f"has the unknown type {shown(kind)}"
            raise InvalidOptionError(
                f"The catalog '{name}' {said}.",
                hint=f"{meant(kind or '', kinds)} Types are {', '.join(sorted(kinds))}.".strip(),
            )
        return kinds[kind]()

    def drop_catalog(self, name: str, *, if_exists: bool) -> bool:
        """Forget a catalog; its tables stay where they are. Returns whether there was one."""
        if if_exists and name not in self.catalogs:
            return False
        self.the_catalog(name)
        if name == self.catalog:
            raise ConflictError(
                f"The catalog '{name}' is in use.", hint="Write USE CATALOG with another first."
            )
        del self.catalogs[name]
        return True

    # ---- tables and views

    def table(self, name: TableName) -> DeclaredTable:
        """A table; raises if there is none, or if it is a view."""
        found = self.find(name)
        if isinstance(found, DeclaredTable):
            return found
        what = "is a view" if found is not None else "does not exist"
        raise MissingError(
            f"{name} {what}.", hint=meant(name.table, self.near(name)) or "SHOW TABLES lists them."
        )

    def text(self, table: DeclaredTable) -> TableText:
        """What SHOW CREATE TABLE says of a table."""
        held = self.temporary.get(table.name)
        if isinstance(held, TableDefinition):
            return TableText(options=held.options, comment=held.comment)
        return self.the_catalog(table.name.catalog).text(table)

    def put_temporary(
        self, name: TableName, made: TableDefinition | DeclaredView, *, replaces: bool = False
    ) -> None:
        """Create a temporary table or view."""
        if name in self.temporary and not replaces:
            raise TableExistsError(f"The temporary {name} already exists.")
        if isinstance(made, TableDefinition):
            declared(name, made)
        self.temporary[name] = made
