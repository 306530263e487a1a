"""A table with a lake as a data frame whose files Spark reads itself."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession

from headwater.client.column_names import chosen
from headwater.client.reading.filters import Where
from headwater.client.sync.client import Client
from headwater.client.union.token import token_text
from headwater.engines.spark.native.conditions import condition_of, quoted
from headwater.engines.spark.native.files import is_read_by_spark
from headwater.engines.spark.native.frame import NativeFrame
from headwater.engines.spark.options import (
    LAKE,
    OFFSETS,
    PARTITIONS,
    SCAN_MODE,
    SERVERS,
    SERVERS_DEFAULT,
    SNAPSHOT_ID,
    TABLE,
    TIMESTAMP_MILLIS,
    TOKEN,
)
from headwater.engines.spark.reading.reading import Reading
from headwater.engines.spark.reading.views import viewed
from headwater.engines.spark.source import FORMAT
from headwater.engines.spark.source_options import SourceOptions
from headwater.engines.spark.types import spark_schema
from headwater.errors import RequestError

_MS = 1000


def read(  # noqa: PLR0913 - one argument per choice
    spark: SparkSession,
    table: str,
    *,
    at: str | Client = SERVERS_DEFAULT,
    columns: str | Sequence[str] | None = None,
    where: Where | None = None,
    partitions: Sequence[str] | None = None,
    token: str | None = None,
    snapshot_id: int | None = None,
    as_of: datetime | int | None = None,
    offsets: Mapping[str, int] | None = None,
    mode: str = "union",
    lake: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return a table as it is now, or at a position, with its lake read by Spark itself.

        read(spark, "shop.orders", at="localhost:9123").groupBy("city").count()

    Files of the lake that Spark can read it reads as it reads Parquet, columns and conditions of
    the query pushed down. What was written since the lake's snapshot is added, and rows that were
    changed since are left out. The data frame is pinned: it shows the same rows however often it
    is used. The storage and the lake have to be reached from here under the same names as from
    Spark's workers. `columns`, `where` and `partitions` leave out files before Spark knows of
    them. A table without a lake is read as `format("headwater")` reads it. What `lake` says stands
    above the options of the lake that the server tells.
    """
    given = dict(options or {}) | {SERVERS.name: _address(at), TABLE.name: table}
    given |= {} if lake is None else {LAKE.name: json.dumps(dict(lake))}
    named = {
        SCAN_MODE.name: mode,
        TOKEN.name: token,
        SNAPSHOT_ID.name: None if snapshot_id is None else str(snapshot_id),
        TIMESTAMP_MILLIS.name: None if as_of is None else str(_millis(as_of)),
        OFFSETS.name: None if offsets is None else json.dumps(dict(offsets)),
        PARTITIONS.name: None if partitions is None else ",".join(partitions),
    }
    position = {name: text for name, text in named.items() if text is not None}
    asked = replace(SourceOptions.of(given | position), columns=chosen(columns), where=where)
    whole, view = viewed(asked)
    # What is wrong with columns or filter is said before Spark knows of anything.
    spark_schema(whole.whole_schema, columns=asked.columns, path=table)
    whole.filter()
    if view is None or view.snapshot is None:
        return _plain(spark, given | position, whole, columns=asked.columns)
    if all(is_read_by_spark(each.type) for each in whole.table.schema.columns):
        return NativeFrame(spark, view, asked, given=given).build()
    # Pinned all the same: Spark looks at tables again whenever a data frame is planned.
    pinned = given | {TOKEN.name: token_text(view)}
    within = {name: position[name] for name in (PARTITIONS.name,) if name in position}
    return _plain(spark, pinned | within, whole, columns=asked.columns)


def _plain(
    spark: SparkSession,
    given: Mapping[str, str],
    whole: Reading,
    *,
    columns: Sequence[str] | None,
) -> DataFrame:
    """Return a read that is ours alone."""
    output = columns or whole.whole_schema.names
    wanted = whole.filter()
    needed = dict.fromkeys((*output, *(() if wanted is None else wanted.columns)))
    schema = spark_schema(whole.whole_schema, columns=tuple(needed), path=whole.name)
    rows = spark.read.format(FORMAT).options(**given).schema(schema).load()
    if wanted is None:
        return rows
    return rows.filter(condition_of(wanted)).select(*map(quoted, output))


def _address(at: str | Client) -> str:
    if not isinstance(at, Client):
        return at
    if at.address is None:
        raise RequestError(
            "Nobody else can reach this storage.",
            hint="Open it with headwater.open(…, listen=True), so that workers of Spark can.",
        )
    return at.address


def _millis(moment: datetime | int) -> int:
    if isinstance(moment, int):
        return moment
    if moment.tzinfo is None:
        raise RequestError(
            f"{moment} has no time zone.", hint="Give it one, e.g. tzinfo=datetime.UTC."
        )
    return int(moment.timestamp() * _MS)
