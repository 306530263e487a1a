"""Checksums of the rows of the catalog: SQLite keeps none, and serves a flipped bit as a value."""

import json
import sqlite3
from collections.abc import Iterator

from headwater.errors import CorruptFileError
from headwater.rows.checksum import crc32c

CREATE_SUMS = """CREATE TABLE sums (
    place TEXT NOT NULL, row TEXT NOT NULL, crc INTEGER NOT NULL,
    PRIMARY KEY (place, row)) WITHOUT ROWID"""
_SUMS = "sums"
_SCHEMA = "sqlite_master"
_DEFINITIONS = (
    "SELECT type, name, sql FROM main.sqlite_master WHERE type <> 'trigger' ORDER BY name"
)


class RowSums:
    """Keep a checksum beside every row, by triggers that live as long as the connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.create_function("row_text", -1, _text, deterministic=True)
        connection.create_function("row_crc", -1, _crc, deterministic=True)

    def follow(self) -> None:
        """Have every change of a row change its checksum."""
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
        """Sum all rows that are there, inside the transaction that made the place for it."""
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
                    f"The catalog is damaged: {place} {min(changed)} is not what was written."
                )
        if noted:
            raise CorruptFileError(f"The catalog is damaged: there is no table {min(noted)}.")

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
        """Return what names a row and what sums it up, in SQL."""
        columns = self._connection.execute(f"PRAGMA table_info({table})").fetchall()
        keys = [prefix + name for _, name, *_, position in columns if position]
        names = [prefix + column[1] for column in columns]
        return f"row_text({', '.join(keys)})", f"row_crc({', '.join(names)})"


def _text(*cells: object) -> str:
    return json.dumps(cells)


def _crc(*cells: object) -> int:
    return crc32c(json.dumps(cells).encode())
