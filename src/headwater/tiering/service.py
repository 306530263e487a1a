"""A tierer that runs: asks for tables, tiers them, and tells how it went, until it is stopped."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from headwater.client.client import AsyncClient, connect
from headwater.cluster.paths import table_path
from headwater.config.client import ClientSettings, Security, settings_with_security
from headwater.embedded.storage import open_storage
from headwater.errors import HeadwaterError, InvalidOptionError, LakeMovedError, RetryLaterError
from headwater.lake.lakes import Lakes
from headwater.lake.spi import WriteResult
from headwater.model.path import TablePath
from headwater.runtime.events import Events
from headwater.tiering import progress, task
from headwater.tiering.leases import Leases
from headwater.tiering.plan import TieringSettings
from headwater.tiering.round import tier_round
from headwater.tiering.status import Behind
from headwater.tiering.target import report_snapshot
from headwater.tiering.upkeep import LakeUpkeep

# A runner that tells how far it is.


class CountedRunner:
    """Let another runner run tasks, and tell a listener of each that ends."""

    def __init__(self, runner: task.Runner, listener: progress.Listener) -> None:
        self._runner = runner
        self._listener = listener

    async def run(
        self, tasks: Sequence[task.TieringTask], *, report: task.Report
    ) -> list[task.Outcome]:
        """Return what came of each task, in the order of the tasks, and report each as it ends."""
        done = rows = 0

        def count(each: task.TaskDone) -> None:
            nonlocal done, rows
            report(each)
            done += 1
            rows += 0 if isinstance(each.outcome, task.Skipped) else each.outcome.row_count
            path = each.task.table.path
            self._listener(progress.Copied(path, tasks_done=done, tasks=len(tasks), rows=rows))

        return await self._runner.run(tasks, report=count)

    async def rewrite(self, tasks: Sequence[task.RewriteTask]) -> list[WriteResult]:
        """Return the files that each rewrite has led to, in the order of the tasks."""
        return await self._runner.rewrite(tasks)


# A tierer that runs: asks for tables, tiers them, and tells how it went, until it is stopped.

_events = Events("tiering")


class TieringService:
    """Tier the tables that a server hands out, one after the other.

    Any number of services may run side by side; one bad table never stops the others.
    """

    def __init__(
        self,
        client: AsyncClient,
        runner: task.Runner,
        *,
        settings: TieringSettings | None = None,
        lakes: Lakes | None = None,
        listener: progress.Listener = progress.deaf,
    ) -> None:
        self._client = client
        self._runner = CountedRunner(runner, listener)
        self._settings = settings or TieringSettings()
        self._lakes = lakes or Lakes()
        self._listener = listener
        self._clock = client.cluster.clock
        self._leases = Leases(client, self._settings)
        self._upkeep = LakeUpkeep(runner, settings=self._settings, clock=self._clock)
        self._stopping = asyncio.Event()
        self._waited_for: set[TablePath] = set()

    def stop(self) -> None:
        """End after the round that runs."""
        self._stopping.set()

    async def run(self, *, tables: Sequence[TablePath] = ()) -> None:
        """Tier what is due, of all tables or of some, until stopped or cancelled."""
        try:
            while not self._stopping.is_set():
                turn, reason = await self._next_if_reached(tables)
                if turn is None:
                    await self._pause(reason)
                else:
                    await self.tier(turn)
        finally:
            await self._leases.close()

    async def run_once(self, *, tables: Sequence[TablePath] = ()) -> None:
        """Tier all tables, or some, to where their logs end now, however fresh they are.

        Apache Fluss hands tables out when they are due, and is waited for until then.
        """
        behind = Behind(self._client)
        left = await self._known(tables, behind)
        try:
            while not self._stopping.is_set() and left:
                turn = await self._next(sorted(left), ignore_freshness=True)
                if turn is None:
                    left = await self._still_to_come(left, behind)
                    await self._pause_for(left)
                    continue
                report = await self.tier(turn)
                if report is None or not report.rows_left:
                    left = left - {turn.assignment.path}
        finally:
            await self._leases.close()

    async def tier(self, turn: progress.TieringTurn) -> progress.RoundReport | None:
        """Tier a table that was handed out; None if that failed, which others need not know."""
        assignment, began = turn.assignment, self._clock.monotonic()
        path = assignment.path
        self._listener(progress.TurnBegan(path))
        try:
            report = await self._leases.during(assignment, self._round(turn))
        except asyncio.CancelledError:
            self._leases.give_back(assignment)
            raise
        except Exception as fault:  # noqa: BLE001 - one bad table must not stop the others
            # Also if another holds it by now, whom that does not concern.
            self._leases.failed(assignment, fault)
            self._tell_failed(progress.TurnFailed(path, fault, self._clock.monotonic() - began))
            return None
        self._leases.finished(assignment, report.snapshot, is_forced=report.rows_left > 0)
        self._listener(progress.TurnEnded(path, report, self._clock.monotonic() - began))
        return report

    # ---- one table

    async def _round(self, turn: progress.TieringTurn) -> progress.RoundReport:
        path = turn.assignment.path

        async def watch(step: progress.RoundStep) -> None:
            self._listener(progress.Stepped(path, step))

        report = await tier_round(
            turn,
            client=self._client,
            runner=self._runner,
            lakes=self._lakes,
            limits=self._settings.limits,
            watch=watch,
        )
        return await self._kept(turn, report)

    async def _kept(
        self, turn: progress.TieringTurn, report: progress.RoundReport
    ) -> progress.RoundReport:
        """Look after the lake table; what goes wrong there is for the next time."""
        head, began = report.snapshot, self._clock.monotonic()
        if head is None or head.boundary is None:
            return report
        try:
            tidied = await self._upkeep.keep(report.target, head)
            if tidied.snapshot.snapshot_id != head.snapshot_id:
                await report_snapshot(self._client, turn.assignment, tidied.snapshot)
        except LakeMovedError:
            return report
        except Exception as fault:  # noqa: BLE001 - the rows are in the lake, and stay there
            seconds = self._clock.monotonic() - began
            self._tell_failed(
                progress.TurnFailed(turn.assignment.path, fault, seconds, is_upkeep=True)
            )
            return report
        self._listener(tidied.kept)
        return replace(report, snapshot=tidied.snapshot)

    def _tell_failed(self, news: progress.TurnFailed) -> None:
        event = "upkeep failed" if news.is_upkeep else "tiering failed"
        is_ours = isinstance(news.fault, HeadwaterError)
        _events.error(
            event,
            cause=None if is_ours else news.fault,
            table=str(news.path),
            reason=f"{type(news.fault).__name__}: {news.fault}",
        )
        self._listener(news)

    # ---- which one

    async def _next_if_reached(
        self, tables: Sequence[TablePath]
    ) -> tuple[progress.TieringTurn | None, str]:
        """Return a table to tier, or why there is none."""
        try:
            turn = await self._next(tables)
            return turn, "" if turn is not None else await self._why_idle(tables)
        except RetryLaterError as fault:
            _events.warning("no table to be had", reason=str(fault))
            return None, f"the server cannot be reached: {fault.message}"

    async def _why_idle(self, tables: Sequence[TablePath]) -> str:
        states = await self._leases.states()
        if states is None:
            return "no table is due; the cluster hands them out when they are"
        waiting = [each for each in states if not tables or each.path in tables]
        if not waiting:
            return "no table has a lake; set 'table.datalake.enabled' to true"
        following = min(waiting, key=lambda each: each.due_in_ms)
        if following.due_in_ms <= 0:
            return f"{following.path} is {following.state}, by another tierer"
        return (
            f"all tables are fresh; {following.path} is due in {following.due_in_ms / 1000:.0f} s"
        )

    async def _next(
        self, tables: Sequence[TablePath], *, ignore_freshness: bool = False
    ) -> progress.TieringTurn | None:
        """Return a table to tier; one that is not wanted is given back, as Fluss asks no wishes."""
        seen: set[int] = set()
        while True:
            answer = await self._leases.ask(tables, ignore_freshness=ignore_freshness)
            self._upkeep.time.hear(answer.now_ms)
            assigned = answer.assigned
            if assigned is None:
                return None
            if not tables or assigned.path in tables:
                return progress.TieringTurn(assigned, answer.storage_id)
            self._leases.give_back(assigned)
            if assigned.table_id in seen:
                return None
            seen.add(assigned.table_id)

    async def _known(self, tables: Sequence[TablePath], behind: Behind) -> set[TablePath]:
        """Return the tables to tier once; tell of those that cannot be."""
        states = await self._leases.states()
        if states is None:
            known = await behind.note(tables)
        else:
            known = {state.path for state in states}
        for path in tables:
            if path not in known:
                self._tell_failed(progress.TurnFailed(path, await self._why_not(path), 0.0))
        return known & set(tables) if tables else known

    async def _still_to_come(self, left: set[TablePath], behind: Behind) -> set[TablePath]:
        """Return the tables to wait for: somebody else is at them, or they are not due yet."""
        states = await self._leases.states()
        if states is None:
            waiting = await behind.of(left)
        else:
            waiting = left & {state.path for state in states}
        if waiting and waiting != self._waited_for:
            names = ", ".join(map(str, sorted(waiting)))
            reason = "not handed out yet" if states is None else "held by another tierer"
            _events.warning("waits for tables", tables=names, reason=reason)
            self._waited_for = waiting
        return waiting

    async def _why_not(self, path: TablePath) -> HeadwaterError:
        try:
            await self._client.table(path)
        except HeadwaterError as fault:
            return fault
        return InvalidOptionError(
            f"{path} has no lake table.", hint="Set 'table.datalake.enabled' to true."
        )

    async def _pause_for(self, tables: set[TablePath]) -> None:
        if tables:
            names = ", ".join(map(str, sorted(tables)))
            await self._pause(f"{names}: not handed out, or held by another tierer")

    async def _pause(self, reason: str) -> None:
        until_ms = self._clock.now_ms() + round(self._settings.poll_interval_s * 1000)
        self._listener(progress.Waits(reason=reason, until_ms=until_ms))
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.poll_interval_s):
                await self._stopping.wait()


# A tierer as one piece of work: until all is tiered, or until it is stopped.

StartRunner: TypeAlias = Callable[[AsyncClient], AbstractAsyncContextManager[task.Runner]]
"""Gives what runs tasks, once the storage is reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TieringJob:
    """Say which tables of which storage go to the lake, and how."""

    target: str | Path
    """A data directory, or HOST:PORT of servers with commas between them."""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    security: Security = ()
    """How the connection is encrypted, and how to log in."""
    deadline_s: float = ClientSettings().deadline_s
    """Seconds that one call to the server may take with all its retries."""
    waits: bool = False
    """Whether to wait that long for a server that is not there yet."""
    tables: tuple[str, ...] = ()
    """All that have a lake table, unless some are named."""
    lake: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Options of the lake's catalog that stand above those that the server tells."""
    settings: TieringSettings = field(default_factory=TieringSettings)
    is_once: bool = True
    listens: bool = False
    """Whether a directory that is opened can be reached from other processes."""


