"""The rows of the catalog file, and all of it in memory for reads."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from headwater import errors
from headwater.config.quotas import Created
from headwater.model.acl import Acl, Operation, Principal, Resource, ResourceKind, Rule
from headwater.model.path import PartitionSpec, TablePath, spec_of_name
from headwater.model.schema import Schema, schema_from_json, schema_to_json
from headwater.model.table import (
    TableDescriptor,
    TableInfo,
    descriptor_from_json,
    descriptor_to_json,
)
from headwater.model.type_json import Json
from headwater.server.catalog import lake_entries
from headwater.server.catalog.file import CatalogFile, Cell

# Refuses what a user would have created, if that is more than they may.
CheckCreated = Callable[[str, Created], None]
# How the notes begin that say who created a table.
_CREATOR = "creator "


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseInfo:
    """A database."""

    name: str
    comment: str | None = None
    custom_properties: Mapping[str, str] = field(default_factory=dict)
    created_ms: int
    modified_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInfo:
    """A partition; the spec is in the order of the partition keys."""

    partition_id: int
    table_id: int
    name: str
    spec: PartitionSpec


# The whole catalog in memory, which answers every read.


@dataclass(slots=True)
class Image:
    """The entries of the catalog; changed only after the file."""

    databases: dict[str, DatabaseInfo] = field(default_factory=dict)
    tables: dict[TablePath, TableInfo] = field(default_factory=dict)
    schemas: dict[int, dict[int, Schema]] = field(default_factory=dict)
    partitions: dict[int, dict[str, PartitionInfo]] = field(default_factory=dict)
    paths_by_id: dict[int, TablePath] = field(default_factory=dict)
    partitions_by_id: dict[int, PartitionInfo] = field(default_factory=dict)
    # Who created a table; not known of those that older versions created.
    creators: dict[int, str] = field(default_factory=dict)

    def database(self, name: str) -> DatabaseInfo:
        """Return a database by name."""
        if name not in self.databases:
            raise errors.DatabaseMissingError(f"There is no database '{name[:200]}'.")
        return self.databases[name]

    def table(self, path: TablePath) -> TableInfo:
        """Return a table by path."""
        if path not in self.tables:
            raise errors.TableMissingError(f"There is no table '{str(path)[:400]}'.")
        return self.tables[path]

    def table_by_id(self, table_id: int) -> TableInfo:
        """Return a table by id."""
        if table_id not in self.paths_by_id:
            raise errors.BucketMissingError(f"There is no table with the id {table_id}.")
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
            raise errors.SchemaMissingError(f"Table {table_id} has no schema version {schema_id}.")
        return versions[schema_id]

    def partition(self, table: TableInfo, name: str) -> PartitionInfo:
        """Return a partition of a table by name."""
        found = self.partitions[table.table_id].get(name)
        if found is None:
            raise errors.PartitionMissingError(
                f"There is no partition '{name[:200]}' of {table.path}."
            )
        return found

    def partition_by_id(self, partition_id: int) -> PartitionInfo:
        """Return a partition by id."""
        if partition_id not in self.partitions_by_id:
            raise errors.PartitionMissingError(f"There is no partition with the id {partition_id}.")
        return self.partitions_by_id[partition_id]

    def put_table(self, info: TableInfo) -> None:
        """Add a table, or replace it by a new version."""
        self.tables[info.path] = info
        self.paths_by_id[info.table_id] = info.path
        self.schemas.setdefault(info.table_id, {})[info.schema_id] = info.descriptor.schema
        self.partitions.setdefault(info.table_id, {})

    def remove_table(self, info: TableInfo) -> None:
        """Forget a table, its schemas and its partitions."""
        del self.tables[info.path]
        del self.paths_by_id[info.table_id]
        del self.schemas[info.table_id]
        self.creators.pop(info.table_id, None)
        for partition in self.partitions.pop(info.table_id).values():
            del self.partitions_by_id[partition.partition_id]

    def created_by(self, user: str) -> Created:
        """Count what a user has created."""
        tables = [self.table_by_id(each) for each, name in self.creators.items() if name == user]
        partitions = {table.table_id: len(self.partitions[table.table_id]) for table in tables}
        return Created(
            tables=len(tables),
            partitions=sum(partitions.values()),
            buckets=sum(
                table.bucket_count
                * (partitions[table.table_id] if table.descriptor.partition_keys else 1)
                for table in tables
            ),
        )

    def put_partition(self, info: PartitionInfo) -> None:
        """Add a partition."""
        self.partitions[info.table_id][info.name] = info
        self.partitions_by_id[info.partition_id] = info

    def remove_partition(self, info: PartitionInfo) -> None:
        """Forget a partition."""
        del self.partitions[info.table_id][info.name]
        del self.partitions_by_id[info.partition_id]


# The rows of the catalog file about the lake.


class LakeRows:
    """Write what is known of the lake as rows, and read it back."""

    def __init__(self, file: CatalogFile) -> None:
        self._file = file

    def records(self) -> dict[int, lake_entries.TieringRecord]:
        """Read the rounds of all tables."""
        rows = self._file.rows("SELECT table_id, turn, details FROM lake_tables")
        return {
            int(table_id or 0): lake_entries.tiering_record(int(turn or 0), str(details))
            for table_id, turn, details in rows
        }

    def put_record(self, table_id: int, record: lake_entries.TieringRecord) -> None:
        """Write the rounds of a table."""
        self._file.change(
            "INSERT INTO lake_tables VALUES (?, ?, ?) ON CONFLICT (table_id) DO UPDATE"
            " SET turn = excluded.turn, details = excluded.details",
            (table_id, record.turn, record.details()),
        )

    def snapshots(self) -> dict[int, tuple[lake_entries.ReportedLakeSnapshot, ...]]:
        """Read the snapshots of all tables, each in the order in which they were committed."""
        found: dict[int, tuple[lake_entries.ReportedLakeSnapshot, ...]] = {}
        for table_id, snapshot_id, committed_ms, details in self._file.rows(
            "SELECT table_id, snapshot_id, committed_ms, details FROM lake_snapshots"
            " ORDER BY position"
        ):
            snapshot = lake_entries.reported_snapshot(
                int(table_id or 0),
                int(snapshot_id or 0),
                committed_ms=int(committed_ms or 0),
                details=str(details),
            )
            found[snapshot.table_id] = (*found.get(snapshot.table_id, ()), snapshot)
        return found

    def put_snapshots(
        self, table_id: int, snapshots: Sequence[lake_entries.ReportedLakeSnapshot]
    ) -> None:
        """Replace the snapshots of a table."""
        self._file.change("DELETE FROM lake_snapshots WHERE table_id = ?", (table_id,))
        for each in snapshots:
            self._file.change(
                "INSERT INTO lake_snapshots (table_id, snapshot_id, committed_ms, details)"
                " VALUES (?, ?, ?, ?)",
                (each.table_id, each.snapshot_id, each.committed_ms, each.details()),
            )


# The rows of the catalog file and the entries they represent.


class CatalogStore:
    """Write entries as rows, and read all of them back."""

    def __init__(self, file: CatalogFile) -> None:
        self._file = file
        self.lake = LakeRows(file)

    @classmethod
    def open(cls, path: Path, *, now_ms: int, guard: Callable[[], None]) -> "CatalogStore":
        """Open the file at a path, creating it if missing; the guard may reject later changes."""
        return cls(CatalogFile.open(path, now_ms=now_ms, guard=guard))

    @classmethod
    def open_read_only(
        cls, path: Path, *, guard: Callable[[], None], reason: str
    ) -> "CatalogStore":
        """Open a file that cannot be written now."""
        return cls(CatalogFile.open_read_only(path, guard=guard, reason=reason))

    @property
    def read_only(self) -> str:
        """Why nothing can be changed; empty if it can."""
        return self._file.read_only

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def changes(self) -> int:
        """How often the catalog changed since it was opened."""
        return self._file.changes

    def content(self) -> bytes:
        """Return the bytes of the file, with everything that was committed."""
        return self._file.content()

    def transaction(self, *, counts: bool = True) -> AbstractContextManager[None]:
        """Make all changes inside durable together, or none of them."""
        return self._file.transaction(counts=counts)

    def load(self) -> Image:
        """Read the whole catalog."""
        image = Image()
        try:
            self._load_databases(image)
            self._load_tables(image)
            self._load_partitions(image)
        except (errors.RequestError, ValueError, KeyError, TypeError, AttributeError) as error:
            # Whatever cannot be parsed was not written by this program.
            raise errors.CorruptFileError(f"Cannot read the catalog: {error!r}.") from error
        return image

    def _load_databases(self, image: Image) -> None:
        for row in self._file.rows("SELECT name, details, created_ms, modified_ms FROM databases"):
            name, details = str(row[0]), json.loads(str(row[1]))
            image.databases[name] = DatabaseInfo(
                name=name,
                comment=details["comment"],
                custom_properties=details["custom_properties"],
                created_ms=_number(row[2]),
                modified_ms=_number(row[3]),
            )

    def _load_tables(self, image: Image) -> None:
        for row in self._file.rows(
            "SELECT table_id, database, name, schema_id, descriptor, created_ms, modified_ms"
            " FROM tables"
        ):
            info = TableInfo(
                table_id=_number(row[0]),
                path=TablePath(str(row[1]), str(row[2])),
                schema_id=_number(row[3]),
                descriptor=descriptor_from_json(_read(row[4])),
                created_ms=_number(row[5]),
                modified_ms=_number(row[6]),
            )
            image.put_table(info)
        for row in self._file.rows("SELECT table_id, schema_id, schema FROM schemas"):
            image.schemas[_number(row[0])][_number(row[1])] = schema_from_json(_read(row[2]))
        for key, user in self._file.rows(
            "SELECT key, value FROM meta WHERE key LIKE ?", (f"{_CREATOR}%",)
        ):
            table_id = int(str(key).removeprefix(_CREATOR))
            if table_id in image.paths_by_id:
                image.creators[table_id] = str(user)

    def _load_partitions(self, image: Image) -> None:
        for row in self._file.rows("SELECT partition_id, table_id, name FROM partitions"):
            table = image.table_by_id(_number(row[1]))
            info = PartitionInfo(
                partition_id=_number(row[0]),
                table_id=table.table_id,
                name=str(row[2]),
                spec=spec_of_name(str(row[2]), table.descriptor.partition_keys),
            )
            image.put_partition(info)

    def put_database(self, info: DatabaseInfo) -> None:
        """Insert a database, or update it."""
        details = {"comment": info.comment, "custom_properties": dict(info.custom_properties)}
        self._file.change(
            "INSERT INTO databases VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE"
            " SET details = excluded.details, modified_ms = excluded.modified_ms",
            (info.name, json.dumps(details), info.created_ms, info.modified_ms),
        )

    def delete_database(self, name: str) -> None:
        """Delete a database and its tables."""
        self._file.change(
            "DELETE FROM meta WHERE key IN (SELECT ? || table_id FROM tables WHERE database = ?)",
            (_CREATOR, name),
        )
        self._file.change("DELETE FROM tables WHERE database = ?", (name,))
        self._file.change("DELETE FROM databases WHERE name = ?", (name,))

    def insert_table(
        self, path: TablePath, descriptor: TableDescriptor, *, creator: str | None, now_ms: int
    ) -> int:
        """Insert a table under schema version 1 and return its id."""
        table_id = self._file.change(
            "INSERT INTO tables"
            " (database, name, schema_id, descriptor, created_ms, modified_ms)"
            " VALUES (?, ?, 1, ?, ?, ?)",
            (path.database, path.table, _table_text(descriptor), now_ms, now_ms),
        )
        self.insert_schema(table_id, 1, descriptor.schema)
        if creator is not None:
            self.put_note(f"{_CREATOR}{table_id}", creator)
        return table_id

    def update_table(self, info: TableInfo) -> None:
        """Write the new state of a table."""
        self._file.change(
            "UPDATE tables SET schema_id = ?, descriptor = ?, modified_ms = ? WHERE table_id = ?",
            (info.schema_id, _table_text(info.descriptor), info.modified_ms, info.table_id),
        )

    def insert_schema(self, table_id: int, schema_id: int, schema: Schema) -> None:
        """Insert a version of a table's schema."""
        text = json.dumps(schema_to_json(schema))
        self._file.change("INSERT INTO schemas VALUES (?, ?, ?)", (table_id, schema_id, text))

    def delete_table(self, table_id: int) -> None:
        """Delete a table, its schemas, partitions and row numbers."""
        self._file.change("DELETE FROM tables WHERE table_id = ?", (table_id,))
        self._file.change("DELETE FROM meta WHERE key = ?", (f"{_CREATOR}{table_id}",))

    def insert_partition(self, table_id: int, name: str) -> int:
        """Insert a partition and return its id."""
        return self._file.change(
            "INSERT INTO partitions (table_id, name) VALUES (?, ?)", (table_id, name)
        )

    def delete_partition(self, partition_id: int) -> None:
        """Delete a partition."""
        self._file.change("DELETE FROM partitions WHERE partition_id = ?", (partition_id,))

    def last_number(self, table_id: int) -> int:
        """Read the last number that was reserved for rows of a table, or 0."""
        found = self._file.rows("SELECT last FROM row_numbers WHERE table_id = ?", (table_id,))
        return _number(found[0][0]) if found else 0

    def put_last_number(self, table_id: int, last: int) -> None:
        """Write the last number that is reserved for rows of a table."""
        self._file.change(
            "INSERT INTO row_numbers VALUES (?, ?) ON CONFLICT (table_id) DO UPDATE"
            " SET last = excluded.last",
            (table_id, last),
        )

    def skip_ids(self, table: str, last: int) -> bool:
        """Skip ids up to `last` for new rows of a table, and tell whether that was needed."""
        found = self._file.rows("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,))
        if last <= (_number(found[0][0]) if found else 0):
            return False
        self._file.change("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
        self._file.change("INSERT INTO sqlite_sequence VALUES (?, ?)", (table, last))
        return True

    def writer_blocks(self) -> dict[int, str]:
        """Read the owner of each block of writer ids."""
        rows = self._file.rows("SELECT block, owner FROM writer_blocks")
        return {_number(row[0]): str(row[1]) for row in rows}

    def add_writer_block(self, block: int, owner: str, *, kept_max: int) -> None:
        """Record the owner of a block of writer ids, and forget the oldest of too many."""
        position = self._file.change(
            "INSERT INTO writer_blocks (block, owner) VALUES (?, ?)", (block, owner)
        )
        self._file.change("DELETE FROM writer_blocks WHERE position <= ?", (position - kept_max,))

    def acls(self) -> list[Acl]:
        """Read all permissions."""
        rows = self._file.rows(
            "SELECT resource_kind, resource_name, principal_kind, principal_name, operation, host,"
            " rule FROM acls"
        )
        try:
            return [
                Acl(
                    Resource(ResourceKind(_number(row[0])), str(row[1])),
                    Principal(str(row[2]), str(row[3])),
                    Operation(_number(row[4])),
                    str(row[5]),
                    _rule(str(row[6])),
                )
                for row in rows
            ]
        except (ValueError, TypeError, KeyError) as error:
            raise errors.CorruptFileError(f"Cannot read the permissions: {error!r}.") from error

    def insert_acl(self, acl: Acl) -> None:
        """Insert a permission."""
        cells = (*_acl_cells(acl), _rule_text(acl.rule))
        self._file.change("INSERT INTO acls VALUES (?, ?, ?, ?, ?, ?, ?)", cells)

    def delete_acl(self, acl: Acl) -> None:
        """Delete a permission."""
        self._file.change(
            "DELETE FROM acls WHERE resource_kind = ? AND resource_name = ? AND principal_kind = ?"
            " AND principal_name = ? AND operation = ? AND host = ?",
            _acl_cells(acl),
        )

    def note(self, key: str) -> str:
        """Read one of the single values of the catalog."""
        found = self.note_if_any(key)
        if found is None:
            raise errors.CorruptFileError(f"The catalog has no '{key}'.")
        return found

    def note_if_any(self, key: str) -> str | None:
        """Read a single value that catalogs of older versions do not have."""
        found = self._file.rows("SELECT value FROM meta WHERE key = ?", (key,))
        return str(found[0][0]) if found else None

    def notes_under(self, prefix: str) -> dict[str, str]:
        """Read the values whose keys begin with a text."""
        found = self._file.rows(
            "SELECT key, value FROM meta WHERE substr(key, 1, ?) = ? ORDER BY key",
            (len(prefix), prefix),
        )
        return {str(key): str(value) for key, value in found}

    def remove_note(self, key: str) -> None:
        """Remove a value, if it is there."""
        self._file.change("DELETE FROM meta WHERE key = ?", (key,))

    def put_note(self, key: str, value: str) -> None:
        """Write one of the single values of the catalog."""
        self._file.change(
            "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (key, value),
        )


def _acl_cells(acl: Acl) -> tuple[Cell, ...]:
    resource, principal = acl.resource, acl.principal
    return (
        int(resource.kind),
        resource.name,
        principal.kind,
        principal.name,
        int(acl.operation),
        acl.host,
    )


def _rule_text(rule: Rule | None) -> str:
    if rule is None:
        return ""
    node = {
        "table_id": rule.table_id,
        "columns": rule.columns,
        "predicate": rule.predicate.hex(),
    }
    return json.dumps(node)


def _rule(text: str) -> Rule | None:
    if not text:
        return None
    node = json.loads(text)
    columns = tuple(map(_number, node["columns"]))
    return Rule(_number(node["table_id"]), columns, bytes.fromhex(node["predicate"]))


def _table_text(descriptor: TableDescriptor) -> str:
    return json.dumps(descriptor_to_json(descriptor))


def _read(cell: Cell) -> Json:
    value: Json = json.loads(str(cell))
    return value


def _number(cell: Cell) -> int:
    if not isinstance(cell, int):
        raise TypeError(f"expected a whole number, found {cell!r}")
    return cell
