"""What Spark costs before it does anything, with plain settings and with those of our sessions.

Run alone with `python -m benchmarks.spark_fixed_costs [each]`; `each` adds every setting alone.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType
from rich.console import Console

from benchmarks.report import Report
from headwater.engines.spark.session import environment_of, settings_of

MASTER = "local[2]"
ROUNDS = 2
QUERIES = 15
TASKS = 40
MICRO_BATCHES = 15
STATE_BATCHES = 3  # of 200 tasks each with plain settings
WARM = 3
WITHIN_S = 600
COSTS = {
    "session": "s",
    "first query of a Python source": "s",
    "query of a Python source": "ms",
    "task in Python": "ms",
    "micro-batch": "ms",
    "micro-batch with state": "ms",
}
SOCKETS = ("spark.python.unix.domain.socket.enabled",)
DAEMON = ("spark.python.daemon.module",)
CHECKPOINTS = (
    "spark.sql.streaming.checkpointFileManagerClass",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled",
)
SHUFFLES = ("spark.sql.shuffle.partitions",)


@dataclass(frozen=True)
class Variant:
    """Hold which of our settings a session has."""

    settings: tuple[str, ...] | None = ()
    has_overlay: bool = False


VARIANTS = {
    "plain": Variant(),
    "ours": Variant(None, has_overlay=True),
    "unix sockets": Variant(SOCKETS),
    "daemon": Variant(DAEMON),
    "daemon and sockets": Variant(DAEMON + SOCKETS),
    "overlay": Variant(has_overlay=True),
    "checkpoint files": Variant(CHECKPOINTS),
    "shuffle tasks": Variant(SHUFFLES),
}


class OneRow(DataSource):
    """Hold one row, so that reading it shows what everything around it costs."""

    @classmethod
    def name(cls) -> str:
        return "one_row"

    def schema(self) -> str:
        return "n bigint"

    def reader(self, schema: StructType) -> DataSourceReader:
        del schema
        return OneRowReader()


class OneRowReader(DataSourceReader):
    """Read the row."""

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        del partition
        yield pa.record_batch({"n": pa.array([1], pa.int64())})


def passed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Do nothing to rows."""
    yield from batches


def bench_fixed_costs(report: Report) -> None:
    """Compare our sessions with plain ones."""
    costs = measured(("plain", "ours"))
    for cost, unit in COSTS.items():
        plain, ours = costs["plain"][cost], costs["ours"][cost]
        report.add(
            f"Spark: {cost}",
            f"{ours:.1f} {unit}",
            f"{plain:.1f} {unit}",
            f"{plain / ours:.2f}",
            "≥ 1",
        )


def measured(variants: tuple[str, ...]) -> Mapping[str, Mapping[str, float]]:
    """Run the variants in turns, and return the medians."""
    rounds = [{variant: in_own_process(variant) for variant in variants} for _ in range(ROUNDS)]
    return {
        variant: {
            cost: statistics.median(round_[variant][cost] for round_ in rounds) for cost in COSTS
        }
        for variant in variants
    }


def in_own_process(variant: str) -> Mapping[str, float]:
    """Measure a variant in a process of its own, since a session outlives its end in one."""
    command = [sys.executable, "-m", "benchmarks.spark_fixed_costs", "--only", variant]
    paths = filter(None, (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    told = subprocess.run(
        command, env=environment, check=True, stdout=subprocess.PIPE, text=True, timeout=WITHIN_S
    )
    return dict(json.loads(told.stdout.splitlines()[-1]))


def costs_of(variant: Variant) -> Mapping[str, float]:
    """Measure everything in this process."""
    begun = time.perf_counter()
    spark = started(variant)
    session_s = time.perf_counter() - begun
    spark.dataSource.register(OneRow)
    first_s = timed(lambda: query(spark))
    costs = {
        "session": session_s,
        "first query of a Python source": first_s,
        "query of a Python source": 1e3 * repeated(lambda: query(spark)),
        "task in Python": 1e3 * repeated(lambda: tasks(spark)) / TASKS,
        "micro-batch": micro_batch_ms(spark, MICRO_BATCHES, has_state=False),
        "micro-batch with state": micro_batch_ms(spark, STATE_BATCHES, has_state=True),
    }
    spark.stop()
    return costs


def started(variant: Variant) -> SparkSession:
    """Start a session with some of our settings."""
    environment = environment_of(MASTER)
    if not variant.has_overlay:
        environment.pop("SPARK_HOME", None)
    os.environ.update(environment)
    ours = settings_of(MASTER)
    wanted = ours if variant.settings is None else {key: ours[key] for key in variant.settings}
    builder = SparkSession.builder.master(MASTER)
    for key, value in wanted.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def repeated(work: Callable[[], object]) -> float:
    """Return the median seconds of some work, once it is warm."""
    return statistics.median([timed(work) for _ in range(WARM + QUERIES)][WARM:])


def query(spark: SparkSession) -> None:
    spark.read.format(OneRow.name()).load().collect()


def tasks(spark: SparkSession) -> None:
    spark.range(0, TASKS, 1, TASKS).mapInArrow(passed, "id bigint").collect()


def micro_batch_ms(spark: SparkSession, count: int, *, has_state: bool) -> float:
    """Return the median duration of a micro-batch with one row."""
    rows = spark.readStream.format("rate-micro-batch").options(rowsPerBatch="1").load()
    rows = rows.select("value").mapInArrow(passed, "value bigint")
    counted = rows.groupBy("value").count() if has_state else rows
    query = counted.writeStream.format("noop").outputMode("update").start()
    while (query.lastProgress or {"batchId": 0})["batchId"] < WARM + count:
        time.sleep(0.1)
    query.stop()
    durations = [progress["durationMs"]["triggerExecution"] for progress in query.recentProgress]
    return statistics.median(durations[WARM:])


def main() -> None:
    """Print what each variant costs."""
    if "--only" in sys.argv:
        print(json.dumps(costs_of(VARIANTS[sys.argv[-1]])))
        return
    names = tuple(VARIANTS) if "each" in sys.argv else ("plain", "ours")
    costs = measured(names)
    for cost, unit in COSTS.items():
        values = ", ".join(f"{name} {costs[name][cost]:.1f}" for name in names)
        Console().print(f"{cost} ({unit}): {values}")


if __name__ == "__main__":
    main()
