"""A program that uses tables with secrets in every way; tells as JSON what Spark's UI shows of it.

`python -m tests.engines.spark.ui_job '<json of options>' TABLE TARGET`
"""

import json
import sys
import tempfile
from urllib.error import URLError
from urllib.request import urlopen

from pyspark.sql import SparkSession
from scripts.spark_servers import SHORT_LIVED

from headwater.engines.spark.session import session

FORMAT = "headwater"
PAGES = ("environment", "jobs", "stages", "SQL", "StreamingQuery", "executors")
SQL = "sql?details=true&planDescription=true&length=1000"
FACTS = ("environment", SQL, "jobs", "stages", "executors")


def used(spark: SparkSession, options: dict[str, str], table: str, target: str) -> str:
    """Read, write, name in SQL, and stream; return the plan of the read."""
    # Only readers need a lake.
    writing = {name: value for name, value in options.items() if not name.startswith("lake.")}
    frame = spark.read.format(FORMAT).options(**options).load(table)
    frame.limit(3).write.format(FORMAT).options(**writing).mode("append").save(target)
    named = ", ".join(f"`{name}` '{value}'" for name, value in options.items())
    spark.sql(f"CREATE TEMPORARY VIEW v USING headwater OPTIONS ({named}, `table` '{table}')")
    spark.sql("SELECT * FROM v").collect()
    stream = spark.readStream.format(FORMAT).options(**options).load(table)
    writer = stream.writeStream.format(FORMAT).options(**writing, table=target)
    place = tempfile.mkdtemp()
    query = writer.option("checkpointLocation", place).trigger(availableNow=True).start()
    query.awaitTermination()
    return str(frame._jdf.queryExecution().toString())


def shown(spark: SparkSession) -> dict[str, str]:
    """Fetch all pages, and all facts of the REST interface."""
    place = spark.sparkContext.uiWebUrl
    facts = f"{place}/api/v1/applications/{spark.sparkContext.applicationId}"
    found = {name: fetched(f"{place}/{name}/") for name in PAGES}
    found |= {f"api {name}": fetched(f"{facts}/{name}") for name in FACTS}
    for number in range(len(json.loads(found[f"api {SQL}"]))):
        found[f"query {number}"] = fetched(f"{place}/SQL/execution/?id={number}")
    return found


def fetched(address: str) -> str:
    try:
        with urlopen(address, timeout=30) as page:
            return str(page.read().decode())
    except URLError as fault:
        raise RuntimeError(address) from fault


def main() -> None:
    options, table, target = json.loads(sys.argv[1]), *sys.argv[2:]
    settings = {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.driver.extraJavaOptions": SHORT_LIVED,
        **{f"spark.sql.catalog.hw.{name}": value for name, value in options.items()},
    }
    spark = session("ui", master="local[1]", config=settings)
    plan = used(spark, options, table, target)
    sys.stdout.write(json.dumps({**shown(spark), "plan": plan}) + "\n")
    sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main()