@asynccontextmanager
async def run_here(client: AsyncClient) -> AsyncIterator[task.Runner]:
    """Run tasks in this process."""
    yield task.LocalRunner(client)


async def run_job(
    job: TieringJob,
    start_runner: StartRunner = run_here,
    *,
    listener: progress.Listener = progress.deaf,
) -> None:
    """Tier until all is in the lake, or with `is_once` off until cancelled.

    1. Reach the storage. 2. Start what runs tasks, which may take long, and would be in vain
    without a storage. 3. Tier.
    """
    paths = [table_path(name) for name in job.tables]
    async with _reached(job) as client, start_runner(client) as runner:
        service = TieringService(
            client,
            runner,
            settings=job.settings,
            lakes=Lakes(config=job.lake),
            listener=listener,
        )
        await (service.run_once if job.is_once else service.run)(tables=paths)


@asynccontextmanager
async def _reached(job: TieringJob) -> AsyncIterator[AsyncClient]:
    settings = settings_with_security(ClientSettings(deadline_s=job.deadline_s), job.security)
    if job.waits:
        settings = replace(settings, connect_timeout_s=job.deadline_s, waits_for_server=True)
    if is_directory(job.target):
        opening = open_storage(job.target, listen=job.listens, settings=settings)
    else:
        opening = connect(str(job.target), user=job.user, password=job.password, settings=settings)
    async with await opening as client:
        yield client


def is_directory(target: str | Path) -> bool:
    """Tell a directory from addresses, which end in a port."""
    return isinstance(target, Path) or ":" not in target or Path(target).expanduser().is_dir()
