"""The Spark session and the server of the tests of Spark, shared with them."""

from tests.engines.spark.conftest import classic_spark, served, spark, spark_mode

__all__ = ["classic_spark", "served", "spark", "spark_mode"]
