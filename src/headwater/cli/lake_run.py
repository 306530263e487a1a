"""Runs `headwater lake` and `headwater tier` in this process; loaded only when they run."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeAlias, assert_never

import pyarrow as pa
import typer
from rich.console import Console
from rich.status import Status

from headwater.cli.command import look, note, write
from headwater.cli.commands import INTERRUPTED, code_of
from headwater.cli.names import iso_time
from headwater.cli.output import Document, Form, Output, form_of, table_of
from headwater.cli.target import DataDirectory
from headwater.cli.tier import TierOptions
from headwater.client.client import AsyncClient
from headwater.client.sync.client import Client
from headwater.cluster.lake import TieringAssignment
from headwater.cluster.paths import table_path
from headwater.config.lake import ICEBERG_CATALOG_NAME, without_secrets
from headwater.config.options import DATALAKE_ENABLED, LakeFormat
from headwater.errors import LakeSnapshotMissingError
from headwater.lake.lakes import Lakes, lake_format, open_lake
from headwater.lake.spi import Cleaned, LakeSnapshot, Retention
from headwater.model import TablePath
from headwater.runtime.clock import SystemClock
from headwater.runtime.events import configure_events
from headwater.runtime.loops import run
from headwater.tiering import progress
from headwater.tiering.service import TieringJob, run_job
from headwater.tiering.status import TableLakeStatus, lake_status
from headwater.tiering.target import (
    ensured_fluss_target,
    ensured_target,
    found_target,
    report_snapshot,
)
from headwater.tiering.task import LocalRunner
from headwater.tiering.upkeep import AgeClock, compact

# Reports of a tiering service, as lines for people and rows for programs.

COLUMN_TYPES = {
    "table": pa.string(),
    "status": pa.string(),
    "rows": pa.int64(),
    "files": pa.int64(),
    "bytes": pa.int64(),
    "snapshot": pa.int64(),
    "seconds": pa.float64(),
    "rows_left": pa.int64(),
    "error": pa.string(),
}


def line_of(news: progress.News) -> str | None:
    """Format the line for people when a round is over; None for passing news."""
    match news:
        case progress.TurnEnded():
            return f"{news.path}: {_round_text(news)}"
        case progress.TurnFailed():
            what = "upkeep failed" if news.is_upkeep else "failed"
            return f"{news.path}: {what}: {fault_text(news.fault)}"
        case progress.UpkeepDone():
            done = _kept_text(news)
            return f"{news.path}: {done}" if done else None
        case progress.Waits():
            return f"waiting: {news.reason}; asking again at {_clock_text(news)}"
        case progress.TurnBegan() | progress.Stepped() | progress.Copied():
            return None
        case other:
            assert_never(other)


def status_of(news: progress.News) -> str | None:
    """Describe what is going on at the moment; None for what is over."""
    match news:
        case progress.TurnBegan():
            return f"{news.path}: begins"
        case progress.Stepped():
            return f"{news.path}: {news.step.value}"
        case progress.Copied():
            return f"{news.path}: {news.tasks_done} of {news.tasks} tasks done, {news.rows:,} rows"
        case progress.Waits():
            return f"waiting until {_clock_text(news)}: {news.reason}"
        case progress.TurnEnded() | progress.TurnFailed() | progress.UpkeepDone():
            return None
        case other:
            assert_never(other)


def document_of(news: progress.News) -> Document | None:
    """Build the row for programs when a round is over; None for all else."""
    match news:
        case progress.TurnEnded():
            report = news.report
            return {
                "table": str(news.path),
                "status": "tiered" if report.tiered else "unchanged",
                "rows": report.row_count,
                "files": report.file_count,
                "bytes": report.byte_count,
                "snapshot": None if report.snapshot is None else report.snapshot.snapshot_id,
                "seconds": round(news.seconds, 3),
                "rows_left": report.rows_left,
                "error": None,
            }
        case progress.TurnFailed() if not news.is_upkeep:
            return {
                "table": str(news.path),
                "status": "failed",
                "seconds": round(news.seconds, 3),
                "error": fault_text(news.fault),
            }
        case _:
            return None


def _clock_text(news: progress.Waits) -> str:
    return datetime.fromtimestamp(news.until_ms / 1000, UTC).astimezone().strftime("%H:%M:%S")


def fault_text(fault: Exception) -> str:
    """Format what is wrong and what to do on one line."""
    text = " ".join(str(fault).split()) or type(fault).__name__
    hint = getattr(fault, "hint", "")
    if hint:
        return text if hint in text else f"{text.rstrip('.')}. {hint}"
    return f"{type(fault).__name__}: {text}"


def sized(count: int) -> str:
    """Format a number of bytes with its unit."""
    size, units = float(count), iter(("B", "kB", "MB", "GB"))
    for unit in units:
        if size < 1000:  # noqa: PLR2004 - what the units say
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def _round_text(news: progress.TurnEnded) -> str:
    report = news.report
    seconds = f"{news.seconds:.1f} s"
    if not report.tiered:
        adopted = "reported what an earlier tiering service left, " if report.adopted else ""
        return f"{adopted}nothing new, {seconds}"
    snapshot = "-" if report.snapshot is None else report.snapshot.snapshot_id
    return (
        f"{counted(report.row_count, 'row')}, {counted(report.file_count, 'file')},"
        f" {sized(report.byte_count)}, snapshot {snapshot}, {seconds},"
        f" {counted(report.rows_left, 'row')} left"
    )


def counted(count: int, what: str) -> str:
    """Format a number of things with its noun."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _kept_text(news: progress.UpkeepDone) -> str:
    done = {
        "files rewritten": news.files_rewritten,
        "snapshots dropped": news.snapshots_dropped,
        "files removed": news.files_removed,
    }
    return ", ".join(f"{count} {what}" for what, count in done.items() if count)


