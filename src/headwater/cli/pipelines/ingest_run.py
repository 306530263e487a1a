"""Run a pipeline in YAML, and show how it goes."""

import signal
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import typer

from headwater.cli.command import note
from headwater.cli.commands import TERMINATED
from headwater.cli.tier import SparkOptions
from headwater.engines.spark.session import session
from headwater.pipelines.ingest.follow import IngestCounts
from headwater.pipelines.ingest.form import PipelineForm
from headwater.pipelines.ingest.form_text import parse_form
from headwater.pipelines.ingest.run import IngestRun
from headwater.pipelines.ingest.sink import connection_of
from headwater.pipelines.ingest.snapshot import RangeReader, ranges_here, ranges_on_spark
from headwater.runtime.clock import SystemClock

TOLD_EVERY_S = 2.0
_CLEAR_LINE = "\r\x1b[K"


def run_form(text: str, *, spark: SparkOptions, restart: bool, once: bool, here: bool) -> None:
    """Run a pipeline until it ends or is stopped; a file with a fault starts nothing."""
    form = parse_form(text)
    came: list[int] = []
    with _reader(spark, here=here) as reader, _signals(came):
        run = IngestRun(
            form=form,
            reader=reader,
            client=connection_of(form.sink).client(waits=False),
            clock=SystemClock(),
            restart=restart,
            once=once,
            is_stopped=lambda: bool(came),
        )
        note(f"pipeline {form.handling.name}: {_described(form)}; Ctrl-C stops it")
        with ThreadPoolExecutor(1, thread_name_prefix="headwater-pipeline") as threads:
            _watch(threads.submit(run.run), run.counts)
    _end(run.counts, came)


def _end(counts: IngestCounts, came: list[int]) -> None:
    note(f"stopped after {_shown(counts)}; it goes on there when it is run again")
    if signal.SIGTERM in came:
        raise typer.Exit(TERMINATED)


def _described(form: PipelineForm) -> str:
    source = form.source
    return f"{source.database} at {source.host}:{source.port} to {','.join(form.sink.servers)}"


@contextmanager
def _reader(spark: SparkOptions, *, here: bool) -> Iterator[RangeReader]:
    """Who reads ranges: this process, or Spark, which is started for it."""
    if here:
        yield ranges_here
        return
    config = dict(spark.config)
    made = session("headwater run", master=spark.master, remote=spark.remote, config=config)
    try:
        yield ranges_on_spark(made)
    finally:
        made.stop()


@contextmanager
def _signals(came: list[int]) -> Iterator[None]:
    """Note signals that end the pipeline in order; a second one ends it at once."""

    def stop(number: int, _frame: object) -> None:
        if came:
            raise KeyboardInterrupt
        came.append(number)

    before = {each: signal.signal(each, stop) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _watch(running: Future[None], counts: IngestCounts) -> None:
    """Wait for the end; on a terminal, one line says how it goes."""
    is_terminal = sys.stderr.isatty()
    while True:
        try:
            running.result(TOLD_EVERY_S)
        except TimeoutError:
            if running.done():
                raise
        else:
            return
        if is_terminal:
            sys.stderr.write(_CLEAR_LINE + _shown(counts))
            sys.stderr.flush()


def _shown(counts: IngestCounts) -> str:
    ranges = f"{counts.range_rows} rows in {counts.ranges_done} of {counts.ranges} ranges"
    return f"{ranges}, {counts.rows} changes in {counts.epochs} epochs"
