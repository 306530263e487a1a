"""The catalog of an installed storage: its views, and SQL that lists what it has."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from threading import Lock

import duckdb

from headwater.client.sync.client import Client
from headwater.config.options import DATALAKE_FORMAT
from headwater.engines.duckdb.planner import SqlPlanner, Storages, check_columns
from headwater.engines.duckdb.sql import list_sql, name_sql, text_sql
from headwater.engines.duckdb.streams import Relations
from headwater.errors import TableMissingError, UnsupportedError
from headwater.model import LakeBucket, TableInfo, TablePath
from headwater.read.lake import LakePlans
from headwater.read.position import has_lake

# What a storage has, as SQL for functions that list it: tables, offsets, snapshots.

Value = str | int | bool | datetime | Sequence[str] | None
Columns = dict[str, str]

_TABLES: Columns = {
    "database_name": "VARCHAR",
    "table_name": "VARCHAR",
    "primary_key": "VARCHAR[]",
    "partition_keys": "VARCHAR[]",
    "bucket_count": "INTEGER",
    "lake_format": "VARCHAR",
    "comment": "VARCHAR",
    "created_at": "TIMESTAMPTZ",
}
_OFFSETS: Columns = {
    "partition_name": "VARCHAR",
    "bucket": "INTEGER",
    "log_start": "BIGINT",
    "log_end": "BIGINT",
    "lake_end": "BIGINT",
    "snapshot_id": "BIGINT",
}
_SNAPSHOTS: Columns = {
    "snapshot_id": "BIGINT",
    "parent_id": "BIGINT",
    "committed_at": "TIMESTAMPTZ",
    "row_count": "BIGINT",
    "file_count": "BIGINT",
    "byte_count": "BIGINT",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def tables_sql(client: Client) -> str:
    """Return a query for the tables of a storage."""
    rows = [_table_row(info) for info in table_infos(client)]
    return _values_sql(_TABLES, rows)


def table_infos(client: Client) -> list[TableInfo]:
    """Return the tables of a storage, sorted by name."""
    found = []
    for database in sorted(client.list_databases()):
        for name in sorted(client.list_tables(database)):
            try:
                found.append(client.table(TablePath(database, name)).info)
            except TableMissingError:
                continue  # Somebody dropped it meanwhile.
    return found


def offsets_sql(client: Client, path: TablePath) -> str:
    """Return a query for where the log of each bucket begins and ends, and the lake ends."""
    value = client.table(path).view().value
    ranges = {} if value.snapshot is None else value.snapshot.ranges
    snapshot_id = None if value.snapshot is None else value.snapshot.snapshot_id

    def name(bucket: LakeBucket) -> str | None:
        return None if bucket.partition_id is None else value.partitions[bucket.partition_id]

    rows: list[tuple[Value, ...]] = []
    for bucket in sorted(value.logs, key=lambda each: (name(each) or "", each.bucket)):
        log, lake = value.logs[bucket], ranges.get(bucket)
        lake_end = None if lake is None else lake.end
        rows.append((name(bucket), bucket.bucket, log.start, log.end, lake_end, snapshot_id))
    return _values_sql(_OFFSETS, rows)


def snapshots_sql(client: Client, path: TablePath) -> str:
    """Return a query for the snapshots that the lake of a table still has, newest first."""
    info = client.table(path).info
    if DATALAKE_FORMAT.of(info.descriptor.properties) is None:
        return _values_sql(_SNAPSHOTS, [])
    kept = client.run(lambda awaiting: LakePlans.of(awaiting.cluster).kept(info))
    return _values_sql(
        _SNAPSHOTS,
        [
            (
                each.snapshot_id,
                each.parent_id,
                _moment(each.committed_ms),
                each.row_count,
                each.file_count,
                each.byte_count,
            )
            for each in kept
        ],
    )


def _table_row(info: TableInfo) -> tuple[Value, ...]:
    lake = DATALAKE_FORMAT.of(info.descriptor.properties) if has_lake(info) else None
    return (
        info.path.database,
        info.path.table,
        info.schema.primary_key,
        info.descriptor.partition_keys,
        info.bucket_count,
        None if lake is None else str(lake),
        info.descriptor.comment,
        _moment(info.created_ms),
    )


def _moment(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)


def _values_sql(columns: Columns, rows: Sequence[Sequence[Value]]) -> str:
    """Return a query for rows that are known already."""
    names = ", ".join(columns)
    if not rows:
        kinds = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in columns.items())
        return f"SELECT {kinds} WHERE false"
    tuples = ", ".join(
        "(" + ", ".join(_value_sql(v, k) for v, k in zip(row, columns.values(), strict=True)) + ")"
        for row in rows
    )
    return f"SELECT * FROM (VALUES {tuples}) AS listed({names})"


def _value_sql(value: Value, kind: str) -> str:
    return f"CAST({_literal(value)} AS {kind})"


def _literal(value: Value) -> str:
    match value:
        case None:
            return "NULL"
        case int():
            return str(value)
        case datetime():
            return text_sql(value.isoformat())
        case str():
            return text_sql(value)
        case _:
            return list_sql(value)


# The catalog of views: `FROM hw.database.table`.

_KEPT = frozenset({"main", "information_schema", "pg_catalog"})
"""Schemas that every database of DuckDB has."""


class Views:
    """Keep a view for each table of the installed storage."""

    def __init__(
        self, planner: SqlPlanner, storages: Storages, relations: Relations, *, alias: str
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
