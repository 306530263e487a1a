"""Other engines that read through the door of Iceberg, asked line by line; see `foreign`.

The environment names the engine and the address of the door.
"""

import importlib
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import load_catalog

from scripts.foreign import Answer, serve

DUCKDB_EXTENSIONS = ("avro", "httpfs", "iceberg")
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
Read = Callable[[str], pa.Table]


def main() -> None:
    read = ENGINES[os.environ["ENGINE"]](os.environ["DOOR"])

    def rows(table: str, out: str) -> Answer:
        """Write the rows of a table, as the engine reads it now, into a file."""
        found = read(table)
        with pa.ipc.new_file(out, found.schema) as writer:
            writer.write_table(found)
        return {"rows": found.num_rows}

    serve({"rows": rows})


def in_duckdb(door: str) -> Read:
    duckdb = importlib.import_module("duckdb")
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in DUCKDB_EXTENSIONS:
        package = importlib.import_module(f"duckdb_extension_{name}")
        folder = Path(next(iter(package.__path__))) / "extensions"
        (file,) = folder.rglob(f"{name}.duckdb_extension")
        connection.load_extension(str(file))
    connection.execute(
        f"ATTACH '' AS hw (TYPE iceberg, ENDPOINT '{door}', AUTHORIZATION_TYPE 'none')"
    )

    def read(table: str) -> pa.Table:
        return connection.sql(f'SELECT * FROM hw.fluss."{table}"').to_arrow_table()

    return read


def in_daft(door: str) -> Read:
    daft = importlib.import_module("daft")
    catalog = load_catalog("hw", type="rest", uri=door)

    def read(table: str) -> pa.Table:
        return daft.read_iceberg(catalog.load_table(("fluss", table))).to_arrow()

    return read


def on_spark(door: str) -> Read:
    session_of = importlib.import_module("pyspark.sql").SparkSession.builder
    settings = {
        "spark.jars": os.environ["JARS"],
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": SHORT_LIVED,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.hw": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.hw.type": "rest",
        "spark.sql.catalog.hw.uri": door,
        "spark.sql.catalog.hw.cache-enabled": "false",
    }
    builder = session_of.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()

    def read(table: str) -> pa.Table:
        return session.sql(f"SELECT * FROM hw.fluss.`{table}`").toArrow()

    return read


ENGINES: dict[str, Callable[[str], Read]] = {
    "duckdb": in_duckdb,
    "daft": in_daft,
    "spark": on_spark,
}

if __name__ == "__main__":
    main()
