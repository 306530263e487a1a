"""The SQL of a plan: DuckDB reads the files with its own reader, the rest comes from streams."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headwater.lake.split import LakeFile
from headwater.model import Schema, types
from headwater.read.plan import local_path
from headwater.read.split import FileGroup, NativePlan

# Names and texts as they stand in SQL, whatever is in them.


def name_sql(name: str) -> str:
    """Return a name in the form that SQL takes as it is."""
    return '"' + name.replace('"', '""') + '"'


def text_sql(text: str) -> str:
    """Return a text as a literal."""
    return "'" + text.replace("'", "''") + "'"


def list_sql(texts: Iterable[str]) -> str:
    """Return texts as the literal of a list."""
    return "[" + ", ".join(map(text_sql, texts)) + "]"


# The types of DuckDB that stand for those of tables.

_PLAIN: dict[type[types.DataType], str] = {
    types.BooleanType: "BOOLEAN",
    types.TinyIntType: "TINYINT",
    types.SmallIntType: "SMALLINT",
    types.IntType: "INTEGER",
    types.BigIntType: "BIGINT",
    types.FloatType: "FLOAT",
    types.DoubleType: "DOUBLE",
    types.StringType: "VARCHAR",
    types.CharType: "VARCHAR",
    types.BytesType: "BLOB",
    types.BinaryType: "BLOB",
    types.DateType: "DATE",
}
_MICROS_PRECISION_MAX = 6


def type_sql(data_type: types.DataType) -> str:
    """Return the type of a column.

    Moments are in microseconds wherever that is fine enough, as DuckDB reads them from files:
    so that nothing has to be converted there, and comparisons reach the statistics of files.
    """
    match data_type:
        case types.DecimalType(precision=precision, scale=scale):
            return f"DECIMAL({precision}, {scale})"
        case types.TimeType(precision=precision):
            return "TIME" if precision <= _MICROS_PRECISION_MAX else "TIME_NS"
        case types.TimestampType(precision=precision):
            return "TIMESTAMP" if precision <= _MICROS_PRECISION_MAX else "TIMESTAMP_NS"
        case types.TimestampLtzType(precision=precision):
            return "TIMESTAMPTZ" if precision <= _MICROS_PRECISION_MAX else "TIMESTAMPTZ_NS"
        case types.ArrayType() | types.MapType() | types.RowType():
            return _nested_sql(data_type)
        case _:
            return _PLAIN[type(data_type)]


def _nested_sql(data_type: types.ArrayType | types.MapType | types.RowType) -> str:
    match data_type:
        case types.ArrayType(element=element):
            return f"{type_sql(element)}[]"
        case types.MapType(key=key, value=value):
            return f"MAP({type_sql(key)}, {type_sql(value)})"
        case types.RowType(fields=fields):
            inner = (f"{name_sql(field.name)} {type_sql(field.type)}" for field in fields)
            return f"STRUCT({', '.join(inner)})"


# The SQL of a plan: files by DuckDB's own reader, everything else from streams.

POSITION_COLUMNS = frozenset({"file_index", "file_row_number"})
"""What DuckDB calls the place of a row; it cannot tell a column of that name from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamNumbers:
    """Say how the streams of a plan are read in SQL."""

    relation: str
    """What to read from, with the columns of the table and one that tells streams apart."""
    marker: str
    """The name of that column."""
    rows: int | None = None
    """The stream of rows that are in no file DuckDB reads; None if there are none."""
    keys: int | None = None
    """The stream of the keys that were changed since the files were written."""


def rendered(schema: Schema, plan: NativePlan, streams: StreamNumbers) -> str:
    """Return a query for the rows of a plan, with the columns and types of the table."""
    branches = [_files_sql(schema, files, streams, plan.key) for files in _merged(plan.groups)]
    if not branches:
        branches.append(nothing(schema))
    if streams.rows is not None:
        columns = _columns_sql(schema, dict(zip(schema.names, schema.names, strict=True)))
        branches.append(f"SELECT {columns} FROM {_stream_sql(streams, streams.rows)}")
    return " UNION ALL ".join(branches)


