"""The tables of the catalog and the versions of their schemas."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headwater.config.server import ServerSettings
from headwater.errors import TableExistsError
from headwater.model.descriptor import TableDescriptor
from headwater.model.path import TablePath, check_table_path
from headwater.model.schema import Schema
from headwater.model.table import TableInfo
from headwater.runtime.clock import Clock
from headwater.server.catalog.alter import altered
from headwater.server.catalog.changes import TableChange
from headwater.server.catalog.image import Image
from headwater.server.catalog.lake_rules import check_lake_alter, with_lake_format
from headwater.server.catalog.store import CatalogStore
from headwater.server.catalog.validation import accepted_table, checked_table


class Tables:
    """Create, change, drop and find tables."""

    def __init__(
        self, store: CatalogStore, image: Image, *, clock: Clock, settings: ServerSettings
    ) -> None:
        self._store = store
        self._image = image
        self._clock = clock
        self._settings = settings

    def list(self, database: str) -> tuple[str, ...]:
        """Return the names of a database's tables, sorted."""
        return tuple(info.path.table for info in self._image.tables_in(database))

    def all(self) -> tuple[TableInfo, ...]:
        """Return every table, sorted by path."""
        return tuple(self._image.tables[path] for path in sorted(self._image.tables))

    def ids(self) -> frozenset[int]:
        """Return the ids of all tables."""
        return frozenset(self._image.paths_by_id)

    def exists(self, path: TablePath) -> bool:
        """Tell whether a table is there."""
        return path in self._image.tables

    def info(self, path: TablePath) -> TableInfo:
        """Return a table, or say that it is missing."""
        return self._image.table(path)

    def by_id(self, table_id: int) -> TableInfo:
        """Return a table by its id, or tell the client to refresh its metadata."""
        return self._image.table_by_id(table_id)

    def schema(self, table_id: int, schema_id: int) -> Schema:
        """Return one version of a table's schema."""
        return self._image.schema(table_id, schema_id)

    def schemas(self, table_id: int) -> Mapping[int, Schema]:
        """Return every version of a table's schema by its id."""
        self.by_id(table_id)
        return dict(self._image.schemas[table_id])

    def create(
        self, path: TablePath, descriptor: TableDescriptor, *, ignore_if_exists: bool = False
    ) -> TableInfo:
        """Create a table and return it with all that the server fills in."""
        check_table_path(path)
        self._image.database(path.database)
        if self.exists(path):
            if ignore_if_exists:
                return self.info(path)
            raise TableExistsError(f"There is a table '{path}' already.")
        accepted = accepted_table(descriptor, settings=self._settings)
        now_ms = self._clock.now_ms()
        with self._store.transaction():
            table_id = self._store.insert_table(path, accepted, now_ms=now_ms)
        info = TableInfo(
            table_id=table_id,
            path=path,
            schema_id=1,
            descriptor=accepted,
            created_ms=now_ms,
            modified_ms=now_ms,
        )
        self._image.put_table(info)
        return info

    def alter(self, path: TablePath, changes: Sequence[TableChange]) -> TableInfo:
        """Apply all changes or none; only a changed schema makes a new schema version."""
        held = self.info(path)
        changed = altered(held.descriptor, changes)
        descriptor = checked_table(with_lake_format(changed, self._settings.datalake_format))
        check_lake_alter(held.descriptor, descriptor)
        if descriptor == held.descriptor:
            return held
        is_new_schema = descriptor.schema != held.descriptor.schema
        info = replace(
            held,
            descriptor=descriptor,
            schema_id=held.schema_id + is_new_schema,
            modified_ms=self._clock.now_ms(),
        )
        with self._store.transaction():
            if is_new_schema:
                self._store.insert_schema(info.table_id, info.schema_id, descriptor.schema)
            self._store.update_table(info)
        self._image.put_table(info)
        return info

    def drop(self, path: TablePath, *, ignore_if_missing: bool = False) -> TableInfo | None:
        """Drop a table with its partitions and return what it was."""
        if ignore_if_missing and not self.exists(path):
            return None
        info = self.info(path)
        with self._store.transaction():
            self._store.delete_table(info.table_id)
        self._image.remove_table(info)
        return info
