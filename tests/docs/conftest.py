"""The Spark session of the other tests, for pages that use Spark."""

from tests.engines.spark.conftest import spark, spark_mode

__all__ = ["spark", "spark_mode"]
