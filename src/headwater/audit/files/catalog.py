"""Read the catalog file without changing it, and check it entry by entry."""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from headwater.audit.report import Check, Finding, Notes
from headwater.errors import CorruptFileError, HeadwaterError, SchemaMissingError
from headwater.model import LakeBucket, Schema, TableBucket, TableDescriptor
from headwater.model.path import spec_of_name
from headwater.model.schema import schema_from_json
from headwater.model.table import descriptor_from_json
from headwater.server.catalog import lake_entries
from headwater.server.catalog.file import VERSION, Cell, RowSums

UNKNOWN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSeen:
    """A table with all its schemas, as needed to read its rows."""

    table_id: int
    name: str
    schema_id: int
    descriptor: TableDescriptor
    schemas: Mapping[int, Schema]

    def latest(self) -> tuple[int, TableDescriptor]:
        """Current schema id and descriptor."""
        return self.schema_id, self.descriptor

    def schema(self, schema_id: int) -> Schema:
        """A schema that the table has or had."""
        if schema_id not in self.schemas:
            raise SchemaMissingError(f"{self.name} has no schema {schema_id}.")
        return self.schemas[schema_id]

    def reserve_ids(self, count: int) -> int:
        """Reserve no numbers: nothing is written here."""
        raise AssertionError(count)


@dataclass(slots=True)
class CatalogSeen:
    """The readable entries of a catalog."""

    tables: dict[int, TableSeen] = field(default_factory=dict)
    # Ids of the tables in the catalog, readable or not.
    table_ids: set[int] = field(default_factory=set)
    # The table and the name of each partition.
    partitions: dict[int, tuple[int, str]] = field(default_factory=dict)
    lake_snapshots: dict[int, list[lake_entries.ReportedLakeSnapshot]] = field(default_factory=dict)
    table_id_last: int = UNKNOWN
    partition_id_last: int = UNKNOWN
    # Blocks of writer ids that were handed out; None if they cannot be read.
    writer_blocks: set[int] | None = None

    def tiered_end(self, bucket: TableBucket) -> int:
        """The first offset of a bucket that the lake does not hold."""
        snapshots = self.lake_snapshots.get(bucket.table_id)
        if not snapshots:
            return 0
        return snapshots[-1].tiered.ends.get(LakeBucket(bucket.partition_id, bucket.bucket), 0)

    def find(self, name: str) -> TableSeen | None:
        """Find a table by its name."""
        return next((each for each in self.tables.values() if each.name == name), None)


Row = tuple[Cell, ...]
SUMS = "sums"
RESTORE = (
    "Restore the catalog from a copy; the rows of the tables are in other files and untouched."
)
# An entry that cannot be decoded was never written by this program in this form.
_UNREADABLE = (HeadwaterError, ValueError, KeyError, TypeError, AttributeError, LookupError)


def read_catalog(path: Path, notes: Notes) -> CatalogSeen | None:
    """Read a catalog and note what is wrong with it; None if nothing can be read at all.

    1. check the file itself  2. read tables, partitions and what is known of the lake
    """
    try:
        with closing(_connected(path)) as connection:
            reading = _Reading(path, connection, notes)
            return reading.catalog() if reading.is_sound() else None
    except (sqlite3.Error, UnicodeDecodeError) as error:
        _bad(notes, f"The catalog {path} cannot be read: {error}.")
        return None


def _connected(path: Path) -> sqlite3.Connection:
    wal = path.with_name(path.name + "-wal")
    # Without a write-ahead log only the file itself is needed, and none is created next to it.
    how = "mode=ro" if wal.exists() and wal.stat().st_size else "immutable=1"
    return sqlite3.connect(f"file:{quote(str(path))}?{how}", uri=True, isolation_level=None)


