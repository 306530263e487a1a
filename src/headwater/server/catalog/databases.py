"""The databases of the catalog."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from headwater.errors import DatabaseExistsError, DatabaseNotEmptyError
from headwater.model.path import check_database_name, check_properties
from headwater.model.table import TableInfo
from headwater.runtime.clock import Clock
from headwater.server.catalog.entries import DatabaseInfo
from headwater.server.catalog.image import Image
from headwater.server.catalog.store import CatalogStore


class Databases:
    """Create, change, drop and find databases."""

    def __init__(self, store: CatalogStore, image: Image, *, clock: Clock) -> None:
        self._store = store
        self._image = image
        self._clock = clock

    def list(self) -> tuple[str, ...]:
        """Return the names of all databases, sorted."""
        return tuple(sorted(self._image.databases))

    def exists(self, name: str) -> bool:
        """Tell whether a database is there."""
        return name in self._image.databases

    def info(self, name: str) -> DatabaseInfo:
        """Return a database, or say that it is missing."""
        return self._image.database(name)

    def create(
        self,
        name: str,
        *,
        comment: str | None = None,
        custom_properties: Mapping[str, str] | None = None,
        ignore_if_exists: bool = False,
    ) -> DatabaseInfo:
        """Create a database and return it."""
        check_database_name(name)
        check_properties(custom_properties or {})
        if self.exists(name):
            if ignore_if_exists:
                return self.info(name)
            raise DatabaseExistsError(f"There is a database '{name}' already.")
        now_ms = self._clock.now_ms()
        info = DatabaseInfo(
            name=name,
            comment=comment,
            custom_properties=dict(custom_properties or {}),
            created_ms=now_ms,
            modified_ms=now_ms,
        )
        return self._put(info)

    def alter(
        self,
        name: str,
        *,
        set_properties: Mapping[str, str] | None = None,
        reset_properties: Collection[str] = (),
        comment: str | None = None,
    ) -> DatabaseInfo:
        """Set, then reset custom properties; a comment of None stays, an empty one is removed."""
        held = self.info(name)
        check_properties(set_properties or {})
        properties = {**held.custom_properties, **(set_properties or {})}
        kept = {key: value for key, value in properties.items() if key not in reset_properties}
        said = held.comment if comment is None else comment or None
        changed = replace(held, comment=said, custom_properties=kept)
        if changed == held:
            return held
        return self._put(replace(changed, modified_ms=self._clock.now_ms()))

    def drop(
        self, name: str, *, cascade: bool = False, ignore_if_missing: bool = False
    ) -> tuple[TableInfo, ...]:
        """Drop a database and, with `cascade`, its tables; return the tables dropped."""
        if ignore_if_missing and not self.exists(name):
            return ()
        tables = self._image.tables_in(name)
        if tables and not cascade:
            raise DatabaseNotEmptyError(
                f"The database '{name}' still holds {len(tables)} tables.",
                hint="Drop them first, or drop the database with cascade.",
            )
        with self._store.transaction():
            self._store.delete_database(name)
        for table in tables:
            self._image.remove_table(table)
        del self._image.databases[name]
        return tables

    def _put(self, info: DatabaseInfo) -> DatabaseInfo:
        with self._store.transaction():
            self._store.put_database(info)
        self._image.databases[info.name] = info
        return info
