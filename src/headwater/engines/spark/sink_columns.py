"""The options of a write, and which columns of a data frame go to which of the table.

Both are decided before any row is written, and travel to the tasks.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Self

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, NullType, StructType

from headwater import errors
from headwater.engines.spark import options as spark_options
from headwater.engines.spark.clients import SparkConnection
from headwater.engines.spark.source_options import required_table
from headwater.engines.spark.types import ZONE, spark_type
from headwater.model import TableInfo
from headwater.model.arrow import arrow_schema
from headwater.read.virtual import COMMIT_TIMESTAMP, LOG_OFFSET
from headwater.rows.columns import cast_column


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The options of a write."""

    connection: SparkConnection
    table: str
    change_column: str = "_change_type"
    ignores_deletes: bool = False
    updates_partially: bool = False
    write_id: str | None = None
    write_epoch: int = 0

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Parse a user's options; raises if something is wrong."""
        given = spark_options.given_options(options, spark_options.SINK_OPTIONS)
        _check_named(given)
        return cls(
            connection=SparkConnection.of(given),
            table=required_table(given),
            change_column=spark_options.CHANGE_COLUMN.required(given),
            ignores_deletes=spark_options.IGNORE_DELETE.required(given),
            updates_partially=spark_options.PARTIAL_UPDATE.required(given),
            write_id=spark_options.WRITE_ID.of(given),
            write_epoch=spark_options.WRITE_EPOCH.required(given),
        )


def _check_named(given: Mapping[str, str]) -> None:
    if spark_options.WRITE_EPOCH.name in given and spark_options.WRITE_ID.name not in given:
        raise errors.InvalidOptionError(
            f"'{spark_options.WRITE_EPOCH.name}' is given without '{spark_options.WRITE_ID.name}'.",
            hint=f"Add .option('{spark_options.WRITE_ID.name}', …): a name that all these writes"
            " share.",
        )


# Matching columns, before any row is written.

TASK_COLUMN = "__headwater_task"
"""The task that each row is for, if the rows were shuffled by bucket."""
ORDER_COLUMN = "__headwater_order"
"""What rows of one key are sorted by after that shuffle, if anything."""
# What a changelog says about its rows; it is not part of them.
_DESCRIBING = (LOG_OFFSET.name, COMMIT_TIMESTAMP.name)
_SHOWN_MAX = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkColumns:
    """What the columns of a data frame are for."""

    names: tuple[str, ...]
    """Those of the table, in its order."""
    targets: tuple[str, ...] | None
    """Those that are written, in a partial update; None for all."""
    change: str | None
    """The one that says what to do with each row."""
    has_task: bool
    has_order: bool


def sink_columns(given: StructType, table: TableInfo, options: SinkOptions) -> SinkColumns:
    """Match columns by name and check their types; raises for the first that is wrong."""
    names = table.schema.names
    extra = (options.change_column, *_DESCRIBING, TASK_COLUMN, ORDER_COLUMN)
    rows = [name for name in given.names if name in names or name not in extra]
    _check_once(rows)
    _check_known(rows, names, path=options.table)
    if options.updates_partially:
        _check_partial(rows, table)
    else:
        _check_whole(rows, table)
    _check_types(given, table)
    change = _change(given, names, options.change_column)
    if change is not None:
        _check_deletes(table, options)
    written = tuple(name for name in names if name in rows)
    return SinkColumns(
        names=written,
        targets=written if options.updates_partially else None,
        change=change,
        has_task=TASK_COLUMN in given.names,
        has_order=ORDER_COLUMN in given.names,
    )


def _change(given: StructType, names: Sequence[str], change: str) -> str | None:
    if change not in given.names or change in names:
        return None
    kind = given[change].dataType
    if kind.typeName() != "string":
        raise errors.InvalidValueError(
            f"The column '{change}' is {kind.simpleString()}, but it should say what to "
            "do with each row.",
            hint=f"Make it a string such as insert or delete, or drop '{change}'.",
        )
    return change


def _check_deletes(table: TableInfo, options: SinkOptions) -> None:
    is_whole = not options.updates_partially and not table.schema.auto_increment
    if table.is_keyed and not is_whole and not options.ignores_deletes:
        raise errors.InvalidTargetColumnError(
            f"The column '{options.change_column}' may ask for deletes in {table.path}, "
            "but only some columns are written.",
            hint=f"Add .option('sink.ignore-delete', True), or drop '{options.change_column}'.",
        )


