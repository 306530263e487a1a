"""Enriching a stream or a batch with the columns of a primary-key table."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as spark

from headwater.client.column_names import names
from headwater.client.reading.prefixes import prefix_encoder
from headwater.client.sync.table import Table
from headwater.config.values import DURATION
from headwater.engines.spark.clients import Connection
from headwater.engines.spark.lookups.joining import How
from headwater.engines.spark.lookups.keys import KeyReader
from headwater.engines.spark.lookups.task import LookupTask
from headwater.engines.spark.options import (
    CONNECT_TIMEOUT,
    DEADLINE,
    NANOSECONDS,
    PASSWORD,
    SERVERS,
    SERVERS_DEFAULT,
    USER,
    Nanoseconds,
    given_options,
)
from headwater.engines.spark.types import spark_schema
from headwater.errors import InvalidOptionError, NotPrimaryKeyTableError, RequestError

_OPTIONS = (SERVERS, USER, PASSWORD, DEADLINE, CONNECT_TIMEOUT, NANOSECONDS)
_MS = 1000
# A number fits a key of its own width or a larger one.
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

    `on` names the columns of the key, or maps columns of the rows to them. If they are the whole
    primary key, a row is found for each at most; if they are the bucket key that it begins with,
    all rows that begin so. A row for which nothing is found, or whose key is null, has nulls
    beside it, or is left out with `how="inner"`. Added are `columns`, or all but the key, with
    `prefix` before their names.

    Tasks look the keys up while they run, so rows are as new as the moment at which their
    micro-batch is processed, but for ten seconds in which a task does not ask for a key again;
    a micro-batch that is run again may find newer ones. With `cache_rows` each worker process
    keeps up to so many keys and rows from task to task, and rows may be `cache_ttl` old.
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


def _reached(servers: str, options: Mapping[str, str]) -> tuple[Connection, bool]:
    given = given_options({SERVERS.name: servers, **options}, _OPTIONS)
    return Connection.of(given), NANOSECONDS.required(given) is Nanoseconds.TRUNCATE


def _pairs(on: str | Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """Return the columns of the rows with the key columns that they hold."""
    pairs = dict(on) if isinstance(on, Mapping) else {name: name for name in names(on)}
    if not pairs or len(set(pairs.values())) < len(pairs):
        raise RequestError(
            "A lookup join needs columns, each for another column of the key.",
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
        prefix_encoder(info, tuple(pairs.values()))  # says what is missing
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
            else f"Map a column of theirs to the key: on={{'…': '{wanted}'}}.",
        )
    held = rows[given].dataType
    is_narrower = held in _WHOLE and kind in _WHOLE and _WHOLE.index(held) <= _WHOLE.index(kind)
    if held != kind and not is_narrower:
        raise RequestError(
            f"The column '{given}' is {held.simpleString()}, and the key '{wanted}' is"
            f" {kind.simpleString()}.",
            hint=f"Cast it first: df.withColumn('{given}', df['{given}'].cast("
            f"'{kind.simpleString()}')).",
        )


def _others(table: Table, keys: tuple[str, ...]) -> tuple[str, ...]:
    others = tuple(name for name in table.schema.names if name not in keys)
    if not others:
        raise RequestError(
            f"{table.name} has no columns but its key, so there is nothing to add.",
            hint="Name columns to add: columns=['…'].",
        )
    return others


def _check_clashes(held: Sequence[str], added: Sequence[str]) -> None:
    taken = {name.lower() for name in held}  # Spark looks at names so
    clashing = [name for name in added if name.lower() in taken]
    if clashing:
        raise RequestError(
            f"The rows have a column '{clashing[0]}' already.",
            hint="Give the added columns a prefix (prefix='customer_'), or name others with"
            " columns=[…].",
        )


def _how(how: str) -> How:
    try:
        return How(how)
    except ValueError:
        raise InvalidOptionError(
            f"A lookup join cannot be {how!r}.", hint="Write how='left' or how='inner'."
        ) from None


def _age_s(text: str) -> float:
    age_ms = DURATION.read(text)
    if age_ms is None:
        raise InvalidOptionError(
            f"'cache_ttl' cannot be {text!r}.", hint=f"Expected {DURATION.expected}."
        )
    return age_ms / _MS
