"""Union reads against the engine's own scan of plain Parquet files with the same final rows.

Most rows are in the lake, one for every forty in the log. The storage is embedded, so that the
CPU of this process is all that there is: planning, the storage, the log and the engine. Each
figure is the least of interleaved runs, planning included; the first query after the storage was
opened is told apart.

Run alone with `python -m benchmarks.union [--rows N] [--paimon] [--engine NAME] [--data PATH]`; a
directory is filled once, and kept.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import numpy as np
from rich.console import Console

import headwater
import headwater.duckdb
from benchmarks.latency import percentile
from benchmarks.report import ROUNDS, Report
from benchmarks.union_data import Made, make, rows
from benchmarks.union_queries import ENGINES, Query

ROWS = 8_000_000
APPENDS = 200
MS = 1e3
LOG_TARGETS = dict.fromkeys(("group-by", "range", "LIKE", "top-10"), "≤ 1.15")
KEYED_TARGETS = {"full scan": "≤ 1.25"}
TARGETS = {"log": LOG_TARGETS, "keyed": KEYED_TARGETS}


def bench_union(
    report: Report,
    directory: Path,
    *,
    count: int = ROWS,
    lake: str = "iceberg",
    engines: Sequence[str] = tuple(ENGINES),
) -> None:
    """Compare queries of each engine, then see how soon a row is there."""
    _make_elsewhere(directory, count=count, lake=lake)
    made = Made(directory, count, lake)
    for engine in engines:
        for kind, targets in TARGETS.items():
            with headwater.open(made.storage) as hw:
                _bench(report, hw, made, engine=engine, kind=kind, targets=targets)
    if "DuckDB" in engines:
        with headwater.open(made.storage) as hw:
            _bench_freshness(report, hw, made)


def _make_elsewhere(directory: Path, *, count: int, lake: str) -> None:
    """Make the tables in a process of its own, so that nothing is warm here."""
    arguments = ["--rows", str(count), "--data", str(directory), "--make", lake]
    subprocess.run([sys.executable, "-m", "benchmarks.union", *arguments], check=True)


def _bench(
    report: Report,
    hw: headwater.Client,
    made: Made,
    *,
    engine: str,
    kind: str,
    targets: dict[str, str],
) -> None:
    pairs = ENGINES[engine](hw, made, kind)
    cold, cold_wall = cpu_and_wall_s(next(iter(pairs.values()))[0])
    report.add(
        f"{engine}, {made.lake}, {kind}: first query, CPU",
        f"{MS * cold:.0f} ms (wall {MS * cold_wall:.0f} ms)",
        "",
        "",
    )
    for name, (ours, plain) in pairs.items():
        measured, baseline = least_cpu_s(ours, plain)
        report.add(
            f"{engine}, {made.lake}, {kind}: {name}, CPU",
            f"{MS * measured:.0f} ms",
            f"{MS * baseline:.0f} ms",
            f"{measured / baseline:.2f}",
            targets.get(name, ""),
        )


def least_cpu_s(ours: Query, plain: Query) -> tuple[float, float]:
    """Run both in turns and return the least CPU seconds of each."""
    pairs = [(cpu_and_wall_s(ours)[0], cpu_and_wall_s(plain)[0]) for _ in range(ROUNDS)]
    return min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)


def cpu_and_wall_s(query: Query) -> tuple[float, float]:
    """Return the CPU seconds of this process, and the seconds, that a query takes."""
    began, used = time.perf_counter(), time.process_time()
    query()
    return time.process_time() - used, time.perf_counter() - began


def _bench_freshness(report: Report, hw: headwater.Client, made: Made) -> None:
    """Append a row, then ask a new query for it until it is there."""
    con = duckdb.connect()
    headwater.duckdb.install(con, hw)
    name = made.table("log")
    table = hw.table(name)
    # Earlier runs may have left their rows in a directory that is kept.
    (highest,) = con.execute(f"SELECT max(id) FROM fluss_read('fluss', '{name}')").fetchall()[0]
    first = max(made.rows * 2, highest + 1)
    took = []
    for number in range(first, first + APPENDS):
        row = rows(np.array([number]), seed=number)
        began = time.perf_counter()
        table.append(row)
        sql = f"SELECT count(*) FROM fluss_read('fluss', '{name}') WHERE id = {number}"
        while con.execute(sql).fetchall() != [(1,)]:
            pass
        took.append(time.perf_counter() - began)
    report.add(
        f"DuckDB, {made.lake}: from append to a query that shows the row, p50",
        f"{MS * percentile(took, 50):.0f} ms",
        "",
        "",
        "< 100 ms",
    )
    p99 = f"{MS * percentile(took, 99):.0f} ms"
    report.add(f"DuckDB, {made.lake}: the same, p99", p99, "", "")


@contextmanager
def _place(given: Path | None) -> Iterator[Path]:
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        yield given
        return
    directory = Path(tempfile.mkdtemp(prefix="headwater-bench-", dir=Path.cwd()))
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


def main() -> None:
    """Measure, or make the tables that are measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--paimon", action="store_true", help="the lake is in Paimon's format")
    parser.add_argument("--data", type=Path, help="make the tables here, or use those that are")
    parser.add_argument("--engine", choices=ENGINES, help="this engine alone")
    parser.add_argument("--make", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.make:
        make(given.data, count=given.rows, lake=given.make)
        return
    report = Report()
    with _place(given.data) as directory:
        lake = "paimon" if given.paimon else "iceberg"
        engines = [given.engine] if given.engine else list(ENGINES)
        bench_union(report, directory, count=given.rows, lake=lake, engines=engines)
    Console(width=120).print(report.table)


if __name__ == "__main__":
    main()
