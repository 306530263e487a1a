"""What runs the tasks of a tierer on Spark."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from pyspark.sql import SparkSession

from headwater.client.client import AsyncClient
from headwater.engines.spark.clients import Connection
from headwater.engines.spark.tiering.runner import SparkRunner
from headwater.runtime.aside import aside
from headwater.tiering.job import TieringJob, run_job
from headwater.tiering.progress import Listener, deaf

_COMMA = ","


async def run_on_spark(
    job: TieringJob, spark: Callable[[], SparkSession], *, listener: Listener = deaf
) -> None:
    """Run a job whose tasks are tasks of Spark; workers reach a directory through this process."""

    @asynccontextmanager
    async def started(client: AsyncClient) -> AsyncIterator[SparkRunner]:
        runner = SparkRunner(await aside(spark), _connection(job, client))
        try:
            yield runner
        finally:
            runner.close()

    await run_job(replace(job, listens=True), started, listener=listener)


def _connection(job: TieringJob, client: AsyncClient) -> Connection:
    assert client.address is not None, "it listens, or is the address of others"
    return Connection(
        servers=tuple(client.address.split(_COMMA)),
        user=job.user,
        password=job.password,
        deadline_s=job.deadline_s,
    )