def _check_once(rows: Sequence[str]) -> None:
    if repeated := [name for name, count in Counter(rows).items() if count > 1]:
        raise errors.InvalidValueError(
            f"The rows have two columns '{repeated[0]}'.", hint="Drop or rename one of them."
        )


def _check_known(rows: Sequence[str], names: Sequence[str], *, path: str) -> None:
    for name in rows:
        if name not in names:
            raise errors.InvalidValueError(
                f"{path} has no column '{name}'.", hint=_near(name, names)
            )


def _near(name: str, names: Sequence[str]) -> str:
    lower = {each.lower(): each for each in names}
    if close := get_close_matches(name.lower(), lower, n=1):
        near = lower[close[0]]
        return f"Did you mean '{near}'? Then .withColumnRenamed('{name}', '{near}')."
    more = ", …" if len(names) > _SHOWN_MAX else ""
    return f"Drop it; the table has {', '.join(names[:_SHOWN_MAX])}{more}."


def _check_whole(rows: Sequence[str], table: TableInfo) -> None:
    for column in table.schema.columns:
        is_numbered = column.name in table.schema.auto_increment
        if is_numbered and column.name in rows:
            raise errors.InvalidTargetColumnError(
                f"The column '{column.name}' is numbered by the server and cannot be written.",
                hint=f"Leave it out: .drop('{column.name}').",
            )
        if not is_numbered and column.name not in rows:
            raise errors.InvalidValueError(
                f"The rows have no column '{column.name}', which {table.path} has.",
                hint=_missing_hint(column.name, table),
            )


def _missing_hint(name: str, table: TableInfo) -> str:
    kind = spark_type(arrow_schema(table.schema).field(name).type).simpleString()
    hint = f"Add it, such as .withColumn('{name}', F.lit(None).cast('{kind}'))"
    if table.is_keyed and name not in table.schema.primary_key:
        return f"{hint}, or leave it as it is with .option('sink.partial-update', True)."
    return f"{hint}."


def _check_partial(rows: Sequence[str], table: TableInfo) -> None:
    if not table.is_keyed:
        raise errors.NotPrimaryKeyTableError(
            f"{table.path} has no primary key, so its rows cannot be updated.",
            hint="Leave 'sink.partial-update' out.",
        )
    for column in table.schema.columns:
        is_key = column.name in table.schema.primary_key
        if is_key and column.name not in rows:
            raise errors.InvalidTargetColumnError(
                f"The rows have no column '{column.name}', which is in the key of {table.path}.",
                hint="Every row must have the whole key of the row it updates.",
            )
        if not is_key and not column.type.nullable:
            raise errors.InvalidTargetColumnError(
                f"The column '{column.name}' of {table.path} is NOT NULL, so rows cannot "
                "be updated in part.",
                hint="Write all columns, without 'sink.partial-update'.",
            )


def _check_types(given: StructType, table: TableInfo) -> None:
    descriptor = table.descriptor
    keys = {*table.schema.primary_key, *descriptor.partition_keys, *descriptor.bucket_keys}
    for field in arrow_schema(table.schema):
        if field.name not in given.names:
            continue
        kind = given[field.name].dataType
        if isinstance(kind, NullType) and (field.name in keys or not field.nullable):
            raise errors.InvalidValueError(
                f"The column '{field.name}' contains only nulls, which {table.path} does "
                "not allow there.",
                hint="Give it a value in every row.",
            )
        _check_type(kind, field, path=str(table.path))


def _check_type(kind: DataType, field: pa.Field, *, path: str) -> None:
    wanted = spark_type(field.type).simpleString()
    try:
        # An empty column shows whether the types fit at all.
        cast_column(pa.array([], to_arrow_type(kind, timezone=ZONE)), field)
    except (errors.InvalidValueError, PySparkTypeError) as fault:
        raise errors.InvalidValueError(
            f"The column '{field.name}' is {kind.simpleString()}, but {path} has {wanted} there.",
            hint=f"Cast it: .withColumn('{field.name}', F.col('{field.name}').cast('{wanted}')).",
        ) from fault
