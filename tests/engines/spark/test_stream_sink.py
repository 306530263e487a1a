"""Streams written into tables: epochs, output modes, restarts, and what is refused."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from headwater.engines.spark.by_bucket import by_bucket
from headwater.engines.spark.sink import each_batch

ORDERS = {"id": "BIGINT", "city": "STRING"}
COUNTS = {"city": "STRING", "count": "BIGINT"}
FILE_ROWS = 100


class Files:
    """Be a directory of files of which each becomes a micro-batch."""

    def __init__(self, path):
        self.path = path / "files"
        self.checkpoint = path / "checkpoint"
        self.path.mkdir()
        self.count = 0

    def add(self, files: int) -> None:
        for number in range(self.count, self.count + files):
            ids = range(number * FILE_ROWS, (number + 1) * FILE_ROWS)
            rows = {"id": pa.array(ids, pa.int64()), "city": [f"c{each % 5}" for each in ids]}
            pq.write_table(pa.table(rows), self.path / f"{number:04}.parquet")
        self.count += files

    def stream(self, spark):
        reader = spark.readStream.schema("id bigint, city string").option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.path))

    def run(self, df, served, table, mode="append", **options):
        writer = df.writeStream.format("headwater").options(**served.options, **options)
        writer = writer.option("table", str(table.path)).outputMode(mode)
        finish(writer.option("checkpointLocation", str(self.checkpoint)))

    def forget_last_commit(self) -> Path:
        """Have Spark run the last micro-batch again, as after a crash just before its commit."""
        commits = self.checkpoint / "commits"
        last = max((int(each.name), each) for each in commits.iterdir() if each.name.isdigit())[1]
        last.unlink()
        return last


def finish(writer) -> None:
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def ids(table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def test_every_micro_batch_is_appended(spark, served, files):
    table = served.create(ORDERS, buckets=2)
    files.add(3)

    files.run(files.stream(spark), served, table)
    files.add(2)
    files.run(files.stream(spark), served, table)

    assert ids(table) == list(range(5 * FILE_ROWS))


@pytest.mark.parametrize(("key", "is_shuffled"), [((), False), ((), True), (("id",), True)])
def test_a_micro_batch_that_is_run_again_lands_once(spark, served, files, key, is_shuffled):
    table = served.create(ORDERS, buckets=2, primary_key=key)

    def run():
        df = files.stream(spark)
        if is_shuffled:
            df = by_bucket(df, str(table.path), bootstrap_servers=served.address)
        files.run(df, served, table)

    for _ in range(2):
        files.add(2)
        run()
        forgotten = files.forget_last_commit()
    run()

    assert forgotten.exists()
    assert ids(table) == list(range(4 * FILE_ROWS))
    assert sum(table.offsets().values()) == 4 * FILE_ROWS


def test_a_complete_result_replaces_the_one_before_by_key(spark, served, files):
    table = served.create(COUNTS, primary_key="city")
    files.add(2)

    files.run(files.stream(spark).groupBy("city").count(), served, table, "complete")

    assert table.get("c3") == {"city": "c3", "count": 2 * FILE_ROWS // 5}
    assert table.count() == 5


def test_results_are_updated_from_each_micro_batch(spark, served, files):
    table = served.create(COUNTS, primary_key="city")
    write = each_batch(str(table.path), name=str(table.path), bootstrap_servers=served.address)

    def run():
        counts = files.stream(spark).groupBy("city").count()
        writer = counts.writeStream.outputMode("update").foreachBatch(write)
        finish(writer.option("checkpointLocation", str(files.checkpoint)))

    files.add(2)
    run()
    ends = table.offsets()
    files.forget_last_commit()
    run()

    assert table.get("c3") == {"city": "c3", "count": 2 * FILE_ROWS // 5}
    assert table.offsets() == ends


def test_a_stream_that_begins_anew_writes_anew_under_its_old_name(
    spark, spark_mode, served, files, tmp_path
):
    if spark_mode == "connect":
        pytest.skip("tasks are not told of which query they are")
    table = served.create(ORDERS)
    write = each_batch(str(table.path), name="same", bootstrap_servers=served.address)

    for checkpoint in ("first", "first", "second"):
        files.add(1)
        writer = files.stream(spark).writeStream.foreachBatch(write)
        finish(writer.option("checkpointLocation", str(tmp_path / checkpoint)))

    assert table.count() == (2 + 3) * FILE_ROWS


def test_a_stream_that_does_not_fit_is_refused(spark, served, files):
    table = served.create(ORDERS)
    files.add(1)

    with pytest.raises(PySparkException, match="Did you mean 'city'"):
        files.run(files.stream(spark).withColumnRenamed("city", "citi"), served, table)

    assert table.count() == 0


def test_null_keys_stop_the_stream(spark, served, files):
    table = served.create(ORDERS, primary_key="id")
    files.add(1)
    nulls = files.stream(spark).withColumn("id", F.expr("nullif(id, 99)"))

    with pytest.raises(PySparkException, match="isNotNull"):
        files.run(nulls, served, table)

    assert table.count() == 0


def test_the_changes_of_a_table_are_copied_as_they_are(spark, served, files):
    source = served.create(ORDERS, primary_key="id", buckets=2, rows=[(1, "a"), (2, "b")])
    source.upsert([(2, "c"), (3, "d")])
    source.delete([1])
    target = served.create(ORDERS, primary_key="id", buckets=2)
    reader = spark.readStream.format("headwater").options(**served.options)
    changes = reader.option("table", str(source.path)).option("scan.changelog", True)

    files.run(changes.option("scan.startup.mode", "earliest").load(), served, target)

    assert target.scan().to_arrow().sort_by("id") == source.scan().to_arrow().sort_by("id")
    assert target.offsets() == source.offsets()
