"""Run with `make bench`: one run, ratios against plain pyarrow on the same disk."""

import shutil
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from tests.serving import ServerProcess, serving

from benchmarks import append, latency, scan
from benchmarks.blocking import BlockingConnection
from benchmarks.clients import bench_clients
from benchmarks.keyed_report import bench_keyed, bench_state
from benchmarks.report import ROUNDS, Report
from benchmarks.rows import NARROW, WIDE, narrow_batch, wide_batch
from benchmarks.spark import bench_spark
from benchmarks.spark_fixed_costs import bench_fixed_costs
from benchmarks.tiering import bench_tiering
from benchmarks.union import bench_union

CODECS = {"ZSTD": "zstd", "LZ4_FRAME": "lz4", "NONE": None}
ACKS_COUNT = 1000


def interleaved(ours: Callable[[], float], plain: Callable[[], float]) -> tuple[float, float]:
    """Run both in turns and return the median seconds of each."""
    pairs = [(ours(), plain()) for _ in range(ROUNDS)]
    return statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs)


def bench_append(
    report: Report, connection: BlockingConnection, port: int, directory: Path
) -> None:
    """Append with durable acks at four writers."""
    rows = append.WRITERS * append.BATCHES * append.ROWS_PER_BATCH
    for name, codec in CODECS.items():
        table = connection.create(
            f"append_{name}", NARROW, buckets=append.WRITERS, compression=name
        )
        ours, plain = interleaved(
            lambda table=table, codec=codec: append.appended(port, table, codec),
            lambda codec=codec: append.written_plainly(directory, codec),
        )
        report.add(
            f"append, 4 writers, durable, {name}",
            f"{rows / ours / 1e6:.2f} M rows/s",
            f"{rows / plain / 1e6:.2f} M rows/s",
            f"{plain / ours:.2f}",
            "≥ 0.5",
        )


def bench_scan(report: Report, connection: BlockingConnection, directory: Path) -> None:
    """Scan over loopback."""
    batches = [narrow_batch(10_000, seed=n) for n in range(100)]
    for name, codec in CODECS.items():
        table = connection.create(f"scan_{name}", NARROW, buckets=1, compression=name)
        scan.fill(connection, table, batches, codec)
        path = directory / f"scan-{name}.arrow"
        scan.write_plain(path, batches, codec)
        ours, plain = interleaved(
            lambda table=table: scan.scanned(connection, table),
            lambda path=path: scan.read_plainly(path),
        )
        report.add(
            f"scan, {name}",
            f"{1 / ours:.2f} M rows/s",
            f"{1 / plain:.2f} M rows/s",
            f"{plain / ours:.2f}",
            "≥ 0.5",
        )


def bench_projection(report: Report, connection: BlockingConnection) -> None:
    """Scan 3 of 50 columns."""
    batches = [wide_batch(10_000, seed=n) for n in range(50)]
    for name, codec in CODECS.items():
        table = connection.create(f"wide_{name}", WIDE, buckets=1, compression=name)
        scan.fill(connection, table, batches, codec)
        some, everything = interleaved(
            lambda table=table: scan.scanned(connection, table, scan.PROJECTED),
            lambda table=table: scan.scanned(connection, table),
        )
        report.add(
            f"3 of 50 columns, {name}",
            f"{0.5 / some:.2f} M rows/s",
            f"{0.5 / everything:.2f} M rows/s (all)",
            f"{everything / some:.1f}",
            "≥ 5",
        )


def bench_latency(report: Report, connection: BlockingConnection, directory: Path) -> None:
    """Append single rows."""
    table = connection.create("latency", NARROW, buckets=1, compression="NONE")
    latency.acks_us(connection, table, acks=1, count=ACKS_COUNT)
    latency.idle_requests_us(connection, count=ACKS_COUNT)
    quick, idle = [], []
    for _ in range(ROUNDS):
        quick += latency.acks_us(connection, table, acks=1, count=ACKS_COUNT // ROUNDS)
        idle += latency.idle_requests_us(connection, count=ACKS_COUNT // ROUNDS)
    ours, base = statistics.median(quick), statistics.median(idle)
    report.add(
        "1-row ack without sync, p50",
        f"{ours:.0f} µs",
        f"{base:.0f} µs (idle request)",
        f"{ours / base:.2f}",
        "< 150 µs",
    )
    report.add("1-row ack without sync, p99", f"{latency.percentile(quick, 99):.0f} µs", "", "")
    durable, plain = [], []
    for _ in range(ROUNDS):
        durable += latency.acks_us(connection, table, acks=-1, count=ACKS_COUNT // ROUNDS)
        plain += latency.plain_syncs_us(directory, ACKS_COUNT // ROUNDS)
    ours, base = statistics.median(durable), statistics.median(plain)
    report.add(
        "1-row ack with sync, p50",
        f"{ours:.0f} µs",
        f"{base:.0f} µs (fdatasync)",
        f"{ours / base:.2f}",
        "≤ 1.5",
    )


def bench_wire(report: Report, console: Console, server: ServerProcess, directory: Path) -> None:
    """Measure what goes over the wire, without a client of ours in between."""
    connection = BlockingConnection(server.port)
    console.print("latency …")
    bench_latency(report, connection, directory)
    console.print("append …")
    bench_append(report, connection, server.port, directory)
    console.print("scan …")
    bench_scan(report, connection, directory)
    console.print("projection …")
    bench_projection(report, connection)
    connection.close()


def main() -> None:
    """Run everything and print one table."""
    console, report = Console(), Report()
    directory = Path(tempfile.mkdtemp(prefix="headwater-bench-", dir=Path.cwd()))
    try:
        with serving(directory / "data") as server:
            bench_wire(report, console, server, directory)
            console.print("clients …")
            bench_clients(report, server.port)
            console.print("Spark …")
            bench_spark(report, server.address, directory)
            console.print("tiering …")
            bench_tiering(report, server)
            console.print("upserts and lookups …")
            table = bench_keyed(report, server, directory)
        console.print("what Spark costs before it does anything …")
        bench_fixed_costs(report)
        console.print("union reads …")
        bench_union(report, directory / "union")
        console.print("recovery …")
        bench_state(report, directory / "data", table)
    finally:
        shutil.rmtree(directory)
    console.print(report.table)
    console.print(f"Medians of {ROUNDS} interleaved rounds; ratios compare within this run only.")


if __name__ == "__main__":
    main()
