"""All of the catalog in memory, from which every read is answered."""

from dataclasses import dataclass, field

from headwater.errors import (
    BucketMissingError,
    DatabaseMissingError,
    PartitionMissingError,
    SchemaMissingError,
    TableMissingError,
)
from headwater.model.path import TablePath
from headwater.model.schema import Schema
from headwater.model.table import TableInfo
from headwater.server.catalog.entries import DatabaseInfo, PartitionInfo


@dataclass(slots=True)
class Image:
    """Hold the entries of the catalog; changed only after the file has been."""

    databases: dict[str, DatabaseInfo] = field(default_factory=dict)
    tables: dict[TablePath, TableInfo] = field(default_factory=dict)
    schemas: dict[int, dict[int, Schema]] = field(default_factory=dict)
    partitions: dict[int, dict[str, PartitionInfo]] = field(default_factory=dict)
    paths_by_id: dict[int, TablePath] = field(default_factory=dict)
    partitions_by_id: dict[int, PartitionInfo] = field(default_factory=dict)

    def database(self, name: str) -> DatabaseInfo:
        """Return a database by name."""
        if name not in self.databases:
            raise DatabaseMissingError(f"There is no database '{name[:200]}'.")
        return self.databases[name]

    def table(self, path: TablePath) -> TableInfo:
        """Return a table by path."""
        if path not in self.tables:
            raise TableMissingError(f"There is no table '{str(path)[:400]}'.")
        return self.tables[path]

    def table_by_id(self, table_id: int) -> TableInfo:
        """Return a table by id."""
        if table_id not in self.paths_by_id:
            raise BucketMissingError(f"There is no table with the id {table_id}.")
        return self.tables[self.paths_by_id[table_id]]

    def tables_in(self, database: str) -> tuple[TableInfo, ...]:
        """Return the tables of a database by name."""
        self.database(database)
        found = [info for path, info in self.tables.items() if path.database == database]
        return tuple(sorted(found, key=lambda info: info.path))

    def schema(self, table_id: int, schema_id: int) -> Schema:
        """Return one version of a table's schema."""
        versions = self.schemas[self.table_by_id(table_id).table_id]
        if schema_id not in versions:
            raise SchemaMissingError(f"Table {table_id} has no schema version {schema_id}.")
        return versions[schema_id]

    def partition(self, table: TableInfo, name: str) -> PartitionInfo:
        """Return a partition of a table by name."""
        found = self.partitions[table.table_id].get(name)
        if found is None:
            raise PartitionMissingError(f"There is no partition '{name[:200]}' of {table.path}.")
        return found

    def partition_by_id(self, partition_id: int) -> PartitionInfo:
        """Return a partition by id."""
        if partition_id not in self.partitions_by_id:
            raise PartitionMissingError(f"There is no partition with the id {partition_id}.")
        return self.partitions_by_id[partition_id]

    def put_table(self, info: TableInfo) -> None:
        """Add a table, or take a new state of it with its current schema."""
        self.tables[info.path] = info
        self.paths_by_id[info.table_id] = info.path
        self.schemas.setdefault(info.table_id, {})[info.schema_id] = info.descriptor.schema
        self.partitions.setdefault(info.table_id, {})

    def remove_table(self, info: TableInfo) -> None:
        """Forget a table, its schemas and its partitions."""
        del self.tables[info.path]
        del self.paths_by_id[info.table_id]
        del self.schemas[info.table_id]
        for partition in self.partitions.pop(info.table_id).values():
            del self.partitions_by_id[partition.partition_id]

    def put_partition(self, info: PartitionInfo) -> None:
        """Add a partition."""
        self.partitions[info.table_id][info.name] = info
        self.partitions_by_id[info.partition_id] = info

    def remove_partition(self, info: PartitionInfo) -> None:
        """Forget a partition."""
        del self.partitions[info.table_id][info.name]
        del self.partitions_by_id[info.partition_id]
