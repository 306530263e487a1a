"""A driver of Spark that kills itself before a step: `python -m … ADDRESS TABLE FORMAT STEP LAKE`.

The lake is JSON.
"""

import asyncio
import json
import sys

from headwater.engines.spark.clients import SparkConnection
from headwater.engines.spark.session import session
from headwater.engines.spark.tiering.runner import SparkRunner
from headwater.tiering.progress import RoundStep
from tests.engines.spark.tiering.dying import Dying, tier_dying

if __name__ == "__main__":
    address, table, lake_format, step, lake = sys.argv[1:]
    spark = session("dying", master="local[2]", register=False)
    runner = SparkRunner(spark, SparkConnection(servers=(address,)))
    dying = Dying(address, table, lake_format, 1, RoundStep(step), json.loads(lake))
    asyncio.run(tier_dying(dying, lambda _client: runner))
