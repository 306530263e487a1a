"""Spark with Apache Iceberg's own runtime, asked line by line; see `foreign`.

The environment names the jars, the catalog, and where that and its files lie.
"""

import os

import pyarrow as pa
from pyspark.sql import SparkSession

from scripts.foreign import Answer, serve

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def main() -> None:
    session = session_of(os.environ["CATALOG"], os.environ["LAKE"], jars=os.environ["JARS"])

    def rows(sql: str, out: str) -> Answer:
        """Write the rows of a query into a file."""
        found = session.sql(sql).toArrow()
        with pa.ipc.new_file(out, found.schema) as writer:
            writer.write_table(found)
        return {"rows": found.num_rows}

    def run(sql: str) -> Answer:
        """Run a statement for what it does."""
        session.sql(sql).collect()
        return {}

    serve({"rows": rows, "run": run})
    session.stop()


def session_of(name: str, directory: str, *, jars: str) -> SparkSession:
    catalog = f"spark.sql.catalog.{name}"
    settings = {
        "spark.jars": jars,
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": SHORT_LIVED,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "jdbc",
        f"{catalog}.uri": f"jdbc:sqlite:{directory}/catalog.sqlite",
        f"{catalog}.warehouse": f"file://{directory}/warehouse",
        f"{catalog}.jdbc.schema-version": "V1",
        f"{catalog}.cache-enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


if __name__ == "__main__":
    main()
