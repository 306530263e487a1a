"""Run scripts and what is typed into a shell on Spark, and show what comes of it."""

import logging
import shutil
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory

import pyarrow as pa
import typer
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headwater.cli.command import look, note, write
from headwater.cli.commands import TERMINATED, tell
from headwater.cli.output import Output, form_of
from headwater.cli.pipelines.run import RunOptions
from headwater.cli.pipelines.shell import Shell, ShellTexts
from headwater.engines.spark.session import session
from headwater.errors import JobFailedError, UnsupportedError
from headwater.pipelines import results
from headwater.pipelines.conductor import HELP, Conductor
from headwater.pipelines.connectors.console import each_micro_batch
from headwater.pipelines.connectors.spi import OutputMode, StreamStart
from headwater.pipelines.jobs import JobProgress, PipelineJob, cause_of
from headwater.pipelines.launch import JobNames
from headwater.pipelines.session import conductor_of, names_of
from headwater.pipelines.sql.parse import parse
from headwater.pipelines.sql.script import is_complete
from headwater.pipelines.sql.settings import RESULT_MODE, ShownAs
from headwater.pipelines.sql.steps import CHANGE_COLUMN

POLL_S = 0.2
_BATCH_ROWS = 10_000
_GREETING = "Pipelines on Spark {version}. 'HELP;' shows how to begin, and '.quit' leaves.\n"
_LINES_AROUND = 4  # what a result has above and below its rows
_CLEAR = "\x1b[2J\x1b[H"
_KEYWORDS = """
    ALTER AND AS BEGIN BETWEEN BY CASE CAST CATALOG CREATE DATABASE DELETE DESCRIBE DISTINCT DROP
    ELSE END EXECUTE EXISTS EXPLAIN FOR FRESHNESS FROM GROUP HAVING IF IN INSERT INTERVAL INTO IS
    JOB JOBS JOIN KEY LEFT LIKE LIMIT MATERIALIZED NOT NULL ON OR ORDER PARTITIONED PRIMARY RESET
    SELECT SET SHOW STATEMENT STOP SYSTEM_TIME TABLE TABLES TEMPORARY THEN UNION UPDATE USE VALUES
    VIEW WATERMARK WHEN WHERE WITH
"""
_WORDS = ("help", "clear")
KEYWORDS = tuple(_KEYWORDS.split())


class _TerminatedError(Exception):
    """SIGTERM came."""


def run_pipelines(options: RunOptions) -> None:
    """Run scripts, or a shell; stop all jobs and Spark at the end."""
    with _terminable() as signals:
        try:
            _run(options)
        except Exception:
            # Whoever ends this process may end Spark's at the same time, and then nothing of it
            # can be stopped in order. The jobs are safe: they go on from their checkpoints.
            if not signals:
                raise
    if signals:
        note("stopped by SIGTERM; the jobs go on where they are when they are run again")
        raise typer.Exit(TERMINATED)


def _run(options: RunOptions) -> None:
    # Py4J logs each error that it raises, as nobody in particular: a Spark that ends with us would
    # fill the terminal.
    logging.getLogger().addFilter(lambda record: "py4j" not in record.pathname)
    with _spark(options) as spark:
        conductor = conductor_of(spark)
        conductor.launcher.once = options.once
        for key, value in options.settings.items():
            conductor.settings.set(key, value)
        console = PipelineConsole(conductor, options)
        try:
            if options.texts is None:
                Shell(console, _shown_fault, _SHELL).run(_GREETING.format(version=spark.version))
            else:
                console.run_scripts(options.texts)
        finally:
            conductor.stop()


@contextmanager
def _spark(options: RunOptions) -> Iterator[SparkSession]:
    given = options.spark
    config = dict(given.config)
    if not options.debug:
        _quiet(config, is_remote=given.remote is not None)
    made = session("headwater run", master=given.master, remote=given.remote, config=config)
    try:
        yield made
    finally:
        made.stop()


def _quiet(config: dict[str, str], *, is_remote: bool) -> None:
    """Leave it to us to tell errors: Spark's log has pages of Java for each, also for Ctrl-C."""
    if not is_remote:
        config.setdefault("spark.log.level", "FATAL")
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


