"""The databases and tables of the catalog, and the versions of their schemas."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from headwater.config.options import AUTO_PARTITION_TIME_FORMAT
from headwater.config.server import ServerSettings
from headwater.config.spellings import check_database_option
from headwater.errors import DatabaseExistsError, DatabaseNotEmptyError, TableExistsError
from headwater.model.path import TablePath, check_database_name, check_properties, check_table_path
from headwater.model.schema import Schema
from headwater.model.table import TableDescriptor, TableInfo
from headwater.runtime.clock import Clock
from headwater.server.catalog.alter import TableChange, altered
from headwater.server.catalog.lake_rules import check_lake_alter, with_lake_format
from headwater.server.catalog.store import CatalogStore, CheckCreated, DatabaseInfo, Image
from headwater.server.catalog.validation import accepted_table, checked_table


class Databases:
    """Create, change, drop and find databases."""

    def __init__(self, store: CatalogStore, image: Image, *, clock: Clock) -> None:
        self._store = store
        self._image = image
        self._clock = clock

    def list(self) -> tuple[str, ...]:
        """List the names of all databases, sorted."""
        return tuple(sorted(self._image.databases))

    def exists(self, name: str) -> bool:
        """Tell whether a database exists."""
        return name in self._image.databases

    def info(self, name: str) -> DatabaseInfo:
        """Return a database; a missing one is an error."""
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
        _check_described(custom_properties or {})
        if self.exists(name):
            if ignore_if_exists:
                return self.info(name)
            raise DatabaseExistsError(f"There is already a database '{name}'.")
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
        _check_described(set_properties or {})
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
                f"The database '{name}' still contains {len(tables)} tables.",
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


def _check_described(properties: Mapping[str, str]) -> None:
    check_properties(properties)
    for name in properties:
        check_database_option(name)


class Tables:
    """Create, alter, drop and find tables."""

    def __init__(
        self,
        store: CatalogStore,
        image: Image,
        *,
        clock: Clock,
        settings: ServerSettings,
        check_created: CheckCreated | None = None,
    ) -> None:
        self._store = store
        self._image = image
        self._clock = clock
        self._settings = settings
        self._check_created = check_created

    def list(self, database: str) -> tuple[str, ...]:
        """List the names of a database's tables, sorted."""
        return tuple(info.path.table for info in self._image.tables_in(database))

    def all(self) -> tuple[TableInfo, ...]:
        """List every table, sorted by path."""
        return tuple(self._image.tables[path] for path in sorted(self._image.tables))

    def ids(self) -> frozenset[int]:
        """Collect the ids of all tables."""
        return frozenset(self._image.paths_by_id)

    def exists(self, path: TablePath) -> bool:
        """Tell whether a table exists."""
        return path in self._image.tables

    def info(self, path: TablePath) -> TableInfo:
        """Return a table; a missing one is an error."""
        return self._image.table(path)

    def by_id(self, table_id: int) -> TableInfo:
        """Return a table by its id; a missing one makes clients refresh their metadata."""
        return self._image.table_by_id(table_id)

    def schema(self, table_id: int, schema_id: int) -> Schema:
        """Return one version of a table's schema."""
        return self._image.schema(table_id, schema_id)

    def schemas(self, table_id: int) -> Mapping[int, Schema]:
        """Map ids to all versions of a table's schema."""
        self.by_id(table_id)
        return dict(self._image.schemas[table_id])

    def create(
        self,
        path: TablePath,
        descriptor: TableDescriptor,
        *,
        creator: str | None = None,
        ignore_if_exists: bool = False,
    ) -> TableInfo:
        """Create a table and return it with all defaults filled in."""
        check_table_path(path)
        self._image.database(path.database)
        if self.exists(path):
            if ignore_if_exists:
                return self.info(path)
            raise TableExistsError(f"There is already a table '{path}'.")
        accepted = accepted_table(descriptor, settings=self._settings)
        self._check_limits(creator, accepted)
        now_ms = self._clock.now_ms()
        with self._store.transaction():
            table_id = self._store.insert_table(path, accepted, creator=creator, now_ms=now_ms)
        if creator is not None:
            self._image.creators[table_id] = creator
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

    def _check_limits(self, creator: str | None, wanted: TableDescriptor) -> None:
        """Refuse a table if its creator would have more than they may."""
        if self._check_created is None or creator is None:
            return
        held = self._image.created_by(creator)
        buckets = 0 if wanted.partition_keys else wanted.bucket_count or 1
        self._check_created(
            creator, replace(held, tables=held.tables + 1, buckets=held.buckets + buckets)
        )

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

    def set_time_format(self, path: TablePath, pattern: str) -> TableInfo:
        """Give automatic partitions the format of their values, for a table that has none."""
        held = self.info(path)
        properties = {**held.descriptor.properties, AUTO_PARTITION_TIME_FORMAT.name: pattern}
        descriptor = checked_table(replace(held.descriptor, properties=properties))
        info = replace(held, descriptor=descriptor, modified_ms=self._clock.now_ms())
        with self._store.transaction():
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
