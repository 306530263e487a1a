"""The main job of Headwater, end to end: run it with `make demo`.

A directory holds a stream of orders and, beside it, the stock by item, which changes. First it is
opened in this process, where Spark runs a pipeline on it and copies it into an Iceberg lake, and
DuckDB reads lake and log as one; then a server serves it, is killed, and serves it again.
"""

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Self

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table
from rich.text import Text
from spark import lake, pipeline

import headwater
import headwater.duckdb
from headwater import spark as hs

ROWS, BATCHES, BUCKETS, ITEMS = 400_000, 8, 4, 100_000
LATER_ROWS, LATER_BATCHES = 40_000, 40
TIERED_ROWS = ROWS + 1 + LATER_ROWS
NEW_ROWS = 1000
ALL_ROWS = TIERED_ROWS + NEW_ROWS
LARGE_BYTES, NAME_MAX = 100_000, 52
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
STOCK = pa.schema([("item", pa.string()), ("left", pa.int32()), ("price", pa.float64())])
TEAPOT = (ROWS, "customer-7", "teapot", 1, Decimal("12.50"), datetime(2026, 2, 1))
console = Console(width=100, highlight=False)


def step(text: str) -> None:
    console.print(f"\n[bold cyan]▸ {text}[/]")


def fact(text: str) -> None:
    console.print(f"  {text}")


@contextmanager
def timed() -> Iterator[list[float]]:
    """Measure a block; what is given holds its seconds afterwards."""
    took: list[float] = []
    began = time.perf_counter()
    yield took
    took.append(time.perf_counter() - began)


# ---- a log table


def orders(start: int, end: int) -> pa.RecordBatch:
    random, count = np.random.default_rng(start), end - start
    customers = pa.array([f"customer-{number}" for number in range(5000)])
    prices = [Decimal(int(cents)) / 100 for cents in random.integers(99, 99_900, 1000)]
    seconds = np.datetime64("2026-01-01", "us") + np.arange(start, end) * np.timedelta64(1, "s")
    return pa.record_batch(
        [
            np.arange(start, end),
            customers.take(random.integers(0, 5000, count)),
            pa.array(["kettle", "lamp", "chair", "desk"]).take(random.integers(0, 4, count)),
            random.integers(1, 9, count).astype("int32"),
            pa.array(prices, pa.decimal128(10, 2)).take(random.integers(0, 1000, count)),
            pa.array(seconds),
        ],
        schema=ORDERS,
    )


def create_orders(hw: headwater.Client) -> headwater.Table:
    hw.create_database("shop")
    table = hw.create_table(
        "shop.orders",
        ORDERS,
        buckets=BUCKETS,
        comment="every order, as it comes in",
        options={
            "table.statistics.columns": "order_id",
            "table.log.ttl": "30 d",
            **lake.WITH_LAKE,
        },
    )
    shown = Table(
        "column", "type", title=f"{table.path} in {BUCKETS} buckets", title_justify="left"
    )
    for field in table.schema:
        shown.add_row(field.name, Text(str(field.type)))
    console.print(shown)
    return table


def write(table: headwater.Table) -> None:
    size = ROWS // BATCHES
    batches = [orders(size * number, size * (number + 1)) for number in range(BATCHES)]
    with timed() as took:
        for batch in batches:
            table.append(batch)
    speed = f"{ROWS / took[0]:,.0f} rows/s"
    fact(f"{ROWS:,} rows in {took[0]:.2f} s: {speed}, each append returned after an fdatasync")


def scan(table: headwater.Table) -> None:
    everything = show("all 6 columns", table.scan())
    show("2 of 6 columns", table.scan(columns=["order_id", "price"]))
    show(f"order_id ≥ {ROWS - 1000:,}", table.scan(where=[("order_id", ">=", ROWS - 1000)]))
    quantity = pc.cast(everything["quantity"], pa.decimal128(10, 0))
    revenue = pc.sum(pc.multiply(everything["price"], quantity))
    fact(f"revenue: {revenue.as_py():,}")


def show(what: str, scanned: headwater.Scan) -> pa.Table:
    with timed() as took:
        rows = scanned.to_arrow()
    fact(f"{what:<20} {rows.num_rows:>9,} rows {rows.nbytes / 1e6:6.1f} MB in {took[0]:.2f} s")
    return rows


def follow(table: headwater.Table) -> None:
    with ThreadPoolExecutor() as threads, table.tail("latest") as tail:
        waiting = threads.submit(tail.poll, timeout_s=10.0)
        time.sleep(0.3)  # so that the reader waits by now
        with timed() as took:
            table.append([TEAPOT])
            (batch,) = waiting.result()
    item = batch.rows["item"][0].as_py()
    fact(f"a reader that was waiting got {item!r} {took[0] * 1000:.1f} ms after append was called")


# ---- a table by key