@contextmanager
def _terminable() -> Iterator[list[int]]:
    """Turn SIGTERM into an exception, so that jobs are stopped in order; gives what came."""
    came: list[int] = []

    def terminated(number: int, _frame: object) -> None:
        came.append(number)
        raise _TerminatedError

    before = signal.signal(signal.SIGTERM, terminated)
    try:
        yield came
    finally:
        signal.signal(signal.SIGTERM, before)


def _shown_fault(fault: BaseException) -> None:
    if isinstance(fault, _TerminatedError):
        raise fault
    tell(fault, debug=False)


def completions(typed: str, names: Iterable[str]) -> list[str]:
    """Complete a word: names first, then keywords."""
    word = typed.lower()
    fitting = [name for name in dict.fromkeys(names) if name.lower().startswith(word)]
    written = str.lower if typed and typed == word else str.upper
    return fitting + [written(key) for key in KEYWORDS if word and key.lower().startswith(word)]


def _is_word(text: str) -> bool:
    """Tell whether it is a statement of one word that people do not end."""
    return text.strip().lower() in _WORDS


_SHELL = ShellTexts(
    prompt="headwater> ",
    help=HELP,
    history="run_history",
    is_complete=lambda text: _is_word(text) or is_complete(text),
    completions=completions,
)


@dataclass(slots=True)
class PipelineConsole:
    """Runs statements, and prints what they give."""

    conductor: Conductor
    options: RunOptions

    # ---- scripts

    def run_scripts(self, texts: Sequence[str]) -> None:
        """Run scripts, then wait for the jobs that they started."""
        names = JobNames(restart=self.options.restart)
        # All of it is parsed before the first statement runs.
        for statements in [parse(text) for text in texts]:
            for outcome in self.conductor.run(statements, names=names):
                if isinstance(outcome, results.Left):
                    return
                self._show(outcome)
        with _progress(self.options) as told:
            self.conductor.wait(told.tell)

    # ---- the shell

    def run(self, text: str) -> None:
        """Run what was typed."""
        names = JobNames(restart=self.options.restart)
        for outcome in self.conductor.run(parse(text), names=names):
            if isinstance(outcome, results.Left):
                raise SystemExit(0)
            self._show(outcome)

    def command(self, name: str, arguments: Sequence[str]) -> bool:
        """Have no commands but those of every shell."""
        del name, arguments
        return False

    def names(self) -> Iterable[str]:
        """What may be typed."""
        return names_of(self.conductor)

    # ---- what statements give

    def _show(self, outcome: results.Outcome) -> None:
        match outcome:
            case results.Told(text=text):
                if text:
                    note(text)
            case results.Listed(rows=table):
                self._print_listing(table)
            case results.SelectedRows(rows=rows):
                self._print_rows(rows)
            case results.FollowedRows():
                self._follow(outcome)
            case results.Started(job=job, is_new=is_new):
                said = "started" if is_new else "goes on where it was"
                note(f"job {job.name} {said}")
            case _:
                write(_CLEAR if sys.stdout.isatty() else "")

    def _print_listing(self, table: pa.Table) -> None:
        if table.num_columns == 1 and self.options.output is Output.TABLE:
            column = table.column(0).to_pylist()
            if any("\n" in str(each) for each in column):  # a statement, not a list
                write("".join(f"{each}\n" for each in column))
                return
        self._print(table)

    def _print_rows(self, rows: DataFrame) -> None:
        try:
            found = rows.toArrow()
        except (PySparkException, Py4JJavaError) as error:
            raise JobFailedError(f"The query failed: {cause_of(str(error))}") from error
        self._print(found)

    def _print(self, table: pa.Table) -> None:
        form = form_of(self.options.output, look())
        for batch in table.combine_chunks().to_batches(max_chunksize=_BATCH_ROWS):
            write(form.rows(batch))
        if not table.num_rows:
            write(form.head(table.schema))
            if self.options.output is Output.TABLE:
                note("no rows")

    # ---- streaming queries

    def _follow(self, outcome: results.FollowedRows) -> None:
        """Print the changes of a stream until it ends, its limit is reached, or Ctrl-C."""
        if not hasattr(self.conductor.spark, "_jsparkSession"):
            raise UnsupportedError(
                "A streaming SELECT is not shown over Spark Connect.",
                hint="INSERT INTO a table with the connector 'print', or read in a batch.",
            )
        shown = RESULT_MODE.required(self.conductor.settings.values)
        printer = ChangePrinter(outcome, shown, self.options.output)
        with TemporaryDirectory(prefix="headwater-select-") as place:
            start = StreamStart(
                job=f"select {place}",
                checkpoint=place,
                mode=OutputMode(outcome.action.mode.value),
                ends=outcome.ends,
            )
            query = each_micro_batch(outcome.rows, printer.take, start)
            try:
                _await(query, printer)
            finally:
                query.stop()


