"""A program that copies tables with Spark, for tests that kill it: `python -m … '<json>'`."""

import json
import os
import sys
import threading
from dataclasses import asdict, dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.streaming.query import StreamingQuery
from scripts.spark_servers import LOCAL, SHORT_LIVED

from headwater.engines.spark.by_bucket import by_bucket
from headwater.engines.spark.session import session


@dataclass(frozen=True, slots=True)
class Copy:
    """Say what is copied where, and whether its rows are shuffled by bucket."""

    source: str
    target: str
    checkpoint: str
    columns: tuple[str, ...]
    is_shuffled: bool


@dataclass(frozen=True, slots=True)
class CopyJob:
    """Say what one process copies; it goes on until it is killed, or ends with what there is."""

    servers: str
    copies: tuple[Copy, ...]
    rows_per_trigger: int
    ends: bool

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.engines.spark.copy_job", json.dumps(asdict(self))]

    @classmethod
    def of(cls, text: str) -> "CopyJob":
        given = json.loads(text)
        return cls(**given | {"copies": tuple(Copy(**each) for each in given["copies"])})


def start(spark: SparkSession, copy: Copy, job: CopyJob) -> StreamingQuery:
    reader = spark.readStream.format("headwater").option("bootstrap.servers", job.servers)
    reader = reader.option("scan.changelog", True).option("scan.startup.mode", "earliest")
    reader = reader.option("maxRowsPerTrigger", job.rows_per_trigger)
    rows: DataFrame = reader.load(copy.source).withColumn("city", F.upper("city"))
    rows = rows.select("_change_type", "_log_offset", *copy.columns)
    if copy.is_shuffled:
        rows = by_bucket(rows, copy.target, bootstrap_servers=job.servers)
    writer = rows.writeStream.format("headwater").option("bootstrap.servers", job.servers)
    writer = writer.option("table", copy.target).option("checkpointLocation", copy.checkpoint)
    # As fast as it can, or all there is and no more.
    trigger = {"availableNow": True} if job.ends else {"processingTime": "0 seconds"}
    return writer.trigger(**trigger).start()


def end_with_parent() -> None:
    """End when whoever started this process does, even by a kill."""
    sys.stdin.read()
    os._exit(1)


def run(job: CopyJob) -> None:
    threading.Thread(target=end_with_parent, daemon=True).start()
    spark = session("copy", master=LOCAL, config={"spark.driver.extraJavaOptions": SHORT_LIVED})
    queries = [start(spark, copy, job) for copy in job.copies]
    if not job.ends:
        # Until one of them fails: then all are to be started again.
        spark.streams.awaitAnyTermination()
    for query in queries:
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    run(CopyJob.of(sys.argv[1]))
