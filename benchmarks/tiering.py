"""Tiering against plain pyarrow: CPU of the tierer's process, and of the server apart.

Each round runs in a process of its own, with the runner that needs no Spark, so that what is
counted is reading the log and writing the lake; loading libraries is not. The baseline writes the
same rows, which it holds in memory, into as many Parquet files with the same compression; for
updates it reads these files, and writes them anew with the rows that changed. What
Spark adds is measured apart: an empty job, and a round that has nothing but a row to copy.

Run alone with `python -m benchmarks.tiering [ROWS]`.
"""

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from tests.serving import ServerProcess, serving

import headwater
from benchmarks.report import Report
from headwater import aio
from headwater.engines.spark.session import session
from headwater.engines.spark.tiering import daemon
from headwater.spark import tier
from headwater.tiering.plan import TieringSettings
from headwater.tiering.service import TieringService
from headwater.tiering.task import LocalRunner

ROWS = 5_000_000
BUCKETS = 4
BATCH_ROWS = 500_000
UPDATED = 0.01
FORMATS = ("iceberg", "paimon")
WARM = "_warm"
WITHIN_S = 900
SPARK_ROUNDS = 7
SETTINGS = TieringSettings(rows_max=1 << 40)
# Rounds alone are measured here; upkeep is another matter.
OPTIONS = {
    "table.datalake.enabled": True,
    "table.datalake.auto-compaction": False,
    "table.datalake.auto-expire-snapshot": False,
}
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("at", pa.timestamp("us")),
        ("n", pa.int32()),
        ("x", pa.float64()),
        ("city", pa.string()),
        ("code", pa.string()),
        ("ok", pa.bool_()),
        ("day", pa.date32()),
    ]
)


@dataclass(frozen=True)
class Cost:
    """Hold what some work took."""

    cpu_s: float
    server_s: float
    seconds: float


def rows(first: int, count: int) -> pa.RecordBatch:
    """Return rows with ids from a number on."""
    random = np.random.default_rng(first)
    cities = np.array([f"city-{number}" for number in range(100)])
    codes = pa.array(random.integers(0, 10**12, count)).cast(pa.string())
    moments = 1_700_000_000_000_000 + random.integers(0, 10**12, count)
    columns = [
        np.arange(first, first + count),
        pa.array(moments, pa.timestamp("us")),
        random.integers(0, 1000, count).astype("int32"),
        random.random(count),
        cities[random.integers(0, len(cities), count)],
        codes,
        random.random(count) < 0.5,
        pa.array(random.integers(19_000, 20_000, count).astype("int32")).cast(pa.date32()),
    ]
    return pa.record_batch(columns, schema=SCHEMA)


def changed_rows(count: int) -> pa.RecordBatch:
    """Return new rows for a few of the ids."""
    random = np.random.default_rng(7)
    some = np.sort(random.choice(count, int(count * UPDATED), replace=False))
    return rows(0, len(some)).set_column(0, SCHEMA.field(0), pa.array(some))


def batches(count: int) -> list[pa.RecordBatch]:
    return [rows(at, min(BATCH_ROWS, count - at)) for at in range(0, count, BATCH_ROWS)]


def bench_tiering(report: Report, server: ServerProcess, *, count: int = ROWS) -> None:
    """Tier a log, and a keyed table of which few rows change, into each format."""
    plain = in_own_process("plain", str(count))
    for lake in FORMATS:
        _bench_log(report, server, lake, count=count, plain=plain)
        _bench_keyed(report, server, lake, count=count, plain=plain)
    empty, round_ = _spark_costs(server)
    report.add("an empty job of Spark, wall", f"{1e3 * empty:.0f} ms", "", "")
    report.add(
        "a round of one row on Spark, wall",
        f"{1e3 * round_:.0f} ms",
        f"{1e3 * empty:.0f} ms (an empty job)",
        f"{round_ / empty:.1f}",
    )


def _bench_log(
    report: Report, server: ServerProcess, lake: str, *, count: int, plain: Mapping[str, float]
) -> None:
    name = f"tiered_{lake}"
    _fill(server, name, lake, count=count, primary_key=())
    cost = _round(server, name)
    report.add(
        f"tier {count / 1e6:g} M rows of a log to {lake}, CPU",
        f"{cost.cpu_s:.1f} s (server {cost.server_s:.1f} s)",
        f"{plain['cpu_s']:.1f} s (pyarrow)",
        f"{cost.cpu_s / plain['cpu_s']:.2f}",
        "≤ 1.5",
    )


def _bench_keyed(
    report: Report, server: ServerProcess, lake: str, *, count: int, plain: Mapping[str, float]
) -> None:
    name = f"tiered_keyed_{lake}"
    _fill(server, name, lake, count=count, primary_key=("id",))
    first = _round(server, name)
    with headwater.connect(server.address) as client:
        client.table(name).upsert(changed_rows(count))
    second = _round(server, name)
    report.add(
        f"tier {count / 1e6:g} M keyed rows to {lake}, CPU",
        f"{first.cpu_s:.1f} s (server {first.server_s:.1f} s)",
        f"{plain['cpu_s']:.1f} s (pyarrow)",
        f"{first.cpu_s / plain['cpu_s']:.2f}",
    )
    report.add(
        f"tier updates of {UPDATED:.0%} of them to {lake}, CPU",
        f"{second.cpu_s:.2f} s (server {second.server_s:.2f} s)",
        f"{plain['rewrite_s']:.1f} s (all files anew by pyarrow)",
        f"{second.cpu_s / plain['rewrite_s']:.2f}",
        "≤ 0.2",
    )


