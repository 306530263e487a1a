"""A pipeline on Spark, from clicks to Parquet: `python pipeline.py [HOST:PORT]`.

Clicks go into a log table. One stream counts them by minute and page into a primary-key table,
where each count is upserted as it grows. A second stream follows the changes of that table and
keeps totals by page in a third. Then the counts leave as Parquet for whoever comes next.

Without an address the storage runs in this process, in a directory that is removed afterwards.
"""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter

import headwater
from headwater import spark as hs

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
# Seconds after noon, and the page.
CLICKS = [(3, "home"), (10, "home"), (31, "shop"), (65, "home"), (70, "shop"), (119, "shop")]
LATER = [(100, "home"), (5, "home"), (200, "shop")]


def create_tables(hw: headwater.Client) -> None:
    for name in ("clicks", "page_minutes", "page_totals"):
        hw.drop_table(name, missing_ok=True)
    clicks = hw.create_table("clicks", {"seen": "TIMESTAMP_LTZ(6)", "page": "STRING"}, buckets=2)
    # Whoever asks for it gets a stream that waits half a minute for late rows.
    hs.set_watermark(clicks, "seen", delay="30 seconds")
    hw.create_table(
        "page_minutes",
        {"minute": "TIMESTAMP_LTZ(6)", "page": "STRING", "clicks": "BIGINT"},
        primary_key=["minute", "page"],
    )
    hw.create_table(
        "page_totals",
        {"page": "STRING", "clicks": "BIGINT"},
        primary_key="page",
        options={"table.merge-engine": "aggregation", "fields.clicks.agg": "sum"},
    )


def click(hw: headwater.Client, clicks: list[tuple[int, str]]) -> None:
    rows = [(NOON + timedelta(seconds=second), page) for second, page in clicks]
    hw.table("clicks").append(rows)


class Pipeline:
    """Run both streams over what has come in; each goes on where it was."""

    def __init__(self, spark: SparkSession, servers: str, directory: Path) -> None:
        self._spark = spark
        self._servers = servers
        self._directory = directory

    def run(self) -> None:
        clicks = hs.read_stream(
            self._spark, "fluss.clicks", watermark=True, bootstrap_servers=self._servers
        )
        # By the window itself: its start alone would not tell Spark when a window is over.
        windows = clicks.groupBy(f.window("seen", "1 minute"), "page")
        counts = windows.agg(f.count("*").alias("clicks")).select(
            f.col("window.start").alias("minute"), "page", "clicks"
        )
        # Spark hands counts that grow, its output mode "update", to foreachBatch only.
        write = hs.each_batch("fluss.page_minutes", name="count", bootstrap_servers=self._servers)
        self._finish(counts.writeStream.outputMode("update").foreachBatch(write), "page_minutes")

        changes = hs.read_stream(
            self._spark, "fluss.page_minutes$changelog", bootstrap_servers=self._servers
        )
        # What was there before a change is taken off, what is there after it is added.
        sign = f.when(f.col("_change_type").isin("insert", "update_after"), 1).otherwise(-1)
        gains = changes.select("page", (sign * f.col("clicks")).alias("clicks"))
        writer = gains.writeStream.format("headwater").option("table", "fluss.page_totals")
        self._finish(writer.option("bootstrap.servers", self._servers), "page_totals")

    def _finish(self, writer: DataStreamWriter, name: str) -> None:
        """Take what has come in since the last time, and stop."""
        writer = writer.option("checkpointLocation", str(self._directory / name))
        writer.trigger(availableNow=True).start().awaitTermination()

    def read(self, table: str) -> DataFrame:
        reader = self._spark.read.format("headwater").option("bootstrap.servers", self._servers)
        return reader.load(f"fluss.{table}")

    def export(self) -> DataFrame:
        """Hand the counts on as Parquet, and read them back from there."""
        path = str(self._directory / "page_minutes.parquet")
        self.read("page_minutes").write.parquet(path, mode="overwrite")
        return self._spark.read.parquet(path)


def show(title: str, rows: DataFrame, *columns: str) -> None:
    print(title)
    for row in rows.orderBy(*columns).collect():
        print("  " + ", ".join(str(value) for value in row))


def run(hw: headwater.Client, servers: str) -> None:
    create_tables(hw)
    spark = hs.session("pipeline", master="local[2]")
    with tempfile.TemporaryDirectory() as directory:
        pipeline = Pipeline(spark, servers, Path(directory))
        click(hw, CLICKS)
        pipeline.run()
        show("clicks by minute and page:", pipeline.read("page_minutes"), "minute", "page")
        show("clicks by page:", pipeline.read("page_totals"), "page")

        # A click that is late is counted, and one that is later than the watermark is not.
        click(hw, LATER)
        pipeline.run()
        show("the same from Parquet, with later clicks:", pipeline.export(), "minute", "page")
        show("clicks by page:", pipeline.read("page_totals"), "page")
    spark.stop()


@contextmanager
def storage() -> Iterator[tuple[headwater.Client, str]]:
    if len(sys.argv) > 1:
        with headwater.connect(sys.argv[1]) as hw:
            yield hw, sys.argv[1]
        return
    # Spark's tasks are processes of their own, so the storage listens on a port of this machine.
    with (
        tempfile.TemporaryDirectory() as directory,
        headwater.open(directory, listen=True) as hw,
    ):
        yield hw, str(hw.address)


if __name__ == "__main__":
    with storage() as (hw, servers):
        run(hw, servers)
