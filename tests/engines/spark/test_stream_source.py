"""Tables followed by Spark."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.listener import SourceProgress

from headwater.engines.spark.source import FORMAT
from tests.engines.spark.conftest import Served

LOG = {"id": "BIGINT", "name": "STRING"}
DAYS = {"id": "BIGINT", "day": "STRING"}
WITHIN_S = 60.0


def follow(spark: SparkSession, served: Served, table, **options: str) -> DataFrame:
    named = {name.replace("__", "."): text for name, text in options.items()}
    return spark.readStream.format(FORMAT).options(**(served.options | named)).load(table.name)


def rows(start: int, end: int) -> list[dict]:
    return [{"id": number, "name": f"n{number}"} for number in range(start, end)]


def copy(frame: DataFrame, directory: Path, **trigger) -> StreamingQuery:
    """Copy a stream into files, which shows what was read and how often."""
    writer = frame.writeStream.format("parquet").trigger(**trigger)
    return writer.option("checkpointLocation", str(directory / "checkpoint")).start(
        str(directory / "files")
    )


def copy_all(frame: DataFrame, directory: Path) -> list[SourceProgress]:
    """Copy what is there, and return what each micro-batch tells of its source."""
    query = copy(frame, directory, availableNow=True)
    assert query.awaitTermination(WITHIN_S)
    if fault := query.exception():
        raise fault
    return [progress.sources[0] for progress in query.recentProgress if progress.sources]


def copied(directory: Path) -> pa.Table:
    return ds.dataset(directory / "files", format="parquet").to_table()


def ids(directory: Path) -> list[int]:
    return sorted(copied(directory)["id"].to_pylist())


def test_what_is_there_is_read_within_limits_and_later_only_what_is_new(spark, served, tmp_path):
    table = served.create(LOG, rows=rows(0, 100), bucket_by="id", buckets=3)
    frame = follow(spark, served, table, maxRowsPerTrigger="40")

    first = copy_all(frame, tmp_path)
    table.append(rows(100, 110))
    second = copy_all(frame, tmp_path)

    assert [each.numInputRows for each in first if each.numInputRows] == [40, 40, 20]
    assert sum(each.numInputRows for each in second) == 10
    assert ids(tmp_path) == list(range(110))
    assert sum(json.loads(first[0].endOffset)["offsets"].values()) == 40
    assert json.loads(first[0].latestOffset)["rows_behind"] == 60


def test_rows_by_key_are_followed_by_their_changes(spark, served, tmp_path):
    table = served.create(LOG, rows=rows(0, 3), primary_key="id", buckets=2)
    frame = follow(spark, served, table, scan__changelog="true")

    copy_all(frame, tmp_path)
    table.upsert([{"id": 1, "name": "new"}])
    table.delete([2])
    copy_all(frame, tmp_path)

    found = copied(tmp_path).select(["id", "name", "_change_type"]).to_pylist()
    changes = sorted(tuple(row.values()) for row in found)
    assert changes == [
        (0, "n0", "insert"),
        (1, "n1", "insert"),
        (1, "n1", "update_before"),
        (1, "new", "update_after"),
        (2, "n2", "delete"),
        (2, "n2", "insert"),
    ]


def test_new_rows_and_new_partitions_are_read_while_a_query_runs(spark, served, tmp_path):
    table = served.create(DAYS, rows=[(0, "a")], partition_by="day", buckets=1)
    options = {"scan__startup__mode": "latest", "scan__partition__discovery__interval": "10 ms"}
    query = copy(follow(spark, served, table, **options), tmp_path, processingTime="0 seconds")
    try:
        while not query.lastProgress:
            query.processAllAvailable()
        for number in range(1, 4):
            table.append([(number, "a"), (number + 10, f"day{number}")])
            query.processAllAvailable()
    finally:
        query.stop()

    assert ids(tmp_path) == [1, 2, 3, 11, 12, 13]


def test_a_stream_that_cannot_go_on_says_why(spark, served, tmp_path):
    table = served.create(LOG, rows=rows(0, 5), buckets=1)
    copy_all(follow(spark, served, table), tmp_path)
    served.client.drop_table(table.name)
    served.client.create_table(table.name, LOG, buckets=1)

    with pytest.raises(PySparkException, match=r"recreated.*new checkpoint location"):
        copy_all(follow(spark, served, table), tmp_path)
