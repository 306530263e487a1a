"""The rows of the catalog file and the entries they stand for."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from headwater.errors import CorruptFileError, RequestError
from headwater.model.descriptor import (
    TableDescriptor,
    descriptor_from_json,
    descriptor_to_json,
)
from headwater.model.partition import spec_of_name
from headwater.model.path import TablePath
from headwater.model.schema import Schema, schema_from_json, schema_to_json
from headwater.model.table import TableInfo
from headwater.model.type_json import Json
from headwater.server.catalog.entries import DatabaseInfo, PartitionInfo
from headwater.server.catalog.file import CatalogFile, Cell
from headwater.server.catalog.image import Image
from headwater.server.catalog.lake_rows import LakeRows


class CatalogStore:
    """Write entries as rows, and read all of them back."""

    def __init__(self, file: CatalogFile) -> None:
        self._file = file
        self.lake = LakeRows(file)

    @classmethod
    def open(cls, path: Path, *, now_ms: int, guard: Callable[[], None]) -> "CatalogStore":
        """Open the file at a path, making it if missing; the guard may refuse later changes."""
        return cls(CatalogFile.open(path, now_ms=now_ms, guard=guard))

    @classmethod
    def open_read_only(
        cls, path: Path, *, guard: Callable[[], None], reason: str
    ) -> "CatalogStore":
        """Open a file that cannot be written now."""
        return cls(CatalogFile.open_read_only(path, guard=guard, reason=reason))

    @property
    def read_only(self) -> str:
        """Return why nothing can be changed; empty if it can."""
        return self._file.read_only

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def transaction(self) -> AbstractContextManager[None]:
        """Make all changes inside durable together, or none of them."""
        return self._file.transaction()

    def load(self) -> Image:
        """Read the whole catalog."""
        image = Image()
        try:
            self._load_databases(image)
            self._load_tables(image)
            self._load_partitions(image)
        except (RequestError, ValueError, KeyError, TypeError, AttributeError) as error:
            # Whatever cannot be read back was never written by this program in this form.
            raise CorruptFileError(f"The catalog cannot be read: {error!r}.") from error
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
        """Insert a database, or update it if it is there."""
        details = {"comment": info.comment, "custom_properties": dict(info.custom_properties)}
        self._file.change(
            "INSERT INTO databases VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE"
            " SET details = excluded.details, modified_ms = excluded.modified_ms",
            (info.name, json.dumps(details), info.created_ms, info.modified_ms),
        )

    def delete_database(self, name: str) -> None:
        """Delete a database and its tables."""
        self._file.change("DELETE FROM tables WHERE database = ?", (name,))
        self._file.change("DELETE FROM databases WHERE name = ?", (name,))

    def insert_table(self, path: TablePath, descriptor: TableDescriptor, *, now_ms: int) -> int:
        """Insert a table under schema version 1 and return its id."""
        table_id = self._file.change(
            "INSERT INTO tables"
            " (database, name, schema_id, descriptor, created_ms, modified_ms)"
            " VALUES (?, ?, 1, ?, ?, ?)",
            (path.database, path.table, _table_text(descriptor), now_ms, now_ms),
        )
        self.insert_schema(table_id, 1, descriptor.schema)
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

    def insert_partition(self, table_id: int, name: str) -> int:
        """Insert a partition and return its id."""
        return self._file.change(
            "INSERT INTO partitions (table_id, name) VALUES (?, ?)", (table_id, name)
        )

    def delete_partition(self, partition_id: int) -> None:
        """Delete a partition."""
        self._file.change("DELETE FROM partitions WHERE partition_id = ?", (partition_id,))

    def last_number(self, table_id: int) -> int:
        """Return the last number that was reserved for rows of a table, or 0."""
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
        """Give only ids after one to new rows of a table, and tell whether that was needed."""
        found = self._file.rows("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,))
        if last <= (_number(found[0][0]) if found else 0):
            return False
        self._file.change("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
        self._file.change("INSERT INTO sqlite_sequence VALUES (?, ?)", (table, last))
        return True

    def writer_blocks(self) -> dict[int, str]:
        """Return to whom the ids of each block were handed out."""
        rows = self._file.rows("SELECT block, owner FROM writer_blocks")
        return {_number(row[0]): str(row[1]) for row in rows}

    def add_writer_block(self, block: int, owner: str, *, kept_max: int) -> None:
        """Write to whom the ids of a block are handed out, and forget the oldest of too many."""
        position = self._file.change(
            "INSERT INTO writer_blocks (block, owner) VALUES (?, ?)", (block, owner)
        )
        self._file.change("DELETE FROM writer_blocks WHERE position <= ?", (position - kept_max,))

    def note(self, key: str) -> str:
        """Return one of the single values of the catalog."""
        found = self.note_if_any(key)
        if found is None:
            raise CorruptFileError(f"The catalog holds no '{key}'.")
        return found

    def note_if_any(self, key: str) -> str | None:
        """Return a single value that catalogs of older versions do not have."""
        found = self._file.rows("SELECT value FROM meta WHERE key = ?", (key,))
        return str(found[0][0]) if found else None

    def put_note(self, key: str, value: str) -> None:
        """Write one of the single values of the catalog."""
        self._file.change(
            "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (key, value),
        )


def _table_text(descriptor: TableDescriptor) -> str:
    return json.dumps(descriptor_to_json(descriptor))


def _read(cell: Cell) -> Json:
    value: Json = json.loads(str(cell))
    return value


def _number(cell: Cell) -> int:
    if not isinstance(cell, int):
        raise TypeError(f"expected a whole number, found {cell!r}")
    return cell
