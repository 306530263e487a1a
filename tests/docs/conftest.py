"""The Spark session of the other tests, for pages that use Spark."""

from tests.engines.spark.conftest import classic_spark, spark, spark_mode

__all__ = ["classic_spark", "spark", "spark_mode"]
