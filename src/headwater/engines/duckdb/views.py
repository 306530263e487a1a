"""The catalog of views: `FROM hw.database.table`."""

from threading import Lock

import duckdb

from headwater.engines.duckdb.columns import check_columns
from headwater.engines.duckdb.listing import table_infos
from headwater.engines.duckdb.planner import Planner, Storages
from headwater.engines.duckdb.quoting import name_sql, text_sql
from headwater.engines.duckdb.relations import Relations
from headwater.errors import UnsupportedError
from headwater.model.table import TableInfo

_KEPT = frozenset({"main", "information_schema", "pg_catalog"})
"""Schemas that every database of DuckDB has."""


class Views:
    """Keep a view for each table of the installed storage."""

    def __init__(
        self, planner: Planner, storages: Storages, relations: Relations, *, alias: str
    ) -> None:
        self._planner = planner
        self._storages = storages
        self._relations = relations
        self._name = alias
        self._alias = name_sql(alias)
        self._made: dict[tuple[str, str], tuple[int, int]] = {}
        self._lock = Lock()

    def refresh(self) -> int:
        """Make views of new and changed tables, drop those of tables that are gone.

        A table that somebody made in the catalog keeps its name.
        """
        infos = _told_apart(table_infos(self._storages.of(None)))
        with self._lock, self._relations.cursor() as cursor:
            for path in self._there(cursor) - infos.keys():
                self._drop(cursor, path)
            taken = self._taken(cursor)
            for path, info in infos.items():
                known = (info.table_id, info.schema_id)
                if self._made.get(path) != known and _folded(path) not in taken:
                    self._make(cursor, info)
                    self._made[path] = known
            self._drop_schemas(cursor, taken)
        return len(self._made)

    def _make(self, cursor: duckdb.DuckDBPyConnection, info: TableInfo) -> None:
        database, table = info.path.database, info.path.table
        read = f"{self._alias}.main.fluss_read({text_sql(database)}, {text_sql(table)})"
        cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {self._alias}.{name_sql(database)}")
        with self._planner.describing():
            view = f"{self._alias}.{name_sql(database)}.{name_sql(table)}"
            cursor.execute(f"CREATE OR REPLACE VIEW {view} AS SELECT * FROM {read}")

    def _drop(self, cursor: duckdb.DuckDBPyConnection, path: tuple[str, str]) -> None:
        database, table = map(name_sql, path)
        cursor.execute(f"DROP VIEW IF EXISTS {self._alias}.{database}.{table}")
        self._made.pop(path, None)

    def _there(self, cursor: duckdb.DuckDBPyConnection) -> set[tuple[str, str]]:
        """Return the views that there are; another storage may have been installed before."""
        sql = "SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = ?"
        rows = cursor.execute(f"{sql} AND NOT internal", [self._name]).fetchall()
        return {(database, table) for database, table in rows}

    def _taken(self, cursor: duckdb.DuckDBPyConnection) -> set[tuple[str, str]]:
        """Return the names of tables that people made in the catalog."""
        sql = "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = ?"
        rows = cursor.execute(sql, [self._name]).fetchall()
        return {_folded((database, table)) for database, table in rows}

    def _drop_schemas(self, cursor: duckdb.DuckDBPyConnection, taken: set[tuple[str, str]]) -> None:
        rows = cursor.execute(
            "SELECT schema_name FROM duckdb_schemas() WHERE database_name = ?", [self._name]
        ).fetchall()
        used = {_folded(path)[0] for path in self._made} | {schema for schema, _ in taken} | _KEPT
        for (name,) in rows:
            if name.casefold() not in used:
                cursor.execute(f"DROP SCHEMA IF EXISTS {self._alias}.{name_sql(name)}")


def _folded(path: tuple[str, str]) -> tuple[str, str]:
    """Return names as DuckDB compares them."""
    database, table = path
    return database.casefold(), table.casefold()


def _told_apart(infos: list[TableInfo]) -> dict[tuple[str, str], TableInfo]:
    """Return those that can have a view: DuckDB sees no case in names, so the first has it."""
    found: dict[tuple[str, str], TableInfo] = {}
    for info in infos:
        try:
            check_columns(info.schema)
        except UnsupportedError:
            continue
        found.setdefault(_folded((info.path.database, info.path.table)), info)
    return {(info.path.database, info.path.table): info for info in found.values()}
