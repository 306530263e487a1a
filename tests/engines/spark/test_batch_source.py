"""Tables read by Spark, once."""

from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headwater.engines.spark.source import FORMAT
from tests.engines.spark.conftest import Served

LOG = {"id": "BIGINT", "name": "STRING"}
ZONE = "spark.sql.session.timeZone"
EVERY_TYPE = {
    "flag": ("BOOLEAN", True),
    "tiny": ("TINYINT", -128),
    "small": ("SMALLINT", 32767),
    "whole": ("INT", -(2**31)),
    "long": ("BIGINT", 2**63 - 1),
    "single": ("FLOAT", 1.5),
    "double": ("DOUBLE", 0.1),
    "fixed": ("CHAR(3)", "abc"),
    "text": ("STRING", "größer 🌊"),
    "price": ("DECIMAL(10, 2)", Decimal("-12345678.90")),
    "huge": ("DECIMAL(38, 10)", Decimal("1234567890123456789012345678.0123456789")),
    "day": ("DATE", date(1969, 12, 31)),
    "clock": ("TIME(3)", time(23, 59, 59, 999000)),
    "local_ms": ("TIMESTAMP(3)", datetime(2026, 3, 29, 2, 30, 0, 123000)),
    "local_us": ("TIMESTAMP(6)", datetime(1900, 1, 1, 0, 0, 0, 1)),
    "moment_ms": ("TIMESTAMP_LTZ(3)", datetime(2026, 11, 1, 5, 30, 0, 1000, UTC)),
    "moment_us": ("TIMESTAMP_LTZ(6)", datetime(2026, 11, 1, 6, 30, 0, 1, UTC)),
    "bytes": ("BYTES", b"\x00\xff"),
    "four": ("BINARY(4)", b"abcd"),
    "list": ("ARRAY<INT>", [1, None, 3]),
    "map": ("MAP<STRING, BIGINT>", [("a", 1), ("b", None)]),
    "row": ("ROW<a INT, b ROW<c ARRAY<STRING>>>", {"a": 1, "b": {"c": ["x", None]}}),
}


def load(spark: SparkSession, served: Served, table, **options: str) -> DataFrame:
    named = {name.replace("__", "."): text for name, text in options.items()}
    name = table if isinstance(table, str) else table.name
    return spark.read.format(FORMAT).options(**(served.options | named)).load(name)


def rows(start: int, end: int) -> list[dict]:
    return [{"id": number, "name": f"n{number}"} for number in range(start, end)]


@pytest.fixture
def far_away(spark):
    """Set the session to a zone with daylight saving time, where naive code goes wrong."""
    before = spark.conf.get(ZONE)
    spark.conf.set(ZONE, "America/New_York")
    yield
    spark.conf.set(ZONE, before)


@pytest.mark.usefixtures("far_away")
@pytest.mark.parametrize("key", [(), "long"])
def test_every_type_is_read_exactly_whatever_the_zone_of_the_session(spark, served, key):
    full = {name: value for name, (_, value) in EVERY_TYPE.items()}
    empty = dict.fromkeys(full) | {"long": 1}
    columns = {name: kind for name, (kind, _) in EVERY_TYPE.items()}
    table = served.create(columns, rows=[full, empty], primary_key=key, buckets=1)

    # Over Spark Connect, results may hold no times of day.
    frame = load(spark, served, table).withColumn("clock", f.col("clock").cast("string"))
    found = frame.orderBy(f.col("long").desc()).toArrow()

    for name, expected in (full | {"clock": "23:59:59.999"}).items():
        column = found[name]
        if name.startswith("moment"):
            column = column.cast(pa.timestamp("us", "UTC"))
        assert column.to_pylist() == [expected, empty[name]], name


def test_times_finer_than_microseconds_are_refused_or_cut_off(spark, served):
    table = served.create({"at": "TIMESTAMP(9)"}, buckets=1)
    fine = pa.table({"at": pa.array([1_000_001], pa.timestamp("ns"))})
    table.append(fine)

    cut = load(spark, served, table, scan__nanoseconds="truncate").toArrow()

    assert cut["at"].cast(pa.int64()).to_pylist() == [1000]
    with pytest.raises(PySparkException, match=r"scan\.nanoseconds"):
        load(spark, served, table).toArrow()


def test_a_log_is_read_in_parts_by_columns_and_filters(spark, served):
    table = served.create(LOG, rows=rows(0, 1000), bucket_by="id", buckets=3)

    everything = load(spark, served, table, scan__split__rows="100")
    tasks = everything.select(f.spark_partition_id().alias("task")).distinct().count()
    some = load(spark, served, table, scan__columns="name", scan__filter='[["id", "<", 3]]')
    given = spark.read.schema("name string").format(FORMAT).options(**served.options)

    assert everything.agg(f.sum("id")).collect()[0][0] == sum(range(1000))
    assert tasks > 3
    assert sorted(row.name for row in some.collect()) == ["n0", "n1", "n2"]
    assert given.load(table.name).distinct().count() == 1000
    assert load(spark, served, table, scan__limit="7").count() == 7


def test_a_frame_shows_rows_as_they_were_when_it_was_planned(spark, served):
    table = served.create(LOG, rows=rows(0, 100), primary_key="id", buckets=2)
    frame = load(spark, served, table)
    before = frame.count()

    table.upsert([{"id": number, "name": "new"} for number in range(50, 150)])
    table.delete(list(range(10)))
    joined = frame.alias("a").join(frame.alias("b"), "id").where("a.name = b.name")

    assert before == frame.count() == joined.count() == 100
    assert frame.where("name = 'new'").count() == 0
    assert load(spark, served, table).count() == 140


def test_changes_are_read_with_their_kind_offset_and_time(spark, served):
    table = served.create(LOG, rows=rows(0, 2), primary_key="id", buckets=1)
    table.upsert([{"id": 1, "name": "new"}])
    table.delete([0])

    changes = load(spark, served, table, scan__changelog="true").orderBy("_log_offset").collect()
    pairs = load(spark, served, f"{table.name}$binlog").where("_change_type = 'update'").collect()

    assert [(row._change_type, row.id) for row in changes[2:]] == [
        ("update_before", 1),
        ("update_after", 1),
        ("delete", 0),
    ]
    assert [(row.before.name, row.after.name) for row in pairs] == [("n1", "new")]
    assert all(row._commit_timestamp.year >= 2024 for row in changes)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"table": "spark.nothing"}, r"no table 'spark\.nothing'"),
        ({"scan__colums": "id"}, r"Did you mean 'scan\.columns'\?"),
        ({"scan__columns": "idd"}, r"no column 'idd'\. Its columns are id, name"),
        ({"scan__filter": '[["x", "<", 3]]'}, r"'x', which is not a column"),
        ({"scan__partitions": "day=1"}, r"names no partition"),
        (
            {"bootstrap__servers": "127.0.0.1:1", "client__connect-timeout": "200 ms"},
            r"Cannot reach 127\.0\.0\.1:1",
        ),
    ],
)
def test_what_is_wrong_is_told_when_the_read_is_planned(spark, served, options, told):
    table = served.create(LOG, buckets=1)

    with pytest.raises(PySparkException, match=told):
        load(spark, served, options.pop("table", table), **options).collect()
