"""The SQLite file of the catalog: its version, its transactions, and checksums of its rows."""

import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import chain
from pathlib import Path
from urllib.parse import quote

from headwater.errors import CorruptFileError, DirectoryLostError, StorageError
from headwater.rows.row_bytes import crc32c
from headwater.store.local import sync_path

# Checksums of the rows of the catalog: SQLite has none, and returns a flipped bit as a value.

CREATE_SUMS = """CREATE TABLE sums (
    place TEXT NOT NULL, row TEXT NOT NULL, crc INTEGER NOT NULL,
    PRIMARY KEY (place, row)) WITHOUT ROWID"""
_SUMS = "sums"
_SCHEMA = "sqlite_master"
_DEFINITIONS = (
    "SELECT type, name, sql FROM main.sqlite_master WHERE type <> 'trigger' ORDER BY name"
)


class RowSums:
    """Keep a checksum for every row, by triggers that live as long as the connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.create_function("row_text", -1, _text, deterministic=True)
        connection.create_function("row_crc", -1, _crc, deterministic=True)

    def follow(self) -> None:
        """Let every change of a row update its checksum."""
        for table in self._tables():
            row, crc = self._terms(table, "NEW.")
            gone, _ = self._terms(table, "OLD.")
            forget = f"DELETE FROM sums WHERE place = '{table}' AND row = {{}};"  # noqa: S608
            add = f"INSERT INTO sums VALUES ('{table}', {row}, {crc});"  # noqa: S608
            for verb, steps in (
                ("INSERT", forget.format(row) + add),
                ("UPDATE", forget.format(gone) + add),
                ("DELETE", forget.format(gone)),
            ):
                self._connection.execute(
                    f"CREATE TEMP TRIGGER sum_{verb}_{table} AFTER {verb} ON main.{table}"
                    f" BEGIN {steps} END"
                )

    def add_all(self) -> None:
        """Add checksums for all existing rows, in the transaction that made the table for it."""
        self._connection.execute("DELETE FROM sums")
        for place, sums in self._found():
            self._connection.executemany(
                "INSERT INTO sums VALUES (?, ?, ?)", [(place, *each) for each in sums.items()]
            )

    def check(self) -> None:
        """Compare every row with its checksum."""
        noted: dict[str, dict[str, int]] = {}
        for place, row, crc in self._connection.execute("SELECT place, row, crc FROM sums"):
            noted.setdefault(place, {})[row] = crc
        for place, sums in self._found():
            if sums != (expected := noted.pop(place, {})):
                changed = {row for row, _ in {*sums.items()} ^ {*expected.items()}}
                raise CorruptFileError(
                    f"The catalog is damaged: the checksum of {place} {min(changed)} does not "
                    "match."
                )
        if noted:
            raise CorruptFileError(f"The catalog is damaged: the table {min(noted)} is missing.")

    def _found(self) -> Iterator[tuple[str, dict[str, int]]]:
        yield _SCHEMA, {"": _crc(*self._connection.execute(_DEFINITIONS).fetchall())}
        for table in self._tables():
            row, crc = self._terms(table)
            found = self._connection.execute(f"SELECT {row}, {crc} FROM {table}")  # noqa: S608
            if sums := dict(found.fetchall()):
                yield table, sums

    def _tables(self) -> list[str]:
        found = self._connection.execute(
            "SELECT name FROM main.sqlite_master WHERE type = 'table' ORDER BY name"
        )
        return [name for (name,) in found if name != _SUMS and not name.startswith("sqlite_")]

    def _terms(self, table: str, prefix: str = "") -> tuple[str, str]:
        """Build the SQL terms for the name of a row and its checksum."""
        columns = self._connection.execute(f"PRAGMA table_info({table})").fetchall()
        keys = [prefix + name for _, name, *_, position in columns if position]
        names = [prefix + column[1] for column in columns]
        return f"row_text({', '.join(keys)})", f"row_crc({', '.join(names)})"


def _text(*cells: object) -> str:
    return json.dumps(cells)


def _crc(*cells: object) -> int:
    return crc32c(json.dumps(cells).encode())


# The SQLite file of the catalog: opening it, its version, its transactions.

DEFAULT_DATABASE = "fluss"
_VERSION_1 = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL)",
    """CREATE TABLE databases (
        name TEXT PRIMARY KEY NOT NULL, details TEXT NOT NULL,
        created_ms INTEGER NOT NULL, modified_ms INTEGER NOT NULL)""",
    """CREATE TABLE tables (
        table_id INTEGER PRIMARY KEY AUTOINCREMENT,
        database TEXT NOT NULL REFERENCES databases (name), name TEXT NOT NULL,
        schema_id INTEGER NOT NULL, descriptor TEXT NOT NULL,
        created_ms INTEGER NOT NULL, modified_ms INTEGER NOT NULL,
        UNIQUE (database, name))""",
    """CREATE TABLE schemas (
        table_id INTEGER NOT NULL REFERENCES tables (table_id) ON DELETE CASCADE,
        schema_id INTEGER NOT NULL, schema TEXT NOT NULL,
        PRIMARY KEY (table_id, schema_id))""",
    """CREATE TABLE partitions (
        partition_id INTEGER PRIMARY KEY AUTOINCREMENT,
        table_id INTEGER NOT NULL REFERENCES tables (table_id) ON DELETE CASCADE,
        name TEXT NOT NULL, UNIQUE (table_id, name))""",
    # The storage id identifies a data directory, even after a copy under a new name.
    "INSERT INTO meta VALUES ('storage_id', lower(hex(randomblob(16))))",
    "INSERT INTO meta VALUES ('writer_id_end', '1')",
)
_VERSION_2 = (
    """CREATE TABLE row_numbers (
        table_id INTEGER PRIMARY KEY NOT NULL REFERENCES tables (table_id) ON DELETE CASCADE,
        last INTEGER NOT NULL)""",
)
_VERSION_3 = (
    """CREATE TABLE lake_tables (
        table_id INTEGER PRIMARY KEY NOT NULL REFERENCES tables (table_id) ON DELETE CASCADE,
        turn INTEGER NOT NULL, details TEXT NOT NULL)""",
    # In the order in which they were committed: snapshot ids need not grow.
    """CREATE TABLE lake_snapshots (
        position INTEGER PRIMARY KEY AUTOINCREMENT,
        table_id INTEGER NOT NULL REFERENCES tables (table_id) ON DELETE CASCADE,
        snapshot_id INTEGER NOT NULL, committed_ms INTEGER NOT NULL, details TEXT NOT NULL,
        UNIQUE (table_id, snapshot_id))""",
    "INSERT INTO meta VALUES ('starts', '0')",
)
_VERSION_4 = (CREATE_SUMS,)
_VERSION_5 = (
    # Every start is a new incarnation, so that those of a copy can be distinguished.
    "INSERT INTO meta VALUES ('incarnation', '0')",
    # In the order in which they were drawn.
    """CREATE TABLE writer_blocks (
        position INTEGER PRIMARY KEY AUTOINCREMENT,
        block INTEGER NOT NULL UNIQUE, owner TEXT NOT NULL)""",
)
_VERSION_6 = (
    """CREATE TABLE acls (
        resource_kind INTEGER NOT NULL, resource_name TEXT NOT NULL,
        principal_kind TEXT NOT NULL, principal_name TEXT NOT NULL,
        operation INTEGER NOT NULL, host TEXT NOT NULL,
        PRIMARY KEY (
            resource_kind, resource_name, principal_kind, principal_name, operation, host))""",
)
# What an entry lets its principal read of a table, as JSON; empty without a rule.
_VERSION_7 = ("ALTER TABLE acls ADD COLUMN rule TEXT NOT NULL DEFAULT ''",)
# Each entry upgrades from the version before it, so a file of any age can be upgraded.
_VERSIONS = (
    _VERSION_1,
    _VERSION_2,
    _VERSION_3,
    _VERSION_4,
    _VERSION_5,
    _VERSION_6,
    _VERSION_7,
)
_SUMMED = 4
VERSION = len(_VERSIONS)

Cell = int | str | None
BUSY_MS_MAX = 5000  # while somebody else, such as a backup, writes the file


class CatalogFile:
    """Run statements in a catalog file, changes only inside a transaction."""

    def __init__(
        self, connection: sqlite3.Connection, path: Path, guard: Callable[[], None]
    ) -> None:
        self._connection = connection
        self._path = path
        self._guard = guard
        self._identity: tuple[int, int] | None = None
        # Why the file is read-only, if it is.
        self.read_only = ""
        # How often something changed that a copy of the file should have.
        self.changes = 0
        self._sums = RowSums(connection)

    @classmethod
    def open(cls, path: Path, *, now_ms: int, guard: Callable[[], None]) -> "CatalogFile":
        """Open the file, creating it if missing, and check that it is sound and not too new."""
        is_new = not path.exists()
        try:
            if is_new:  # otherwise SQLite would create it readable by others
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
            connection = sqlite3.connect(path, isolation_level=None, timeout=BUSY_MS_MAX / 1000)
        except (sqlite3.Error, OSError) as error:
            raise StorageError(f"Cannot open the catalog {path}: {error}.") from error
        file = cls(connection, path, guard)
        try:
            file._prepare()
            file._identity = _identity(path)
            file._bring_up_to_date(now_ms)
            if is_new:
                sync_path(path.parent)
        except BaseException:
            connection.close()
            raise
        return file

    @classmethod
    def open_read_only(cls, path: Path, *, guard: Callable[[], None], reason: str) -> "CatalogFile":
        """Open a file that cannot be written now, as its last owner left it."""
        log = path.with_name(f"{path.name}-wal")
        connection = _in_memory(path, log) if _size(log) else _immutable(path)
        file = cls(connection, path, guard)
        file.read_only = reason
        try:
            file._check()
            file._require_version(reason)
            file._check_sums()
        except BaseException:
            connection.close()
            raise
        return file

    def _prepare(self) -> None:
        self.rows("PRAGMA journal_mode = WAL")
        self.rows("PRAGMA synchronous = FULL")
        self.rows(
            "PRAGMA fullfsync = ON"
        )  # needed where fsync alone leaves bytes in the drive's cache
        self.rows("PRAGMA checkpoint_fullfsync = ON")
        self.rows("PRAGMA foreign_keys = ON")
        self._check()

    def _check(self) -> None:
        if (found := self.rows("PRAGMA integrity_check(1)")) != [("ok",)]:
            raise CorruptFileError(f"The catalog {self._path} is damaged: {found[0][0]}.")
        if (version := self._version()) > VERSION:
            raise StorageError(
                f"The catalog {self._path} has version {version}, but this program supports "
                f"{VERSION}.",
                hint="It was written by a newer version of Headwater: use that version.",
            )

    def _require_version(self, reason: str) -> None:
        if self._version() != VERSION:
            raise StorageError(f"The catalog {self._path} has an older version, and {reason}.")

    def _version(self) -> int:
        version = self.rows("PRAGMA user_version")[0][0]
        assert isinstance(version, int)
        return version

    def _bring_up_to_date(self, now_ms: int) -> None:
        version = self._version()
        if version >= _SUMMED:
            self._check_sums()
        if version < VERSION:
            with self.transaction():
                for statement in chain(*_VERSIONS[version:]):
                    self.change(statement)
                if version == 0:
                    self._insert_default_database(now_ms)
                self._sums.add_all()
                self.change(f"PRAGMA user_version = {VERSION}")
        self._sums.follow()

    def _check_sums(self) -> None:
        try:
            self._sums.check()
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise CorruptFileError(f"The catalog {self._path} is damaged: {error}.") from error

    def _insert_default_database(self, now_ms: int) -> None:
        details = json.dumps({"comment": None, "custom_properties": {}})
        self.change(
            "INSERT INTO databases VALUES (?, ?, ?, ?)",
            (DEFAULT_DATABASE, details, now_ms, now_ms),
        )

    def rows(self, statement: str, cells: Sequence[Cell] = ()) -> list[tuple[Cell, ...]]:
        """Return the rows of a query."""
        try:
            return self._connection.execute(statement, cells).fetchall()
        except sqlite3.OperationalError as error:
            raise StorageError(f"The catalog {self._path} failed: {error}.") from error
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise CorruptFileError(f"The catalog {self._path} is damaged: {error}.") from error

    def change(self, statement: str, cells: Sequence[Cell] = ()) -> int:
        """Run a changing statement and return the id of the row it inserted, if any."""
        assert self._connection.in_transaction
        return self._connection.execute(statement, cells).lastrowid or 0

    @contextmanager
    def transaction(self, *, counts: bool = True) -> Iterator[None]:
        """Make all changes inside durable together, or none of them.

        What does not count as a change is of use to this process and the next only.
        """
        self._require_own_file()
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise StorageError(f"The catalog {self._path} was not changed: {error}.") from error
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        self.changes += counts
        self._move_to_main()

    def content(self) -> bytes:
        """Return the bytes of the file, with everything that was committed."""
        return self._connection.serialize()

    def _require_own_file(self) -> None:
        """Reject writes to a file that was replaced, or that is read-only."""
        if self.read_only:
            raise StorageError(
                f"The storage was opened read-only: {self.read_only}.",
                hint="Make the disk writable or free space on it, then open the storage again.",
            )
        self._guard()
        if (found := _identity(self._path)) != self._identity:
            raise DirectoryLostError(
                f"The catalog {self._path} was {'replaced' if found else 'deleted'} while in use."
            )

    def _move_to_main(self) -> None:
        """Keep nothing in SQLite's log: if that is damaged, it ends silently."""
        # It is durable already. If somebody is reading the file, it is moved the next time: waiting
        # would block every other request.
        with suppress(sqlite3.Error), self._without_waiting():
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    @contextmanager
    def _without_waiting(self) -> Iterator[None]:
        self._connection.execute("PRAGMA busy_timeout = 0")
        try:
            yield
        finally:
            self._connection.execute(f"PRAGMA busy_timeout = {BUSY_MS_MAX}")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def _immutable(path: Path) -> sqlite3.Connection:
    uri = f"file:{quote(str(path.absolute()))}?immutable=1"
    try:
        return sqlite3.connect(uri, uri=True, isolation_level=None)
    except sqlite3.Error as error:
        raise StorageError(f"Cannot open the catalog {path}: {error}.") from error


def _in_memory(path: Path, log: Path) -> sqlite3.Connection:
    """Load a file together with SQLite's log, in which a process that was killed left changes.

    SQLite reads that log only where it can write beside it, so both are copied to such a place.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="headwater-") as place:
            for each in (path, log):
                shutil.copyfile(each, Path(place, each.name))
            memory = sqlite3.connect(":memory:", isolation_level=None)
            with closing(sqlite3.connect(Path(place, path.name))) as copy:
                copy.backup(memory)
    except (sqlite3.Error, OSError) as error:
        raise StorageError(
            f"The catalog {path} was being changed when its process was killed, and the disk takes "
            f"no writes; a copy of it elsewhere failed as well: {error}.",
            hint=f"Set TMPDIR to a directory with {_size(path) + _size(log)} bytes free, or make "
            "the disk writable.",
        ) from error
    return memory


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