def keep_stock(hw: headwater.Client) -> headwater.Table:
    table = hw.create_table("shop.stock", STOCK, primary_key="item", options=lake.WITH_LAKE)
    table.upsert(
        [
            {"item": "kettle", "left": 3, "price": 24.5},
            {"item": "lamp", "left": 1, "price": 12.0},
        ]
    )
    numbers = np.arange(ITEMS)
    names = pc.binary_join_element_wise("item", pc.cast(pa.array(numbers), pa.string()), "-")
    rows = pa.table([names, (numbers % 50).astype("int32"), numbers / 4], schema=STOCK)
    with timed() as took:
        table.upsert(rows)
    fact(f"{ITEMS:,} upserts in {took[0]:.2f} s: {ITEMS / took[0]:,.0f} rows/s, durable as well")
    table.upsert({"item": "kettle", "price": 19.9}, columns=["item", "price"])
    table.delete({"item": "lamp"})
    look_up(table, names.slice(0, 1000))
    return table


def look_up(table: headwater.Table, names: pa.Array) -> None:
    with timed() as took:
        found = table.lookup(pa.table({"item": names}))
    assert found.num_rows == len(names), "rows are missing"
    fact(f"{found.num_rows:,} lookups at once in {took[0] * 1000:.1f} ms")
    alone = []
    for name in names[:200].to_pylist():
        with timed() as took:
            table.get({"item": name})
        alone += took
    fact(f"one lookup alone: {statistics.median(alone) * 1000:.2f} ms, the median of 200")
    fact(f"kettle: {table.get({'item': 'kettle'})}")
    fact(f"lamp:   {table.get({'item': 'lamp'})}")


def show_changes(hw: headwater.Client) -> None:
    changes = hw.table("shop.stock$changelog")
    known = changes.scan(where=[("item", "in", ["kettle", "lamp"])])
    for row in known.to_pylist():
        what, item, left, price = (row[key] for key in ("_change_type", "item", "left", "price"))
        fact(f"{what:<13}  {item:<6}  left {left}  price {price:5.2f}")


# ---- a cursor


