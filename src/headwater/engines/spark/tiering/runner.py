"""Tasks of a round on Spark, one Spark task for each; in classic sessions and over Connect."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import SparkSession

from headwater.engines.spark.clients import Connection
from headwater.engines.spark.tiering.jobs import Jobs
from headwater.engines.spark.tiering.parcels import Answer, Task, pack_tasks, unpack_answer
from headwater.engines.spark.tiering.worker import ANSWERS, Errand
from headwater.errors import HeadwaterError
from headwater.lake.spi import WriteResult
from headwater.tiering.runner import Done, Report
from headwater.tiering.task import Outcome, RewriteTask, Skipped, TieringTask

JOBS_AT_ONCE = 8
"""Jobs that a round is cut into: when one has ended, its tasks are reported."""

Hear = Callable[[int, Answer], None]


class SparkRunner:
    """Run tasks on the workers of a session, which reach the storage by a connection."""

    def __init__(
        self, spark: SparkSession, connection: Connection, *, at_once: int = JOBS_AT_ONCE
    ) -> None:
        self._jobs = Jobs(spark, at_once=at_once)
        self._connection = connection

    async def run(self, tasks: Sequence[TieringTask], *, report: Report) -> list[Outcome]:
        """Return what came of each task, in the order of the tasks, and report each as it ends."""
        found: dict[int, Outcome] = {}

        def hear(number: int, answer: Answer) -> None:
            assert isinstance(answer, WriteResult | Skipped)
            found[number] = answer
            report(Done(tasks[number], answer))

        await self._all(tasks, hear)
        return [found[number] for number in range(len(tasks))]

    async def rewrite(self, tasks: Sequence[RewriteTask]) -> list[WriteResult]:
        """Return the files that each rewrite has led to, in the order of the tasks."""
        found: dict[int, WriteResult] = {}

        def hear(number: int, answer: Answer) -> None:
            assert isinstance(answer, WriteResult)
            found[number] = answer

        await self._all(tasks, hear)
        return [found[number] for number in range(len(tasks))]

    def close(self) -> None:
        """Let go of what jobs were run with; the session stays."""
        self._jobs.close()

    async def _all(self, tasks: Sequence[Task], hear: Hear) -> None:
        """Run tasks in a few jobs, and tell what came of each; the first fault ends the others."""
        count = min(len(tasks), self._jobs.at_once)
        try:
            async with asyncio.TaskGroup() as group:
                for first in range(count):
                    numbers = range(first, len(tasks), count)
                    group.create_task(self._job(tasks, numbers, hear))
        except ExceptionGroup as faults:
            raise faults.exceptions[0] from None

    async def _job(self, tasks: Sequence[Task], numbers: range, hear: Hear) -> None:
        errand = Errand(self._connection, pack_tasks([tasks[number] for number in numbers]))
        table = await self._jobs.run(partial(self._collected, errand, len(numbers)))
        answers = [unpack_answer(data) for data in table["answer"].to_pylist()]
        for place, answer in zip(table["task"].to_pylist(), answers, strict=True):
            if not isinstance(answer, HeadwaterError):
                hear(numbers[place], answer)
        for answer in answers:
            if isinstance(answer, HeadwaterError):
                raise answer

    def _collected(self, errand: Errand, count: int) -> pa.Table:
        # A range of as many partitions as numbers: every task of Spark has one of them.
        numbers = self._jobs.spark.range(0, count, 1, count)
        return numbers.mapInArrow(errand.run, ANSWERS).toArrow()