# Running a tiering service until all is done or a signal ends it.

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_TOLD_HERE = ("tiering failed", "upkeep failed", "not tiered")

Work: TypeAlias = Callable[[TieringJob, progress.Listener], Coroutine[object, object, None]]
"""Runs a job, and reports its progress."""


def work_here(job: TieringJob, listener: progress.Listener) -> Coroutine[object, object, None]:
    """Run a job in this process."""
    return run_job(job, listener=listener)


def run_tierer(options: TierOptions, work: Work = work_here) -> None:
    """Tier until done or stopped; with --once, exit with the code of the first error."""
    configure_events(level="WARNING")
    logging.getLogger("headwater.tiering").addFilter(_is_not_told_here)
    target = options.target
    job = TieringJob(
        target=target.path if isinstance(target, DataDirectory) else str(target),
        user=None if options.credentials is None else options.credentials.user,
        password=None if options.credentials is None else options.credentials.password,
        security=() if options.credentials is None else options.credentials.security,
        deadline_s=options.timeout_s,
        waits=options.waits,
        tables=tuple(options.tables),
        lake=options.lake,
        settings=options.settings,
        is_once=options.is_once,
    )
    with _shown() as status:
        teller = Teller(options.output, status)
        tierer = TiererRun()
        run(tierer.run(work(job, teller.hear)))
    if options.is_once and tierer.was_stopped:
        raise typer.Exit(INTERRUPTED)
    if options.is_once and teller.faults:
        raise typer.Exit(code_of(teller.faults[0]))


class TiererRun:
    """Run a job on this thread's loop, and stop it when the process is asked to stop."""

    def __init__(self) -> None:
        self.was_stopped = False

    async def run(self, work: Coroutine[object, object, None]) -> None:
        """Run until the end, or until a signal; then wait for the current step."""
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
                # A further signal must not turn a clean end into a failure.
                signal.signal(number, signal.SIG_IGN)

    def _stop(self, task: "asyncio.Task[None]") -> None:
        if not self.was_stopped:
            self.was_stopped = True
            note("stopping after the current step; an unfinished round is abandoned")
            task.cancel()


class Teller:
    """Report to people and programs what a tiering service does."""

    def __init__(self, output: Output, status: Status | None) -> None:
        self.faults: list[Exception] = []
        self._status = status
        self._is_waiting = False
        self._form: Form | None = None if output is Output.TABLE else form_of(output, look())

    def hear(self, news: progress.News) -> None:
        """Print what is over, and show what is going on."""
        if isinstance(news, progress.TurnFailed) and not news.is_upkeep:
            self.faults.append(news.fault)
        is_old = isinstance(news, progress.Waits) and self._is_waiting
        self._is_waiting = isinstance(news, progress.Waits)
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
    """Show a status line below the output, on a terminal."""
    if not sys.stderr.isatty() or "NO_COLOR" in os.environ:
        yield None
        return
    with Status("starts", console=Console(stderr=True)) as status:
        yield status


def _is_not_told_here(record: logging.LogRecord) -> bool:
    return record.getMessage() not in _TOLD_HERE


# Operations on lake tables.


