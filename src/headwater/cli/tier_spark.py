"""The Spark session that `headwater tier` runs on."""

from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from functools import partial

from pyspark.sql import SparkSession

from headwater.cli.lake_run import Work
from headwater.cli.tier import SparkOptions
from headwater.engines.spark.session import local_cores, session
from headwater.engines.spark.tiering import daemon
from headwater.engines.spark.tiering.tier import run_on_spark
from headwater.tiering.progress import Listener
from headwater.tiering.service import TieringJob


@contextmanager
def spark_work(options: SparkOptions) -> Iterator[Work]:
    """Yield a function that runs a job on Spark; stop Spark at the end if it was started here."""

    def work(job: TieringJob, listener: Listener) -> Coroutine[object, object, None]:
        return run_on_spark(job, partial(_spark, options), listener=listener)

    try:
        yield work
    finally:
        if (spark := SparkSession.getActiveSession()) is not None:
            spark.stop()


def _spark(given: SparkOptions) -> SparkSession:
    # Only where we choose the workers; elsewhere they may not have Headwater available so early.
    is_local = given.remote is None and local_cores(given.master) is not None
    ours = {"spark.python.daemon.module": daemon.MODULE} if is_local else {}
    return session(
        "headwater tier",
        master=given.master,
        remote=given.remote,
        config={**ours, **given.config},
        register=False,
    )