def nothing(schema: Schema) -> str:
    """Return a query for no rows.

    It names a file, though none is opened: a prepared statement is planned anew each time only if
    files are read in it.
    """
    return f"SELECT {_columns_sql(schema, {})} FROM read_text({text_sql(os.devnull)}) WHERE false"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    files: tuple[LakeFile, ...]
    names: Mapping[int, str]
    is_touched: bool


def _merged(groups: Iterable[FileGroup]) -> list[_Files]:
    """Bring files together that the same SQL reads: each more costs time to bind."""
    found: dict[tuple[object, ...], list[LakeFile]] = {}
    for group in groups:
        kind = (group.names, bool(group.files[0].deletes), group.is_touched)
        found.setdefault(kind, []).extend(group.files)
    return [
        _Files(
            files=_largest_first(files),
            names=dict(files[0].names or ()),
            is_touched=bool(kind[2]),
        )
        for kind, files in found.items()
    ]


def _largest_first(files: list[LakeFile]) -> tuple[LakeFile, ...]:
    """Return files in their order but for the largest: DuckDB takes all for as large as the first.

    So it estimates too many rows rather than too few, and does not build a join on many.
    """
    largest = max(files, key=lambda file: file.row_count)
    return largest, *(file for file in files if file is not largest)


def _files_sql(schema: Schema, files: _Files, streams: StreamNumbers, key: tuple[str, ...]) -> str:
    names = {
        column.name: files.names[column.column_id]
        for column in schema.columns
        if column.column_id in files.names
    }
    paths = [local_path(file.path) for file in files.files]
    columns = _columns_sql(schema, names, of="f.")
    source = f"{_parquet_sql(paths)} AS f"
    if files.files[0].deletes:
        source += _without_deleted(files.files)
    if files.is_touched and streams.keys is not None:
        source += _without_changed(schema, names, streams, key)
    return f"SELECT {columns} FROM {source}"


def _parquet_sql(paths: Iterable[str]) -> str:
    # Partitions that stand in the names of folders stand in the files too.
    return f"read_parquet({list_sql(paths)}, hive_partitioning = false)"


def _columns_sql(schema: Schema, names: Mapping[str, str], *, of: str = "") -> str:
    return ", ".join(
        f"CAST({_source_sql(names.get(column.name), of)} AS {type_sql(column.type)})"
        f" AS {name_sql(column.name)}"
        for column in schema.columns
    )


def _source_sql(name: str | None, of: str) -> str:
    return "NULL" if name is None else f"{of}{name_sql(name)}"


def _without_deleted(files: tuple[LakeFile, ...]) -> str:
    """Leave rows out by their position; files of deletes may name other files too."""
    deletes = dict.fromkeys(local_path(path) for file in files for path in file.deletes)
    indexes = ", ".join(f"({text_sql(file.path)}, {at}::UBIGINT)" for at, file in enumerate(files))
    return (
        " ANTI JOIN (SELECT i.number, d.pos"
        f" FROM {_parquet_sql(deletes)} AS d JOIN (VALUES {indexes}) AS i(path, number)"
        " ON d.file_path = i.path) AS d ON f.file_index = d.number AND f.file_row_number = d.pos"
    )


def _without_changed(
    schema: Schema, names: Mapping[str, str], streams: StreamNumbers, key: tuple[str, ...]
) -> str:
    assert streams.keys is not None
    columns = ", ".join(name_sql(name) for name in key)
    kinds = {name: type_sql(schema.column(name).type) for name in key}
    same = " AND ".join(
        f"CAST(f.{name_sql(names[name])} AS {kind}) = CAST(c.{name_sql(name)} AS {kind})"
        for name, kind in kinds.items()
    )
    changed = f"SELECT {columns} FROM {_stream_sql(streams, streams.keys)}"
    return f" ANTI JOIN ({changed}) AS c ON {same}"


def _stream_sql(streams: StreamNumbers, number: int) -> str:
    return f"{streams.relation} WHERE {name_sql(streams.marker)} = {number}"
