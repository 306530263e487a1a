"""Data frames written into tables: rows, changes, types, and what is refused."""

from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from headwater.engines.spark.by_bucket import by_bucket
from headwater.engines.spark.types import spark_schema

ORDERS = {"id": "BIGINT", "city": "STRING", "amount": "INT"}
ROWS = "id bigint, city string, amount int"


def write(served, df, table, **options):
    writer = df.write.format("headwater").options(**served.options).mode("append")
    writer.options(**options).save(str(table.path))


def ids(table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def many(spark, count: int, tasks: int = 3):
    return spark.range(0, count, 1, tasks).select(
        "id",
        F.concat(F.lit("c"), (F.col("id") % 7).cast("string")).alias("city"),
        (F.col("id") % 100).cast("int").alias("amount"),
    )


def test_rows_are_appended_to_a_log_table(spark, served):
    table = served.create(ORDERS, buckets=2)

    write(served, many(spark, 10_000), table)

    assert ids(table) == list(range(10_000))


def test_rows_are_upserted_by_key(spark, served):
    table = served.create(ORDERS, primary_key="id", buckets=3, rows=[(1, "old", 1), (99, "x", 1)])

    write(served, many(spark, 50), table)

    assert ids(table) == [*range(50), 99]
    assert table.get(1) == {"id": 1, "city": "c1", "amount": 1}


def test_columns_may_come_in_another_order_and_in_types_that_fit(spark, served):
    table = served.create(ORDERS)
    df = spark.createDataFrame([(7, 1, "Ulm")], "amount bigint, id int, city string")

    write(served, df, table)

    assert table.scan().to_pylist() == [{"id": 1, "city": "Ulm", "amount": 7}]


def test_partitions_are_created_as_rows_come(spark, served):
    columns = {"day": "STRING", "id": "BIGINT"}
    table = served.create(columns, partition_by="day", buckets=2, bucket_by="id")
    df = spark.range(100).select(F.concat(F.lit("d"), F.col("id") % 3).alias("day"), "id")

    write(served, by_bucket(df, str(table.path), bootstrap_servers=served.address), table)

    assert ids(table) == list(range(100))
    assert sorted(each["day"] for each in table.partitions()) == ["d0", "d1", "d2"]


def test_a_column_of_changes_says_what_to_do(spark, served):
    table = served.create(ORDERS, primary_key="id", rows=[(1, "a", 1), (2, "b", 2)])
    changes = [(1, "a", 1, "-D"), (2, "b", 2, "-U"), (2, "c", 3, "+U"), (3, "d", 4, "+I")]
    df = spark.createDataFrame(changes, f"{ROWS}, op string").coalesce(1)

    write(served, df, table, **{"sink.change-type-column": "op"})

    assert ids(table) == [2, 3]
    assert table.get(2) == {"id": 2, "city": "c", "amount": 3}


def test_some_columns_are_updated(spark, served):
    table = served.create(ORDERS, primary_key="id", rows=[(1, "a", 1)])
    df = spark.createDataFrame([(1, 10), (2, 20)], "id bigint, amount int")

    write(served, df, table, **{"sink.partial-update": "true"})

    assert table.get(1) == {"id": 1, "city": "a", "amount": 10}
    assert table.get(2) == {"id": 2, "city": None, "amount": 20}


def test_a_named_write_lands_once_however_often_the_job_is_run(spark, served):
    table = served.create(ORDERS, buckets=2)
    name = str(table.path)

    for _ in range(2):
        write(served, many(spark, 1000), table, **{"write.id": name})

    assert ids(table) == list(range(1000))


@pytest.mark.parametrize("key", [(), ("id",)])
def test_rows_shuffled_by_bucket_all_land(spark, served, key):
    table = served.create(ORDERS, primary_key=key, buckets=3)
    df = by_bucket(many(spark, 5000), str(table.path), bootstrap_servers=served.address, tasks=2)

    write(served, df, table)

    assert ids(table) == list(range(5000))
    assert all(end > 0 for end in list(table.offsets().values())[:2])


def test_rows_that_are_shuffled_after_by_bucket_are_refused(spark, served):
    table = served.create(ORDERS, buckets=3)
    df = by_bucket(many(spark, 100), str(table.path), bootstrap_servers=served.address)

    with pytest.raises(PySparkException, match="last step before the write"):
        write(served, df.repartition(2), table)


# ---- types

TYPES = {
    "a": ("BOOLEAN", True),
    "b": ("TINYINT", -128),
    "c": ("SMALLINT", 32_767),
    "d": ("INT", -(2**31)),
    "e": ("BIGINT", 2**63 - 1),
    "f": ("FLOAT", 0.5),
    "g": ("DOUBLE", -1e300),
    "h": ("DECIMAL(38, 10)", Decimal("12345678901234567890.0123456789")),
    "i": ("DECIMAL(9, 2)", Decimal("-1234567.89")),
    "j": ("CHAR(3)", "äöü"),
    "k": ("STRING", "🦉"),
    "l": ("BINARY(4)", b"\x00\x01\x02\xff"),
    "m": ("BYTES", b""),
    "n": ("DATE", date(1912, 6, 23)),
    "o": ("TIME(3)", time(23, 59, 59, 999_000)),
    "p": ("TIMESTAMP(6)", datetime(1969, 12, 31, 23, 59, 59, 999_999)),
    "q": ("TIMESTAMP(3)", datetime(2026, 11, 16, 8, 0, 0, 123_000)),
    "r": ("TIMESTAMP_LTZ(6)", datetime(1900, 1, 1, 0, 0, 0, 1, UTC)),
    "s": ("TIMESTAMP_LTZ(3)", datetime(2026, 3, 29, 1, 30, tzinfo=UTC)),
    "t": ("ARRAY<INT>", [1, None, 3]),
    "u": ("MAP<STRING, DOUBLE>", [("x", 1.5), ("y", None)]),
    "v": ("ROW<x INT, y ARRAY<ROW<z STRING>>>", {"x": None, "y": [{"z": "deep"}, None]}),
}


@pytest.mark.parametrize("key", [(), ("e",)])
def test_values_of_every_type_arrive_as_they_were_and_so_do_nulls(spark, served, key):
    table = served.create({name: kind for name, (kind, _) in TYPES.items()}, primary_key=key)
    rows = [
        {name: value for name, (_, value) in TYPES.items()},
        {name: 1 if name == "e" else None for name in TYPES},
    ]
    given = pa.Table.from_pylist(rows, table.schema)

    schema = spark_schema(table.schema, columns=None, path="")
    write(served, spark.createDataFrame(_as_spark_takes_it(given), schema), table)

    found = table.scan().to_arrow().sort_by([("e", "descending")])
    assert found.to_pylist() == given.to_pylist()


def _as_spark_takes_it(rows: pa.Table) -> pa.Table:
    """Widen the types that a data frame cannot be made of."""
    fields = [
        pa.field(
            field.name,
            pa.binary()
            if pa.types.is_fixed_size_binary(field.type)
            else pa.time64("ns")
            if pa.types.is_time(field.type)
            else field.type,
        )
        for field in rows.schema
    ]
    return rows.cast(pa.schema(fields))


# ---- what is refused


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("id string, city string, amount int", "The column 'id' is string, but"),
        ("id bigint, amount int", "The rows have no column 'city'"),
        (f"{ROWS}, citi string", "Did you mean 'city'"),
        ("id void, city string, amount int", "'id' contains only nulls"),
    ],
)
def test_rows_that_do_not_fit_are_refused_before_any_is_written(spark, served, columns, said):
    table = served.create(ORDERS, primary_key="id")
    df = spark.createDataFrame([], columns)

    with pytest.raises(PySparkException, match=said):
        write(served, df, table)

    assert table.count() == 0


