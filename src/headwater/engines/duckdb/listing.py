"""What a storage has, as SQL for functions that list it: tables, offsets, snapshots."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from headwater.client.sync.client import Client
from headwater.client.union.lake_plans import LakePlans
from headwater.config.options import DATALAKE_ENABLED, DATALAKE_FORMAT
from headwater.engines.duckdb.quoting import list_sql, text_sql
from headwater.errors import TableMissingError
from headwater.model.boundary import LakeBucket
from headwater.model.path import TablePath
from headwater.model.table import TableInfo

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
    properties = info.descriptor.properties
    has_lake = bool(DATALAKE_ENABLED.of(properties))
    return (
        info.path.database,
        info.path.table,
        info.schema.primary_key,
        info.descriptor.partition_keys,
        info.bucket_count,
        str(DATALAKE_FORMAT.of(properties)) if has_lake else None,
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