@dataclass(frozen=True, slots=True)
class LakeTables:
    """Maintain the lake tables of a storage."""

    client: Client
    config: Mapping[str, str] = field(repr=False)

    def status(self, names: Sequence[str]) -> list[Document]:
        """Build a row for each table."""
        paths = [table_path(name) for name in names] or self._enabled()
        found = self.client.run(lambda client: lake_status(client, paths, lakes=self._lakes))
        return [_status_row(each) for each in found]

    def snapshots(self, name: str) -> list[Document]:
        """Build a row for each snapshot that the lake still has."""
        target = self._target(name)
        return [_snapshot_row(each) for each in target.lake.source(target.spec).snapshots()]

    def create(self, name: str, *, has_system_columns: bool) -> None:
        """Create a lake table, or update its columns."""
        table = self.client.table(name).info
        storage_id = self.client.lake.heartbeat().storage_id
        ensure = ensured_fluss_target if has_system_columns else ensured_target
        ensure(self._lakes, table, identity=progress.identity_in(storage_id, table))

    def compact(self, name: str) -> int:
        """Compact, tell the server, and return how many files were rewritten."""
        target = self._target(name)
        head = self._head(target)

        async def work(client: AsyncClient) -> int:
            newest, files = await compact(target, head, runner=LocalRunner(client))
            if newest.snapshot_id != head.snapshot_id:
                await _report(client, target, newest)
            return files

        return self.client.run(work)

    def expire(self, name: str, *, keep: int | None, age_ms: int | None) -> dict[str, int]:
        """Drop snapshots, as the lake table says or as given."""
        target = self._target(name)
        head = self._head(target)
        # A snapshot that the server would send readers to must stay.
        self.client.run(lambda client: _report(client, target, head))
        keeper = target.lake.keeper(target.spec)
        usual = keeper.retention()
        retention = Retention(
            snapshots_min=usual.snapshots_min if keep is None else keep,
            age_ms=usual.age_ms if age_ms is None else age_ms,
        )
        return _counts(keeper.expire(retention, now_ms=self._now_ms()))

    def clean(self, name: str, *, age_ms: int) -> dict[str, int]:
        """Delete files that no snapshot uses."""
        target = self._target(name)
        keeper = target.lake.keeper(target.spec)
        before_ms = self._now_ms() - age_ms
        return _counts(keeper.remove_orphans(older_than_ms=before_ms))

    def where(self, name: str) -> list[Document]:
        """List what other programs need to find a lake table, a row for each property."""
        table = self.client.table(name).info
        found = {"format": lake_format(table), "table": str(table.path)}
        if found["format"] == LakeFormat.ICEBERG:
            found["name"] = ICEBERG_CATALOG_NAME
        found |= without_secrets(self._lakes.config_of(table))
        return [{"property": key, "value": value} for key, value in found.items()]

    def drop(self, name: str, *, form: str | None) -> None:
        """Drop a lake table; with its format given, also one whose table was dropped."""
        if form is not None and not self.client.table_exists(name):
            open_lake(form, self.config).catalog().drop(table_path(name))
            return
        target = self._target(name)
        target.lake.catalog().drop(target.table.path)

    def _now_ms(self) -> int:
        time = AgeClock(SystemClock())
        time.hear(self.client.lake.heartbeat().now_ms)
        return time.now_ms()

    @property
    def _lakes(self) -> Lakes:
        return Lakes(config=self.config)

    def _target(self, name: str) -> progress.LakeTarget:
        table = self.client.table(name).info
        return found_target(self._lakes, table)

    def _head(self, target: progress.LakeTarget) -> LakeSnapshot:
        path = target.table.path
        is_there = target.lake.catalog().exists(path)
        head = target.lake.committer(target.spec).head() if is_there else None
        if head is None:
            raise LakeSnapshotMissingError(f"{path} has nothing in the lake.")
        return head

    def _enabled(self) -> list[TablePath]:
        paths = [
            TablePath(database, name)
            for database in self.client.list_databases()
            for name in self.client.list_tables(database)
        ]
        return [path for path in paths if self._is_enabled(path)]

    def _is_enabled(self, path: TablePath) -> bool:
        properties = self.client.table(path).info.descriptor.properties
        return bool(DATALAKE_ENABLED.of(properties))


async def _report(client: AsyncClient, target: progress.LakeTarget, head: LakeSnapshot) -> None:
    if head.boundary is None:
        return
    assignment = TieringAssignment(
        path=target.table.path, table_id=target.table.table_id, epoch=head.boundary.epoch
    )
    await report_snapshot(client, assignment, head)


def _status_row(status: TableLakeStatus) -> Document:
    state, snapshot = status.state, status.snapshot
    fault = None if status.fault is None else fault_text(status.fault)
    told = None if state is None or not state.failures else state.last_failure
    return {
        "table": str(status.path),
        "format": status.format,
        "state": _state(status),
        "lag_rows": status.lag_rows,
        "lag_s": None if status.lag_s is None else round(status.lag_s, 1),
        "snapshot": None if snapshot is None else snapshot.snapshot_id,
        "age_s": None if status.snapshot_age_s is None else round(status.snapshot_age_s, 1),
        "files": None if snapshot is None else snapshot.file_count,
        "rows": None if snapshot is None else snapshot.row_count,
        "bytes": None if snapshot is None else snapshot.byte_count,
        "failures": None if state is None else state.failures,
        "error": fault or told,
    }


def _state(status: TableLakeStatus) -> str | None:
    if not status.is_enabled:
        return "off"
    return None if status.state is None else status.state.state


def _snapshot_row(snapshot: LakeSnapshot) -> Document:
    boundary = snapshot.boundary
    ranges = [] if boundary is None else list(boundary.ranges.values())
    return {
        "snapshot": snapshot.snapshot_id,
        "parent": snapshot.parent_id,
        "time": iso_time(snapshot.committed_ms),
        "rows": snapshot.row_count,
        "files": snapshot.file_count,
        "bytes": snapshot.byte_count,
        "offsets": sum(each.end - each.start for each in ranges),
        "epoch": None
        if boundary is None
        else f"{boundary.epoch.coordinator}.{boundary.epoch.turn}",
    }


def _counts(cleaned: Cleaned) -> dict[str, int]:
    return {
        "snapshots": cleaned.snapshots,
        "files": cleaned.data_files + cleaned.metadata_files,
        "bytes": cleaned.byte_count,
    }