def share(table: headwater.Table) -> None:
    """Let two readers follow one cursor until each new row came to one of them."""
    opened = [table.cursor("billing", start="latest") for _ in range(2)]
    with opened[0] as first, opened[1] as second:
        readers = {"first": first, "second": second}
        while any(len(each.assigned) != BUCKETS // 2 for each in readers.values()):
            for cursor in readers.values():
                cursor.poll(0.05)
        with table.writer() as writer:
            for start in range(ROWS + 1, TIERED_ROWS, LATER_ROWS // LATER_BATCHES):
                writer.write(orders(start, start + LATER_ROWS // LATER_BATCHES))
        seen = dict.fromkeys(readers, 0)
        while sum(seen.values()) < LATER_ROWS:
            for name, cursor in readers.items():
                seen[name] += sum(batch.rows.num_rows for batch in cursor.poll(0.2))
        for name, cursor in readers.items():
            buckets = " and ".join(str(place.bucket) for place in cursor.assigned)
            fact(f"{name:<6} reader: {seen[name]:,} new rows, from buckets {buckets}")


# ---- a lake


def fill_lake(hw: headwater.Client) -> None:
    """Copy both tables, change rows, copy the changes, and read what others would read."""
    spark = hs.session("lake", master="local[2]")
    tier(hw, spark, "all that is there")
    stock = hw.table("shop.stock")
    stock.upsert({"item": "kettle", "left": 2}, columns=["item", "left"])
    stock.delete({"item": "item-0"})
    tier(hw, spark, "what changed since")
    spark.stop()
    ids = lake.lake_table(hw, "shop.orders").scan(selected_fields=("order_id",)).to_arrow()
    assert pc.count_distinct(ids["order_id"]).as_py() == len(ids) == TIERED_ROWS, "not exactly once"
    items = lake.lake_table(hw, "shop.stock")
    kettle = items.scan(row_filter="item = 'kettle'").to_arrow().to_pylist()
    fact(f"pyiceberg reads {len(ids):,} orders, each exactly once, and of the stock")
    fact(f"{items.scan().to_arrow().num_rows:,} items, no lamp, and {kettle[0]}")


def tier(hw: headwater.Client, spark: SparkSession, what: str) -> None:
    with timed() as took:
        done = hs.tier(spark, hw, tables=["shop.orders", "shop.stock"])
    rows, files = sum(each.rows for each in done), sum(each.files for each in done)
    fact(f"{what:<18} {rows:>9,} rows in {files} Parquet files, in {took[0]:.1f} s")


def read_as_one(hw: headwater.Client) -> None:
    """Write more, and let DuckDB read what is in the lake and what is not yet as one table."""
    table, stock = hw.table("shop.orders"), hw.table("shop.stock")
    with duckdb.connect() as con:
        headwater.duckdb.install(con, hw)
        con.execute("FROM hw.shop.orders LIMIT 1").fetchall()
        with timed() as took:
            table.append(orders(TIERED_ROWS, ALL_ROWS))
            found = con.execute("SELECT count(*) FROM hw.shop.orders").fetchall()
        assert found == [(ALL_ROWS,)], "rows are missing or doubled"
        fact(f"{NEW_ROWS:,} orders appended, and {ALL_ROWS:,} counted: {took[0] * 1000:.0f} ms")
        token = stock.view().token()
        stock.upsert([("kettle", 3, 19.9), ("item-0", 0, 0.0)])
        rows = "SELECT \"left\" FROM {} WHERE item = 'kettle'"
        now = con.execute(rows.format("hw.shop.stock")).fetchall()
        then = con.execute(rows.format(f"fluss_read('shop', 'stock', token := '{token}')"))
        fact(f"kettles left: {now[0][0]}, and {then.fetchall()[0][0]} at a token from before")
    for each in (table, stock):
        splits = each.view().plan().splits
        files = sum(len(split.lake.files) for split in splits if split.lake is not None)
        offsets = sum(split.log.end - split.log.start for split in splits if split.log is not None)
        fact(f"{each.path} is {files} files of the lake and {offsets:,} offsets of the log")


# ---- a server


class Served:
    """Run `headwater serve` for the length of a block."""

    def __init__(self, directory: Path, *, port: int = 0) -> None:
        command = [sys.executable, "-m", "headwater", "serve", str(directory), "--port", str(port)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.port = self._read_port()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

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


def serve_and_kill(directory: Path) -> None:
    with Served(directory) as server:
        fact(f"listening on {server.address}, process {server.process.pid}")
        with headwater.connect(server.address) as hw:
            check(hw)
            step("kill -9, and a new server on the same directory, under the same client")
            server.process.kill()
            server.process.wait()
            began = time.perf_counter()
            with Served(directory, port=server.port):
                fact(f"recovered and serving after {time.perf_counter() - began:.2f} s")
                check(hw)


def check(hw: headwater.Client) -> None:
    """Count what must be there, each row exactly once."""
    ids = hw.table("shop.orders").scan(columns=["order_id"]).to_arrow()["order_id"]
    assert len(ids) == ALL_ROWS, "rows are missing or doubled"
    assert pc.count_distinct(ids).as_py() == ALL_ROWS, "rows are doubled"
    stock = hw.table("shop.stock")
    kettle, lamp = stock.get({"item": "kettle"}), stock.get({"item": "lamp"})
    assert kettle == {"item": "kettle", "left": 3, "price": 19.9}, "the kettle is not what it was"
    assert lamp is None, "the lamp is back"
    behind = hw.cursors.describe("billing", "shop.orders").lag_rows
    assert behind == NEW_ROWS, "the cursor went back, or ahead"
    fact(f"{len(ids):,} orders, each exactly once; {stock.count():,} items in stock, no lamp")
    fact(f"the cursor 'billing' is {behind:,} rows behind, those that it has not seen")


def show_files(directory: Path) -> None:
    sizes = {file: file.stat().st_size for file in sorted(directory.rglob("*")) if file.is_file()}
    large = {file: size for file, size in sizes.items() if size > LARGE_BYTES}
    for file, size in large.items():
        fact(f"{shortened(str(file.relative_to(directory))):<52} {size:>12,} bytes")
    fact(f"and {len(sizes) - len(large)} small files")


def shortened(name: str) -> str:
    """Leave out the middle of a long name."""
    return name if len(name) <= NAME_MAX else f"{name[:34]}…{name[-17:]}"


def story(directory: Path) -> None:
    step("headwater.open: a directory, in this process; no server to start")
    # Spark's tasks are other processes, and for their sake alone it listens on a port.
    with headwater.open(directory, listen=True) as hw:
        table = create_orders(hw)

        step("Append Arrow batches")
        write(table)

        step("Read them back: columns and filters are pushed down")
        scan(table)

        step("Follow the table")
        follow(table)

        step("A table with a primary key: upserts and lookups")
        keep_stock(hw)

        step("What happened to its rows: shop.stock$changelog")
        show_changes(hw)

        step("A cursor: two readers share the buckets, and positions are kept")
        share(table)

        step("Spark: clicks, counted by minute, added up by page, handed on as Parquet")
        fact("starting Spark; this takes a while the first time")
        pipeline.run(hw, str(hw.address))

        step("A lake: both tables as Iceberg tables, copied by Spark, each row once")
        fill_lake(hw)

        step("Lake and log as one table, in DuckDB")
        read_as_one(hw)

    step("headwater serve: the same directory, for other processes and machines")
    serve_and_kill(directory)

    step("What is on disk")
    show_files(directory)


def main() -> None:
    console.print("[bold]Headwater[/]: tables that stream, in a directory of yours")
    console.print("[dim]Speeds are those of this machine, at this moment.[/]")
    directory = Path(tempfile.mkdtemp(prefix="headwater-demo-"))
    try:
        story(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    console.print("\n[bold green]Done.[/] Next: docs/tutorial.md")


if __name__ == "__main__":
    main()
