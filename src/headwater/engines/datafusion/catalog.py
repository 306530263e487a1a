"""A storage as a catalog of DataFusion: `FROM hw.database.table`, as it is at each query."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from datafusion.catalog import CatalogProvider, Schema, SchemaProvider, Table

from headwater.client.sync.client import Client
from headwater.engines.datafusion.reading import in_words, table_of
from headwater.engines.storages import Place, opened
from headwater.engines.viewing import Asked


class Names(list[str]):
    """Be names that can be called for: DataFusion says that it does, and takes them as they are."""

    def __call__(self) -> set[str]:
        """Return the names."""
        return set(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage(CatalogProvider):
    """Be the databases of a storage."""

    at: Place
    lake: Mapping[str, str] | None = field(default=None, repr=False)

    @property
    def client(self) -> Client:
        """Return what reaches the storage."""
        return opened(self.at, lake=self.lake)

    def schema_names(self) -> set[str]:
        """Return the names of the databases."""
        return in_words(lambda: set(self.client.list_databases()))

    def schema(self, name: str) -> Schema | None:
        """Return a database, if there is one of that name."""
        return Database(storage=self, name=name) if name in self.schema_names() else None  # type: ignore[return-value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Database(SchemaProvider):
    """Be the tables of a database."""

    storage: Storage
    name: str

    @property
    def table_names(self) -> Names:
        """Return the names of the tables."""
        return Names(in_words(lambda: self.storage.client.list_tables(self.name)))

    def table_exist(self, name: str) -> bool:
        """Tell whether there is such a table."""
        return in_words(lambda: self.storage.client.table_exists(f"{self.name}.{name}"))

    def table(self, name: str) -> Table | None:
        """Return the rows of a table as they are now."""
        return table_of(self.storage.client, Asked(table=f"{self.name}.{name}"))
