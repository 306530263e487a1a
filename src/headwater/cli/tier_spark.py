"""The Spark that `headwater tier` runs on."""

from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from functools import partial

from pyspark.sql import SparkSession

from headwater.cli.tier import SparkOptions
from headwater.cli.tier_running import Work
from headwater.engines.spark.session import local_cores, session
from headwater.engines.spark.tiering import daemon
from headwater.engines.spark.tiering.tierer import run_on_spark
from headwater.tiering.job import TieringJob
from headwater.tiering.progress import Listener


@contextmanager
def spark_work(options: SparkOptions) -> Iterator[Work]:
    """Give what runs a job on Spark, and stop Spark at the end, if it was started."""

    def work(job: TieringJob, listener: Listener) -> Coroutine[object, object, None]:
        return run_on_spark(job, partial(_spark, options), listener=listener)

    try:
        yield work
    finally:
        if (spark := SparkSession.getActiveSession()) is not None:
            spark.stop()


def _spark(given: SparkOptions) -> SparkSession:
    # Where the workers are ours to choose; elsewhere they may not have Headwater at hand so early.
    is_local = given.remote is None and local_cores(given.master) is not None
    ours = {"spark.python.daemon.module": daemon.MODULE} if is_local else {}
    return session(
        "headwater tier",
        master=given.master,
        remote=given.remote,
        config={**ours, **given.config},
        register=False,
    )