def test_an_option_with_a_typing_error_is_answered_with_the_right_one(spark, served):
    table = served.create(ORDERS)

    with pytest.raises(PySparkException, match=r"Did you mean 'sink\.ignore-delete'"):
        write(served, many(spark, 1), table, **{"sink.ignore-deletes": "true"})


def test_an_unknown_table_is_named(spark, served):
    writer = many(spark, 1).write.format("headwater").options(**served.options).mode("append")

    with pytest.raises(PySparkException, match=r"spark\.nothing"):
        writer.save("spark.nothing")


def test_a_server_that_is_not_there_is_named(spark, served):
    writer = many(spark, 1).write.format("headwater").mode("append")
    writer = writer.option("client.connect-timeout", "100 ms")

    with pytest.raises(PySparkException, match=r"127\.0\.0\.1:1"):
        writer.option("bootstrap.servers", "127.0.0.1:1").save("spark.orders")


def test_overwriting_is_refused(spark, served):
    table = served.create(ORDERS, rows=[(1, "a", 1)])
    writer = many(spark, 1).write.format("headwater").options(**served.options)

    with pytest.raises(PySparkException, match="cannot be overwritten"):
        writer.mode("overwrite").save(str(table.path))

    assert table.count() == 1


def test_null_keys_are_refused_with_what_to_do(spark, served):
    table = served.create(ORDERS, primary_key="id")
    df = spark.createDataFrame([(1, "a", 1), (None, "b", 2)], ROWS).coalesce(1)

    with pytest.raises(PySparkException, match="isNotNull"):
        write(served, df, table)

    assert table.count() == 0
