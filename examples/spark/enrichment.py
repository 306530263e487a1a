"""Enrich a stream of orders with a table of customers: `python enrichment.py [HOST:PORT]`.

Each micro-batch looks up the customers that its orders name, as they are at that moment. A change
of a customer is seen by the orders that come after it.

Without an address the storage runs in this process, in a directory that is removed afterwards.
"""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

import headwater
from headwater import spark as hs


def create_tables(hw: headwater.Client) -> None:
    for name in ("customers", "orders", "named_orders"):
        hw.drop_table(name, missing_ok=True)
    hw.create_table("customers", {"id": "BIGINT", "name": "STRING"}, primary_key="id")
    hw.create_table("orders", {"order": "BIGINT", "customer": "BIGINT", "amount": "DOUBLE"})
    hw.create_table(
        "named_orders",
        {"order": "BIGINT", "customer": "BIGINT", "amount": "DOUBLE", "name": "STRING"},
    )


def enrich(spark: SparkSession, servers: str, checkpoint: Path) -> None:
    orders = hs.read_stream(spark, "fluss.orders", bootstrap_servers=servers)
    named = hs.lookup_join(
        orders, "fluss.customers", on={"customer": "id"}, how="left", bootstrap_servers=servers
    )
    query = (
        named.writeStream.format("headwater")
        .option("bootstrap.servers", servers)
        .option("table", "fluss.named_orders")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def run(hw: headwater.Client, servers: str) -> None:
    create_tables(hw)
    spark = hs.session("enrichment", master="local[2]")
    with tempfile.TemporaryDirectory() as checkpoint:
        hw.table("customers").upsert([(1, "Ada"), (2, "Bob")])
        hw.table("orders").append([(100, 1, 20.0), (101, 2, 5.5), (102, 3, 7.0)])
        enrich(spark, servers, Path(checkpoint))

        hw.table("customers").upsert([(1, "Ada Lovelace"), (3, "Cleo")])
        hw.table("orders").append([(103, 1, 9.0), (104, 3, 1.0)])
        enrich(spark, servers, Path(checkpoint))
    spark.stop()
    rows = hw.table("named_orders").scan().to_arrow().sort_by("order").to_pylist()
    for row in rows:
        print(f"order {row['order']}: {row['amount']:5.2f} by {row['name'] or 'nobody we know'}")


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