def _fill(
    server: ServerProcess, name: str, lake: str, *, count: int, primary_key: tuple[str, ...]
) -> None:
    with headwater.connect(server.address) as client:
        for each, size in ((name, count), (f"{name}{WARM}", 1)):
            table = client.create_table(
                each,
                SCHEMA,
                buckets=BUCKETS,
                primary_key=primary_key,
                bucket_by=("id",),
                options={**OPTIONS, "table.datalake.format": lake},
            )
            for batch in batches(size):
                (table.upsert if primary_key else table.append)(batch)


def _round(server: ServerProcess, name: str) -> Cost:
    before = cpu_s(server.pid)
    told = in_own_process("round", server.address, name)
    return Cost(told["cpu_s"], cpu_s(server.pid) - before, told["seconds"])


def in_own_process(*arguments: str) -> Mapping[str, float]:
    """Measure something in a process of its own."""
    paths = filter(None, (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")))
    told = subprocess.run(
        [sys.executable, "-m", "benchmarks.tiering", "--only", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=WITHIN_S,
    )
    return dict(json.loads(told.stdout.splitlines()[-1]))


def cpu_s(pid: int) -> float:
    """Return the CPU seconds that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ---- what runs in processes of their own


async def tiered(address: str, name: str) -> Mapping[str, float]:
    """Tier one table, after another of one row: that loads everything that tiering needs."""
    async with await aio.connect(address) as client:
        table, other = await client.table(name), await client.table(f"{name}{WARM}")
        service = TieringService(client, LocalRunner(client), settings=SETTINGS)
        await service.run_once(tables=[other.path])
        begun, used = time.perf_counter(), time.process_time()
        await service.run_once(tables=[table.path])
        return {"cpu_s": time.process_time() - used, "seconds": time.perf_counter() - begun}


def written_plainly(count: int) -> Mapping[str, float]:
    """Write rows that are in memory into a file for each bucket; then with a few changed, anew."""
    parts = _parted(pa.Table.from_batches(batches(count)))
    changed = _parted(pa.Table.from_batches([changed_rows(count)]))
    directory = Path(tempfile.mkdtemp(prefix="headwater-bench-", dir=Path.cwd()))
    paths = [directory / f"{number}.parquet" for number in range(BUCKETS)]
    try:
        used = time.process_time()
        for path, part in zip(paths, parts, strict=True):
            pq.write_table(part, path, compression="zstd", compression_level=1)
        cpu_s = time.process_time() - used
        used = time.process_time()
        for path, new in zip(paths, changed, strict=True):
            old = pq.read_table(path)
            kept = old.filter(pc.invert(pc.is_in(old["id"], new["id"])))
            both = pa.concat_tables([kept, new])
            pq.write_table(both, f"{path}.new", compression="zstd", compression_level=1)
        return {"cpu_s": cpu_s, "rewrite_s": time.process_time() - used}
    finally:
        shutil.rmtree(directory)


def _parted(table: pa.Table) -> list[pa.Table]:
    buckets = table["id"].to_numpy() % BUCKETS
    return [table.filter(pa.array(buckets == number)) for number in range(BUCKETS)]


def _spark_costs(server: ServerProcess) -> tuple[float, float]:
    told = in_own_process("spark", server.address)
    return told["empty_s"], told["round_s"]


def spark_costs(address: str) -> Mapping[str, float]:
    """Return how long an empty job takes, and a round that has one row to copy."""
    config = {"spark.python.daemon.module": daemon.MODULE}
    spark = session("bench", master="local[2]", config=config, register=False)
    with headwater.connect(address) as client:
        options = {**OPTIONS, "table.datalake.format": FORMATS[0]}
        table = client.create_table("tiered_rows", SCHEMA, buckets=1, options=options)
        empty, rounds = [], []
        for number in range(SPARK_ROUNDS):
            table.append(rows(number, 1))
            begun = time.perf_counter()
            spark.range(0, 1, 1, 1).mapInArrow(passed, "id bigint").toArrow()
            empty.append(time.perf_counter() - begun)
            (done,) = tier(spark, address, tables="tiered_rows")
            rounds.append(done.seconds)
    spark.stop()
    return {"empty_s": statistics.median(empty), "round_s": statistics.median(rounds)}


def passed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Do nothing to rows."""
    yield from batches


def main() -> None:
    """Measure here, or have it measured."""
    console, report = Console(), Report()
    if "--only" in sys.argv:
        what, *given = sys.argv[sys.argv.index("--only") + 1 :]
        if what == "plain":
            print(json.dumps(written_plainly(int(given[0]))))
        elif what == "round":
            print(json.dumps(asyncio.run(tiered(*given))))
        else:
            print(json.dumps(spark_costs(*given)))
        return
    directory = Path(tempfile.mkdtemp(prefix="headwater-bench-", dir=Path.cwd()))
    try:
        with serving(directory / "data") as server:
            count = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
            bench_tiering(report, server, count=count)
    finally:
        shutil.rmtree(directory)
    console.print(report.table)


if __name__ == "__main__":
    main()
