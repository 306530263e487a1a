"""Tables written by name: in batches, in streams, and by key."""

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

ORDERS = {"id": "BIGINT", "city": "STRING"}


def rows_of(table) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.scan().to_pylist())


def ran(query) -> None:
    try:
        assert query.awaitTermination(60)
    finally:
        query.stop()


def test_rows_are_inserted_by_values_by_query_and_by_frame(hw, sql, served):
    table = served.create(ORDERS)

    sql(f"INSERT INTO hw.{table.path} VALUES (1, 'Bern'), (2, NULL)")
    sql(f"INSERT INTO hw.{table.path} (city, id) SELECT city, id + 2 FROM hw.{table.path}")
    hw.createDataFrame([(5, "Rom")], "id long, city string").writeTo(f"hw.{table.path}").append()

    assert [row[0] for row in rows_of(table)] == [1, 2, 3, 4, 5]


def test_rows_replace_those_of_their_key_and_are_deleted_by_it(sql, served):
    table = served.create(ORDERS, primary_key="id", buckets=2, rows=[(1, "old"), (3, "c")])

    sql(f"INSERT INTO hw.{table.path} VALUES (1, 'new'), (2, 'b'), (4, 'd')")
    sql(f"DELETE FROM hw.{table.path} WHERE id IN (2, 4, 99)")
    sql(f"DELETE FROM hw.{table.path} WHERE id = 3")

    assert rows_of(table) == [(1, "new")]


def test_a_table_is_made_of_what_a_query_gives(sql, served, name):
    sql(f"CREATE TABLE {name} TBLPROPERTIES ('primary.key' = 'id') AS SELECT id FROM range(5)")

    table = served.client.table(name.removeprefix("hw."))
    assert table.is_keyed
    assert rows_of(table) == [(number,) for number in range(5)]


def test_a_table_that_its_query_cannot_fill_is_not_made(sql, served, name):
    with pytest.raises(PySparkException, match="no such luck"):
        sql(f"CREATE TABLE {name} AS SELECT int(raise_error('no such luck')) AS a")

    assert not served.client.table_exists(name.removeprefix("hw."))


def test_a_frame_and_a_stream_make_tables_in_our_format(hw, served, tmp_path):
    first, second = served.new_name(), served.new_name()

    hw.range(3).write.format("headwater").saveAsTable(f"hw.{first}")
    stream = hw.readStream.table(f"hw.{first}").writeStream.format("headwater")
    stream = stream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    ran(stream.toTable(f"hw.{second}"))

    assert rows_of(served.client.table(second)) == [(0,), (1,), (2,)]
    with pytest.raises(PySparkException, match=r"\.format\('headwater'\)"):
        hw.range(3).write.saveAsTable(f"hw.{served.new_name()}")


def test_create_or_replace_creates_but_does_not_replace(sql, name):
    sql(f"CREATE OR REPLACE TABLE {name} AS SELECT id FROM range(3)")

    with pytest.raises(PySparkException, match="Drop it first"):
        sql(f"CREATE OR REPLACE TABLE {name} AS SELECT id FROM range(9)")

    assert sql(f"SELECT count(*) FROM {name}") == [(3,)]


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        ("INSERT INTO {} VALUES (NULL, 'x')", "(?i)null"),
        ("INSERT INTO {} WITH ('sink.partial-update' = 'true') (id) VALUES (1)", "nulls"),
        ("INSERT INTO {} WITH ('sink.ignore-deletes' = 'x') VALUES (1, 'a')", "ignore-delete'"),
        ("INSERT OVERWRITE {} VALUES (1, 'x')", "truncate"),
        ("UPDATE {} SET city = 'x'", "UPDATE"),
        ("MERGE INTO {0} a USING {0} b ON a.id = b.id WHEN MATCHED THEN DELETE", "MERGE"),
        ("DELETE FROM {} WHERE city = 'x'", "WHERE id = …"),
        ("DELETE FROM {} WHERE id > 1", "primary key"),
        ("DELETE FROM {}", "primary key"),
    ],
)
def test_what_cannot_be_written_is_refused_and_nothing_is(sql, served, statement, complaint):
    table = served.create(ORDERS, primary_key="id", rows=[(1, "a"), (2, "x")])

    with pytest.raises(PySparkException, match=complaint):
        sql(statement.format(f"hw.{table.path}"))

    assert rows_of(table) == [(1, "a"), (2, "x")]


def test_rows_of_a_log_are_not_deleted(sql, served):
    table = served.create(ORDERS)

    with pytest.raises(AnalysisException, match="does not support deletes"):
        sql(f"DELETE FROM hw.{table.path} WHERE id = 1")


def test_a_stream_goes_from_table_to_table_by_name(hw, served, tmp_path):
    source, sink = served.create(ORDERS, rows=[(1, "a"), (2, "b")]), served.create(ORDERS)
    checkpoint = {"checkpointLocation": str(tmp_path / "stream")}

    for _ in range(2):
        stream = hw.readStream.table(f"hw.{source.path}").withColumn("id", F.col("id") * 10)
        writer = stream.writeStream.options(**checkpoint).trigger(availableNow=True)
        ran(writer.toTable(f"hw.{sink.path}"))
        source.append([(3, "c")])

    assert rows_of(sink) == [(10, "a"), (20, "b"), (30, "c")]


def test_a_stream_updates_its_counts_by_key(hw, served, tmp_path):
    source = served.create(ORDERS, rows=[(1, "a"), (2, "b"), (3, "a")])
    sink = served.create({"city": "STRING", "count": "BIGINT"}, primary_key="city")
    counts = hw.readStream.table(f"hw.{source.path}").groupBy("city").count()

    writer = counts.writeStream.outputMode("update").trigger(availableNow=True)
    ran(writer.option("checkpointLocation", str(tmp_path)).toTable(f"hw.{sink.path}"))

    assert rows_of(sink) == [("a", 2), ("b", 1)]
