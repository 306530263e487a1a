"""Spark on our tables beside Spark on Parquet: scans, writes, lookup joins and stream latency.

Run alone with `python -m benchmarks.spark [rows in millions]`.
"""

import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from tests.serving import serving

import headwater
from benchmarks.report import Report
from headwater import spark as hs

ROWS = 8_000_000
BUCKETS = 4
ROUNDS = 3
DIMENSION_ROWS = 100_000
LOOKED_UP_ROWS = 1_000_000
STREAM_SECONDS = 20
STREAM_WARM_SECONDS = 8
STREAM_ROWS_PER_S = 1_000
STREAM_PIECES_PER_S = 50
# Ten columns of the usual kinds, about 100 bytes a row.
COLUMNS = (
    "id",
    "cast(id * 7919 % 1000003 as bigint) k",
    "cast(id % 1000 as int) a",
    "cast(id % 10 as int) b",
    "id * 0.37 x",
    "rand(7) y",
    "concat('customer-', cast(id % 50021 as string)) s1",
    "concat('city-', cast(id % 997 as string)) s2",
    "timestamp_micros(1700000000000000 + id * 1000) t1",
    "cast(timestamp_micros(1600000000000000 + id * 977) as timestamp_ntz) t2",
)
EVENTS = pa.schema([("n", pa.int64()), ("sent", pa.float64())])
DIMENSION = {"k": "BIGINT", "name": "STRING", "level": "INT"}


def bench_spark(report: Report, server_address: str, directory: Path, *, rows: int = ROWS) -> None:
    """Measure everything in one session on one server."""
    spark = hs.session("bench", master="local[2]")
    try:
        with headwater.connect(server_address) as storage:
            bench = _Bench(report, spark, storage, server_address, directory)
            bench.writes(rows)
            bench.scans(rows)
            bench.lookup_join()
            bench.latency()
    finally:
        spark.stop()


