"""Headwater in Spark: `import headwater.spark`, then `spark.read.format("headwater")`.

`session` makes a Spark session that is ready for tables; `register` and `catalog` make an existing
one so. `sql` and `run` take pipelines in the SQL of Flink users. It needs the extra
`headwater[spark]`, and these two `headwater[sql]` as well.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession

from headwater.engines.spark.by_bucket import by_bucket
from headwater.engines.spark.catalog.install import catalog, views
from headwater.engines.spark.lake_frame import read
from headwater.engines.spark.lookup_join import lookup_join
from headwater.engines.spark.session import session
from headwater.engines.spark.sink import each_batch
from headwater.engines.spark.source import HeadwaterSource, register
from headwater.engines.spark.tiering.tier import TieredRound, tier
from headwater.engines.spark.watermarks import drop_watermark, read_stream, set_watermark

if TYPE_CHECKING:
    from headwater.pipelines.jobs import PipelineJob

__all__ = [
    "HeadwaterSource",
    "TieredRound",
    "by_bucket",
    "catalog",
    "drop_watermark",
    "each_batch",
    "lookup_join",
    "read",
    "read_stream",
    "register",
    "run",
    "session",
    "set_watermark",
    "sql",
    "tier",
    "views",
]

# Needed by those who write pipelines in SQL only, with a package that others may not have.
_PIPELINES = "headwater.pipelines.session"


def sql(spark: SparkSession, text: str) -> "DataFrame | PipelineJob":
    """Run statements as Flink SQL users write them, and return what the last one gives.

        sql(spark, "CREATE CATALOG hw WITH ('type' = 'fluss', 'bootstrap.servers' = '…')")
        sql(spark, "SELECT * FROM hw.shop.orders").show()

    A query gives a data frame, which is a stream unless `SET 'execution.runtime-mode' = 'batch'`;
    a streaming INSERT gives a job, with `status`, `progress`, `wait` and `stop`; everything else
    gives a data frame of what it says. Catalogs, temporary tables, views and settings are kept as
    long as the Spark session.
    """
    return import_module(_PIPELINES).sql(spark, text)


def run(
    spark: SparkSession, path: str | Path, *, restart: bool = False, once: bool = False
) -> None:
    """Run the statements of a file, and wait until the jobs that it starts have ended.

        run(spark, "pipelines/orders.sql")

    A job goes on where it was; with `restart` it begins anew. With `once`, jobs end when they have
    read what there is now. If one fails, all are stopped, and its error is raised.
    """
    import_module(_PIPELINES).run(spark, path, restart=restart, once=once)
