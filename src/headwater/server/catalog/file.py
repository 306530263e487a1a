"""The SQLite file of the catalog: opening it, its version, its transactions."""

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from urllib.parse import quote

from headwater.errors import CorruptFileError, DirectoryLostError, StorageError
from headwater.server.catalog.sums import CREATE_SUMS, RowSums
from headwater.store.durable import sync_path

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
    # The storage id tells one data directory from another, also after a copy under a new name.
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
    # In the order in which they were committed: ids of snapshots need not grow.
    """CREATE TABLE lake_snapshots (
        position INTEGER PRIMARY KEY AUTOINCREMENT,
        table_id INTEGER NOT NULL REFERENCES tables (table_id) ON DELETE CASCADE,
        snapshot_id INTEGER NOT NULL, committed_ms INTEGER NOT NULL, details TEXT NOT NULL,
        UNIQUE (table_id, snapshot_id))""",
    "INSERT INTO meta VALUES ('starts', '0')",
)
_VERSION_4 = (CREATE_SUMS,)
_VERSION_5 = (
    # Every start is another incarnation, so that those of a copy can be told from those before.
    "INSERT INTO meta VALUES ('incarnation', '0')",
    # In the order in which they were drawn.
    """CREATE TABLE writer_blocks (
        position INTEGER PRIMARY KEY AUTOINCREMENT,
        block INTEGER NOT NULL UNIQUE, owner TEXT NOT NULL)""",
)
# Each entry leads from the version before it, so a file of any age is brought up to date.
_VERSIONS = (_VERSION_1, _VERSION_2, _VERSION_3, _VERSION_4, _VERSION_5)
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
        # Why the file is only read, if that is so.
        self.read_only = ""
        self._sums = RowSums(connection)

    @classmethod
    def open(cls, path: Path, *, now_ms: int, guard: Callable[[], None]) -> "CatalogFile":
        """Open the file, making it if missing, and check that it is sound and not too new."""
        is_new = not path.exists()
        try:
            if is_new:  # else SQLite would make it, and others could read it
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
            connection = sqlite3.connect(path, isolation_level=None, timeout=BUSY_MS_MAX / 1000)
        except (sqlite3.Error, OSError) as error:
            raise StorageError(f"The catalog {path} cannot be opened: {error}.") from error
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
        """Open a file that cannot be written now, as it was closed."""
        uri = f"file:{quote(str(path.absolute()))}?immutable=1"
        try:
            connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        except sqlite3.Error as error:
            raise StorageError(f"The catalog {path} cannot be opened: {error}.") from error
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
        self.rows("PRAGMA fullfsync = ON")  # heeded where fsync alone leaves bytes in the drive
        self.rows("PRAGMA checkpoint_fullfsync = ON")
        self.rows("PRAGMA foreign_keys = ON")
        self._check()

    def _check(self) -> None:
        if (found := self.rows("PRAGMA integrity_check(1)")) != [("ok",)]:
            raise CorruptFileError(f"The catalog {self._path} is damaged: {found[0][0]}.")
        if (version := self._version()) > VERSION:
            raise StorageError(
                f"The catalog {self._path} has version {version}, this program reads {VERSION}.",
                hint="It was written by a newer version of Headwater: start that one.",
            )

    def _require_version(self, reason: str) -> None:
        if self._version() != VERSION:
            raise StorageError(f"The catalog {self._path} is of an older version, and {reason}.")

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
        """Return what a query finds."""
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
    def transaction(self) -> Iterator[None]:
        """Make all changes inside durable together, or none of them."""
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
        self._move_to_main()

    def _require_own_file(self) -> None:
        """Refuse to write to a file that nobody will find, or that is only read."""
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
        """Keep nothing in the log of SQLite: where that is damaged, it ends without a word."""
        # It is durable already. If somebody reads the file just now, it is moved the next time:
        # nobody else is served while we wait.
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


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