class _Bench:
    def __init__(
        self,
        report: Report,
        spark: SparkSession,
        storage: headwater.Client,
        address: str,
        directory: Path,
    ) -> None:
        self._report = report
        self._spark = spark
        self._storage = storage
        self._address = address
        self._parquet = str(directory / "parquet")
        self._checkpoints = directory / "checkpoints"

    def writes(self, rows: int) -> None:
        """Write the same rows into a log table and into Parquet."""
        source = self._spark.range(0, rows, numPartitions=BUCKETS).selectExpr(*COLUMNS)
        self._storage.create_table("spark_rows", source.schema, buckets=BUCKETS)

        def ours() -> None:
            self._storage.drop_table("spark_rows")
            self._storage.create_table("spark_rows", source.schema, buckets=BUCKETS)
            self._write(source, "spark_rows")

        pairs = _in_turns(
            ours, lambda: source.write.mode("overwrite").parquet(self._parquet), rounds=2
        )
        self._add_rates("Spark write, 10 columns", rows, pairs, target="1.0")

    def scans(self, rows: int) -> None:
        """Read all columns and some of them, and add one up."""
        for what, columns, consume, target in (
            ("all 10 columns", None, _drain, "1.2"),
            ("2 of 10 columns", ["a", "x"], _drain, ""),
            ("sum of 1 column", ["y"], _add_up, "1.6"),
        ):
            pairs = _in_turns(
                lambda columns=columns, consume=consume: consume(self._read("spark_rows", columns)),
                lambda columns=columns, consume=consume: consume(self._read_parquet(columns)),
            )
            self._add_rates(f"Spark scan, {what}", rows, pairs, target=target)

    def lookup_join(self) -> None:
        """Enrich rows by key, against passing them through Python unchanged."""
        table = self._storage.create_table(
            "spark_names", DIMENSION, primary_key=["k"], buckets=BUCKETS
        )
        keys = pa.array(range(DIMENSION_ROWS))
        levels = pa.array([key % 7 for key in range(DIMENSION_ROWS)], pa.int32())
        names = pa.array([f"name {key}" for key in range(DIMENSION_ROWS)])
        table.upsert(pa.table({"k": keys, "name": names, "level": levels}))
        facts = self._spark.range(0, LOOKED_UP_ROWS, numPartitions=2).selectExpr(
            f"id * 7919 % {DIMENSION_ROWS} k", "id v"
        )

        def joined() -> None:
            _drain(
                hs.lookup_join(
                    facts, f"{table.path}", on="k", how="left", bootstrap_servers=self._address
                )
            )

        pairs = _in_turns(joined, lambda: _drain(facts.mapInArrow(_same, facts.schema)))
        self._add_rates("lookup join against pass-through", LOOKED_UP_ROWS, pairs, target="2.0")

    def latency(self) -> None:
        """Follow a table that gets 1,000 rows a second, and see how old rows are on arrival."""
        table = self._storage.create_table("spark_events", EVENTS, buckets=1)
        ages: list[float] = []

        def arrived(rows: DataFrame, _epoch: int) -> None:
            sent, now = rows.toArrow().column("sent").to_pylist(), time.time()
            ages.extend(now - each for each in sent)

        stream = (
            self._spark.readStream.format("headwater")
            .option("bootstrap.servers", self._address)
            .option("scan.startup.mode", "latest")
            .load(f"{table.path}")
        )
        with _producing(self._address, f"{table.path}"):
            query = (
                stream.writeStream.foreachBatch(arrived)
                .option("checkpointLocation", str(self._checkpoints))
                .start()
            )
            time.sleep(STREAM_WARM_SECONDS)
            ages.clear()
            time.sleep(STREAM_SECONDS)
            seen = sorted(ages)
            query.stop()
        trigger = statistics.median(
            progress["durationMs"]["triggerExecution"]
            for progress in query.recentProgress
            if progress["numInputRows"]
        )
        for percent, target in ((50, "< 160 ms"), (99, "")):
            self._report.add(
                f"stream of {STREAM_ROWS_PER_S} rows/s to foreachBatch, p{percent}",
                f"{seen[len(seen) * percent // 100] * 1000:.0f} ms",
                f"{trigger:.0f} ms (one micro-batch)",
                f"{seen[len(seen) * percent // 100] * 1000 / trigger:.2f}",
                target,
            )

    def _read(self, table: str, columns: list[str] | None) -> DataFrame:
        reader = self._spark.read.format("headwater").option("bootstrap.servers", self._address)
        if columns is not None:
            reader = reader.option("scan.columns", ",".join(columns))
        return reader.load(f"fluss.{table}")

    def _read_parquet(self, columns: list[str] | None) -> DataFrame:
        frame = self._spark.read.parquet(self._parquet)
        return frame if columns is None else frame.select(columns)

    def _write(self, frame: DataFrame, table: str) -> None:
        writer = frame.write.format("headwater").option("bootstrap.servers", self._address)
        writer.mode("append").save(f"fluss.{table}")

    def _add_rates(
        self, what: str, rows: int, pairs: list[tuple[float, float]], *, target: str
    ) -> None:
        ours, theirs = (statistics.median(pair[side] for pair in pairs) for side in (0, 1))
        self._report.add(
            what,
            f"{rows / ours / 1e6:.2f} M rows/s",
            f"{rows / theirs / 1e6:.2f} M rows/s",
            f"{ours / theirs:.2f} x the time",
            f"≤ {target}" if target else "",
        )


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _add_up(frame: DataFrame) -> None:
    frame.groupBy().sum(*frame.columns).collect()


def _in_turns(
    ours: Callable[[], None], theirs: Callable[[], None], *, rounds: int = ROUNDS
) -> list[tuple[float, float]]:
    """Run both in turns, once without counting it."""
    _seconds(ours), _seconds(theirs)
    return [(_seconds(ours), _seconds(theirs)) for _ in range(rounds)]


def _seconds(work: Callable[[], None]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


@contextmanager
def _producing(address: str, path: str) -> Iterator[None]:
    """Append rows with the moment of their making, at a steady rate, until left."""
    is_done = threading.Event()

    def produce() -> None:
        count = STREAM_ROWS_PER_S // STREAM_PIECES_PER_S
        with headwater.connect(address) as storage:
            table, number = storage.table(path), 0
            while not is_done.wait(1 / STREAM_PIECES_PER_S):
                numbers = list(range(number, number + count))
                table.append({"n": numbers, "sent": [time.time()] * count})
                number += count

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()


def main() -> None:
    """Run the Spark part and print its lines."""
    rows = int(float(sys.argv[1]) * 1e6) if len(sys.argv) > 1 else ROWS
    report = Report()
    directory = Path(tempfile.mkdtemp(prefix="headwater-bench-", dir=Path.cwd()))
    try:
        with serving(directory / "data") as server:
            bench_spark(report, server.address, directory, rows=rows)
    finally:
        shutil.rmtree(directory)
        Console().print(report.table)


if __name__ == "__main__":
    main()
