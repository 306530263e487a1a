"""Jobs of Spark for those who await."""

import asyncio
import time
from pathlib import Path

import pytest

from headwater.engines.spark.tiering.runner import Jobs, last_words
from headwater.errors import RetryLaterError
from tests.cases import cases

LONG_S = 60
PYTHON_FAULT = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "worker.py", line 3, in run
    raise ValueError("no such thing")
ValueError: no such thing

\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:1)
"""


class Waiting:
    """Tell that a task has begun, and wait longer than anybody would."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def run(self, batches):
        self.mark.touch()
        time.sleep(LONG_S)
        yield from batches


@pytest.fixture
def jobs(spark):
    jobs = Jobs(spark, at_once=2)
    yield jobs
    jobs.close()


def _until(is_so) -> None:
    while not is_so():
        time.sleep(0.02)


async def test_a_job_that_nobody_waits_for_any_more_is_interrupted(spark, jobs, tmp_path):
    work = Waiting(tmp_path / "begun")
    rows = spark.range(0, 1, 1, 1).mapInArrow(work.run, "id bigint")
    task = asyncio.create_task(jobs.run(rows.toArrow))
    await asyncio.to_thread(_until, work.mark.exists)
    began = time.monotonic()

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - began < LONG_S / 2


def failing(batches):
    raise ValueError("no such thing")
    yield from batches


async def test_a_job_that_fails_is_told_without_the_way_through_spark(spark, jobs):
    rows = spark.range(0, 1, 1, 1).mapInArrow(failing, "id bigint")

    with pytest.raises(RetryLaterError) as fault:
        await jobs.run(rows.toArrow)

    assert "ValueError: no such thing" in str(fault.value)
    assert "Traceback" not in str(fault.value)
    assert "\n" not in str(fault.value)


@cases(
    ("told", "words"),
    [
        (PYTHON_FAULT, "ValueError: no such thing"),
        (
            "[JOB_CANCELLED] Job 3 was cancelled.\n\tat java.base",
            "[JOB_CANCELLED] Job 3 was cancelled.",
        ),
        ("", "no reason was told"),
        ("x" * 1000, "x" * 400),
    ],
)
def test_the_last_words_of_spark_are_one_line(told, words):
    assert last_words(told) == words
