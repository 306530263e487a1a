"""Watermarks: kept with the table, applied to its stream, and what becomes of late rows."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812

from headwater.engines.spark.lookup_join import lookup_join
from headwater.engines.spark.watermarks import (
    COLUMN_PROPERTY,
    EXPRESSION_PROPERTY,
    TYPE_PROPERTY,
    Watermark,
    drop_watermark,
    read_stream,
    read_watermark,
    set_watermark,
    watermark_properties,
)
from headwater.errors import InvalidOptionError, RequestError, UnsupportedError
from headwater.model.types import TimestampLtzType, TimestampType
from tests.cases import cases

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


@given(st.text(min_size=1).filter(lambda name: "\n" not in name), st.integers(0, 10**12))
def test_a_watermark_is_read_as_it_was_declared(column, delay_ms):
    watermark = Watermark(column, delay_ms)

    assert read_watermark(watermark_properties(watermark, TimestampType())) == watermark


@cases(
    ("expression", "delay_ms"),
    [
        ("`at` - INTERVAL '5' SECOND", 5_000),
        ("at - interval '5' second", 5_000),
        ("`at` - INTERVAL '0.001' SECOND(3)", 1),
        ("at - INTERVAL 10 MINUTES", 600_000),
        ("at - INTERVAL '2' HOUR", 7_200_000),
        ("at - INTERVAL '1' DAY", 86_400_000),
        ("`at`", 0),
        ("at", 0),
    ],
)
def test_expressions_of_flink_and_spark_are_understood(expression, delay_ms):
    properties = {COLUMN_PROPERTY: "at", EXPRESSION_PROPERTY: expression}

    assert read_watermark(properties) == Watermark("at", delay_ms)


@cases(
    "expression",
    ["CURRENT_WATERMARK(at)", "at + INTERVAL '1' SECOND", "other", "at - INTERVAL '1' MONTH", ""],
)
def test_an_expression_that_is_more_than_a_delay_is_refused(expression):
    properties = {COLUMN_PROPERTY: "at", EXPRESSION_PROPERTY: expression}

    with pytest.raises(UnsupportedError, match="set_watermark"):
        read_watermark(properties)


def test_a_table_may_declare_none():
    assert read_watermark({"owner": "ada"}) is None


def test_the_properties_are_those_of_flink():
    properties = watermark_properties(
        Watermark("at", 5_000), TimestampLtzType(precision=3, nullable=False)
    )

    assert properties == {
        "schema.watermark.0.rowtime": "at",
        "schema.watermark.0.strategy.expr": "`at` - INTERVAL '5' SECOND",
        TYPE_PROPERTY: "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL",
    }


def test_a_watermark_is_set_changed_and_dropped(headwater_storage):
    table = headwater_storage.create_table("clicks", {"at": "TIMESTAMP(3)", "page": "STRING"})

    declared = []
    for change in (
        lambda: set_watermark(table, "at", "30 seconds"),
        lambda: set_watermark(table, "at", delay="1 min"),
        lambda: drop_watermark(table),
        lambda: drop_watermark(table),
    ):
        change()
        held = headwater_storage.table("clicks").info.descriptor.custom_properties
        declared.append(read_watermark(held))

    assert declared == [Watermark("at", 30_000), Watermark("at", 60_000), None, None]


def test_a_watermark_needs_a_column_that_tells_a_moment(headwater_storage):
    table = headwater_storage.create_table("clicks", {"at": "TIMESTAMP(3)", "page": "STRING"})

    with pytest.raises(RequestError, match="TIMESTAMP"):
        set_watermark(table, "page", "5 s")
    with pytest.raises(RequestError, match="no column 'when'"):
        set_watermark(table, "when", "5 s")
    with pytest.raises(InvalidOptionError, match="duration"):
        set_watermark(table, "at", "later")


def append(table, *seconds):
    zone = {} if table.info.schema.column("at").type == TimestampLtzType() else {"tzinfo": None}
    moments = [(NOON + timedelta(seconds=second)).replace(**zone) for second in seconds]
    table.append([(moment, "page") for moment in moments])


def minutes_of(stream, tmp_path):
    """Count rows by minute as far as the stream goes, and return what is final."""
    counts = stream.groupBy(F.window("at", "1 minute")).count()
    counts = counts.select(F.minute("window.start").alias("minute"), "count")
    writer = counts.writeStream.format("parquet").option("checkpointLocation", f"{tmp_path}/c")
    writer.trigger(availableNow=True).start(f"{tmp_path}/out").awaitTermination()
    return {
        row.minute: row["count"]
        for row in stream.sparkSession.read.parquet(f"{tmp_path}/out").collect()
    }


@pytest.mark.parametrize("kind", ["TIMESTAMP(6)", "TIMESTAMP_LTZ(6)"])
def test_rows_later_than_the_watermark_are_left_out(spark, served, tmp_path, kind):
    clicks = served.create({"at": kind, "page": "STRING"}, buckets=1)
    set_watermark(clicks, "at", delay="30 seconds")
    stream = read_stream(spark, clicks.name, watermark=True, bootstrap_servers=served.address)

    append(clicks, 10, 50, 130)  # now 12:01:40 is the end of waiting
    first = minutes_of(stream, tmp_path)
    append(clicks, 20, 59, 115, 90, 300)  # the first two are too late, the fourth is not
    second = minutes_of(stream, tmp_path)

    assert first == {0: 2}
    assert second == {0: 2, 1: 2, 2: 1}


def test_a_watermark_lasts_through_a_lookup_join(spark, served, tmp_path):
    clicks = served.create({"at": "TIMESTAMP(6)", "page": "STRING"}, buckets=1)
    pages = served.create(
        {"page": "STRING", "title": "STRING"}, primary_key="page", rows=[("page", "Page")]
    )
    set_watermark(clicks, "at", delay="30 seconds")
    stream = read_stream(spark, clicks.name, watermark=True, bootstrap_servers=served.address)
    titled = lookup_join(stream, pages.name, on="page", bootstrap_servers=served.address)

    append(clicks, 10, 50, 130)
    counted = minutes_of(titled, tmp_path)

    assert counted == {0: 2}


def test_a_stream_is_read_without_a_watermark_unless_asked(spark, served):
    clicks = served.create({"at": "TIMESTAMP(6)"})

    stream = read_stream(spark, clicks.name, bootstrap_servers=served.address)

    assert stream.isStreaming
    with pytest.raises(RequestError, match="set_watermark"):
        read_stream(spark, clicks.name, watermark=True, bootstrap_servers=served.address)


def test_the_column_of_a_watermark_has_to_be_read(spark, served):
    clicks = served.create({"at": "TIMESTAMP(6)", "page": "STRING"})
    set_watermark(clicks, "at")

    with pytest.raises(RequestError, match=r"scan\.columns"):
        read_stream(
            spark,
            clicks.name,
            watermark=True,
            bootstrap_servers=served.address,
            options={"scan.columns": "page"},
        )
