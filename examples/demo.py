"""The main job of Headwater, end to end: run it with `make demo`.

A server stores a stream of orders, and beside it the stock by item, which changes. The unmodified
Apache Fluss client writes and reads both.
"""

import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

try:
    import fluss
except ImportError:
    sys.exit("The demo uses pyfluss, which has wheels for Python 3.11 and 3.12: use one of these.")

ROWS, BATCHES, BUCKETS = 400_000, 8, 2
ORDERS = pa.schema(
    [
        ("order_id", pa.int64()),
        ("customer", pa.string()),
        ("item", pa.string()),
        ("quantity", pa.int32()),
        ("price", pa.decimal128(10, 2)),
        ("ordered_at", pa.timestamp("us")),
    ]
)
PATH = fluss.TablePath("shop", "orders")
STOCK = pa.schema([("item", pa.string()), ("left", pa.int32()), ("price", pa.float64())])
STOCK_PATH = fluss.TablePath("shop", "stock")
ITEMS = 20_000
console = Console(width=100, highlight=False)


def step(text: str) -> None:
    console.print(f"\n[bold cyan]▸ {text}[/]")


def fact(text: str) -> None:
    console.print(f"  {text}")


class Served:
    """Run `headwater serve` for the length of a block."""

    def __init__(self, directory: Path) -> None:
        command = [sys.executable, "-m", "headwater", "serve", str(directory), "--port", "0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.port = self._read_port()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.communicate()

    def _read_port(self) -> int:
        for line in self.process.stderr or ():
            if " serving " in line:
                return int(line.split("port=")[1].split()[0])
        sys.exit("The server did not start.")


def orders(start: int, end: int) -> pa.RecordBatch:
    random = np.random.default_rng(start)
    count = end - start
    began = datetime(2026, 1, 1)
    prices = [Decimal(int(cents)) / 100 for cents in random.integers(99, 99_900, 1000)]
    return pa.record_batch(
        [
            np.arange(start, end),
            pa.array([f"customer-{n}" for n in random.integers(0, 5000, count)]),
            pa.array(["kettle", "lamp", "chair", "desk"]).take(random.integers(0, 4, count)),
            random.integers(1, 9, count).astype("int32"),
            pa.array(prices, pa.decimal128(10, 2)).take(random.integers(0, 1000, count)),
            pa.array([began + timedelta(seconds=int(n)) for n in range(start, end)]),
        ],
        schema=ORDERS,
    )


async def connect(port: int) -> fluss.FlussConnection:
    return await fluss.FlussConnection.create(
        fluss.Config({"bootstrap.servers": f"127.0.0.1:{port}"})
    )


async def read(scan: fluss.TableScan) -> tuple[pa.Table, float]:
    began = time.perf_counter()
    scanner = await scan.create_record_batch_log_scanner()
    scanner.subscribe_buckets(dict.fromkeys(range(BUCKETS), fluss.EARLIEST_OFFSET))
    return await scanner.to_arrow(), time.perf_counter() - began


async def create_table(connection: fluss.FlussConnection) -> None:
    admin = connection.get_admin()
    await admin.create_database("shop")
    descriptor = fluss.TableDescriptor(
        fluss.Schema(ORDERS),
        bucket_count=BUCKETS,
        comment="every order, as it comes in",
        properties={"table.statistics.columns": "order_id", "table.log.ttl": "30 d"},
    )
    await admin.create_table(PATH, descriptor)
    shown = Table(
        "column", "type", title="shop.orders, 2 buckets, kept 30 days", title_justify="left"
    )
    for name, kind in fluss.Schema(ORDERS).get_columns():
        shown.add_row(name, kind)
    console.print(shown)


async def write(table: fluss.FlussTable) -> None:
    size = ROWS // BATCHES
    batches = [orders(size * n, size * (n + 1)) for n in range(BATCHES)]
    writer = table.new_append().create_writer()
    began = time.perf_counter()
    for batch in batches:
        writer.write_arrow_batch(batch)
        await writer.flush()
    took = time.perf_counter() - began
    fact(f"{ROWS:,} rows in {took:.2f} s: {ROWS / took:,.0f} rows/s, each ack after an fdatasync")


async def follow_filtered(scan: fluss.TableScan) -> tuple[pa.Table, float]:
    """Read until nothing more comes, since batches at the end may be skipped."""
    began = time.perf_counter()
    scanner = await scan.create_record_batch_log_scanner()
    scanner.subscribe_buckets(dict.fromkeys(range(BUCKETS), fluss.EARLIEST_OFFSET))
    polled = [await scanner.poll_arrow(500)]
    took = time.perf_counter() - began
    while polled[-1].num_rows:
        took = time.perf_counter() - began
        polled.append(await scanner.poll_arrow(500))
    return pa.concat_tables(polled), took


async def scan(table: fluss.FlussTable) -> pa.Table:
    everything, took = await read(table.new_scan())
    show("all 6 columns", everything, took)
    show("2 of 6 columns", *await read(table.new_scan().project_by_name(["order_id", "price"])))
    recent = fluss.col("order_id") >= ROWS - 1000
    show(f"order_id ≥ {ROWS - 1000:,}", *await follow_filtered(table.new_scan().filter(recent)))
    fact("[dim]the filter skipped whole batches by their statistics; a client filters the rest[/]")
    quantity = pc.cast(everything["quantity"], pa.decimal128(10, 0))
    revenue = pc.sum(pc.multiply(everything["price"], quantity))
    fact(f"revenue: {revenue.as_py():,}")
    return everything


def show(what: str, rows: pa.Table, took: float) -> None:
    megabytes = rows.nbytes / 1e6
    fact(f"{what:<20} {rows.num_rows:>9,} rows {megabytes:6.1f} MB in {took:.2f} s")


async def tail(port: int) -> None:
    connection = await connect(port)
    table = await connection.get_table(PATH)
    latest = await connection.get_admin().list_offsets(
        PATH, list(range(BUCKETS)), fluss.OffsetSpec.latest()
    )
    scanner = await table.new_scan().create_log_scanner()
    scanner.subscribe_buckets(latest)
    waiting = asyncio.ensure_future(scanner.poll(5_000))
    await asyncio.sleep(0.3)
    began = time.perf_counter()
    writer = table.new_append().create_writer()
    writer.append([ROWS, "customer-7", "teapot", 1, Decimal("12.50"), datetime(2026, 2, 1)])
    await writer.flush()
    records = await waiting
    took = (time.perf_counter() - began) * 1000
    fact(f"a reader that was waiting got {records[0].row['item']!r} after {took:.0f} ms")
    await connection.close()


async def keep_stock(connection: fluss.FlussConnection) -> None:
    """Write a table by key, look rows up, and show what the changelog says."""
    schema = fluss.Schema(STOCK, primary_keys=["item"])
    await connection.get_admin().create_table(
        STOCK_PATH, fluss.TableDescriptor(schema, bucket_count=1)
    )
    table = await connection.get_table(STOCK_PATH)
    writer = table.new_upsert().create_writer()
    writer.upsert({"item": "kettle", "left": 3, "price": 24.5})
    writer.upsert({"item": "lamp", "left": 1, "price": 12.0})
    await writer.flush()
    began = time.perf_counter()
    for number in range(ITEMS):
        writer.upsert({"item": f"item-{number}", "left": number % 50, "price": 1.0})
    await writer.flush()
    took = time.perf_counter() - began
    fact(f"{ITEMS:,} upserts in {took:.2f} s, bounded by the client")

    price = table.new_upsert().partial_update_by_name(["item", "price"]).create_writer()
    await price.upsert({"item": "kettle", "price": 19.9}).wait()
    await writer.delete({"item": "lamp"}).wait()
    await look_up(table)
    await show_changes(table)


async def look_up(table: fluss.FlussTable) -> None:
    # A lookuper of pyfluss 1.0 does one lookup at a time, so each key gets its own.
    names = ["kettle", "lamp", *(f"item-{number}" for number in range(0, ITEMS, 20))]
    lookupers = [table.new_lookup().create_lookuper() for _ in names]
    began = time.perf_counter()
    found = await asyncio.gather(
        *(lookuper.lookup([name]) for lookuper, name in zip(lookupers, names, strict=True))
    )
    took = time.perf_counter() - began
    assert all(found[2:]), "rows are missing"
    fact(f"{len(found):,} lookups at once in {took:.2f} s, of which the client waits 0.1 s")
    fact(f"kettle: {found[0]}")
    fact(f"lamp:   {found[1]}")


async def show_changes(table: fluss.FlussTable) -> None:
    scanner = await table.new_scan().create_log_scanner()
    scanner.subscribe(0, fluss.EARLIEST_OFFSET)
    wanted = [record for record in await scanner.poll(5_000) if record.offset <= 1]
    scanner.subscribe(0, 2 + ITEMS)
    while len(wanted) < 2 + 3:
        wanted += await scanner.poll(5_000)
    for record in wanted:
        row = record.row
        change = record.change_type.short_string()
        fact(f"{change}  {row['item']:<7} left {row['left']}  price {row['price']:5.2f}")


async def survive_stock(connection: fluss.FlussConnection) -> None:
    table = await connection.get_table(STOCK_PATH)
    lookuper = table.new_lookup().create_lookuper()
    kettle = await lookuper.lookup({"item": "kettle"})
    assert kettle == {"item": "kettle", "left": 3, "price": 19.9}, "the kettle is not what it was"
    assert await lookuper.lookup({"item": "lamp"}) is None, "the lamp is back"
    fact("the stock is what it was: the kettle is there, the lamp is gone")


async def survive(port: int, before: pa.Table) -> None:
    connection = await connect(port)
    table = await connection.get_table(PATH)
    after, _ = await read(table.new_scan())
    same = set(before["order_id"].to_pylist()) | {ROWS} == set(after["order_id"].to_pylist())
    assert same, "rows are missing"
    assert after.num_rows == ROWS + 1, "rows are doubled"
    fact(f"{after.num_rows:,} rows are there, each exactly once")
    await survive_stock(connection)
    await connection.close()


async def story(directory: Path) -> None:
    step("headwater serve: one process, one directory, no other service")
    with Served(directory) as server:
        fact(f"listening on 127.0.0.1:{server.port}, process {server.process.pid}")

        step("The Apache Fluss client creates a table")
        connection = await connect(server.port)
        await create_table(connection)
        table = await connection.get_table(PATH)

        step("It appends Arrow batches")
        await write(table)

        step("It reads them back: columns and filters are pushed down to the server")
        before = await scan(table)

        step("It follows the table")
        await tail(server.port)

        step("A table with a primary key: upserts, lookups, and every change in its log")
        await keep_stock(connection)

        step("kill -9, and start again on the same directory")
        server.process.kill()
        server.process.wait()
    began = time.perf_counter()
    with Served(directory) as server:
        fact(f"recovered and serving after {time.perf_counter() - began:.2f} s")
        await survive(server.port, before)

    step("What is on disk")
    for file in sorted(directory.rglob("*")):
        if file.is_file() and file.stat().st_size:
            fact(f"{file.relative_to(directory)!s:<40} {file.stat().st_size:>12,} bytes")


def main() -> None:
    console.print("[bold]Headwater[/]: a stream of orders, stored in columns, durable at every ack")
    directory = Path(tempfile.mkdtemp(prefix="headwater-demo-"))
    try:
        asyncio.run(story(directory))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    console.print("\n[bold green]Done.[/] Next: docs/tutorial.md")


if __name__ == "__main__":
    main()
