"""Enrich a stream or a batch with columns of a primary-key table."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as spark

from headwater.client.sync.table import Table
from headwater.config.values import DURATION
from headwater.engines.spark.clients import SparkConnection
from headwater.engines.spark.lookup_task import JoinType, KeyReader, LookupTask
from headwater.engines.spark.options import (
    CONNECT_TIMEOUT,
    DEADLINE,
    NANOSECONDS,
    SECURITY_OPTIONS,
    SERVERS,
    SERVERS_DEFAULT,
    Nanoseconds,
    given_options,
)
from headwater.engines.spark.types import spark_schema
from headwater.errors import InvalidOptionError, NotPrimaryKeyTableError, RequestError
from headwater.read.lookup import prefix_encoder
from headwater.rows.columns import names

_OPTIONS = (SERVERS, *SECURITY_OPTIONS, DEADLINE, CONNECT_TIMEOUT, NANOSECONDS)
_MS = 1000
# A number fits a key of the same or a larger width.
_WHOLE = (spark.ByteType(), spark.ShortType(), spark.IntegerType(), spark.LongType())


def lookup_join(  # noqa: PLR0913 - one argument per choice
    df: DataFrame,
    table: str,
    *,
    on: str | Sequence[str] | Mapping[str, str],
    how: str = "left",
    columns: str | Sequence[str] | None = None,
    prefix: str = "",
    cache_rows: int = 0,
    cache_ttl: str = "10 s",
    bootstrap_servers: str = SERVERS_DEFAULT,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Add columns of a primary-key table to the rows of a stream or a batch, found by key.

        lookup_join(orders, "shop.customers", on={"customer": "id"}, columns=["name", "city"])

    `on` names the key columns, or maps columns of the rows to them. With the whole primary key, at
    most one row is found for each; with the bucket key that it begins with, all rows that share it.
    A row for which nothing is found, or whose key is null, gets nulls, or is left out with
    `how="inner"`. The added columns are `columns`, or all but the key, with `prefix` before their
    names.

    Tasks look up keys while they run, so rows are as new as the moment when their micro-batch is
    processed, except that a task does not ask for the same key again for ten seconds; a micro-batch
    that is run again may find newer rows. With `cache_rows` each worker process keeps up to that
    many keys and rows from task to task, and rows may be `cache_ttl` old.
    """
    connection, truncates = _reached(bootstrap_servers, options or {})
    found = connection.client().table(table)
    pairs = _pairs(on)
    keys = _key_reader(df.schema, found, pairs)
    added = tuple(names(columns or ())) or _others(found, tuple(pairs.values()))
    schema = spark_schema(found.schema, columns=added, path=table)
    given = tuple(f"{prefix}{name}" for name in added)
    _check_clashes(df.columns, given)
    task = LookupTask(
        connection=connection,
        table=table,
        keys=keys,
        is_whole_key=set(pairs.values()) == set(found.info.schema.primary_key),
        columns=added,
        names=given,
        schema=schema,
        how=_how(how),
        truncates_nanoseconds=truncates,
        cache_rows=cache_rows,
        cache_age_s=_age_s(cache_ttl),
    )
    fields = [
        spark.StructField(name, field.dataType) for name, field in zip(given, schema, strict=True)
    ]
    return df.mapInArrow(task.run, spark.StructType([*df.schema.fields, *fields]))


def _reached(servers: str, options: Mapping[str, str]) -> tuple[SparkConnection, bool]:
    given = given_options({SERVERS.name: servers, **options}, _OPTIONS)
    return SparkConnection.of(given), NANOSECONDS.required(given) is Nanoseconds.TRUNCATE


def _pairs(on: str | Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """Pair the columns of the rows with the key columns."""
    pairs = dict(on) if isinstance(on, Mapping) else {name: name for name in names(on)}
    if not pairs or len(set(pairs.values())) < len(pairs):
        raise RequestError(
            "A lookup join needs at least one column, each for a different key column.",
            hint="Write on='id', on=['city', 'day'] or on={'customer': 'id'}.",
        )
    return pairs


def _key_reader(rows: spark.StructType, table: Table, pairs: Mapping[str, str]) -> KeyReader:
    if not table.is_keyed:
        raise NotPrimaryKeyTableError(
            f"{table.name} has no primary key, so rows cannot be looked up in it.",
            hint="Join with spark.read.format('headwater') instead.",
        )
    info = table.info
    if set(pairs.values()) != set(info.schema.primary_key):
        prefix_encoder(info, tuple(pairs.values()))  # raises for a missing column
    kinds = spark_schema(table.schema, columns=tuple(pairs.values()), path=table.name)
    for (given, wanted), field in zip(pairs.items(), kinds, strict=True):
        _check_type(rows, given, wanted=wanted, kind=field.dataType)
    return KeyReader(
        tuple(pairs),
        pa.schema([table.schema.field(name) for name in pairs.values()]),
        tuple(info.schema.column(name).type for name in pairs.values()),
    )


def _check_type(rows: spark.StructType, given: str, *, wanted: str, kind: spark.DataType) -> None:
    if given not in rows.names:
        close = get_close_matches(given, rows.names, n=1)
        raise RequestError(
            f"The rows have no column '{given}'.",
            hint=f"Did you mean '{close[0]}'?"
            if close
            else f"Map one of their columns to the key: on={{'…': '{wanted}'}}.",
        )
    held = rows[given].dataType
    is_narrower = held in _WHOLE and kind in _WHOLE and _WHOLE.index(held) <= _WHOLE.index(kind)
    if held != kind and not is_narrower:
        raise RequestError(
            f"The column '{given}' is {held.simpleString()}, but the key '{wanted}' is "
            f"{kind.simpleString()}.",
            hint=f"Cast it first: df.withColumn('{given}', df['{given}'].cast("
            f"'{kind.simpleString()}')).",
        )


def _others(table: Table, keys: tuple[str, ...]) -> tuple[str, ...]:
    others = tuple(name for name in table.schema.names if name not in keys)
    if not others:
        raise RequestError(
            f"{table.name} has only key columns, so there is nothing to add.",
            hint="Name columns to add: columns=['…'].",
        )
    return others


def _check_clashes(held: Sequence[str], added: Sequence[str]) -> None:
    taken = {name.lower() for name in held}  # Spark compares names like this
    clashing = [name for name in added if name.lower() in taken]
    if clashing:
        raise RequestError(
            f"The rows already have a column '{clashing[0]}'.",
            hint=(
                "Give the added columns a prefix (prefix='customer_'), or choose others "
                "with columns=[…]."
            ),
        )


def _how(how: str) -> JoinType:
    try:
        return JoinType(how)
    except ValueError:
        raise InvalidOptionError(
            f"'how' cannot be {how!r} in a lookup join.", hint="Use how='left' or how='inner'."
        ) from None


def _age_s(text: str) -> float:
    age_ms = DURATION.read(text)
    if age_ms is None:
        raise InvalidOptionError(
            f"'cache_ttl' cannot be {text!r}.", hint=f"Expected {DURATION.expected}."
        )
    return age_ms / _MS
