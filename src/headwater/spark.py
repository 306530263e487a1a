"""Headwater in Spark: `import headwater.spark`, then `spark.read.format("headwater")`.

`session` makes a Spark session that is ready for tables; `register` and `catalog` make an existing
one so. It needs the extra `headwater[spark]`.
"""

from headwater.engines.spark.by_bucket import by_bucket
from headwater.engines.spark.catalog.install import catalog, views
from headwater.engines.spark.lake_frame import read
from headwater.engines.spark.lookup_join import lookup_join
from headwater.engines.spark.session import session
from headwater.engines.spark.sink import each_batch
from headwater.engines.spark.source import HeadwaterSource, register
from headwater.engines.spark.tiering.tier import TieredRound, tier
from headwater.engines.spark.watermarks import drop_watermark, read_stream, set_watermark

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
    "session",
    "set_watermark",
    "tier",
    "views",
]