def _await(query: StreamingQuery, printer: "ChangePrinter") -> None:
    while query.isActive and not printer.is_full:
        query.awaitTermination(POLL_S)  # type: ignore[arg-type] # it takes parts of a second
    fault = query.exception()
    if fault is not None:
        raise JobFailedError(f"The query failed: {cause_of(str(fault))}")


class ChangePrinter:
    """Prints the changes of a streaming result as they come, or the result after each."""

    def __init__(self, outcome: results.FollowedRows, shown: ShownAs, output: Output) -> None:
        hidden = {CHANGE_COLUMN} if outcome.action.has_changes else set()
        names = tuple(name for name in outcome.rows.columns if name not in hidden)
        self._changes = results.ResultChanges(outcome.action, names)
        self._limit = outcome.action.limit
        self._shown = shown
        self._printed = 0
        self._form = form_of(output, look(streams=True))
        self._output = output

    @property
    def is_full(self) -> bool:
        """Tell whether as many rows were printed as the query asks for."""
        return self._limit is not None and self._printed >= self._limit

    def take(self, rows: DataFrame, _number: int) -> None:
        """Print what a micro-batch changes."""
        table = rows.toArrow()
        schema = pa.schema([table.schema.field(name) for name in self._changes.names])
        changes = self._changes.fold(table)
        if self._limit is not None:
            changes = changes[: self._limit - self._printed]
        self._printed += len(changes)
        if self._shown is ShownAs.TABLE:
            self._print_result(schema)
        elif changes:
            self._print(results.changes_table(changes, schema))

    def _print(self, table: pa.Table) -> None:
        for batch in table.combine_chunks().to_batches():
            write(self._form.rows(batch))

    def _print_result(self, schema: pa.Schema) -> None:
        result = self._changes.result()[: self._limit]
        is_terminal = sys.stdout.isatty() and self._output is Output.TABLE
        height = shutil.get_terminal_size().lines - _LINES_AROUND
        first = max(0, len(result) - max(height, 1)) if is_terminal else 0
        form = form_of(self._output, look())
        write(_CLEAR if is_terminal else "")
        for batch in results.rows_table(result[first:], schema).to_batches():
            write(form.rows(batch))
        if first:
            note(f"the newest {len(result) - first:,} of {len(result):,} rows")


# Progress on the terminal.


@dataclass(slots=True)
class JobTeller:
    """Tells how far jobs are, in one line that is written over on a terminal."""

    is_terminal: bool
    _last: Mapping[str, int]

    def tell(self, jobs: Sequence[PipelineJob]) -> None:
        """Tell of the jobs that have done another micro-batch."""
        now = {job.name: job.progress() for job in jobs}
        lines = [
            progress_text(name, progress)
            for name, progress in now.items()
            if progress.batch > self._last.get(name, -1)
        ]
        self._last = {name: progress.batch for name, progress in now.items()}
        if self.is_terminal and lines:
            sys.stderr.write(f"\r\x1b[2K{' | '.join(lines)}")
            sys.stderr.flush()


def progress_text(name: str, progress: JobProgress) -> str:
    """How far a job is, in a few words."""
    behind = "" if progress.behind is None else f", {progress.behind:,} rows behind"
    late = f", {progress.late:,} late rows dropped" if progress.late else ""
    return (
        f"{name}: micro-batch {progress.batch} with {progress.rows:,} rows in "
        f"{progress.batch_ms / 1000:.1f} s, {progress.rows_per_second:,.0f} rows/s{behind}{late}"
    )


@contextmanager
def _progress(options: RunOptions) -> Iterator[JobTeller]:
    is_terminal = sys.stderr.isatty() and options.output is Output.TABLE
    try:
        yield JobTeller(is_terminal, {})
    finally:
        if is_terminal:
            sys.stderr.write("\n")
