"""Run the tasks of a tiering round on Spark, one Spark task each; classic or over Connect.

Tasks and results travel as bytes, marked with the version that wrote them. The driver runs a few
jobs at once in threads, and interrupts them when they are cancelled.
"""

import asyncio
import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias, TypeVar, cast

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headwater import __version__
from headwater.engines.spark.clients import SparkConnection
from headwater.errors import HeadwaterError, RetryLaterError, UnsupportedError
from headwater.lake.spi import WriteResult
from headwater.runtime.clock import random_bytes
from headwater.tiering.task import (
    Outcome,
    Report,
    RewriteTask,
    Skipped,
    TaskDone,
    TieringTask,
    rewrite_files,
    run_task,
)

# What travels between driver and workers: bytes, marked with the version that wrote them.

Task: TypeAlias = TieringTask | RewriteTask
Answer: TypeAlias = Outcome | WriteResult | HeadwaterError

_MARK = f"headwater {__version__}\n".encode()


def pack_tasks(tasks: Sequence[Task]) -> bytes:
    """Encode tasks; together, since they have much in common."""
    return _MARK + pickle.dumps(tuple(tasks))


def unpack_tasks(data: bytes) -> tuple[Task, ...]:
    """Decode tasks of a driver of the same version."""
    return cast("tuple[Task, ...]", _loaded(data))


def pack_answer(answer: Answer) -> bytes:
    """Encode the result of a task, or its error."""
    return _MARK + pickle.dumps(answer)


def unpack_answer(data: bytes) -> Answer:
    """Decode what a worker of the same version encoded."""
    return cast("Answer", _loaded(data))


def _loaded(data: bytes) -> object:
    if not data.startswith(_MARK):
        other = data.partition(b"\n")[0][:40].decode(errors="replace")
        raise UnsupportedError(
            f"One process of this Spark runs {_MARK.decode().strip()}, and another one {other}.",
            hint="Install the same version for the driver and for all workers.",
        )
    return pickle.loads(data[len(_MARK) :])  # noqa: S301 - from our own driver or worker


# The Spark task: one task of a round, and a result for the driver.

ANSWERS = "task bigint, answer binary"
_SCHEMA = pa.schema([("task", pa.int64()), ("answer", pa.binary())])


@dataclass(frozen=True, slots=True)
class Errand:
    """Tasks for workers; the input row says which one a worker runs."""

    connection: SparkConnection
    tasks: bytes = field(repr=False)

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a result for each task number."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                answer = pack_answer(self._answer(number))
                yield pa.record_batch([[number], [answer]], schema=_SCHEMA)

    def _answer(self, number: int) -> Answer:
        try:
            return self._ran(unpack_tasks(self.tasks)[number])
        except HeadwaterError as fault:
            # Retrying it elsewhere would fail the same way. Other failures, such as a lost machine,
            # Spark retries; that writes new files, and nobody sees the old ones.
            return fault.with_traceback(None)

    def _ran(self, task: Task) -> Answer:
        link = self.connection.link()
        if isinstance(task, TieringTask):
            return link.loop.run(run_task(task, link.awaiting))
        return link.loop.run(rewrite_files(task))


# Spark jobs for async callers: run in threads, interrupted when cancelled.

INTERRUPT_AGAIN_S = 1.0
TEXT_LENGTH_MAX = 400
DESCRIPTION = "tiering to the lake"
_JAVA_TRACE = "\tat "
_PYTHON_TRACE = "Traceback (most recent call last)"
T = TypeVar("T")