class _Reading:
    """Reads the entries of one catalog, continuing after bad ones."""

    def __init__(self, path: Path, connection: sqlite3.Connection, notes: Notes) -> None:
        self._path = path
        self._connection = connection
        self._notes = notes
        self._seen = CatalogSeen()

    def is_sound(self) -> bool:
        """Tell whether the file is intact and has a known version."""
        (version,) = self._rows("PRAGMA user_version")[0]
        if not isinstance(version, int) or not 0 < version <= VERSION:
            _bad(self._notes, f"The catalog {self._path} has version {version}.")
            return False
        faults = [str(row[0]) for row in self._rows("PRAGMA integrity_check") if row != ("ok",)]
        faults += [f"a row of {row[0]} refers to no {row[2]}" for row in self._strays()]
        for fault in faults:
            _bad(self._notes, f"The catalog {self._path} is damaged: {fault}.")
        if not faults and self._has(SUMS):
            self._check_sums()
        return True

    def _check_sums(self) -> None:
        """Compare every row with its checksum: a flipped bit may still be a valid value."""
        try:
            RowSums(self._connection).check()
        except (CorruptFileError, UnicodeDecodeError) as fault:
            _bad(self._notes, str(fault))

    def catalog(self) -> CatalogSeen:
        """Read all entries."""
        seen = self._seen
        schemas = self._schemas()
        for row in self._rows("SELECT table_id, database, name, schema_id, descriptor FROM tables"):
            with self._reading(f"Table {row[0]} ({row[1]}.{row[2]})"):
                self._table(row, schemas)
        for row in self._rows("SELECT partition_id, table_id, name FROM partitions"):
            with self._reading(f"Partition {row[0]} of table {row[1]}"):
                self._partition(row)
        self._lake()
        self._single_values()
        for table in seen.tables.values():
            self._notes.progress(f"catalog entry of {table.name}")
        return seen

    def _schemas(self) -> dict[int, dict[int, Schema]]:
        found: dict[int, dict[int, Schema]] = {}
        for row in self._rows("SELECT table_id, schema_id, schema FROM schemas"):
            with self._reading(f"Schema {row[1]} of table {row[0]}"):
                schema = schema_from_json(json.loads(str(row[2])))
                found.setdefault(_number(row[0]), {})[_number(row[1])] = schema
        return found

    def _table(self, row: Row, schemas: dict[int, dict[int, Schema]]) -> None:
        table_id, schema_id = _number(row[0]), _number(row[3])
        self._seen.table_ids.add(table_id)
        versions = schemas.get(table_id, {})
        if sorted(versions) != list(range(1, schema_id + 1)):
            raise ValueError(
                f"it has schema {schema_id}, but the file has those of {sorted(versions)}"
            )
        descriptor = descriptor_from_json(json.loads(str(row[4])))
        if descriptor.schema != versions[schema_id]:
            raise ValueError(f"its description differs from its schema {schema_id}")
        self._seen.tables[table_id] = TableSeen(
            table_id=table_id,
            name=f"{row[1]}.{row[2]}",
            schema_id=schema_id,
            descriptor=descriptor,
            schemas=versions,
        )

    def _partition(self, row: Row) -> None:
        table = self._seen.tables.get(_number(row[1]))
        if table is not None:
            spec_of_name(str(row[2]), table.descriptor.partition_keys)
        self._seen.partitions[_number(row[0])] = (_number(row[1]), str(row[2]))

    def _lake(self) -> None:
        if not self._has("lake_tables"):
            return
        for row in self._rows("SELECT table_id, turn, details FROM lake_tables"):
            with self._reading(f"The tiering progress of table {row[0]}"):
                lake_entries.tiering_record(_number(row[1]), str(row[2]))
        for row in self._rows(
            "SELECT table_id, snapshot_id, committed_ms, details FROM lake_snapshots"
            " ORDER BY position"
        ):
            with self._reading(f"Lake snapshot {row[1]} of table {row[0]}"):
                snapshot = lake_entries.reported_snapshot(
                    _number(row[0]),
                    _number(row[1]),
                    committed_ms=_number(row[2]),
                    details=str(row[3]),
                )
                self._seen.lake_snapshots.setdefault(snapshot.table_id, []).append(snapshot)

    def _single_values(self) -> None:
        seen = self._seen
        values = {str(key): value for key, value in self._rows("SELECT key, value FROM meta")}
        with self._reading("The value 'storage_id'"):
            bytes.fromhex(str(values["storage_id"]))
        for key in ("writer_id_end", *(["incarnation"] if self._has("writer_blocks") else [])):
            with self._reading(f"The value '{key}'"):
                int(str(values[key]))
        if self._has("writer_blocks"):
            blocks = self._rows("SELECT block FROM writer_blocks")
            with self._reading("The writer id blocks"):
                seen.writer_blocks = {_number(row[0]) for row in blocks}
        last = {str(name): seq for name, seq in self._rows("SELECT name, seq FROM sqlite_sequence")}
        seen.table_id_last = _number(last.get("tables", 0))
        seen.partition_id_last = _number(last.get("partitions", 0))

    def _has(self, table: str) -> bool:
        return bool(self._rows("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)))

    def _strays(self) -> list[Row]:
        return self._rows("PRAGMA foreign_key_check")

    def _rows(self, statement: str, cells: Sequence[Cell] = ()) -> list[Row]:
        return self._connection.execute(statement, cells).fetchall()

    @contextmanager
    def _reading(self, what: str) -> Iterator[None]:
        """Note that an entry cannot be read, and continue with the next one."""
        try:
            yield
        except _UNREADABLE as fault:
            _bad(self._notes, f"{what} cannot be read from the catalog: {fault!r}.")


def _number(cell: Cell) -> int:
    if not isinstance(cell, int):
        raise TypeError(f"expected a whole number, found {cell!r}")
    return cell


def _bad(notes: Notes, message: str) -> None:
    notes.bad(Finding(check=Check.FILES, message=message, remedy=RESTORE))
