"""Union reads of Spark against its own scan of plain Parquet files with the same final rows.

Counted is the CPU of all processes: the driver, the JVM, its Python workers and the server. Each
figure is the least of interleaved runs, planning included. A table of a few rows, of the same
make, shows what a query costs before there are rows; that is told apart.

Run alone with `python -m benchmarks.union_spark [--rows N] [--paimon] [--data DIRECTORY]`.
"""

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from tests.serving import serving

from benchmarks.report import Report
from benchmarks.union_data import Made, make
from headwater import spark as hs

ROWS = 8_000_000
FEW_ROWS = 400
ROUNDS = 4
MS = 1000
DATABASE = "fluss"
TARGETS = {"native": "≤ 1.5"}
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
# Where the times of a process and its parent stand behind its name.
TIMES = slice(11, 13)
PARENT = 1
_seen: dict[int, int] = {}


@dataclass(frozen=True)
class Cost:
    """Hold the seconds of one query."""

    cpu: float
    wall: float


Costs = dict[str, Cost]


def bench_union_spark(
    report: Report, directory: Path, *, count: int = ROWS, lake: str = "iceberg"
) -> None:
    """Compare the ways to read a table, for a tiny one and a large one."""
    spark = hs.session("bench", master="local[2]")
    try:
        few = _measured(spark, _made(directory / "few", FEW_ROWS, lake))
        many = _measured(spark, _made(directory / "rows", count, lake))
    finally:
        spark.stop()
    for what, costs in many.items():
        for way in (name for name in costs if name != "plain"):
            fixed = max(few[what][way].cpu - few[what]["plain"].cpu, 0)
            ours, plain = costs[way].cpu, costs["plain"].cpu
            report.add(
                f"Spark, {lake}, {what}, {way}: CPU",
                f"{ours * MS:.0f} ms, {fixed * MS:.0f} of them whatever the rows"
                f" (wall {costs[way].wall * MS:.0f} ms)",
                f"{plain * MS:.0f} ms (wall {costs['plain'].wall * MS:.0f} ms)",
                f"{(ours - fixed) / plain:.2f}, with all {ours / plain:.2f}",
                TARGETS.get(way, ""),
            )


def _made(directory: Path, count: int, lake: str) -> Made:
    directory.mkdir(parents=True, exist_ok=True)
    return make(directory, count=count, lake=lake)


def _measured(spark: SparkSession, made: Made) -> dict[str, Costs]:
    """Return the least cost of each query in each way."""
    found: dict[str, Costs] = {}
    with serving(made.storage) as server:
        hs.catalog(spark, "bench", bootstrap_servers=server.address)
        for kind in ("log", "keyed"):
            ways = _ways(spark, made, kind, server.address)
            for name, run in _queries(made).items():
                found[f"{kind}, {name}"] = _in_turns(ways, run)
    return found


def _ways(
    spark: SparkSession, made: Made, kind: str, address: str
) -> Mapping[str, Callable[[], DataFrame]]:
    table = f"{DATABASE}.{made.table(kind)}"
    source = spark.read.format("headwater").option("bootstrap.servers", address)
    return {
        "plain": lambda: spark.read.parquet(*made.plain(kind)),
        "native": lambda: hs.read(spark, table, at=address),
        "catalog": lambda: spark.table(f"bench.{table}"),
        "format": lambda: source.load(table),
    }


def _queries(made: Made) -> Mapping[str, Callable[[DataFrame], object]]:
    return {
        "full scan": lambda rows: rows.write.format("noop").mode("overwrite").save(),
        "group-by": lambda rows: rows.groupBy("region").sum("amount").collect(),
        "point": lambda rows: rows.filter(f"id = {made.rows // 3}").collect(),
    }


def _in_turns(
    ways: Mapping[str, Callable[[], DataFrame]], run: Callable[[DataFrame], object]
) -> Costs:
    rounds = [
        {name: _cost(lambda way=way: run(way())) for name, way in ways.items()}
        for _ in range(1 + ROUNDS)
    ]
    # The first round is not counted: it compiles, and fills caches of the system.
    return {name: min((each[name] for each in rounds[1:]), key=lambda c: c.cpu) for name in ways}


def _cost(work: Callable[[], object]) -> Cost:
    cpu, wall = tree_cpu_s(), time.perf_counter()
    work()
    return Cost(tree_cpu_s() - cpu, time.perf_counter() - wall)


def tree_cpu_s() -> float:
    """Return the CPU that this process and all below it have used so far.

    Of a process that ended counts what it had used when it was last seen.
    """
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for each in Path("/proc").iterdir():
        if not each.name.isdigit():
            continue
        try:
            fields = (each / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(each.name)] = int(fields[PARENT])
        ticks[int(each.name)] = sum(map(int, fields[TIMES]))
    _seen.update({pid: ticks[pid] for pid in ticks if _is_below(pid, os.getpid(), parents)})
    return TICK_S * sum(_seen.values())


def _is_below(pid: int, root: int, parents: Mapping[int, int]) -> bool:
    while pid != root and pid in parents:
        pid = parents[pid]
    return pid == root


def main() -> None:
    """Run this alone."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--paimon", action="store_true")
    parser.add_argument("--data", type=Path)
    arguments = parser.parse_args()
    directory = arguments.data or Path(tempfile.mkdtemp(prefix="headwater-bench-"))
    report = Report()
    try:
        lake = "paimon" if arguments.paimon else "iceberg"
        bench_union_spark(report, directory, count=arguments.rows, lake=lake)
    finally:
        if arguments.data is None:
            shutil.rmtree(directory)
    Console(width=200).print(report.table)


if __name__ == "__main__":
    main()
