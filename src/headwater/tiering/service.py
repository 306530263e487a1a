"""A tierer that runs: asks for tables, tiers them, and tells how it went, until it is stopped."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from headwater.client.client import AsyncClient
from headwater.errors import (
    HeadwaterError,
    InvalidOptionError,
    LakeMovedError,
    RetryLaterError,
)
from headwater.lake.lakes import Lakes
from headwater.model.path import TablePath
from headwater.runtime.events import Events
from headwater.tiering.behind import Behind
from headwater.tiering.counting import Counted
from headwater.tiering.leases import Leases
from headwater.tiering.progress import Began, Ended, Failed, Listener, Stepped, Waits, deaf
from headwater.tiering.reporting import report_snapshot
from headwater.tiering.round import tier_round
from headwater.tiering.runner import Runner
from headwater.tiering.settings import TieringSettings
from headwater.tiering.steps import Step
from headwater.tiering.turn import RoundReport, Turn
from headwater.tiering.upkeep import Upkeep

_events = Events("tiering")


class TieringService:
    """Tier the tables that a server hands out, one after the other.

    Any number of services may run side by side; one bad table never stops the others.
    """

    def __init__(
        self,
        client: AsyncClient,
        runner: Runner,
        *,
        settings: TieringSettings | None = None,
        lakes: Lakes | None = None,
        listener: Listener = deaf,
    ) -> None:
        self._client = client
        self._runner = Counted(runner, listener)
        self._settings = settings or TieringSettings()
        self._lakes = lakes or Lakes()
        self._listener = listener
        self._clock = client.cluster.clock
        self._leases = Leases(client, self._settings)
        self._upkeep = Upkeep(runner, settings=self._settings, clock=self._clock)
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

    async def tier(self, turn: Turn) -> RoundReport | None:
        """Tier a table that was handed out; None if that failed, which others need not know."""
        assignment, began = turn.assignment, self._clock.monotonic()
        path = assignment.path
        self._listener(Began(path))
        try:
            report = await self._leases.during(assignment, self._round(turn))
        except asyncio.CancelledError:
            self._leases.give_back(assignment)
            raise
        except Exception as fault:  # noqa: BLE001 - one bad table must not stop the others
            # Also if another holds it by now, whom that does not concern.
            self._leases.failed(assignment, fault)
            self._tell_failed(Failed(path, fault, self._clock.monotonic() - began))
            return None
        self._leases.finished(assignment, report.snapshot, is_forced=report.rows_left > 0)
        self._listener(Ended(path, report, self._clock.monotonic() - began))
        return report

    # ---- one table

    async def _round(self, turn: Turn) -> RoundReport:
        path = turn.assignment.path

        async def watch(step: Step) -> None:
            self._listener(Stepped(path, step))

        report = await tier_round(
            turn,
            client=self._client,
            runner=self._runner,
            lakes=self._lakes,
            limits=self._settings.limits,
            watch=watch,
        )
        return await self._kept(turn, report)

    async def _kept(self, turn: Turn, report: RoundReport) -> RoundReport:
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
            self._tell_failed(Failed(turn.assignment.path, fault, seconds, is_upkeep=True))
            return report
        self._listener(tidied.kept)
        return replace(report, snapshot=tidied.snapshot)

    def _tell_failed(self, news: Failed) -> None:
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

    async def _next_if_reached(self, tables: Sequence[TablePath]) -> tuple[Turn | None, str]:
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
    ) -> Turn | None:
        """Return a table to tier; one that is not wanted is given back, as Fluss asks no wishes."""
        seen: set[int] = set()
        while True:
            answer = await self._leases.ask(tables, ignore_freshness=ignore_freshness)
            self._upkeep.time.hear(answer.now_ms)
            assigned = answer.assigned
            if assigned is None:
                return None
            if not tables or assigned.path in tables:
                return Turn(assigned, answer.storage_id)
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
                self._tell_failed(Failed(path, await self._why_not(path), 0.0))
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
        self._listener(Waits(reason=reason, until_ms=until_ms))
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.poll_interval_s):
                await self._stopping.wait()
