"""Spark jobs for those who await: run in threads, cut short when nobody wants them any more."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headwater.errors import RetryLaterError
from headwater.runtime.ids import random_bytes

INTERRUPT_AGAIN_S = 1.0
TEXT_LENGTH_MAX = 400
DESCRIPTION = "tiering to the lake"
_JAVA_TRACE = "\tat "
_PYTHON_TRACE = "Traceback (most recent call last)"
T = TypeVar("T")


class Jobs:
    """Run a few Spark jobs at once, while the loop that waits for them goes on."""

    def __init__(self, spark: SparkSession, *, at_once: int) -> None:
        self.spark = spark
        self.at_once = at_once
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="headwater-spark")

    async def run(self, work: Callable[[], T]) -> T:
        """Run a call that starts jobs; whoever is cancelled interrupts them, and waits for that."""
        mark = f"headwater-{random_bytes(8).hex()}"
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._threads, partial(self._marked, mark, work))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            while not running.done():
                # Again and again, since the job may not have begun when it was first told.
                loop.run_in_executor(None, self._interrupt, mark)
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([running], timeout=INTERRUPT_AGAIN_S)
            running.exception()  # That it was interrupted is no news.
            raise
        except (PySparkException, Py4JError) as fault:
            raise spark_fault(fault) from None

    def close(self) -> None:
        """Let go of the threads."""
        self._threads.shutdown(wait=False)

    def _marked(self, mark: str, work: Callable[[], T]) -> T:
        """Run a call whose jobs can be told from others by a mark; it holds for this thread."""
        if self._is_connect:
            self.spark.addTag(mark)
        else:
            # Classic sessions have tags as well, but do not find the jobs of Python by them.
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
    """Return what is wrong with a job in a sentence, without the way through Spark."""
    return RetryLaterError(
        f"Spark did not run the tasks: {last_words(str(fault))}",
        hint="Look at the log of Spark; tiering goes on from where the lake is.",
    )


def last_words(text: str) -> str:
    """Return what matters of an error of Spark: its first line, or what a worker raised."""
    lines = [line for line in text.splitlines() if line.strip() and _JAVA_TRACE not in line]
    if any(_PYTHON_TRACE in line for line in lines):
        begin = next(n for n, line in enumerate(lines) if _PYTHON_TRACE in line)
        plain = [line for line in lines[begin + 1 :] if not line.startswith((" ", "\t"))]
        lines = plain or lines
    return (lines or ["no reason was told"])[0].strip()[:TEXT_LENGTH_MAX]
