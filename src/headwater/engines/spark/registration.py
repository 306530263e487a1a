"""Making the format "headwater" known to a Spark session."""

from pyspark.sql import SparkSession

from headwater.engines.spark.source import HeadwaterSource


def register(spark: SparkSession) -> None:
    """Make `format("headwater")` known to a session, of Spark itself or of Spark Connect."""
    spark.dataSource.register(HeadwaterSource)
