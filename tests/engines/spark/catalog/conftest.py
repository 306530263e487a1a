"""A session that knows the tables of a server as `hw.database.table`."""

from collections.abc import Callable, Sequence

import pytest
from pyspark.sql import SparkSession

from headwater.engines.spark.catalog.install import catalog
from tests.engines.spark.conftest import Served

Sql = Callable[[str], Sequence[tuple[object, ...]]]


@pytest.fixture(scope="session")
def hw(spark: SparkSession, spark_mode: str, served: Served) -> SparkSession:
    if spark_mode == "connect":
        pytest.skip("needs the driver of Spark")
    # Spark has TIME, but does not let it into tables unasked.
    spark.conf.set("spark.sql.timeType.enabled", "true")
    catalog(spark, "hw", bootstrap_servers=served.address)
    return spark


@pytest.fixture
def sql(hw: SparkSession) -> Sql:
    """Run a statement and return its rows."""
    return lambda statement: [tuple(row) for row in hw.sql(statement).collect()]


@pytest.fixture
def name(served: Served) -> str:
    """Return the name of a table that is not there yet."""
    return f"hw.{served.new_name()}"
