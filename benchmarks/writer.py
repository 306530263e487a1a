"""Run with `python -m benchmarks.writer`: rows that come one by one, and what readers pay for it.

Single rows through `writer()` against one bulk append of the same rows; then a scan of a log that
was written row by row against one that was written at once, before and after the server has joined
its batches. Everything in one run: only the ratios mean something.
"""

import asyncio
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from tests.serving import serving

import headwater
from benchmarks.blocking import BenchTable, BlockingConnection, log_batch
from benchmarks.report import ROUNDS, Report
from headwater.client.client import connect
from headwater.client.table import AsyncTable
from headwater.config.server import ServerSettings
from headwater.server.server import Server

COLUMNS = {"id": "BIGINT", "city": "STRING", "amount": "DOUBLE"}
ROWS = 200_000
SCANNED_ROWS = 16_000
"""Few enough that nothing is joined while they are written."""
JOINED_WITHIN_S = 300
SCANS = 15
CITIES = ("Ulm", "Bonn", "Jena", "Kiel")


def row_of(number: int) -> dict[str, object]:
    """Return one row."""
    return {"id": number, "city": CITIES[number % len(CITIES)], "amount": number / 4}


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds that something takes, and those of this process on a processor."""
    start, start_cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - start_cpu


def bench_rates(report: Report, at: str, hw: headwater.Client) -> None:
    """Write single rows in a plain loop, and the same rows at once."""
    rows = [row_of(number) for number in range(ROWS)]
    for key, kind in (((), "append"), ("id", "upsert")):
        tables = [
            hw.create_table(f"{at}_{kind}_{name}", COLUMNS, primary_key=key, buckets=1)
            for name in ("single", "bulk")
        ]

        def singly(table: headwater.Table = tables[0]) -> None:
            with table.writer() as writer:
                for row in rows:
                    writer.write(row)

        bulk = getattr(tables[1], kind)
        rounds = [(*timed(singly), *timed(lambda bulk=bulk: bulk(rows))) for _ in range(ROUNDS)]
        ours, ours_cpu, plain, _ = (statistics.median(each) for each in zip(*rounds, strict=True))
        per_core = f", {ROWS / ours_cpu / 1e3:.0f} k per core used" if at == "embedded" else ""
        report.add(
            f"{at}: {kind} of single rows by writer()",
            f"{ROWS / ours / 1e3:.0f} k rows/s{per_core}",
            f"{ROWS / plain / 1e3:.0f} k rows/s (all at once)",
            f"{plain / ours:.2f}",
            "≥ 50 k rows/s",
        )


async def scan_cpu_s(table: AsyncTable) -> float:
    """Return the seconds of a processor that a scan takes, in client and server."""
    start = time.process_time()
    found = await table.scan().to_arrow()
    assert found.num_rows == SCANNED_ROWS
    return time.process_time() - start


async def bench_scans(report: Report, directory: Path) -> None:
    """Scan the same rows, written in three ways, before and after batches are joined."""
    server = await Server.start(directory, ServerSettings(host="127.0.0.1", port=0))
    client = await connect(f"127.0.0.1:{server.port}")
    try:
        once = await client.create_table("once", COLUMNS, buckets=1)
        await once.append([row_of(number) for number in range(SCANNED_ROWS)])
        gathered = await client.create_table("gathered", COLUMNS, buckets=1)
        await by_writer(gathered)
        await add_scan(report, "by writer()", table=gathered, once=once)
        single = await client.create_table("single", COLUMNS, buckets=1)
        await asyncio.to_thread(send_rows, single.info.table_id, single.schema, server.port)
        size = size_of(directory)
        await add_scan(report, "row by row", table=single, once=once)
        async with asyncio.timeout(JOINED_WITHIN_S):
            # Upkeep seals and joins what rests for a minute.
            while size_of(directory) > size / 2:  # noqa: ASYNC110 - nobody tells when it is done
                await asyncio.sleep(1)
        await add_scan(report, "row by row, joined", table=single, once=once, target="≤ 1.5")
    finally:
        await client.close()
        await server.stop()


async def add_scan(
    report: Report, name: str, *, table: AsyncTable, once: AsyncTable, target: str = ""
) -> None:
    """Add the line for one way of writing."""
    pairs = [(await scan_cpu_s(table), await scan_cpu_s(once)) for _ in range(SCANS)]
    ours, plain = (statistics.median(each) for each in zip(*pairs, strict=True))
    report.add(
        f"scan of a log written {name}",
        f"{ours * 1e3:.1f} ms of a core",
        f"{plain * 1e3:.1f} ms (written at once)",
        f"{ours / plain:.2f}",
        target,
    )


def size_of(directory: Path) -> int:
    """Return the bytes of all segments."""
    return sum(path.stat().st_size for path in directory.glob("log/*/*/*.log"))


async def by_writer(table: AsyncTable) -> None:
    """Write single rows through a writer."""
    async with table.writer() as writer:
        for number in range(SCANNED_ROWS):
            await writer.append(row_of(number))


def send_rows(table_id: int, schema: pa.Schema, port: int) -> None:
    """Write each row as a batch of its own."""
    connection, table = BlockingConnection(port), BenchTable(table_id, schema)
    for number in range(SCANNED_ROWS):
        row = pa.RecordBatch.from_pylist([row_of(number)], schema=schema)
        # Whether rows are synced one by one makes no difference to how they lie in the log.
        connection.append(table, 0, log_batch(row, None), acks=1)
    connection.close()


def main() -> None:
    """Run everything and print one table."""
    console, report = Console(), Report()
    directory = Path(tempfile.mkdtemp(prefix="headwater-bench-", dir=Path.cwd()))
    try:
        with headwater.open(directory / "rates", listen=True) as hw:
            bench_rates(report, "embedded", hw)
        with serving(directory / "served") as server, headwater.connect(server.address) as hw:
            bench_rates(report, "served", hw)
        console.print("scans …")
        asyncio.run(bench_scans(report, directory / "scans"))
    finally:
        shutil.rmtree(directory)
    console.print(report.table)
    console.print(f"Medians of {ROUNDS} interleaved rounds; ratios compare within this run only.")


if __name__ == "__main__":
    main()
