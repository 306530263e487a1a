"""Let tables flow into an Iceberg lake: `python lake.py [HOST:PORT]`.

Orders are appended, prices change by key, and a tierer on Spark copies both. What is read in the
end is the lake, with pyiceberg, which knows nothing of Headwater.

Without an address the storage runs in this process, in a directory that is removed afterwards.
"""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table as LakeTable
from pyspark.sql import SparkSession

import headwater
from headwater import spark as hs

CATALOG = "fluss-iceberg-catalog"  # under this name a catalog in a database keeps our tables
TOLD = "table.datalake.iceberg."
WITH_LAKE = {"table.datalake.enabled": True, "table.datalake.format": "iceberg"}


def lake_table(hw: headwater.Client, name: str) -> LakeTable:
    """Open the lake table of a table, where the server says that it is."""
    table = hw.table(name)
    options = table.info.descriptor.properties
    told = {key.removeprefix(TOLD): text for key, text in options.items() if key.startswith(TOLD)}
    return load_catalog(CATALOG, **told).load_table(str(table.path))


def create_tables(hw: headwater.Client) -> None:
    hw.create_database("market", exists_ok=True)
    hw.create_table(
        "market.sales", {"fruit": "STRING", "kilos": "INT"}, options=WITH_LAKE, exists_ok=True
    )
    hw.create_table(
        "market.prices",
        {"fruit": "STRING", "price": "DOUBLE"},
        primary_key="fruit",
        options=WITH_LAKE,
        exists_ok=True,
    )


def run(hw: headwater.Client, servers: str) -> None:
    create_tables(hw)
    sales, prices = hw.table("market.sales"), hw.table("market.prices")
    spark = hs.session("lake", master="local[2]")
    prices.upsert([("apple", 2.5), ("pear", 3.0), ("quince", 4.0)])
    sales.append([("apple", 10), ("pear", 4)])
    tier(spark, servers)

    prices.upsert([("apple", 2.75)])
    prices.delete("quince")
    sales.append([("apple", 6)])
    tier(spark, servers)
    spark.stop()

    for name in ("market.sales", "market.prices"):
        rows = lake_table(hw, name).scan().to_arrow()
        in_order = rows.sort_by([(column, "ascending") for column in rows.column_names])
        print(f"{name} in the lake:", *(tuple(row.values()) for row in in_order.to_pylist()))


def tier(spark: SparkSession, servers: str) -> None:
    done = hs.tier(spark, servers, tables=["market.sales", "market.prices"])
    for each in sorted(done, key=lambda one: one.table):
        print(f"{each.table}: {each.rows} rows tiered")


@contextmanager
def storage() -> Iterator[tuple[headwater.Client, str]]:
    if len(sys.argv) > 1:
        with headwater.connect(sys.argv[1]) as hw:
            yield hw, sys.argv[1]
    else:
        with (
            tempfile.TemporaryDirectory() as directory,
            headwater.open(directory, listen=True) as hw,
        ):
            yield hw, str(hw.address)


if __name__ == "__main__":
    with storage() as (hw, servers):
        run(hw, servers)