class Jobs:
    """Runs a few Spark jobs at once without blocking the event loop."""

    def __init__(self, spark: SparkSession, *, at_once: int) -> None:
        self.spark = spark
        self.at_once = at_once
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="headwater-spark")

    async def run(self, work: Callable[[], T]) -> T:
        """Run a call that starts jobs; cancelling it interrupts them and waits for that."""
        mark = f"headwater-{random_bytes(8).hex()}"
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._threads, partial(self._marked, mark, work))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            while not running.done():
                # Repeatedly, since the job may not have started at the first attempt.
                loop.run_in_executor(None, self._interrupt, mark)
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([running], timeout=INTERRUPT_AGAIN_S)
            running.exception()  # The interruption itself is expected.
            raise
        except (PySparkException, Py4JError) as fault:
            raise spark_fault(fault) from None

    def close(self) -> None:
        """Shut down the threads."""
        self._threads.shutdown(wait=False)

    def _marked(self, mark: str, work: Callable[[], T]) -> T:
        """Run a call with its jobs tagged, for this thread."""
        if self._is_connect:
            self.spark.addTag(mark)
        else:
            # Classic sessions have tags too, but do not find Python jobs by them.
            context = self.spark.sparkContext
            context.setJobGroup(mark, DESCRIPTION, interruptOnCancel=True)
        try:
            return work()
        finally:
            if self._is_connect:
                self.spark.removeTag(mark)

    def _interrupt(self, mark: str) -> None:
        with suppress(PySparkException, Py4JError):
            if self._is_connect:
                self.spark.interruptTag(mark)
            else:
                self.spark.sparkContext.cancelJobGroup(mark)

    @property
    def _is_connect(self) -> bool:
        return not hasattr(self.spark, "_jsparkSession")


def spark_fault(fault: Exception) -> RetryLaterError:
    """Summarize a failed job in a sentence, without Spark's traceback."""
    return RetryLaterError(
        f"Spark did not run the tasks: {last_words(str(fault))}",
        hint="Check Spark's log; tiering continues from where the lake is.",
    )


def last_words(text: str) -> str:
    """The essence of a Spark error: its first line, or what a worker raised."""
    lines = [line for line in text.splitlines() if line.strip() and _JAVA_TRACE not in line]
    if any(_PYTHON_TRACE in line for line in lines):
        begin = next(n for n, line in enumerate(lines) if _PYTHON_TRACE in line)
        plain = [line for line in lines[begin + 1 :] if not line.startswith((" ", "\t"))]
        lines = plain or lines
    return (lines or ["no reason was told"])[0].strip()[:TEXT_LENGTH_MAX]


JOBS_AT_ONCE = 8
"""Jobs that a round is split into: when one ends, its tasks are reported."""

Hear = Callable[[int, Answer], None]


class SparkRunner:
    """Runs tasks on the workers of a session, which reach the storage by a connection."""

    def __init__(
        self, spark: SparkSession, connection: SparkConnection, *, at_once: int = JOBS_AT_ONCE
    ) -> None:
        self._jobs = Jobs(spark, at_once=at_once)
        self._connection = connection

    async def run(self, tasks: Sequence[TieringTask], *, report: Report) -> list[Outcome]:
        """Run tasks; return their results in order, and report each as it ends."""
        found: dict[int, Outcome] = {}

        def hear(number: int, answer: Answer) -> None:
            assert isinstance(answer, WriteResult | Skipped)
            found[number] = answer
            report(TaskDone(tasks[number], answer))

        await self._all(tasks, hear)
        return [found[number] for number in range(len(tasks))]

    async def rewrite(self, tasks: Sequence[RewriteTask]) -> list[WriteResult]:
        """Run rewrites; return the files of each, in order."""
        found: dict[int, WriteResult] = {}

        def hear(number: int, answer: Answer) -> None:
            assert isinstance(answer, WriteResult)
            found[number] = answer

        await self._all(tasks, hear)
        return [found[number] for number in range(len(tasks))]

    def close(self) -> None:
        """Shut down the threads; the session stays."""
        self._jobs.close()

    async def _all(self, tasks: Sequence[Task], hear: Hear) -> None:
        """Run tasks in a few jobs, and report each result; the first fault stops the others."""
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
        # A range with one partition per number: every Spark task gets one of them.
        numbers = self._jobs.spark.range(0, count, 1, count)
        return numbers.mapInArrow(errand.run, ANSWERS).toArrow()
