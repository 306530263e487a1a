"""Enriching batches and streams by key and by the start of a key."""

from datetime import UTC, datetime

import pytest
from pyspark.sql import functions as F  # noqa: N812

from headwater.engines.spark.lookup_join import lookup_join
from headwater.errors import HeadwaterError, InvalidOptionError, NotPrimaryKeyTableError

CUSTOMERS = {"id": "BIGINT", "name": "STRING", "since": "TIMESTAMP_LTZ(6)"}
SINCE = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


@pytest.fixture
def customers(served):
    rows = [(n, f"c{n}", SINCE) for n in range(100)]
    return served.create(CUSTOMERS, primary_key="id", buckets=3, rows=rows)


@pytest.fixture
def visits(served):
    """Make a table with as many rows for a city as its name has letters."""
    rows = [(city, day, day * 10) for city in ("Ulm", "Bonn", "Rome") for day in range(len(city))]
    return served.create(
        {"city": "STRING", "day": "INT", "visits": "INT"},
        primary_key=["city", "day"],
        bucket_by="city",
        buckets=2,
        rows=rows,
    )


def joined(df, table, served, **arguments):
    return lookup_join(df, table.name, bootstrap_servers=served.address, **arguments)


def rows_of(df):
    return sorted(tuple(row) for row in df.collect())


def test_a_batch_is_enriched_by_key(spark, served, customers):
    orders = spark.createDataFrame([(1, 7), (2, 7), (3, 500), (4, None)], "n int, customer bigint")

    named = joined(orders, customers, served, on={"customer": "id"})

    assert named.columns == ["n", "customer", "name", "since"]
    found = {row.n: (row.name, row.since) for row in named.collect()}
    since = found[1][1]
    assert found == {1: ("c7", since), 2: ("c7", since), 3: (None, None), 4: (None, None)}
    assert since.astimezone(UTC) == SINCE or since == SINCE.replace(tzinfo=None)


def test_rows_without_a_match_are_left_out_of_an_inner_join(spark, served, customers):
    orders = spark.range(95, 105).withColumnRenamed("id", "customer")

    named = joined(orders, customers, served, on={"customer": "id"}, how="inner", columns="name")

    assert rows_of(named) == [(n, f"c{n}") for n in range(95, 100)]


def test_a_narrower_number_finds_its_key(spark, served, customers):
    orders = spark.range(3).select(F.col("id").cast("tinyint").alias("id"))

    named = joined(orders, customers, served, on="id", columns=["name"], prefix="customer_")

    assert [(row.id, row.customer_name) for row in named.orderBy("id").collect()] == [
        (0, "c0"),
        (1, "c1"),
        (2, "c2"),
    ]


def test_rows_are_enriched_with_all_rows_of_a_prefix(spark, served, visits):
    cities = spark.createDataFrame([("Bonn",), ("Ulm",), ("Oslo",), ("Ulm",)], "city string")

    found = joined(cities, visits, served, on="city", columns=["day"])

    expected = [("Bonn", n) for n in range(4)] + [("Ulm", n) for n in range(3)] * 2
    assert sorted(r for r in rows_of(found.na.drop())) == sorted(expected)
    assert found.filter("day is null").count() == 1


def test_a_key_of_several_columns_is_found_whole(spark, served, visits):
    days = spark.createDataFrame(
        [("Bonn", 3), ("Bonn", 4), (None, 1), ("Ulm", None), ("Rome", 0)], "place string, day int"
    )

    found = joined(days, visits, served, on={"day": "day", "place": "city"}, how="inner")

    assert rows_of(found) == [("Bonn", 3, 30), ("Rome", 0, 0)]


def test_every_batch_of_a_large_task_is_enriched(spark, served, customers):
    orders = spark.range(0, 200_000, 1, 1).select("id", (F.col("id") % 120).alias("customer"))

    named = joined(orders, customers, served, on={"customer": "id"}, columns=["name"], how="inner")
    wrong = named.filter("name != concat('c', customer)").count()

    assert (named.count(), wrong) == (sum(1 for n in range(200_000) if n % 120 < 100), 0)


def test_a_cache_gives_the_same_rows(spark, served, customers):
    orders = spark.range(0, 1000, 1, 4).select((F.col("id") % 150).alias("customer"))

    cached = joined(orders, customers, served, on={"customer": "id"}, columns="name", cache_rows=60)

    assert rows_of(cached.na.drop()) == rows_of(
        joined(orders, customers, served, on={"customer": "id"}, columns="name", how="inner")
    )


def test_a_stream_is_enriched(spark, served, customers, tmp_path):
    orders = served.create({"customer": "BIGINT"}, rows=[(1,), (2,), (900,)])
    stream = spark.readStream.format("headwater").options(**served.options).load(orders.name)
    named = joined(stream, customers, served, on={"customer": "id"}, columns="name")

    query = named.writeStream.format("parquet").option("checkpointLocation", f"{tmp_path}/c")
    query.trigger(availableNow=True).start(f"{tmp_path}/out").awaitTermination()

    written = spark.read.parquet(f"{tmp_path}/out").collect()
    assert {row.customer: row.name for row in written} == {1: "c1", 2: "c2", 900: None}


def test_moments_stay_exact_in_another_zone(spark, served, customers):
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        moments = spark.sql("SELECT 5L AS id, TIMESTAMP '2026-07-01 00:00:00.000001' AS at")
        found = joined(moments, customers, served, on="id", columns="since")
        micros = found.selectExpr("unix_micros(since) AS s", "unix_micros(at) AS a").first()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)

    assert micros.s == int(SINCE.timestamp()) * 1_000_000 + 678901
    assert micros.a == int(datetime(2026, 7, 1, 4, tzinfo=UTC).timestamp()) * 1_000_000 + 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"on": {"idd": "id"}}, "Did you mean 'id'"),
        ({"on": {"id": "name"}}, "cannot be found by name"),
        ({"on": {"name": "id"}}, "Cast it first"),
        ({"on": {"id": "id", "name": "id"}}, "each for a different key column"),
        ({"on": "id"}, "prefix="),
        ({"on": "id", "columns": "town"}, "no column 'town'"),
        ({"on": "id", "prefix": "c_", "how": "outer"}, "how='left'"),
        ({"on": "id", "prefix": "c_", "cache_ttl": "soon"}, "a duration"),
        ({"on": "id", "prefix": "c_", "options": {"client.deadlin": "3 s"}}, "'client.deadline'"),
    ],
)
def test_what_cannot_be_joined_is_refused_before_anything_runs(
    spark, served, customers, arguments, says
):
    rows = spark.createDataFrame([(1, "x")], "id bigint, name string")

    with pytest.raises(HeadwaterError, match=says):
        joined(rows, customers, served, **arguments)


def test_a_log_table_has_no_keys_to_look_up(spark, served):
    log = served.create({"id": "BIGINT"})

    with pytest.raises(NotPrimaryKeyTableError, match="Join with"):
        joined(spark.range(1), log, served, on="id")


def test_a_join_of_an_unknown_kind_is_refused(spark, served, customers):
    with pytest.raises(InvalidOptionError):
        joined(spark.range(1), customers, served, on="id", how="full")
