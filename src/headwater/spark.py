"""Headwater in Spark: `import headwater.spark`, then `spark.read.format("headwater")`.

`session` makes a Spark session that is ready for tables; `register` and `catalog` make an existing
one so. It needs the extra `headwater[spark]`.
"""

from headwater.engines.spark.catalog.install import catalog
from headwater.engines.spark.lookup_join import lookup_join
from headwater.engines.spark.native.read import read
from headwater.engines.spark.registration import register
from headwater.engines.spark.session import session
from headwater.engines.spark.source import HeadwaterSource
from headwater.engines.spark.tiering.tier import TieredRound, tier
from headwater.engines.spark.views import views
from headwater.engines.spark.watermarks import drop_watermark, read_stream, set_watermark
from headwater.engines.spark.writing.by_bucket import by_bucket
from headwater.engines.spark.writing.each_batch import each_batch

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
