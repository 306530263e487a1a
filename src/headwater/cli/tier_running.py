"""Running a tierer from the command line until all is done or a signal ends it."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import typer
from pyspark.sql import SparkSession
from rich.console import Console
from rich.status import Status

from headwater.cli.exits import INTERRUPTED, code_of
from headwater.cli.output import Form, Output, form_of, table_of
from headwater.cli.session import look, note, write
from headwater.cli.target import Directory
from headwater.cli.tier import SparkOptions, TierOptions
from headwater.cli.tier_news import COLUMN_TYPES, document_of, line_of, status_of
from headwater.engines.spark.session import local_cores, session
from headwater.engines.spark.tiering import daemon
from headwater.engines.spark.tiering.tierer import TieringJob, run_job
from headwater.runtime.events import configure_events
from headwater.runtime.loops import run
from headwater.tiering.progress import Failed, News

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_TOLD_HERE = ("tiering failed", "upkeep failed", "not tiered")


def run_tierer(options: TierOptions) -> None:
    """Tier until done or stopped; exit as the first fault asks where all was to be done once."""
    configure_events(level="WARNING")
    logging.getLogger("headwater.tiering").addFilter(_is_not_told_here)
    target = options.target
    job = TieringJob(
        target=target.path if isinstance(target, Directory) else str(target),
        user=None if options.credentials is None else options.credentials.user,
        password=None if options.credentials is None else options.credentials.password,
        deadline_s=options.timeout_s,
        tables=tuple(options.tables),
        lake=options.lake,
        settings=options.settings,
        is_once=options.is_once,
    )
    with _stopping_spark(), _shown() as status:
        teller = Teller(options.output, status)
        tierer = Tierer(job, partial(_spark, options.spark), teller)
        run(tierer.run())
    if options.is_once and tierer.was_stopped:
        raise typer.Exit(INTERRUPTED)
    if options.is_once and teller.faults:
        raise typer.Exit(code_of(teller.faults[0]))


class Tierer:
    """Run a job on this thread's loop, and end it when the process is asked to end."""

    def __init__(
        self, job: TieringJob, spark: Callable[[], SparkSession], teller: "Teller"
    ) -> None:
        self._job = job
        self._spark = spark
        self._teller = teller
        self.was_stopped = False

    async def run(self) -> None:
        """Run until the end, or until a signal; then the step that runs is waited for."""
        loop = asyncio.get_running_loop()
        task = loop.create_task(run_job(self._job, self._spark, listener=self._teller.hear))
        for number in SIGNALS:
            loop.add_signal_handler(number, self._stop, task)
        try:
            with suppress(asyncio.CancelledError):
                await task
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)
                # One more of them must not turn a clean end into a failure.
                signal.signal(number, signal.SIG_IGN)

    def _stop(self, task: "asyncio.Task[None]") -> None:
        if not self.was_stopped:
            self.was_stopped = True
            note("stops when the step that runs is over; a round that is not done is left undone")
            task.cancel()


class Teller:
    """Tell people and programs what a tierer does."""

    def __init__(self, output: Output, status: Status | None) -> None:
        self.faults: list[Exception] = []
        self._status = status
        self._form: Form | None = None if output is Output.TABLE else form_of(output, look())

    def hear(self, news: News) -> None:
        """Tell what is over for good, and show what goes on."""
        if isinstance(news, Failed) and not news.is_upkeep:
            self.faults.append(news.fault)
        if (line := line_of(news)) is not None:
            note(line)
        document = document_of(news)
        if self._form is not None and document is not None:
            for rows in table_of([document], columns=COLUMN_TYPES).to_batches():
                write(self._form.rows(rows))
        if self._status is not None and (text := status_of(news)) is not None:
            self._status.update(text)


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


@contextmanager
def _stopping_spark() -> Iterator[None]:
    """Stop Spark at the end, if it was started."""
    try:
        yield
    finally:
        if (spark := SparkSession.getActiveSession()) is not None:
            spark.stop()


@contextmanager
def _shown() -> Iterator[Status | None]:
    """Show what goes on below the lines, where somebody watches."""
    if not sys.stderr.isatty() or "NO_COLOR" in os.environ:
        yield None
        return
    with Status("starts", console=Console(stderr=True)) as status:
        yield status


def _is_not_told_here(record: logging.LogRecord) -> bool:
    return record.getMessage() not in _TOLD_HERE
