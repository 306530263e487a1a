"""Running a tierer from the command line until all is done or a signal ends it."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

import typer
from rich.console import Console
from rich.status import Status

from headwater.cli.exits import INTERRUPTED, code_of
from headwater.cli.output import Form, Output, form_of, table_of
from headwater.cli.session import look, note, write
from headwater.cli.target import Directory
from headwater.cli.tier import TierOptions
from headwater.cli.tier_news import COLUMN_TYPES, document_of, line_of, status_of
from headwater.runtime.events import configure_events
from headwater.runtime.loops import run
from headwater.tiering.job import TieringJob, run_job
from headwater.tiering.progress import Failed, Listener, News, Waits

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_TOLD_HERE = ("tiering failed", "upkeep failed", "not tiered")

Work: TypeAlias = Callable[[TieringJob, Listener], Coroutine[object, object, None]]
"""Runs a job, and tells how it goes."""


def work_here(job: TieringJob, listener: Listener) -> Coroutine[object, object, None]:
    """Run a job in this process."""
    return run_job(job, listener=listener)


def run_tierer(options: TierOptions, work: Work = work_here) -> None:
    """Tier until done or stopped; exit as the first fault asks where all was to be done once."""
    configure_events(level="WARNING")
    logging.getLogger("headwater.tiering").addFilter(_is_not_told_here)
    target = options.target
    job = TieringJob(
        target=target.path if isinstance(target, Directory) else str(target),
        user=None if options.credentials is None else options.credentials.user,
        password=None if options.credentials is None else options.credentials.password,
        deadline_s=options.timeout_s,
        waits=options.waits,
        tables=tuple(options.tables),
        lake=options.lake,
        settings=options.settings,
        is_once=options.is_once,
    )
    with _shown() as status:
        teller = Teller(options.output, status)
        tierer = Tierer()
        run(tierer.run(work(job, teller.hear)))
    if options.is_once and tierer.was_stopped:
        raise typer.Exit(INTERRUPTED)
    if options.is_once and teller.faults:
        raise typer.Exit(code_of(teller.faults[0]))


class Tierer:
    """Run a job on this thread's loop, and end it when the process is asked to end."""

    def __init__(self) -> None:
        self.was_stopped = False

    async def run(self, work: Coroutine[object, object, None]) -> None:
        """Run until the end, or until a signal; then the step that runs is waited for."""
        loop = asyncio.get_running_loop()
        task = loop.create_task(work)
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
        self._is_waiting = False
        self._form: Form | None = None if output is Output.TABLE else form_of(output, look())

    def hear(self, news: News) -> None:
        """Tell what is over for good, and show what goes on."""
        if isinstance(news, Failed) and not news.is_upkeep:
            self.faults.append(news.fault)
        is_old = isinstance(news, Waits) and self._is_waiting
        self._is_waiting = isinstance(news, Waits)
        # Once for each wait, however often the server is asked meanwhile.
        if not is_old and (line := line_of(news)) is not None:
            note(line)
        document = document_of(news)
        if self._form is not None and document is not None:
            for rows in table_of([document], columns=COLUMN_TYPES).to_batches():
                write(self._form.rows(rows))
        if self._status is not None and (text := status_of(news)) is not None:
            self._status.update(text)


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
